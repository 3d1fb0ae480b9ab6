//! Highwater under faults.

pub mod cast;
pub mod check;
pub mod evidence;
pub mod page;
pub mod record;
#[cfg(test)]
mod sample;
pub mod summary;
