//! One line of input.

use chrono::{DateTime, Utc};
use highwater::ExpectedVersion;
use highwater::backend::NewRecord;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::Expectation;
use crate::stream::StreamName;

/// A line that can be stored.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) stream: StreamName,
    pub(super) record: NewRecord,
    pub(super) expected: ExpectedVersion,
    /// The newest schema version of its type, if the line names a lower one.
    pub(super) newer: Option<u32>,
    /// What to say if its type occurs in streams of another kind.
    pub(super) mixed: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    stream: String,
    stream_name: Option<String>,
    #[serde(rename = "type")]
    event_type: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    id: Option<String>,
    #[serde(default)]
    schema_version: u32,
    created_at: Option<String>,
    expected: Option<Expected>,
    // The log gives these. They are let through so that what `events --json` prints can be stored elsewhere.
    #[serde(rename = "version")]
    _version: Option<IgnoredAny>,
    #[serde(rename = "global_sequence")]
    _global_sequence: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Expected {
    Version(u64),
    Name(String),
}

impl Line {
    pub(super) fn parse(number: u64, line: &[u8]) -> Result<Self, String> {
        let line = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
        let fields: Fields<'_> = serde_json::from_str(line).map_err(|error| {
            let why = error.to_string().replace(" at line 1 column", ", at column");
            format!("it is not an event: {why}")
        })?;
        let stream: StreamName = fields.stream.parse().map_err(|why| format!("\"stream\": {why}"))?;
        let expected = match fields.expected {
            None => ExpectedVersion::Any,
            Some(Expected::Version(version)) => ExpectedVersion::Exact(version),
            Some(Expected::Name(name)) => name.parse::<Expectation>().map_err(|why| format!("\"expected\": {why}"))?.0,
        };
        let id = fields.id.map(|id| Uuid::parse_str(&id).map_err(|_| "\"id\" is not a UUID".to_owned()));
        let created_at = fields.created_at.map(|at| DateTime::parse_from_rfc3339(&at));
        let created_at = created_at.transpose().map_err(|_| "\"created_at\" is not a time (RFC 3339)".to_owned())?;
        let record = NewRecord {
            id: id.transpose()?.unwrap_or_else(Uuid::now_v7),
            stream_id: stream.id.id(),
            stream_name: match fields.stream_name {
                Some(name) => Some(name.as_str().into()),
                None => stream.id.name().map_err(|invalid| invalid.to_string())?,
            },
            event_type: fields.event_type,
            schema_version: fields.schema_version,
            data: fields.data.map_or("null", RawValue::get).to_owned(),
            metadata: fields.metadata.map_or("{}", RawValue::get).to_owned(),
            created_at: created_at.map_or_else(Utc::now, |at| at.to_utc()),
        };
        let line = Self { number, stream, record, expected, newer: None, mixed: None };
        // What cannot be stored is found here, where it can be named.
        line.append().checked(&highwater::Limits::default()).map_err(|invalid| invalid.to_string())?;
        Ok(line)
    }

    pub(super) fn append(&self) -> highwater::Append {
        highwater::Append::to(self.record.stream()).expecting(self.expected).record(self.record.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Line, String> {
        Line::parse(1, line.as_bytes())
    }

    #[test]
    fn a_line_keeps_its_data_to_the_byte() {
        let line =
            parse(r#"{"stream":"order/17","type":"Placed","data":{"b":1.50, "a":1e3},"expected":"none"}"#).unwrap();
        assert_eq!(line.record.data, r#"{"b":1.50, "a":1e3}"#);
        assert_eq!(
            (line.record.stream_id, line.expected),
            (highwater::stream_id("order", "17").id(), ExpectedVersion::NoStream)
        );
        assert_eq!(parse(r#"{"stream":"a/b","type":"T"}"#).unwrap().record.data, "null");
    }

    #[test]
    fn what_cannot_be_stored_is_refused_with_the_reason() {
        for (line, reason) in [
            ("{", "EOF"),
            (r#"{"stream":"a/b"}"#, "missing field `type`"),
            (r#"{"stream":"a","type":"T"}"#, "order/17"),
            (r#"{"stream":"a/b","type":"T","metdata":{}}"#, "unknown field `metdata`"),
            (r#"{"stream":"a/b","type":"T","metadata":[1]}"#, "object"),
            (r#"{"stream":"a/b","type":"","data":1}"#, "event type"),
            (r#"{"stream":"a/b","type":"T","data":"\u0000"}"#, "U+0000"),
            (r#"{"stream":"a/b","type":"T","expected":"new"}"#, "any, none, exists"),
            (r#"{"stream":"a/b","type":"T","id":"7"}"#, "UUID"),
            (r#"{"stream":"a/b","type":"T","created_at":"now"}"#, "RFC 3339"),
        ] {
            let refused = parse(line).unwrap_err();
            assert!(refused.contains(reason), "{line} is refused with {refused:?}");
        }
        assert!(Line::parse(1, b"\xff").unwrap_err().contains("UTF-8"));
    }
}
