//! The events of several appends, column by column, as the functions in the database take them.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use highwater::Appended;
use highwater::backend::{NewRecord, Position, Prepared, Record};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgHasArrayType, PgTypeInfo};
use sqlx::query::Query;
use sqlx::{Encode, Postgres, Type};
use uuid::Uuid;

use super::expectation;
use crate::row::positive;

#[derive(Debug)]
pub(super) struct Columns<'a> {
    pub(super) streams: Vec<Uuid>,
    /// What the callers call them.
    pub(super) names: Vec<Option<&'a str>>,
    pub(super) expected: Vec<Option<i64>>,
    pub(super) event_streams: Vec<i32>,
    pub(super) steps: Vec<i32>,
    pub(super) events: Events<'a>,
}

/// What is stored of events besides their streams and numbers, in the order that `schema.rs` gives.
#[derive(Debug)]
pub(crate) struct Events<'a> {
    ids: Vec<Uuid>,
    event_types: Vec<&'a str>,
    schema_versions: Vec<i32>,
    data: Vec<&'a str>,
    metadata: Vec<&'a str>,
    created_at: Vec<DateTime<Utc>>,
}

pub(crate) type Statement<'q> = Query<'q, Postgres, PgArguments>;

impl<'a> Events<'a> {
    /// Of records that have their numbers.
    pub(crate) fn numbered(records: &'a [Record]) -> Self {
        Self {
            ids: records.iter().map(|record| record.id).collect(),
            event_types: records.iter().map(|record| record.event_type.as_str()).collect(),
            schema_versions: records.iter().map(|record| record.schema_version.cast_signed()).collect(),
            data: records.iter().map(|record| record.data.as_str()).collect(),
            metadata: records.iter().map(|record| record.metadata.as_str()).collect(),
            created_at: records.iter().map(|record| record.created_at).collect(),
        }
    }

    fn with_capacity(events: usize) -> Self {
        Self {
            ids: Vec::with_capacity(events),
            event_types: Vec::with_capacity(events),
            schema_versions: Vec::with_capacity(events),
            data: Vec::with_capacity(events),
            metadata: Vec::with_capacity(events),
            created_at: Vec::with_capacity(events),
        }
    }

    fn push(&mut self, record: &'a NewRecord, schema_version: i32) {
        self.ids.push(record.id);
        self.event_types.push(&record.event_type);
        self.schema_versions.push(schema_version);
        self.data.push(&record.data);
        self.metadata.push(&record.metadata);
        self.created_at.push(record.created_at);
    }

    /// With JSON as text.
    pub(super) fn bind_to<'q>(&'q self, statement: Statement<'q>) -> Statement<'q> {
        self.bind_as(statement, |text| text)
    }

    /// With JSON as JSON.
    pub(crate) fn bind_json_to<'q>(&'q self, statement: Statement<'q>) -> Statement<'q> {
        self.bind_as(statement, Json)
    }

    fn bind_as<'q, T>(&'q self, statement: Statement<'q>, json: impl Fn(&'q str) -> T) -> Statement<'q>
    where
        T: Encode<'q, Postgres> + Type<Postgres> + PgHasArrayType + 'q,
    {
        statement
            .bind(&self.ids)
            .bind(&self.event_types)
            .bind(&self.schema_versions)
            .bind(self.data.iter().copied().map(&json).collect::<Vec<_>>())
            .bind(self.metadata.iter().copied().map(&json).collect::<Vec<_>>())
            .bind(&self.created_at)
    }

    /// The same for one event.
    pub(super) fn bind_one_to<'q>(
        statement: Statement<'q>,
        record: &'q NewRecord,
        schema_version: i32,
    ) -> Statement<'q> {
        statement
            .bind(record.id)
            .bind(&record.event_type)
            .bind(schema_version)
            .bind(&record.data)
            .bind(&record.metadata)
            .bind(record.created_at)
    }
}

impl<'a> Columns<'a> {
    pub(super) fn new(appends: &[&'a Prepared]) -> Self {
        let mut columns = Self::with_capacity(appends.iter().map(|append| append.records.len()).sum());
        // Per stream: its place in `streams`, counted from 1 as PostgreSQL counts.
        let mut known: HashMap<Uuid, i32> = HashMap::with_capacity(appends.len());
        // Its events so far.
        let mut steps: Vec<i32> = Vec::with_capacity(appends.len());
        for append in appends {
            for &(stream_id, expected) in &append.streams {
                known.entry(stream_id).or_insert_with(|| {
                    columns.streams.push(stream_id);
                    columns.names.push(None);
                    columns.expected.push(expectation(expected));
                    steps.push(0);
                    columns.streams.len() as i32
                });
            }
            // Most events go where the one before went.
            let mut last = None;
            for (record, schema_version) in append.records.iter().zip(&append.schema_versions) {
                let place = match last {
                    Some((stream_id, place)) if stream_id == record.stream_id => place,
                    _ => known[&record.stream_id],
                };
                last = Some((record.stream_id, place));
                if let (Some(name), at) = (&record.stream_name, place as usize - 1) {
                    columns.names[at].get_or_insert(name.as_str());
                }
                let step = &mut steps[place as usize - 1];
                *step += 1;
                columns.event_streams.push(place);
                columns.steps.push(*step);
                columns.events.push(record, *schema_version);
            }
        }
        columns
    }

    fn with_capacity(events: usize) -> Self {
        Self {
            streams: Vec::new(),
            names: Vec::new(),
            expected: Vec::new(),
            event_streams: Vec::with_capacity(events),
            steps: Vec::with_capacity(events),
            events: Events::with_capacity(events),
        }
    }

    /// Whether no stream is expected to exist, so that every version is known.
    pub(super) fn only_new_streams(&self) -> bool {
        self.expected.iter().all(|expected| *expected == Some(0))
    }

    /// The stream of each event.
    pub(super) fn stream_ids(&self) -> Vec<Uuid> {
        self.event_streams.iter().map(|place| self.streams[*place as usize - 1]).collect()
    }

    /// The name of the stream of each event; `None` when no stream has one.
    pub(super) fn stream_names(&self) -> Option<Vec<Option<&'a str>>> {
        let named = self.names.iter().any(Option::is_some);
        named.then(|| self.event_streams.iter().map(|place| self.names[*place as usize - 1]).collect())
    }

    /// The answers to the appends, whose streams were at `heads` and whose events got these numbers.
    ///
    /// # Errors
    /// When the server's answer is none to what was sent: it is checked, and not trusted.
    pub(super) fn answers(
        &self,
        appends: &[&Prepared],
        heads: &[i64],
        sequences: &[i64],
    ) -> Result<Vec<Appended>, sqlx::Error> {
        let wrong = |why: String| sqlx::Error::Decode(why.into());
        if sequences.len() != self.events.ids.len() || heads.len() != self.streams.len() {
            let (numbers, events) = (sequences.len(), self.events.ids.len());
            let (versions, streams) = (heads.len(), self.streams.len());
            return Err(wrong(format!(
                "the server gave {numbers} numbers for {events} events, and {versions} versions for {streams} streams"
            )));
        }
        if !sequences.is_sorted_by(|one, next| one < next) {
            return Err(wrong(format!("the server's numbers do not ascend in the order of the events: {sequences:?}")));
        }
        let mut positions = Vec::with_capacity(sequences.len());
        for ((sequence, stream), step) in sequences.iter().zip(&self.event_streams).zip(&self.steps) {
            let version = heads[*stream as usize - 1].checked_add(i64::from(*step)).unwrap_or(-1);
            positions.push(Position { stream_version: positive(version)?, global_sequence: positive(*sequence)? });
        }
        let mut positions = positions.into_iter();
        let answer = |append: &&Prepared| {
            let own = positions.by_ref().take(append.records.len()).collect();
            Appended::new(own, false).ok_or_else(|| wrong("an append has no events".to_owned()))
        };
        appends.iter().map(answer).collect()
    }
}

/// JSON text as `json`. What sqlx brings itself sends `jsonb`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Json<'a>(pub(super) &'a str);

impl Json<'_> {
    /// `json` and `json[]`, which never change.
    const OID: Oid = Oid(114);
    const ARRAY_OID: Oid = Oid(199);
}

impl Type<Postgres> for Json<'_> {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Self::OID)
    }
}

impl PgHasArrayType for Json<'_> {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Self::ARRAY_OID)
    }
}

impl Encode<'_, Postgres> for Json<'_> {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
}
