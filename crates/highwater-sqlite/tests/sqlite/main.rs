//! What only SQLite can show. The contract itself is in `contract.rs`.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "tests fail by panicking, and nobody calls them")]

mod altered;
mod backup;
mod crashes;
mod damage;
mod diagnose;
mod filling;
mod full;
mod handlers;
mod leadership;
mod locks;
mod moved;
mod opening;
mod processes;
mod refused;
mod support;
mod torn;
mod units_of_work;
mod worker;
mod writing;
