//! What must not be filled in, because no store of ours could hold it. For backends, so that all refuse the same.

use std::collections::HashMap;

use chrono::{DateTime, Datelike, Utc};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Batch, FilledCheckpoint};
use crate::codec::check_text;
use crate::subscriber::check_id;
use crate::{DeadLetterDetail, Invalid, Record, Request, RequestKind, StreamName};

const EVENT_TYPE_BYTES_MAX: usize = 255;

impl Batch<'_> {
    /// Checks what can be checked without the store; for records see [`check_records`].
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(self) -> Result<(), Invalid> {
        match self {
            Self::Records(_) => Ok(()),
            Self::Checkpoints(checkpoints) => check_checkpoints(checkpoints),
            Self::DeadLetters(dead_letters) => check_dead_letters(dead_letters),
            Self::Requests(requests) => check_requests(requests),
        }
    }
}

/// Checks records that are to follow the number `after`. `head` says which version a stream has in the store.
///
/// # Errors
/// The first thing that is wrong.
pub fn check_records(records: &[Record], after: u64, head: impl Fn(Uuid) -> u64) -> Result<(), Invalid> {
    let mut last = after;
    let mut heads: HashMap<Uuid, u64> = HashMap::new();
    let mut ids: HashMap<Uuid, u64> = HashMap::with_capacity(records.len());
    for record in records {
        let number = record.global_sequence;
        if number <= last {
            return Err(refused(format!("event {} has number {number}, after {last}", record.id)));
        }
        check_number("the number of an event", number)?;
        last = number;
        if let Some(other) = ids.insert(record.id, number) {
            return Err(refused(format!("event id {} occurs twice, at {other} and at {number}", record.id)));
        }
        let stream_id = record.stream_id;
        let version = heads.entry(stream_id).or_insert_with(|| head(stream_id));
        let (wanted, found) = (*version + 1, record.stream_version);
        if found != wanted {
            let stream_name = record.stream_name.clone();
            return Err(Invalid::VersionsNotContiguous { stream_id, stream_name, wanted, found });
        }
        *version = wanted;
        check_content(record)?;
    }
    Ok(())
}

/// What an append would check, but for its limits. The error names the event.
pub(super) fn check_content(record: &Record) -> Result<(), Invalid> {
    let named = |source| {
        let (event_id, global_sequence) = (record.id, record.global_sequence);
        Invalid::Event { event_id, global_sequence, source: Box::new(source) }
    };
    check_columns(record).map_err(named)
}

fn check_columns(record: &Record) -> Result<(), Invalid> {
    let name = &record.event_type;
    if name.is_empty() || name.len() > EVENT_TYPE_BYTES_MAX || name.contains('\0') {
        return Err(Invalid::EventType { event_type: name.chars().take(80).collect(), limit: EVENT_TYPE_BYTES_MAX });
    }
    // Names of other writers need not be as ours are.
    let unfit = |name: &&StreamName| name.as_str().len() > 1_000 || name.as_str().contains('\0');
    if let Some(name) = record.stream_name.as_ref().filter(unfit) {
        return Err(name.refused(record.stream_id));
    }
    if record.schema_version == 0 || record.schema_version > i32::MAX.unsigned_abs() {
        return Err(Invalid::SchemaVersion(record.schema_version));
    }
    check_time("created_at", record.created_at)?;
    check_text("the data", &record.data)?;
    serde_json::from_str::<&RawValue>(&record.data).map_err(|error| Invalid::NotJson(error.to_string()))?;
    check_metadata(&record.metadata)
}

/// That it is an object which can be read, also where it looks like one.
fn check_metadata(json: &str) -> Result<(), Invalid> {
    let unreadable = |why: String| refused(format!("its metadata cannot be read: {why}"));
    match check_text("the metadata", json) {
        Err(Invalid::NotJson(why)) => return Err(unreadable(why)),
        checked => checked?,
    }
    match serde_json::from_str::<Map<String, Value>>(json) {
        Ok(_) => Ok(()),
        Err(error) if error.is_data() => Err(Invalid::MetadataNotAnObject),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

fn check_checkpoints(checkpoints: &[FilledCheckpoint]) -> Result<(), Invalid> {
    checkpoints.iter().try_for_each(|checkpoint| {
        check_id(&checkpoint.subscriber_id)?;
        check_number("the position of a checkpoint", checkpoint.global_sequence)?;
        check_time("updated_at", checkpoint.updated_at)
    })
}

fn check_dead_letters(dead_letters: &[DeadLetterDetail]) -> Result<(), Invalid> {
    dead_letters.iter().try_for_each(|DeadLetterDetail { dead_letter, attempts, .. }| {
        check_id(&dead_letter.subscriber_id)?;
        check_number("the position of a dead letter", dead_letter.global_sequence)?;
        if i32::try_from(dead_letter.retry_count).is_err() {
            return Err(refused(format!("dead letter {} was tried {} times", dead_letter.id, dead_letter.retry_count)));
        }
        check_time("created_at", dead_letter.created_at)?;
        [dead_letter.last_retry_at, dead_letter.resolved_at]
            .iter()
            .flatten()
            .try_for_each(|at| check_time("a time", *at))?;
        check_nul("the event type of a dead letter", &dead_letter.event_type)?;
        let texts = [&dead_letter.error_message, &dead_letter.resolved_by, &dead_letter.reason];
        texts.into_iter().flatten().try_for_each(|text| check_nul("a dead letter", text))?;
        attempts.iter().try_for_each(|attempt| {
            check_time("the time of an attempt", attempt.at)?;
            let texts = [Some(&attempt.by), Some(&attempt.outcome), attempt.detail.as_ref()];
            texts.into_iter().flatten().try_for_each(|text| check_nul("an attempt", text))
        })
    })
}

fn check_requests(requests: &[Request]) -> Result<(), Invalid> {
    requests.iter().try_for_each(|request| {
        check_id(&request.subscriber_id)?;
        check_time("requested_at", request.requested_at)?;
        check_nul("a request", &request.requested_by)?;
        if let RequestKind::Discard { reason, .. } = &request.kind {
            check_nul("the reason of a request", reason)?;
        }
        match &request.outcome {
            Some(_) => Err(refused(format!("request {} is finished", request.id))),
            None => Ok(()),
        }
    })
}

/// What every database can count to, with room above it that no store uses up.
const NUMBER_MAX: u64 = 1 << 62;

fn check_number(what: &str, number: u64) -> Result<(), Invalid> {
    if number <= NUMBER_MAX { Ok(()) } else { Err(refused(format!("{what} is out of range: {number}"))) }
}

fn check_nul(what: &'static str, text: &str) -> Result<(), Invalid> {
    if text.contains('\0') { Err(Invalid::NulCharacter(what)) } else { Ok(()) }
}

/// Times are kept in whole microseconds, in years that every database has.
fn check_time(what: &str, time: DateTime<Utc>) -> Result<(), Invalid> {
    if !(1..=9999).contains(&time.year()) {
        return Err(Invalid::CreatedAt(time.to_string()));
    }
    // A leap second has more than a second's worth of them, and no database keeps it.
    let nanos = time.timestamp_subsec_nanos();
    if !nanos.is_multiple_of(1_000) || nanos >= 1_000_000_000 {
        return Err(refused(format!("{what} is not in whole microseconds: {time}")));
    }
    Ok(())
}

fn refused(reason: String) -> Invalid {
    Invalid::Filling(reason)
}
