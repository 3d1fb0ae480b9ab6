//! What only PostgreSQL can show. The contract itself is in `contract.rs`.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "tests fail by panicking, and nobody calls them")]

mod abandoned;
mod altered;
mod appending;
mod bus;
mod connections;
mod crashes;
mod damage;
mod delivery_contracts;
mod diagnose;
mod forger;
mod hostile;
mod hosts;
mod initialize;
mod leadership;
mod ordering;
mod plain_sql;
mod proxy;
mod repeated;
mod replicas;
mod roles;
mod rows_by_hand;
mod schedules;
mod schema_names;
mod settled;
mod support;
mod tls;
mod transfer;
mod units_of_work;
mod versions;
mod wakeups;
