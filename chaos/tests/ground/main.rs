//! Faults do what their names say, and can be undone.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as the tests may")]

mod clock;
mod cluster;
mod link;
mod support;
