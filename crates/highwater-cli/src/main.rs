//! The command `highwater`.

fn main() {}
