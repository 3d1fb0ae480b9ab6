//! Nothing but a place for the tests of `docs/cookbook.md`: each answer there is a test here, made by `build.rs`.
