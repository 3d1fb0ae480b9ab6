//! What a subscriber hands its events to.

use std::mem;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::{Handed, Placed, now_micros};

/// Counts events or writes them down, and says when it is enough.
#[derive(Debug, Default)]
pub struct Sink {
    count: AtomicUsize,
    enough: usize,
    reached: Notify,
    keeps: bool,
    kept: Mutex<Vec<Handed>>,
    stop: AtomicBool,
    stopped: Notify,
}

impl Sink {
    /// Counts, and can be waited for until it has so many.
    pub(crate) fn counting(enough: usize) -> Self {
        Self { enough, ..Self::default() }
    }

    /// Writes down what it is handed.
    pub(crate) fn keeping() -> Self {
        Self { keeps: true, enough: usize::MAX, ..Self::default() }
    }

    /// One event: its content, and its position in the log where the store has one.
    pub fn handle(&self, placed: &Placed, position: Option<u64>) {
        if self.keeps {
            let (writer, number) = placed.origin();
            let event = (writer, number, position.unwrap_or(0), placed.amount, now_micros());
            self.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(event);
        }
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 == self.enough {
            self.reached.notify_one();
        }
    }

    /// Returns when the follower is to end.
    pub async fn stopped(&self) {
        while !self.stop.load(Ordering::Acquire) {
            self.stopped.notified().await;
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.stopped.notify_one();
    }

    pub(crate) async fn reached(&self) {
        self.reached.notified().await;
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> Vec<Handed> {
        mem::take(&mut *self.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}
