//! What happened, as the application sees it.

use chrono::{DateTime, SubsecRound, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::{IntoStreamId, Invalid, Metadata, StreamId, StreamName, codec};

/// Something that happened. `D` is the application's own enum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<D> {
    /// Names the event for ever; a UUIDv7 unless the caller brought its own.
    pub id: Uuid,
    /// The stream it belongs to.
    pub stream_id: Uuid,
    /// What that stream is called, where it has a name: `order/17`.
    pub stream_name: Option<StreamName>,
    /// Its place in the stream: contiguous, from 1. 0 before it is stored: "whatever comes next".
    pub stream_version: u64,
    /// Its place in the total order over all streams; `None` until it is stored.
    pub global_sequence: Option<u64>,
    /// The name of the variant of `data`, as serde writes it.
    pub event_type: String,
    /// The version of the data's layout, from 1; old ones are brought up to date when they are read. 0 before it is
    /// stored: "the current one".
    pub schema_version: u32,
    /// What happened.
    pub data: D,
    /// What is known besides.
    pub metadata: Metadata,
    /// When the event was made, in whole microseconds.
    pub created_at: DateTime<Utc>,
}

impl<D> Event<D> {
    /// Starts an event from nothing.
    ///
    /// ```
    /// use highwater::Event;
    /// #[derive(serde::Serialize)]
    /// enum Order { Shipped }
    /// let event = Event::builder().stream_id(highwater::stream_id("order", "17")).data(Order::Shipped).build()?;
    /// assert_eq!(event.event_type, "Shipped");
    /// assert_eq!(event.global_sequence, None);
    /// # Ok::<(), highwater::Invalid>(())
    /// ```
    #[must_use]
    pub fn builder() -> EventBuilder<D> {
        EventBuilder::default()
    }

    /// Takes the event apart to change something; everything else is kept.
    #[must_use]
    pub fn into_builder(self) -> EventBuilder<D> {
        self.into()
    }

    /// The stream it belongs to, with its name.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        StreamId::with_name(self.stream_id, self.stream_name.as_ref())
    }

    /// The same event seen through a narrower enum.
    ///
    /// # Errors
    /// Whatever the conversion says when this event is none of the narrower ones.
    pub fn to_subset_event<S>(&self) -> Result<Event<S>, S::Error>
    where
        D: Clone,
        S: TryFrom<D>,
    {
        Ok(self.with_data(S::try_from(self.data.clone())?))
    }

    /// The same event as one of a wider enum.
    #[must_use]
    pub fn to_superset_event<S>(&self) -> Event<S>
    where
        D: Clone,
        S: From<D>,
    {
        self.with_data(S::from(self.data.clone()))
    }

    fn with_data<S>(&self, data: S) -> Event<S> {
        Event {
            id: self.id,
            stream_id: self.stream_id,
            stream_name: self.stream_name.clone(),
            stream_version: self.stream_version,
            global_sequence: self.global_sequence,
            event_type: self.event_type.clone(),
            schema_version: self.schema_version,
            data,
            metadata: self.metadata.clone(),
            created_at: self.created_at,
        }
    }
}

/// Makes an [`Event`]. Stream and data are required; the type follows from the data.
#[derive(Debug, Clone)]
pub struct EventBuilder<D> {
    id: Option<Uuid>,
    stream: Option<StreamId>,
    stream_version: u64,
    global_sequence: Option<u64>,
    schema_version: u32,
    data: Option<D>,
    metadata: Metadata,
    created_at: Option<DateTime<Utc>>,
}

impl<D> Default for EventBuilder<D> {
    fn default() -> Self {
        Self {
            id: None,
            stream: None,
            stream_version: 0,
            global_sequence: None,
            schema_version: 0,
            data: None,
            metadata: Metadata::new(),
            created_at: None,
        }
    }
}

impl<D> EventBuilder<D> {
    /// The event's id. Default: a new UUIDv7.
    #[must_use]
    pub fn id(mut self, id: Uuid) -> Self {
        self.id = Some(id);
        self
    }

    /// The stream it belongs to. Required.
    #[must_use]
    pub fn stream_id(mut self, stream: impl IntoStreamId) -> Self {
        self.stream = Some(stream.into_stream_id());
        self
    }

    /// The version it must get when it is stored. Default: 0, whatever comes next.
    #[must_use]
    pub fn stream_version(mut self, stream_version: u64) -> Self {
        self.stream_version = stream_version;
        self
    }

    /// Its place in the log. The log gives it; set it only to describe an event that is stored already.
    #[must_use]
    pub fn global_sequence(mut self, global_sequence: u64) -> Self {
        self.global_sequence = Some(global_sequence);
        self
    }

    /// The version of the data's layout. Default: 0, the current one.
    #[must_use]
    pub fn schema_version(mut self, schema_version: u32) -> Self {
        self.schema_version = schema_version;
        self
    }

    /// What happened. Required.
    #[must_use]
    pub fn data(mut self, data: D) -> Self {
        self.data = Some(data);
        self
    }

    /// What is known besides.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// When it happened. Default: now. Kept in whole microseconds.
    #[must_use]
    pub fn created_at(mut self, created_at: DateTime<Utc>) -> Self {
        self.created_at = Some(created_at);
        self
    }

    /// Puts the event together.
    ///
    /// # Errors
    /// [`Invalid::Missing`] without stream or data; [`Invalid::NotAnEvent`] when the data is not an enum's variant.
    pub fn build(self) -> Result<Event<D>, Invalid>
    where
        D: Serialize,
    {
        let data = self.data.ok_or(Invalid::Missing("data"))?;
        let stream = self.stream.ok_or(Invalid::Missing("stream_id"))?;
        Ok(Event {
            id: self.id.unwrap_or_else(Uuid::now_v7),
            stream_id: stream.id(),
            stream_name: stream.name()?,
            stream_version: self.stream_version,
            global_sequence: self.global_sequence,
            event_type: codec::event_type_of(&data)?.to_owned(),
            schema_version: self.schema_version,
            data,
            metadata: self.metadata,
            created_at: self.created_at.unwrap_or_else(Utc::now).trunc_subsecs(6),
        })
    }
}

impl<D> From<Event<D>> for EventBuilder<D> {
    fn from(event: Event<D>) -> Self {
        Self {
            id: Some(event.id),
            stream: Some(event.stream()),
            stream_version: event.stream_version,
            global_sequence: event.global_sequence,
            schema_version: event.schema_version,
            data: Some(event.data),
            metadata: event.metadata,
            created_at: Some(event.created_at),
        }
    }
}
