//! Highwater under faults.

pub mod cast;
pub mod evidence;
pub mod record;
