//! The targets. Each is a function of bytes that fails by panicking.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking, and nobody calls them")]

mod codec;
mod import;
mod import_lines;
mod schema;
mod urls;

/// Runs a target: over what a fuzzer has kept (see README.md), guided by coverage where a fuzzer runs it, and then over so many
/// inputs of a fixed seed.
macro_rules! fuzz {
    ($count:expr, $target:expr) => {
        let target = std::sync::Mutex::new($target);
        let call = |bytes: &[u8]| (target.lock().unwrap_or_else(std::sync::PoisonError::into_inner))(bytes);
        bolero::check!().with_iterations(0).for_each(call);
        highwater_fuzz::seeded($count, call);
    };
}
pub(crate) use fuzz;
