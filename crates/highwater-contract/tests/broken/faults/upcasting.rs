//! Faults of reading old events as new ones.

use highwater::backend::{BoxFuture, Log, Page, ReadLimit};
use highwater::{Append, Appended, Error, EventTypes, Filter, Upcasters};

use crate::faulty::{Fault, Sound};

/// Has lost its upcasters.
#[derive(Default)]
pub(crate) struct HasNoUpcasters(Upcasters);

impl Fault for HasNoUpcasters {
    fn upcasters<'a>(&'a self, _: &'a Sound) -> &'a Upcasters {
        &self.0
    }
}

/// Looks only for the names that types have today.
pub(crate) struct FiltersByTheNamesOfToday;

impl Fault for FiltersByTheNamesOfToday {
    fn read_all<'a>(
        &'a self,
        sound: &'a Sound,
        after: u64,
        filter: &'a Filter,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let EventTypes::Only(names) = &filter.types else {
                return sound.memory.read_all(after, filter, limit).await;
            };
            let becomes = |old: &String, new: &String| {
                old != new && sound.memory.upcasters().stored_types(&EventTypes::only([new])).contains(old)
            };
            let of_today = names.iter().filter(|name| !names.iter().any(|other| becomes(name, other)));
            let of_today = Filter { types: EventTypes::only(of_today), ..filter.clone() };
            sound.memory.read_all(after, &of_today, limit).await
        })
    }
}

/// Stores every event as the first version of its layout.
pub(crate) struct StoresSchemaVersionOne;

impl Fault for StoresSchemaVersionOne {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let old = sound.changed(
                append,
                |expected| expected,
                |records| {
                    records.iter_mut().for_each(|record| record.schema_version = 1);
                },
            )?;
            sound.memory.append(&old).await
        })
    }
}

/// Takes the version of the last event for the newest one.
pub(crate) struct TakesTheLastVersionForTheNewest;

impl Fault for TakesTheLastVersionForTheNewest {
    fn newest_schema_version<'a>(
        &'a self,
        sound: &'a Sound,
        event_type: &'a str,
    ) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        Box::pin(async move {
            let records = sound.everything().await?;
            Ok(records.iter().rfind(|record| record.event_type == event_type).map(|record| record.schema_version))
        })
    }
}
