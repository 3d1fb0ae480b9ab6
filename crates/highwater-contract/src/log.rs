//! The contract of the log, by topic.

pub(crate) mod append;
pub(crate) mod callers;
pub(crate) mod executing;
pub(crate) mod expectations;
pub(crate) mod filtering;
pub(crate) mod idempotency;
pub(crate) mod input;
pub(crate) mod keeping;
pub(crate) mod naming;
pub(crate) mod paging;
pub(crate) mod random;
pub(crate) mod reading;
pub(crate) mod settling;
pub(crate) mod upcasting;
pub(crate) mod writers;
