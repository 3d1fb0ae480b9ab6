//! The events of several appends, column by column, as the functions in the database take them.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use highwater::Appended;
use highwater::backend::{Position, Prepared};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo};
use sqlx::{Encode, Postgres, Type};
use uuid::Uuid;

use super::expectation;
use crate::row::positive;

#[derive(Debug)]
pub(super) struct Columns<'a> {
    pub(super) streams: Vec<Uuid>,
    pub(super) expected: Vec<Option<i64>>,
    pub(super) event_streams: Vec<i32>,
    pub(super) steps: Vec<i32>,
    pub(super) ids: Vec<Uuid>,
    pub(super) event_types: Vec<&'a str>,
    pub(super) schema_versions: Vec<i32>,
    pub(super) data: Vec<&'a str>,
    pub(super) metadata: Vec<&'a str>,
    pub(super) created_at: Vec<DateTime<Utc>>,
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
                    columns.expected.push(expectation(expected));
                    steps.push(0);
                    columns.streams.len() as i32
                });
            }
            columns.schema_versions.extend(&append.schema_versions);
            // Most events go where the one before went.
            let mut last = None;
            for record in append.records.iter() {
                let place = match last {
                    Some((stream_id, place)) if stream_id == record.stream_id => place,
                    _ => known[&record.stream_id],
                };
                last = Some((record.stream_id, place));
                let step = &mut steps[place as usize - 1];
                *step += 1;
                columns.event_streams.push(place);
                columns.steps.push(*step);
                columns.ids.push(record.id);
                columns.event_types.push(&record.event_type);
                columns.data.push(&record.data);
                columns.metadata.push(&record.metadata);
                columns.created_at.push(record.created_at);
            }
        }
        columns
    }

    fn with_capacity(events: usize) -> Self {
        Self {
            streams: Vec::new(),
            expected: Vec::new(),
            event_streams: Vec::with_capacity(events),
            steps: Vec::with_capacity(events),
            ids: Vec::with_capacity(events),
            event_types: Vec::with_capacity(events),
            schema_versions: Vec::with_capacity(events),
            data: Vec::with_capacity(events),
            metadata: Vec::with_capacity(events),
            created_at: Vec::with_capacity(events),
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
        if sequences.len() != self.ids.len() || heads.len() != self.streams.len() {
            let (numbers, events) = (sequences.len(), self.ids.len());
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
