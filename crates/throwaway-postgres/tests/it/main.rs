//! Real servers, started, stopped, crashed and left behind.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as the tests may")]

mod command;
mod left_behind;
mod pgbouncer;
mod replica;
mod server;
mod support;
