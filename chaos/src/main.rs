//! Highwater under faults: see README.md.

fn main() {}
