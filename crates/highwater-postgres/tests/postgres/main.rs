//! What only PostgreSQL can show. The contract itself is in `contract.rs`.
#![expect(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "tests fail by panicking, and are read by nobody else"
)]

mod appending;
mod support;
