//! An append on its way into a backend.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::{Append, Error, ExpectedVersion, Invalid, Limits, NewRecord, Upcasters};

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
    pub fn new(append: &Append, limits: &Limits, upcasters: &Upcasters) -> Result<Self, Invalid> {
        let records = append.checked(limits)?;
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

    /// The first of its streams that is not as expected, where streams are at these versions.
    #[must_use]
    pub fn conflict(&self, heads: &HashMap<Uuid, u64>) -> Option<Error> {
        self.streams.iter().find_map(|&(stream_id, expected)| {
            let actual = heads.get(&stream_id).copied()?;
            (!expected.accepts(actual)).then_some(Error::Conflict { stream_id, expected, actual })
        })
    }
}
