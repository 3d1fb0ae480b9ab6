//! Highwater under faults.

pub mod cast;
pub mod evidence;
pub mod ground;
pub mod record;
