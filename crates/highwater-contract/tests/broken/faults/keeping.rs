//! Faults of keeping what was acknowledged.

use std::sync::Mutex;

use highwater::backend::{BoxFuture, Log, NewRecord, ReadLimit};
use highwater::{Append, Appended, Error, Filter, MemoryEventStore};

use crate::faulty::{Fault, Sound};

/// Another log with the same records, but for the last few.
async fn copy(log: &MemoryEventStore, lost: usize) -> MemoryEventStore {
    let limit = ReadLimit { events: usize::MAX, bytes: usize::MAX };
    let records = log.read_all(0, &Filter::ALL, limit).await.expect("memory can be read").records;
    let copy = MemoryEventStore::new();
    let kept = records.len().saturating_sub(lost);
    for record in records.into_iter().take(kept) {
        let append = Append::to(record.stream_id).record(NewRecord {
            id: record.id,
            stream_id: record.stream_id,
            stream_name: record.stream_name,
            event_type: record.event_type,
            schema_version: record.schema_version,
            data: record.data,
            metadata: record.metadata,
            created_at: record.created_at,
        });
        copy.append(&append).await.expect("what was stored once can be stored again");
    }
    copy
}

/// Keeps nothing beyond the process.
pub(crate) struct LosesEverythingOnReopen;

impl Fault for LosesEverythingOnReopen {
    fn reopen<'a>(&'a self, _: &'a MemoryEventStore) -> BoxFuture<'a, MemoryEventStore> {
        Box::pin(async { MemoryEventStore::new() })
    }
}

/// Acknowledges before it has written: the last append is lost.
#[derive(Default)]
pub(crate) struct LosesTheLastAppendOnReopen(Mutex<usize>);

impl Fault for LosesTheLastAppendOnReopen {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let done = sound.memory.append(append).await?;
            *self.0.lock().expect("nobody panics with it") = done.positions.len();
            Ok(done)
        })
    }

    fn reopen<'a>(&'a self, sound: &'a MemoryEventStore) -> BoxFuture<'a, MemoryEventStore> {
        let lost = *self.0.lock().expect("nobody panics with it");
        Box::pin(copy(sound, lost))
    }
}

/// Reads the log once, when it is opened.
pub(crate) struct SeesNothingOfOtherHandles;

impl Fault for SeesNothingOfOtherHandles {
    fn reopen<'a>(&'a self, sound: &'a MemoryEventStore) -> BoxFuture<'a, MemoryEventStore> {
        Box::pin(copy(sound, 0))
    }
}
