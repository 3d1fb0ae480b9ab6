//! Faults in the face of bad input.

use highwater::backend::{BoxFuture, Log, NewRecord};
use highwater::{Append, Appended, Error, Limits};
use highwater_contract::Settings;
use uuid::Uuid;

use crate::faulty::{Fault, Sound};

/// What is left of a bad append: an event with nothing in it.
fn placeholder(append: &Append) -> Append {
    let stream_id = append.streams()[0].0;
    Append::to(stream_id).record(NewRecord {
        id: Uuid::now_v7(),
        stream_id,
        stream_name: None,
        event_type: "Bad".to_owned(),
        schema_version: 1,
        data: "null".to_owned(),
        metadata: "{}".to_owned(),
        created_at: chrono::DateTime::UNIX_EPOCH,
    })
}

/// Stores `null` for what it cannot store.
pub(crate) struct StoresNullForBadInput;

impl Fault for StoresNullForBadInput {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            match sound.memory.append(append).await {
                Err(Error::Invalid(_)) => sound.memory.append(&placeholder(append)).await,
                answer => answer,
            }
        })
    }
}

/// Refuses bad input, and leaves a trace of it.
pub(crate) struct KeepsATraceOfBadInput;

impl Fault for KeepsATraceOfBadInput {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let answer = sound.memory.append(append).await;
            if matches!(answer, Err(Error::Invalid(_))) {
                sound.memory.append(&placeholder(append)).await?;
            }
            answer
        })
    }
}

/// Calls bad input a failure of its own.
pub(crate) struct SaysThatBadInputIsUnavailable;

impl Fault for SaysThatBadInputIsUnavailable {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            sound.memory.append(append).await.map_err(|error| match error {
                Error::Invalid(invalid) => Error::Unavailable { action: "store", source: invalid.into() },
                other => other,
            })
        })
    }
}

/// Knows no limits.
pub(crate) struct KnowsNoLimits;

impl Fault for KnowsNoLimits {
    fn settings(&self, settings: Settings) -> Settings {
        let limits = Limits {
            event_bytes_max: usize::MAX,
            event_type_bytes_max: usize::MAX,
            append_events_max: usize::MAX,
            append_bytes_max: usize::MAX,
        };
        Settings { limits, ..settings }
    }
}
