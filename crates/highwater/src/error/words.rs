//! What errors say of streams and subscribers.

use uuid::Uuid;

use crate::{StreamId, StreamName};

/// A stream by its name, or else by its id.
pub(super) fn called(id: &Uuid, name: &Option<StreamName>) -> String {
    name.as_ref().map_or_else(|| id.to_string(), StreamName::to_string)
}

/// Some streams, one of which is meant.
pub(super) fn one_of(streams: &[StreamId]) -> String {
    const NAMED_MAX: usize = 3;
    let named: Vec<String> = streams.iter().take(NAMED_MAX).map(StreamId::to_string).collect();
    match (named.len(), streams.len() - named.len()) {
        (0, _) => "a stream of this append".to_owned(),
        (1, _) => format!("stream {}", named[0]),
        (_, 0) => format!("one of the streams {}", named.join(", ")),
        (_, more) => format!("one of the streams {} and {more} more", named.join(", ")),
    }
}

/// Who writes instead, or why nobody can.
pub(super) fn fenced(subscriber_id: &str, term: Option<u64>) -> String {
    match term {
        Some(term) => format!("another instance has taken over for {subscriber_id:?} with term {term}"),
        None => format!("the checkpoint of {subscriber_id:?} is gone"),
    }
}
