//! What can be wrong with a backend, by what it gets wrong.

pub(crate) mod appending;
pub(crate) mod calling;
pub(crate) mod checkpoints;
pub(crate) mod dead_letters;
pub(crate) mod diagnose;
pub(crate) mod input;
pub(crate) mod keeping;
pub(crate) mod leadership;
pub(crate) mod naming;
pub(crate) mod reading;
pub(crate) mod removing;
pub(crate) mod repeating;
pub(crate) mod setting_up;
pub(crate) mod transactions;
pub(crate) mod transfer;
pub(crate) mod upcasting;
pub(crate) mod wakeups;
