//! Events as they are stored: JSON text instead of types.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{Position, StreamId, StreamName};

/// One stored event, undecoded. `data` and `metadata` are JSON text exactly as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The event's id.
    pub id: Uuid,
    /// The stream it belongs to.
    pub stream_id: Uuid,
    /// What that stream is called, if it has a name.
    pub stream_name: Option<StreamName>,
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
    /// The stream it belongs to, with its name.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        StreamId::with_name(self.stream_id, self.stream_name.as_ref())
    }

    /// The size that limits on reading count: text, plus a flat rate for the rest.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let name = self.stream_name.as_ref().map_or(0, |name| name.as_str().len());
        self.data.len() + self.metadata.len() + self.event_type.len() + name + 64
    }
}

/// One event on its way into the log: checked, complete but for the numbers that the log gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// The event's id.
    pub id: Uuid,
    /// The stream it goes to.
    pub stream_id: Uuid,
    /// What the caller calls that stream. It is stored only where the stream has no name yet: a stream keeps its name.
    pub stream_name: Option<StreamName>,
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

impl NewRecord {
    /// The stream it goes to, with its name.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        StreamId::with_name(self.stream_id, self.stream_name.as_ref())
    }

    /// The event as it is stored there.
    #[must_use]
    pub fn at(self, position: Position) -> Record {
        Record {
            id: self.id,
            stream_id: self.stream_id,
            stream_name: self.stream_name,
            stream_version: position.stream_version,
            global_sequence: position.global_sequence,
            event_type: self.event_type,
            schema_version: self.schema_version,
            data: self.data,
            metadata: self.metadata,
            created_at: self.created_at,
        }
    }
}
