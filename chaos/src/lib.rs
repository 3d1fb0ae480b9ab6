//! Highwater under faults: real processes, a nemesis that is drawn from a seed, and a checker that reads what is left.
//!
//! - [`instance`]: one application instance, as a process. [`cast`]: what it appends and subscribes. [`record`]: what it
//!   writes down.
//! - [`evidence`]: everything that a run leaves behind.
//! - [`schedule`]: what is done, drawn from a seed. [`run`]: doing it. [`shrink`]: doing less.
//! - [`ground`]: what faults are done to.
//! - [`broken`]: engines that break one promise each.

pub mod base;
pub mod broken;
pub mod cast;
pub mod evidence;
pub mod ground;
pub mod instance;
pub mod record;
pub mod run;
pub mod schedule;
pub mod shrink;

mod desk;
mod nemesis;
mod servers;
mod troupe;
