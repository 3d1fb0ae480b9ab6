//! Highwater on SQLite.
