//! Whether a type is written to streams of another kind than it is stored in: a mistake, unless one enum writes both.

use std::collections::{BTreeSet, HashMap};

use highwater::backend::{Backend, NewRecord, ReadLimit};
use highwater::{EventTypes, Filter};

/// Types that are remembered. When there are more, the store is asked again.
const TYPES_MAX: usize = 10_000;
/// How many of the newest numbers are searched for events of a type, and how many of these are looked at.
const NUMBERS_MAX: u64 = 20_000;
const EVENTS_MAX: usize = 200;

/// The kinds of streams that types occur in, as far as this command has looked: the store is asked once for a type.
#[derive(Debug, Default)]
pub(super) struct Kinds(HashMap<String, BTreeSet<String>>);

impl Kinds {
    /// What to say of a record whose type occurs in streams of another kind; once for a type and a kind.
    pub(super) async fn settle(&mut self, store: &dyn Backend, record: &NewRecord) -> Option<String> {
        let kind = record.stream_name.as_ref()?.kind();
        if !self.0.contains_key(&record.event_type) {
            if self.0.len() >= TYPES_MAX {
                self.0.clear();
            }
            self.0.insert(record.event_type.clone(), kinds_of(store, &record.event_type).await);
        }
        let kinds = self.0.get_mut(&record.event_type)?;
        let others: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let said = (!others.is_empty() && !kinds.contains(kind)).then(|| note(&record.event_type, kind, &others));
        if !kinds.contains(kind) {
            kinds.insert(kind.to_owned());
        }
        said
    }
}

fn note(event_type: &str, kind: &str, others: &[&str]) -> String {
    format!(
        "note: {event_type} is now in streams of the kind {kind}, and was in those of {}: whatever reads that type is handed all \
         of them; if they are different events, give one another type",
        others.join(", ")
    )
}

/// Among the newest events. It is for a note only, so what cannot be read is none.
async fn kinds_of(store: &dyn Backend, event_type: &str) -> BTreeSet<String> {
    let Ok(head) = store.head().await else { return BTreeSet::new() };
    let filter = Filter::from(EventTypes::only([event_type]));
    let after = head.saturating_sub(NUMBERS_MAX);
    let Ok(page) = store.read_all(after, &filter, ReadLimit::events(EVENTS_MAX)).await else { return BTreeSet::new() };
    page.records.iter().filter_map(|record| Some(record.stream_name.as_ref()?.kind().to_owned())).collect()
}
