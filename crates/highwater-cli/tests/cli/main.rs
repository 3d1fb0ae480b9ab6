//! The command as people use it: the program itself, on real databases.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "tests fail by panicking, and nobody calls them")]

mod appending;
mod dead_letters;
mod ending;
mod files;
mod hostile;
mod leases;
mod looking_after;
mod moving;
mod players;
mod reading;
mod redact;
mod refusals;
mod steering;
mod support;
mod tables;
mod terminal;
mod top;
mod watching;
mod why;
mod worker;
