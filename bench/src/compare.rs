//! Side by side: Highwater, the raw limit and the peers, in one run.

mod baseline;
mod figures;
mod file;
mod grid;
mod machine;
mod page;
mod performance;
mod progress;
mod results;
#[cfg(test)]
mod sample;
mod table;
