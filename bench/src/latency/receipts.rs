//! What a receiver has received.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::now;
use crate::{Error, child};

/// How long each took, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Receipts(Arc<Mutex<Vec<i64>>>);

impl Receipts {
    /// An event has arrived that was sent at this time.
    pub(super) fn note(&self, sent: i64) {
        let took = now() - sent;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(took);
    }

    /// Answers a number of events with how long each of them took, when they have all arrived.
    pub(super) async fn serve(self) -> Result<(), Error> {
        child::serve(|count| self.clone().take(count)).await
    }

    async fn take(self, count: String) -> Result<String, Error> {
        let count: usize = count.parse()?;
        loop {
            {
                let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if all.len() >= count {
                    let took: Vec<String> = all.drain(..count).map(|nanos| nanos.to_string()).collect();
                    return Ok(took.join(" "));
                }
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
