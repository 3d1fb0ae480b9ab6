//! One event, column by column.

use highwater::StreamName;
use highwater::backend::{NewRecord, Record};
use sqlx::Arguments;
use sqlx::sqlite::SqliteArguments;
use uuid::Uuid;

use crate::row::{micros, signed};

/// What a row holds. The first three follow from what is stored; the rest is the event's own.
pub(crate) struct Columns<'a> {
    /// NULL where the event gets the next one.
    global_sequence: Option<i64>,
    stream_version: i64,
    stream_name: Option<&'a str>,
    created_at: i64,
    id: Uuid,
    stream_id: Uuid,
    schema_version: i64,
    event_type: &'a str,
    data: &'a str,
    metadata: &'a str,
}

impl<'a> Columns<'a> {
    /// Their names, in the order that they are bound and read.
    pub(crate) const NAMES: [&'static str; 10] = [
        "global_sequence",
        "stream_version",
        "stream_name",
        "created_at",
        "id",
        "stream_id",
        "schema_version",
        "event_type",
        "data",
        "metadata",
    ];

    /// With the name that its stream has already, if it has one.
    pub(super) fn new(record: &'a NewRecord, schema_version: i32, version: u64, name: Option<&'a StreamName>) -> Self {
        Self {
            global_sequence: None,
            stream_version: signed(version),
            stream_name: name.or(record.stream_name.as_ref()).map(StreamName::as_str),
            created_at: micros(record.created_at),
            id: record.id,
            stream_id: record.stream_id,
            schema_version: schema_version.into(),
            event_type: &record.event_type,
            data: &record.data,
            metadata: &record.metadata,
        }
    }

    /// A record that has its number and its version.
    pub(crate) fn numbered(record: &'a Record) -> Self {
        Self {
            global_sequence: Some(signed(record.global_sequence)),
            stream_version: signed(record.stream_version),
            stream_name: record.stream_name.as_ref().map(StreamName::as_str),
            created_at: micros(record.created_at),
            id: record.id,
            stream_id: record.stream_id,
            schema_version: record.schema_version.into(),
            event_type: &record.event_type,
            data: &record.data,
            metadata: &record.metadata,
        }
    }

    pub(crate) fn add_to(self, arguments: &mut SqliteArguments) -> Result<(), sqlx::Error> {
        let numbers = arguments.add(self.global_sequence).and_then(|()| arguments.add(self.stream_version));
        numbers.map_err(sqlx::Error::Encode)?;
        self.add_own_to(arguments)
    }

    /// Without the numbers, which the statement gives; with the name before what is the event's own.
    pub(super) fn add_own_to(self, arguments: &mut SqliteArguments) -> Result<(), sqlx::Error> {
        let added = arguments
            .add(self.stream_name)
            .and_then(|()| arguments.add(self.created_at))
            .and_then(|()| arguments.add(self.id))
            .and_then(|()| arguments.add(self.stream_id))
            .and_then(|()| arguments.add(self.schema_version))
            .and_then(|()| arguments.add(self.event_type))
            .and_then(|()| arguments.add(self.data))
            .and_then(|()| arguments.add(self.metadata));
        added.map_err(sqlx::Error::Encode)
    }
}
