//! Events as they are shown.

use highwater::StreamName;
use highwater::backend::Record;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::Paint;
use crate::words;

/// An event as a line of JSON. `highwater append --stdin` takes the same.
#[derive(Serialize)]
pub(crate) struct Shown<'a> {
    global_sequence: u64,
    stream: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_name: Option<&'a str>,
    version: u64,
    id: String,
    #[serde(rename = "type")]
    event_type: &'a str,
    schema_version: u32,
    created_at: String,
    data: Box<RawValue>,
    metadata: Box<RawValue>,
}

impl<'a> Shown<'a> {
    pub(crate) fn new(record: &'a Record) -> Result<Self, Failure> {
        Ok(Self {
            global_sequence: record.global_sequence,
            stream: record.stream_id.to_string(),
            stream_name: record.stream_name.as_ref().map(StreamName::as_str),
            version: record.stream_version,
            id: record.id.to_string(),
            event_type: &record.event_type,
            schema_version: record.schema_version,
            created_at: words::exact(record.created_at),
            data: raw(record, &record.data)?,
            metadata: raw(record, &record.metadata)?,
        })
    }
}

/// JSON as it is stored, on one line: a line break in JSON text is never more than white space.
fn raw(record: &Record, json: &str) -> Result<Box<RawValue>, Failure> {
    let line = json.replace(['\n', '\r'], " ");
    RawValue::from_string(line).map_err(|error| {
        Failure::refused(format!("event {} is stored with text that is not JSON: {error}", record.global_sequence))
    })
}

/// Shows events, one a line, as they come.
pub(crate) struct Listing {
    titled: bool,
}

impl Listing {
    pub(crate) fn new() -> Self {
        Self { titled: false }
    }

    pub(crate) fn show(&mut self, out: &mut Output, record: &Record) -> Result<(), Failure> {
        if out.json {
            return out.value(&Shown::new(record)?);
        }
        if !self.titled {
            self.titled = true;
            let titles = format!(
                "{:>10}  {:<20}  {:<36}  {:>7}  {:<20}  {}",
                "sequence", "time", "stream", "version", "type", "data"
            );
            out.line(&out.paint(&titles, Paint::Bold))?;
        }
        let metadata = if record.metadata == "{}" { "" } else { &record.metadata };
        let line = format!(
            "{:>10}  {:<20}  {:<36}  {:>7}  {:<20}  {}  {}",
            record.global_sequence,
            words::time(record.created_at),
            words::one_line(&record.stream().to_string()),
            record.stream_version,
            words::one_line(&record.event_type),
            on_one_line(&record.data),
            on_one_line(metadata)
        );
        out.row(line.trim_end())
    }
}

pub(crate) fn on_one_line(json: &str) -> String {
    words::one_line(&json.replace(['\n', '\r'], " "))
}
