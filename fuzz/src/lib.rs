//! Hostile input: where it comes from, and how an input that is nearly valid is made of it.
//!
//! The targets are in `tests/fuzz`. Each is a function of bytes. They run with a fixed seed in the test suite, with fresh
//! randomness for as long as one likes, and guided by coverage; see `README.md`.

mod json;
mod outcomes;
mod source;
mod tokens;

pub use json::{json, mutated};
pub use outcomes::Outcomes;
pub use source::{Source, seeded};
pub use tokens::{Token, tokens};
