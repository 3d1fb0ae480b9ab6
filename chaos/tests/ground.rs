//! Faults do what their names say, and can be undone.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as the tests may")]

#[path = "ground/clock.rs"]
mod clock;
#[path = "ground/cluster.rs"]
mod cluster;
#[path = "ground/link.rs"]
mod link;
#[path = "ground/support.rs"]
mod support;
