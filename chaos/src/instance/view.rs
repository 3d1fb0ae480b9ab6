//! A live view of everything, in which writers look for what they have appended.

use std::collections::HashSet;

use highwater::{Appended, Event, Evolve, LiveView};
use uuid::Uuid;

use super::Journal;
use crate::cast::Fact;
use crate::record::{Entry, Sent};

/// Every event, by its id.
#[derive(Default)]
pub(super) struct Seen(HashSet<Uuid>);

impl Evolve for Seen {
    type Event = Fact;

    fn evolve(&mut self, event: &Event<Fact>) {
        self.0.insert(event.id);
    }
}

/// A view that is read after an event has it, whatever became of the server since it was acknowledged. That it cannot be read in
/// time is no trouble.
pub(super) async fn look_for(view: &LiveView<Seen>, journal: &Journal, last: Option<&Sent>, appended: &Appended) {
    let Some(last) = last else { return };
    if let Ok(false) = view.read_after(appended, |seen| seen.0.contains(&last.id)).await {
        let what = format!("a view that was read after event {} does not have it", appended.global_sequence);
        journal.write(&Entry::Trouble { what });
    }
}
