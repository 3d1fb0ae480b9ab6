//! The clock that all processes of a run look at.

use std::time::SystemTime;

/// Nanoseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
