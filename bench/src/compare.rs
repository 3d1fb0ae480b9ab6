//! Side by side: Highwater, the raw limit and the peers, in one run.

mod results;
