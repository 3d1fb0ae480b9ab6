//! `highwater append`

mod input;
mod kinds;
mod line;
mod storing;
mod streams;
mod versions;

use std::str::FromStr;

use chrono::Utc;
use clap::Args;
use highwater::ExpectedVersion;
use highwater::backend::{Backend, NewRecord};
use serde_json::json;
use uuid::Uuid;

use self::kinds::Kinds;
use self::versions::Versions;
use crate::arguments::Global;
use crate::failure::{Exit, Failure, note};
use crate::stream::StreamName;
use crate::words;

const EXAMPLES: &str = "\
Examples:
  highwater append order/17 Placed '{\"cents\":1299}'
  highwater append order/17 Shipped --expect 1 --metadata '{\"actor\":\"anna\"}'
  echo '{\"stream\":\"order/18\",\"type\":\"Placed\",\"data\":{\"cents\":5}}' | highwater append --stdin
  highwater events --json --database sqlite:old.db | highwater append --stdin

Lines for --stdin:
  {\"stream\", \"type\", \"data\", \"metadata\"?, \"id\"?, \"schema_version\"?, \"created_at\"?,
   \"expected\"?: \"any\" | \"none\" | \"exists\" | VERSION}
  Lines are stored in their order. At the first that cannot be, everything before it is stored and nothing from it on.
  Lines with ids can be sent again: what is stored already is left as it is.
  A line without a schema_version gets the newest that the log holds for its type, or 1.";

/// Append events
///
/// Makes an SQLite file when there is none.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Append {
    /// The stream: a UUID, or a name such as order/17
    #[arg(required_unless_present = "stdin")]
    stream: Option<StreamName>,
    /// The type of the event
    #[arg(value_name = "TYPE", required_unless_present = "stdin")]
    event_type: Option<String>,
    /// What happened
    #[arg(value_name = "JSON", default_value = "null")]
    data: String,
    /// Where the stream must be: any, none (it must not exist), exists, or the version of its last event
    #[arg(long, value_name = "VERSION", conflicts_with = "stdin")]
    expect: Option<Expectation>,
    /// The event's id; sending the same again stores it once. Default: a new one
    #[arg(long, value_name = "UUID", conflicts_with = "stdin")]
    id: Option<Uuid>,
    /// What is known besides: a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}", conflicts_with = "stdin")]
    metadata: String,
    /// The version of the layout of the data. Default: the newest that the log holds for this type, or 1
    #[arg(long, value_name = "N", conflicts_with = "stdin")]
    schema_version: Option<u32>,
    /// Read events from stdin, one JSON object a line
    #[arg(long, conflicts_with_all = ["stream", "event_type", "data"])]
    stdin: bool,
}

/// What is expected of a stream, as it is written on the command line and in lines.
#[derive(Debug, Clone, Copy)]
struct Expectation(ExpectedVersion);

impl FromStr for Expectation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(match text {
            "any" => ExpectedVersion::Any,
            "none" => ExpectedVersion::NoStream,
            "exists" => ExpectedVersion::StreamExists,
            version => {
                let version = version.parse();
                ExpectedVersion::Exact(version.map_err(|_| "it is any, none, exists or a version".to_owned())?)
            }
        }))
    }
}

impl Append {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        // Errors of the event itself are reported before anything is created.
        let one = self.one()?;
        let store = global.target()?.open_or_make().await?;
        match one {
            Some(one) => one.store(&*store, global).await,
            None => storing::run(&*store, global).await,
        }
    }

    fn one(&self) -> Result<Option<One>, Failure> {
        let (Some(stream), Some(event_type)) = (&self.stream, &self.event_type) else { return Ok(None) };
        let record = NewRecord {
            id: self.id.unwrap_or_else(Uuid::now_v7),
            stream_id: stream.id.id(),
            stream_name: stream.id.name()?,
            event_type: event_type.clone(),
            schema_version: self.schema_version.unwrap_or_default(),
            data: self.data.clone(),
            metadata: self.metadata.clone(),
            created_at: Utc::now(),
        };
        let expected = self.expect.map_or(ExpectedVersion::Any, |expect| expect.0);
        let one = One { stream: stream.clone(), record, expected };
        one.append().checked(&highwater::Limits::default())?;
        Ok(Some(one))
    }
}

/// A single event.
struct One {
    stream: StreamName,
    record: NewRecord,
    expected: ExpectedVersion,
}

impl One {
    fn append(&self) -> highwater::Append {
        highwater::Append::to(self.record.stream()).expecting(self.expected).record(self.record.clone())
    }

    async fn store(mut self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        let found = self.stream.find(store).await?;
        (self.record.stream_id, self.record.stream_name) = (found.id(), found.name()?);
        let mut versions = Versions::default();
        let newer = versions.settle(store, &mut self.record).await?;
        let mixed = Kinds::default().settle(store, &self.record).await;
        let (stream, id) = (&self.stream, self.record.id);
        let done = storing::send(store, &self.append()).await.map_err(|unsent| {
            let failure = stream.named(unsent.error);
            if !unsent.unknown {
                return failure;
            }
            let after = format!("; it may or may not be stored: send it again with --id {id}, which stores it once");
            failure.framed("", &after).because(Exit::Database)
        })?;
        if let Some(newest) = newer.filter(|_| !done.repeated) {
            versions.warn("", &self.record, newest);
        }
        if let Some(mixed) = mixed.filter(|_| !done.repeated) {
            note(&mixed);
        }
        let mut out = global.output();
        if global.json {
            out.value(&json!({
                "global_sequence": done.global_sequence,
                "stream": self.record.stream_id.to_string(),
                "stream_name": self.record.stream_name.as_ref().map(highwater::StreamName::as_str),
                "version": done.stream_version,
                "id": id.to_string(),
                "repeated": done.repeated,
            }))?;
        } else {
            let (at, version) = (words::number(done.global_sequence), words::number(done.stream_version));
            let stored = if done.repeated { "had been stored before" } else { "stored" };
            out.line(&format!("{stored} at {at}, as version {version} of {}", words::one_line(&stream.to_string())))?;
        }
        out.finish()
    }
}
