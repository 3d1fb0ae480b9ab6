//! Everything a store holds, as lines of JSON: what is exported, and what hashes are made of.
//!
//! Data and metadata stand there as they are, to the byte. What could not stand so in one line (JSON with line breaks, or
//! with space around it) is written as a string instead.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{Counts, FilledCheckpoint};
use crate::{
    DeadLetter, DeadLetterAttempt, DeadLetterDetail, DeadLetterState, Record, Request, RequestKind, RequestOutcome,
    StreamName,
};

/// One line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line<'a> {
    Header(Header),
    #[serde(borrow)]
    Event(EventLine<'a>),
    Checkpoint(Cow<'a, FilledCheckpoint>),
    DeadLetter(DeadLetterLine<'a>),
    Request(RequestLine<'a>),
    Footer(Footer),
}

impl Line<'_> {
    /// What it is, in a word.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Header(_) => "header",
            Self::Event(_) => "event",
            Self::Checkpoint(_) => "checkpoint",
            Self::DeadLetter(_) => "dead letter",
            Self::Request(_) => "request",
            Self::Footer(_) => "footer",
        }
    }

    /// Writes it at the end of a text, with its line break.
    pub(super) fn write(&self, text: &mut Vec<u8>) {
        serde_json::to_writer(&mut *text, self).expect("numbers, strings and JSON can be written as JSON into memory");
        text.push(b'\n');
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    /// The format's version.
    pub(super) version: u32,
    /// Events up to here are in it.
    pub(super) frontier: u64,
    pub(super) events: u64,
    pub(super) checkpoints: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Footer {
    pub(super) counts: Counts,
    /// Of every byte before this line.
    pub(super) md5: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventLine<'a> {
    global_sequence: u64,
    id: Uuid,
    stream_id: Uuid,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    stream_name: Option<Cow<'a, str>>,
    stream_version: u64,
    #[serde(borrow)]
    event_type: Cow<'a, str>,
    schema_version: u32,
    #[serde(with = "micros")]
    created_at: DateTime<Utc>,
    #[serde(borrow, default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    data_text: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    metadata_text: Option<Cow<'a, str>>,
}

impl<'a> EventLine<'a> {
    pub(super) fn new(record: &'a Record) -> Self {
        let (data, data_text) = split(&record.data);
        let (metadata, metadata_text) = split(&record.metadata);
        Self {
            global_sequence: record.global_sequence,
            id: record.id,
            stream_id: record.stream_id,
            stream_name: record.stream_name.as_ref().map(|name| Cow::Borrowed(name.as_str())),
            stream_version: record.stream_version,
            event_type: Cow::Borrowed(&record.event_type),
            schema_version: record.schema_version,
            created_at: record.created_at,
            data,
            data_text,
            metadata,
            metadata_text,
        }
    }

    pub(super) fn into_record(self) -> Result<Record, &'static str> {
        Ok(Record {
            id: self.id,
            stream_id: self.stream_id,
            stream_name: self.stream_name.map(|name| StreamName::from(name.as_ref())),
            stream_version: self.stream_version,
            global_sequence: self.global_sequence,
            event_type: self.event_type.into_owned(),
            schema_version: self.schema_version,
            data: join(self.data, self.data_text).ok_or("an event has data or data_text")?,
            metadata: join(self.metadata, self.metadata_text).ok_or("an event has metadata or metadata_text")?,
            created_at: self.created_at,
        })
    }
}

/// JSON as it is where that comes back to the byte, and as a string where not.
fn split(json: &str) -> (Option<&RawValue>, Option<Cow<'_, str>>) {
    let raw = serde_json::from_str::<&RawValue>(json).ok();
    match raw.filter(|raw| raw.get() == json && !json.contains(['\n', '\r'])) {
        Some(raw) => (Some(raw), None),
        None => (None, Some(Cow::Borrowed(json))),
    }
}

fn join(raw: Option<&RawValue>, text: Option<Cow<'_, str>>) -> Option<String> {
    match (raw, text) {
        (Some(raw), None) => Some(raw.get().to_owned()),
        (None, Some(text)) => Some(text.into_owned()),
        _ => None,
    }
}

/// What is there, also when it is `null`.
fn some<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Times as text, in whole microseconds.
pub(super) mod micros {
    use chrono::{DateTime, SecondsFormat, Utc};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(in crate::transfer) fn text(time: &DateTime<Utc>) -> String {
        time.to_rfc3339_opts(SecondsFormat::Micros, true)
    }

    pub(in crate::transfer) fn serialize<S: Serializer>(
        time: &DateTime<Utc>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text(time))
    }

    pub(in crate::transfer) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<DateTime<Utc>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time = DateTime::parse_from_rfc3339(&text).map_err(|why| D::Error::custom(format!("{text:?}: {why}")))?;
        Ok(time.to_utc())
    }
}

/// The same where there may be none.
mod optional_micros {
    use chrono::{DateTime, Utc};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Option<DateTime<Utc>>, serializer: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => super::micros::serialize(time, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DateTime<Utc>>, D::Error> {
        #[derive(Deserialize)]
        struct Time(#[serde(with = "super::micros")] DateTime<Utc>);
        Ok(Option::<Time>::deserialize(deserializer)?.map(|time| time.0))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeadLetterLine<'a> {
    id: Uuid,
    subscriber_id: Cow<'a, str>,
    event_id: Uuid,
    global_sequence: u64,
    stream_id: Uuid,
    event_type: Cow<'a, str>,
    error_message: Option<Cow<'a, str>>,
    retry_count: u32,
    #[serde(with = "micros")]
    created_at: DateTime<Utc>,
    #[serde(with = "optional_micros")]
    last_retry_at: Option<DateTime<Utc>>,
    state: Cow<'a, str>,
    parks: bool,
    #[serde(with = "optional_micros")]
    resolved_at: Option<DateTime<Utc>>,
    resolved_by: Option<Cow<'a, str>>,
    reason: Option<Cow<'a, str>>,
    attempts: Vec<AttemptLine<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AttemptLine<'a> {
    #[serde(with = "micros")]
    at: DateTime<Utc>,
    by: Cow<'a, str>,
    outcome: Cow<'a, str>,
    detail: Option<Cow<'a, str>>,
}

impl<'a> DeadLetterLine<'a> {
    pub(super) fn new(DeadLetterDetail { dead_letter, attempts, .. }: &'a DeadLetterDetail) -> Self {
        let attempt = |attempt: &'a DeadLetterAttempt| AttemptLine {
            at: attempt.at,
            by: Cow::Borrowed(&attempt.by),
            outcome: Cow::Borrowed(&attempt.outcome),
            detail: attempt.detail.as_deref().map(Cow::Borrowed),
        };
        Self {
            id: dead_letter.id,
            subscriber_id: Cow::Borrowed(&dead_letter.subscriber_id),
            event_id: dead_letter.event_id,
            global_sequence: dead_letter.global_sequence,
            stream_id: dead_letter.stream_id,
            event_type: Cow::Borrowed(&dead_letter.event_type),
            error_message: dead_letter.error_message.as_deref().map(Cow::Borrowed),
            retry_count: dead_letter.retry_count,
            created_at: dead_letter.created_at,
            last_retry_at: dead_letter.last_retry_at,
            state: Cow::Borrowed(dead_letter.state.name()),
            parks: dead_letter.parks,
            resolved_at: dead_letter.resolved_at,
            resolved_by: dead_letter.resolved_by.as_deref().map(Cow::Borrowed),
            reason: dead_letter.reason.as_deref().map(Cow::Borrowed),
            attempts: attempts.iter().map(attempt).collect(),
        }
    }

    pub(super) fn into_dead_letter(self) -> Result<DeadLetterDetail, String> {
        let state = DeadLetterState::from_name(&self.state).ok_or_else(|| format!("unknown state {:?}", self.state))?;
        let attempt = |attempt: AttemptLine<'_>| DeadLetterAttempt {
            at: attempt.at,
            by: attempt.by.into_owned(),
            outcome: attempt.outcome.into_owned(),
            detail: attempt.detail.map(Cow::into_owned),
        };
        let dead_letter = DeadLetter {
            id: self.id,
            subscriber_id: self.subscriber_id.into_owned(),
            event_id: self.event_id,
            global_sequence: self.global_sequence,
            stream_id: self.stream_id,
            // The log has it.
            stream_name: None,
            event_type: self.event_type.into_owned(),
            error_message: self.error_message.map(Cow::into_owned),
            retry_count: self.retry_count,
            created_at: self.created_at,
            last_retry_at: self.last_retry_at,
            state,
            parks: self.parks,
            resolved_at: self.resolved_at,
            resolved_by: self.resolved_by.map(Cow::into_owned),
            reason: self.reason.map(Cow::into_owned),
        };
        Ok(DeadLetterDetail { dead_letter, record: None, attempts: self.attempts.into_iter().map(attempt).collect() })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestLine<'a> {
    id: Uuid,
    subscriber_id: Cow<'a, str>,
    #[serde(with = "RequestKindLine")]
    kind: RequestKind,
    requested_by: Cow<'a, str>,
    #[serde(with = "micros")]
    requested_at: DateTime<Utc>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RequestKind", rename_all = "snake_case", deny_unknown_fields)]
enum RequestKindLine {
    Replay { dead_letter: Uuid },
    ReplayStream { stream_id: Uuid },
    ReplayAll,
    Discard { dead_letter: Uuid, reason: String },
    Rebuild,
    Reread,
}

impl<'a> RequestLine<'a> {
    pub(super) fn new(request: &'a Request) -> Self {
        Self {
            id: request.id,
            subscriber_id: Cow::Borrowed(&request.subscriber_id),
            kind: request.kind.clone(),
            requested_by: Cow::Borrowed(&request.requested_by),
            requested_at: request.requested_at,
        }
    }

    pub(super) fn into_request(self) -> Request {
        Request {
            id: self.id,
            subscriber_id: self.subscriber_id.into_owned(),
            kind: self.kind,
            requested_by: self.requested_by.into_owned(),
            requested_at: self.requested_at,
            outcome: None::<RequestOutcome>,
        }
    }
}
