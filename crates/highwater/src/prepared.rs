//! An append on its way into a backend.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::{Append, Error, ExpectedVersion, Invalid, KindsWritten, Limits, NewRecord, Upcasters};

/// An append that was checked and is ready to be stored: what a backend works with.
#[derive(Debug)]
pub struct Prepared {
    /// Its streams, in the order they were named, with what is expected of each.
    pub streams: Vec<(Uuid, ExpectedVersion)>,
    /// Its events, complete but for the numbers that the log gives.
    pub records: Arc<Vec<NewRecord>>,
    /// What is stored as `schema_version` of each.
    pub schema_versions: Vec<i32>,
    /// Bytes of data and metadata.
    pub bytes: usize,
}

impl Prepared {
    /// Checks an append.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn new(append: &Append, limits: &Limits, upcasters: &Upcasters, kinds: &KindsWritten) -> Result<Self, Invalid> {
        let records = append.checked(limits)?;
        kinds.check(&records, upcasters);
        Ok(Self {
            streams: append.streams().to_vec(),
            schema_versions: records.iter().map(|record| upcasters.version_to_store(record).cast_signed()).collect(),
            bytes: records.iter().map(|record| record.data.len() + record.metadata.len()).sum(),
            records,
        })
    }

    /// The ids of its events, in order.
    #[must_use]
    pub fn ids(&self) -> Vec<Uuid> {
        self.records.iter().map(|record| record.id).collect()
    }

    /// The error for a stream of it that another transaction has held for so long.
    #[must_use]
    pub fn held(&self, waited: Duration) -> Error {
        let stream = |id: &Uuid| self.records.iter().find(|record| record.stream_id == *id).map(NewRecord::stream);
        let streams = self.streams.iter().map(|(id, _)| stream(id).unwrap_or_else(|| (*id).into()));
        Error::StreamHeld { streams: streams.collect(), waited }
    }

    /// Copies of its events, with what is stored as `schema_version`.
    pub fn complete(&self) -> impl Iterator<Item = NewRecord> + '_ {
        let complete = |(record, version): (&NewRecord, &i32)| NewRecord {
            schema_version: version.cast_unsigned(),
            ..record.clone()
        };
        self.records.iter().zip(&self.schema_versions).map(complete)
    }

    /// The first of its streams that is not as expected, where streams are at these versions.
    #[must_use]
    pub fn conflict(&self, heads: &HashMap<Uuid, u64>) -> Option<Error> {
        self.streams.iter().find_map(|&(stream_id, expected)| {
            let actual = heads.get(&stream_id).copied()?;
            if expected.accepts(actual) {
                return None;
            }
            // By the name that the append has for it.
            let record = self.records.iter().find(|record| record.stream_id == stream_id);
            let stream_name = record.and_then(|record| record.stream_name.clone());
            Some(Error::Conflict { stream_id, stream_name, expected, actual })
        })
    }
}
