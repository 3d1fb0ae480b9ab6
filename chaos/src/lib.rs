//! Highwater under faults: real processes, a nemesis that is drawn from a seed, and a checker that reads what is left.
//!
//! - [`instance`]: one application instance, as a process. [`cast`]: what it appends and subscribes. [`record`]: what it
//!   writes down.
//! - [`ground`]: what faults are done to. [`schedule`]: what is done, drawn from a seed. [`run`]: doing it. [`shrink`]:
//!   doing less.
//! - [`evidence`]: everything that a run leaves behind. [`check`]: what that proves. [`summary`], [`totals`],
//!   [`page`]: how it is told.
//! - [`broken`]: engines that break one promise each.

pub mod base;
pub mod broken;
pub mod cast;
pub mod check;
pub mod evidence;
pub mod ground;
pub mod instance;
pub mod page;
pub mod record;
pub mod run;
pub mod schedule;
pub mod shrink;
pub mod summary;
pub mod totals;

mod database;
mod nemesis;
#[cfg(test)]
mod sample;
mod servers;
mod troupe;
