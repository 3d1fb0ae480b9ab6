//! What a subscriber's task logs about it.

use std::time::Duration;

use tokio::time::Instant;

use crate::{BoxError, Error, Record, chain};

/// A hand-over is one line on each side: that the new leader has caught up is one more where it had to catch up for long.
const WORTH_SAYING: Duration = Duration::from_secs(1);

/// Writes down what happens to one subscriber.
#[derive(Debug)]
pub(super) struct Journal {
    span: tracing::Span,
    /// Since when.
    catching_up: Option<Instant>,
}

impl Journal {
    pub(super) fn new(subscriber_id: &str) -> Self {
        // Of the highest level, so that errors say whose they are whatever is filtered out.
        let span = tracing::error_span!("subscriber", id = subscriber_id);
        Self { span, catching_up: None }
    }

    /// For everything that runs in the subscriber's task, its handler's own events included.
    pub(super) fn span(&self) -> tracing::Span {
        self.span.clone()
    }

    pub(super) fn started(&self, term: u64, position: u64, fresh: bool) {
        tracing::info!(parent: &self.span, term, position, fresh, "leading; handles the events after this position");
    }

    pub(super) fn catching_up(&mut self, position: u64) {
        if self.catching_up.is_none() {
            self.catching_up = Some(Instant::now());
            tracing::debug!(parent: &self.span, position, "catching up");
        }
    }

    pub(super) fn live(&mut self, position: u64) {
        let Some(took) = self.catching_up.take().map(|since| since.elapsed()) else { return };
        match took >= WORTH_SAYING {
            true => tracing::info!(parent: &self.span, position, ?took, "caught up"),
            false => tracing::debug!(parent: &self.span, position, ?took, "caught up"),
        }
    }

    pub(super) fn retrying(&self, record: &Record, failures: u32, delay: Duration, error: &str) {
        tracing::warn!(
            parent: &self.span,
            global_sequence = record.global_sequence,
            event_id = %record.id,
            event_type = record.event_type,
            stream = %record.stream(),
            failures,
            ?delay,
            error,
            "an event failed; retrying"
        );
    }

    pub(super) fn batch_failed(&self, events: usize, error: &str) {
        tracing::warn!(parent: &self.span, events, error, "a batch failed; retrying its events one by one");
    }

    pub(super) fn dead_letter(&self, record: &Record, failures: u32, error: &str) {
        tracing::error!(
            parent: &self.span,
            global_sequence = record.global_sequence,
            event_id = %record.id,
            event_type = record.event_type,
            stream = %record.stream(),
            failures,
            error,
            "an event went to the dead letters"
        );
    }

    pub(super) fn parked(&self, record: &Record) {
        tracing::debug!(
            parent: &self.span,
            global_sequence = record.global_sequence,
            stream = %record.stream(),
            "an event waits behind an earlier one of its stream"
        );
    }

    pub(super) fn halted(&self, reason: &str) {
        tracing::error!(parent: &self.span, reason, "halted; no event is handled until it is resumed");
    }

    pub(super) fn set_up(&self, version: u32) {
        tracing::info!(parent: &self.span, version, "the tables of its read model are set up");
    }

    pub(super) fn unreported(&self, error: &Error) {
        tracing::debug!(parent: &self.span, %error, "cannot report that it has halted");
    }

    pub(super) fn fenced(&self, error: &Error) {
        tracing::warn!(parent: &self.span, %error, "leadership lost (fenced)");
    }

    pub(super) fn stands_by(&self) {
        tracing::info!(parent: &self.span, "another instance leads; standing by");
    }

    pub(super) fn lost_leadership(&self, position: u64) {
        tracing::warn!(parent: &self.span, position, "leadership lost; no event is handled until it is back");
    }

    pub(super) fn yielded_leadership(&self, position: u64) {
        tracing::info!(parent: &self.span, position, "leadership released for another instance");
    }

    pub(super) fn disconnected(&self, error: &str) {
        tracing::warn!(parent: &self.span, error, "the store does not answer as it should; retrying");
    }

    pub(super) fn connected(&self) {
        tracing::info!(parent: &self.span, "the store answers again");
    }

    pub(super) fn served(&self, kind: &str, by: &str, done: u64, failed: u64, error: Option<&str>) {
        tracing::info!(parent: &self.span, kind, by, done, failed, error, "request carried out");
    }

    pub(super) fn replay_failed(&self, dead_letter: uuid::Uuid, error: &str) {
        tracing::warn!(parent: &self.span, %dead_letter, error, "a replayed event failed again");
    }

    pub(super) fn stopped(&self, position: u64) {
        tracing::info!(parent: &self.span, position, "stopped");
    }
}

/// An error's text as it is stored.
pub(super) fn storable(error: &BoxError) -> String {
    cut(&chain(error.as_ref()))
}

/// Free of NUL, which PostgreSQL's text cannot hold, and cut.
pub(crate) fn cut(text: &str) -> String {
    const BYTES_MAX: usize = 8 << 10;
    let mut text = text.replace('\0', "\u{fffd}");
    if text.len() > BYTES_MAX {
        let end = (0..=BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_cannot_be_stored_is_made_storable() {
        let error: BoxError = format!("a\0b{}", "ü".repeat(10_000)).into();
        let text = storable(&error);
        assert!(text.starts_with("a\u{fffd}bü") && text.ends_with("ü…"));
        assert!(text.len() <= (8 << 10) + "…".len());
    }

    #[test]
    fn an_error_is_told_with_everything_behind_it() {
        let error = Error::Unavailable { action: "read", source: "no route".into() };
        assert_eq!(chain(&error), "unavailable: cannot read: no route");
    }
}
