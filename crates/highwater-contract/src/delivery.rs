//! The contract as the delivery engine uses it: the engine itself, run over the backend, by topic.

pub(crate) mod controlling;
pub(crate) mod counting;
pub(crate) mod failing;
pub(crate) mod fencing;
pub(crate) mod following;
pub(crate) mod instances;
pub(crate) mod leasing;
pub(crate) mod ordering;
pub(crate) mod players;
pub(crate) mod rebuilding;
pub(crate) mod removing;
pub(crate) mod replaying;
pub(crate) mod reporting;
pub(crate) mod resuming;
pub(crate) mod setting_up;
pub(crate) mod spreading;
pub(crate) mod steering;
pub(crate) mod troubled;
pub(crate) mod viewing;
pub(crate) mod waiting;
