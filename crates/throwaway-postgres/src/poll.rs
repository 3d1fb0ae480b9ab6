//! Waiting for a condition of another process, which nobody announces.

use std::thread;
use std::time::{Duration, Instant};

/// Short against the second that a server needs to start, long against the cost of one look.
const INTERVAL: Duration = Duration::from_millis(10);

/// Asks until there is an answer; `None` if there is still none after `limit`.
pub(crate) fn poll<T, E>(limit: Duration, mut ask: impl FnMut() -> Result<Option<T>, E>) -> Result<Option<T>, E> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask()? {
            return Ok(Some(answer));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(INTERVAL);
    }
}
