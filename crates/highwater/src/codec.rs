//! How an enum becomes a record and back.
//!
//! Any enum with serde's default (external) tagging is a set of events. `event_type` is the variant's name as serde
//! writes it, so `rename` and `alias` work; `data` is the variant's content alone: an object for a struct variant, the
//! inner value of a newtype, an array for a tuple, `null` for a unit. Several enums are read together as a [`OneOf`].
//!
//! What JSON would change silently (NaN, infinities) and what `json` would store and never return (`\u0000`) is refused
//! here, for every backend alike.

mod check;
mod decode;
mod encode;
mod names;
mod one_of;

use serde::de::DeserializeOwned;

use crate::{Error, Event, Metadata, Record, Upcasters};

pub(crate) use check::{check_json, check_text};
pub use encode::{Encoded, encode, event_type_of};
pub use names::{EventTypes, event_types};
pub use one_of::OneOf;

/// Reads a record as an event: brings it up to date with `upcasters`, then decodes it. Every typed read goes through
/// here.
///
/// `Ok(Err(record))`: the record is of a type that `types` does not hold, and comes back as it was.
///
/// # Errors
/// [`Error::Undecodable`] when `D` knows the type but the content does not fit, or when an upcaster fails.
pub fn decode<D: DeserializeOwned>(
    mut record: Record,
    types: &EventTypes,
    upcasters: &Upcasters,
) -> Result<Result<Event<D>, Record>, Error> {
    match decode_content(&record, types, upcasters)? {
        Some(mut content) => {
            let event_type = content.event_type.take().unwrap_or_else(|| std::mem::take(&mut record.event_type));
            Ok(Ok(content.of(&record, event_type)))
        }
        None => Ok(Err(record)),
    }
}

/// The same for callers that have to keep the record: an event may have to be retried, or recorded as a dead letter.
pub(crate) fn decode_kept<D: DeserializeOwned>(
    record: &Record,
    types: &EventTypes,
    upcasters: &Upcasters,
) -> Result<Option<Event<D>>, Error> {
    Ok(decode_content(record, types, upcasters)?.map(|mut content| {
        let event_type = content.event_type.take().unwrap_or_else(|| record.event_type.clone());
        content.of(record, event_type)
    }))
}

/// What has to be decoded of a record.
struct Content<D> {
    /// When an upcaster changed it.
    event_type: Option<String>,
    schema_version: u32,
    data: D,
    metadata: Metadata,
}

impl<D> Content<D> {
    /// The event that this is the content of.
    fn of(self, record: &Record, event_type: String) -> Event<D> {
        Event {
            id: record.id,
            stream_id: record.stream_id,
            stream_name: record.stream_name.clone(),
            stream_version: record.stream_version,
            global_sequence: Some(record.global_sequence),
            event_type,
            schema_version: self.schema_version,
            data: self.data,
            metadata: self.metadata,
            created_at: record.created_at,
        }
    }
}

fn decode_content<D: DeserializeOwned>(
    record: &Record,
    types: &EventTypes,
    upcasters: &Upcasters,
) -> Result<Option<Content<D>>, Error> {
    let upcast = match upcasters.apply(&record.event_type, record.schema_version, &record.data) {
        Ok(upcast) => upcast,
        Err(source) => return Err(undecodable(record, source)),
    };
    let (event_type, schema_version, data) = match &upcast {
        Some(new) => (new.event_type.as_str(), new.schema_version, new.data.as_str()),
        None => (record.event_type.as_str(), record.schema_version, record.data.as_str()),
    };
    if !types.contains(event_type) {
        return Ok(None);
    }
    let data = decode::decode_variant(event_type, data).map_err(|source| undecodable(record, source.into()))?;
    let metadata = Metadata::from_json(&record.metadata).map_err(|source| undecodable(record, source.into()))?;
    Ok(Some(Content { event_type: upcast.map(|new| new.event_type), schema_version, data, metadata }))
}

/// The error for a stored event that does not fit.
pub(crate) fn undecodable(record: &Record, source: crate::BoxError) -> Error {
    Error::Undecodable {
        event_id: record.id,
        event_type: record.event_type.clone(),
        schema_version: record.schema_version,
        stream_id: record.stream_id,
        stream_name: record.stream_name.clone(),
        stream_version: record.stream_version,
        source,
    }
}
