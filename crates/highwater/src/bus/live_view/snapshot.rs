//! What a live view has folded, and whether another view may start from it.

use std::any::type_name;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Filter;

/// The state of a [`LiveView`](crate::LiveView) with the last event in it, to be kept somewhere and started from later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewSnapshot<S> {
    /// The state.
    pub state: S,
    /// The `global_sequence` of the last event in it; 0 for none.
    pub global_sequence: u64,
    /// The id of that event, by which it is noticed when the snapshot belongs to another log.
    pub event_id: Option<Uuid>,
    /// The types of the events that were folded; `None`: all. By them it is noticed when the view knows others now.
    pub event_types: Option<Vec<String>>,
    /// The kinds of the streams that they came from; `None`: any.
    pub kinds: Option<Vec<String>>,
    /// How many events were [skipped](crate::ViewOptions::skip_failures). A view does not start from a snapshot without them.
    #[serde(default)]
    pub skipped: u64,
}

impl<S: Default> Default for ViewSnapshot<S> {
    fn default() -> Self {
        Self { state: S::default(), global_sequence: 0, event_id: None, event_types: None, kinds: None, skipped: 0 }
    }
}

/// Nothing folded yet, of what the filter lets through.
pub(super) fn nothing<S: Default>(filter: &Filter) -> ViewSnapshot<S> {
    let sorted = |names: &[String]| {
        let mut names = names.to_vec();
        names.sort_unstable();
        names
    };
    let (event_types, kinds) = (filter.types.names().map(sorted), filter.kinds.as_deref().map(sorted));
    ViewSnapshot { event_types, kinds, ..ViewSnapshot::default() }
}

/// The snapshot to start from. One of other types or kinds lacks events, or has too many: it cannot be continued.
pub(super) fn fitting<S: Default>(snapshot: ViewSnapshot<S>, filter: &Filter) -> ViewSnapshot<S> {
    let new: ViewSnapshot<S> = nothing(filter);
    if snapshot.global_sequence == 0 {
        return ViewSnapshot { state: snapshot.state, ..new };
    }
    if snapshot.skipped > 0 {
        tracing::info!(
            view = type_name::<S>(),
            skipped = snapshot.skipped,
            "events were skipped in the snapshot; the view starts from the beginning, and retries them"
        );
        return new;
    }
    if (&snapshot.event_types, &snapshot.kinds) == (&new.event_types, &new.kinds) {
        return snapshot;
    }
    tracing::info!(
        view = type_name::<S>(),
        event_types = ?snapshot.event_types,
        kinds = ?snapshot.kinds,
        "the snapshot was folded from other types of events or kinds of streams than the view has now; it starts from the beginning"
    );
    new
}
