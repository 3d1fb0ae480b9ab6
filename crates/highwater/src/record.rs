//! Events as they are stored: JSON text instead of types.

use chrono::{DateTime, Utc};
use uuid::Uuid;

/// One stored event, undecoded. `data` and `metadata` are JSON text exactly as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The event's id.
    pub id: Uuid,
    /// The stream it belongs to.
    pub stream_id: Uuid,
    /// Its place in the stream, from 1.
    pub stream_version: u64,
    /// Its place in the log.
    pub global_sequence: u64,
    /// Its type.
    pub event_type: String,
    /// The version of the type's layout, from 1.
    pub schema_version: u32,
    /// What happened.
    pub data: String,
    /// What is known besides.
    pub metadata: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

impl Record {
    /// The size that limits on reading count: text, plus a flat rate for the rest.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.data.len() + self.metadata.len() + self.event_type.len() + 64
    }
}

/// One event on its way into the log: checked, complete but for the numbers that the log gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// The event's id.
    pub id: Uuid,
    /// The stream it goes to.
    pub stream_id: Uuid,
    /// Its type.
    pub event_type: String,
    /// The version of the type's layout.
    pub schema_version: u32,
    /// What happened, as JSON text.
    pub data: String,
    /// What is known besides, as the text of a JSON object.
    pub metadata: String,
    /// When it was made, in whole microseconds.
    pub created_at: DateTime<Utc>,
}
