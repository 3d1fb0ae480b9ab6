//! Which schema version an event is stored with: the newest that the log holds of its type, unless the event names one.

use std::collections::HashMap;
use std::time::Duration;

use highwater::Error;
use highwater::backend::{Backend, NewRecord};

use crate::failure::{Failure, note};
use crate::words;

/// Types whose newest version is remembered. When there are more, the log is searched again.
const TYPES_MAX: usize = 10_000;
/// How long to look for a newer version than one that is given: it is for a warning only.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// The newest schema versions, as far as this command has asked for them and stored them: the log is searched once for a type.
#[derive(Debug, Default)]
pub(super) struct Versions(HashMap<String, Known>);

#[derive(Debug, Clone, Copy)]
struct Known {
    newest: u32,
    /// Whether the log was searched to the end.
    sure: bool,
    /// Whether the user has been warned of a lower one.
    warned: bool,
}

impl Versions {
    /// Gives a record without a version the newest one of its type. Returns the newest one if the record names a lower one.
    pub(super) async fn settle(&mut self, store: &dyn Backend, record: &mut NewRecord) -> Result<Option<u32>, Failure> {
        let given = record.schema_version;
        let mut known = match self.0.get(&record.event_type) {
            Some(known) if known.sure || given > 0 => *known,
            _ => known_version(store, &record.event_type, given).await?,
        };
        known.newest = known.newest.max(given);
        if self.0.len() >= TYPES_MAX && !self.0.contains_key(&record.event_type) {
            self.0.clear();
        }
        self.0.insert(record.event_type.clone(), known);
        if given == 0 {
            record.schema_version = known.newest;
        }
        Ok((given > 0 && given < known.newest).then_some(known.newest))
    }

    /// Warns that an event was stored with a lower version than the newest, once for a type.
    pub(super) fn warn(&mut self, place: &str, record: &NewRecord, newest: u32) {
        let told = self.0.get_mut(&record.event_type).is_some_and(|known| std::mem::replace(&mut known.warned, true));
        if !told {
            note(&format!("{place}{}", warning(record, newest)));
        }
    }
}

fn warning(record: &NewRecord, newest: u32) -> String {
    let (event_type, given) = (&record.event_type, record.schema_version);
    format!(
        "warning: this {event_type} is stored with schema version {given}, and the newest in the log is {newest}: applications \
         upcast it from version {given} when they read it, and cannot load its stream when its data has another layout; \
         without a schema version it would be stored with {newest}"
    )
}

/// The newest version in the log; 1 for a type that is new.
async fn known_version(store: &dyn Backend, event_type: &str, given: u32) -> Result<Known, Failure> {
    let asking = store.newest_schema_version(event_type);
    if given == 0 {
        let newest = asking.await.map_err(|error| {
            Failure::from(error)
                .framed("", "; --schema-version, or \"schema_version\" in a line, makes that unnecessary")
        })?;
        return Ok(Known { newest: newest.unwrap_or(1), sure: true, warned: false });
    }
    let found = tokio::time::timeout(LOOK_MAX, asking).await.unwrap_or_else(|_| Err(late()));
    if let Err(error) = &found {
        let why = highwater::backend::chain(error);
        note(&format!("it is not known whether {event_type} has a newer schema version than {given}: {why}"));
    }
    let sure = found.is_ok();
    Ok(Known { newest: found.ok().flatten().unwrap_or(1), sure, warned: false })
}

fn late() -> Error {
    let source = format!("it takes longer than {}", words::duration(LOOK_MAX));
    Error::Unavailable { action: "search the whole log", source: source.into() }
}

#[cfg(test)]
mod tests {
    use chrono::Utc;
    use highwater::backend::Log as _;
    use highwater::{Append, MemoryEventStore, stream_id};
    use uuid::Uuid;

    use super::*;

    fn record(event_type: &str, schema_version: u32) -> NewRecord {
        NewRecord {
            id: Uuid::now_v7(),
            stream_id: stream_id("order", "17").id(),
            stream_name: None,
            event_type: event_type.to_owned(),
            schema_version,
            data: "null".to_owned(),
            metadata: "{}".to_owned(),
            created_at: Utc::now(),
        }
    }

    #[tokio::test]
    async fn versions_are_the_newest_of_the_log_and_of_the_lines_before() {
        let store = MemoryEventStore::new();
        store.append(&Append::to(stream_id("order", "17")).record(record("Placed", 2))).await.unwrap();
        let mut versions = Versions::default();
        let mut settled = async |event_type: &str, given| {
            let mut record = record(event_type, given);
            let newer = versions.settle(&store, &mut record).await.unwrap();
            (record.schema_version, newer)
        };
        assert_eq!(settled("Placed", 0).await, (2, None));
        assert_eq!(settled("Placed", 1).await, (1, Some(2)));
        assert_eq!(settled("Placed", 4).await, (4, None));
        assert_eq!(settled("Placed", 0).await, (4, None));
        assert_eq!(settled("Placed", 3).await, (3, Some(4)));
        assert_eq!(settled("Shipped", 0).await, (1, None));
    }

    #[test]
    fn a_lower_version_says_which_is_the_newest() {
        let said = warning(&record("Placed", 1), 2);
        assert!(said.contains("schema version 1, and the newest in the log is 2"), "{said}");
    }
}
