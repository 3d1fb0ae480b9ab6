//! The house stays in order: what a reviewer would look for by hand, and what only text can show.
//!
//! Lists here are fixed and only shrink. A check fails when something new breaks its rule, and also when something on a list
//! does not break it any more, so that no list keeps what nobody needs.

mod documents;
mod grid;
mod homonyms;
mod rights;
mod sizes;
mod source;
mod statements;
mod tokens;
mod words;
