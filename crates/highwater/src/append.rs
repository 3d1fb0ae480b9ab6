//! An append is a value: its ids are drawn when it is made, so it can be sent again after a lost answer.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use chrono::{Datelike, SubsecRound, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::limits::EVENT_BYTES_BOUND;
use crate::{Event, IntoStreamId, Invalid, Limits, Metadata, NewRecord, StreamName, codec};

/// What an append expects of a stream before it is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ExpectedVersion {
    /// Nothing: append after whatever is there.
    #[default]
    Any,
    /// The stream has no event yet.
    NoStream,
    /// The stream has at least one event.
    StreamExists,
    /// The stream's last event has this version. `Exact(0)` means the same as `NoStream`.
    Exact(u64),
}

impl ExpectedVersion {
    /// Whether a stream at version `actual` (0: it does not exist) is as expected.
    #[must_use]
    pub fn accepts(self, actual: u64) -> bool {
        match self {
            Self::Any => true,
            Self::NoStream => actual == 0,
            Self::StreamExists => actual > 0,
            Self::Exact(version) => actual == version,
        }
    }
}

impl fmt::Display for ExpectedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any version"),
            Self::NoStream => f.write_str("no stream"),
            Self::StreamExists => f.write_str("an existing stream"),
            Self::Exact(version) => write!(f, "version {version}"),
        }
    }
}

/// Events to be stored together or not at all, to one stream or to several.
///
/// Ids and times are drawn when an event is added. Sending the same value twice stores it once: the second time
/// returns the positions of the first.
///
/// ```
/// use highwater::{Append, ExpectedVersion, stream_id};
/// #[derive(serde::Serialize)]
/// enum Account { Withdrawn { cents: i64 }, Deposited { cents: i64 } }
///
/// let transfer = Append::to(stream_id("account", "anna"))
///     .expecting(ExpectedVersion::Exact(4))
///     .event(Account::Withdrawn { cents: 500 })
///     .and_to(stream_id("account", "ben"))
///     .event(Account::Deposited { cents: 500 });
/// assert_eq!(transfer.event_ids().count(), 2);
/// ```
#[derive(Debug, Clone)]
pub struct Append {
    streams: Vec<(Uuid, ExpectedVersion)>,
    /// What the caller calls each of them.
    names: Vec<Option<StreamName>>,
    /// Where the next event goes: an index into `streams`.
    current: usize,
    /// Shared, so that sending an append copies none of it.
    events: Arc<Vec<NewRecord>>,
    metadata: String,
    /// The event that this is an answer to, and which of the answers: ids follow from it.
    answer: Option<(Uuid, String)>,
    /// The first thing that was wrong. Kept until the append is sent, so that building it reads as one sentence.
    invalid: Option<Invalid>,
}

impl Append {
    /// An append to a stream, expecting nothing of it.
    #[must_use]
    pub fn to(stream: impl IntoStreamId) -> Self {
        let empty = Self {
            streams: Vec::new(),
            names: Vec::new(),
            current: 0,
            events: Arc::default(),
            metadata: "{}".to_owned(),
            answer: None,
            invalid: None,
        };
        empty.and_to(stream)
    }

    /// What the current stream must be like for any of this to be stored.
    #[must_use]
    pub fn expecting(mut self, expected: ExpectedVersion) -> Self {
        self.streams[self.current].1 = expected;
        self
    }

    /// Continues with another stream: the events that follow go there, and are stored together with those before.
    #[must_use]
    pub fn and_to(mut self, stream: impl IntoStreamId) -> Self {
        let stream = stream.into_stream_id();
        let known = self.streams.iter().position(|(id, _)| *id == stream);
        self.current = known.unwrap_or_else(|| {
            self.streams.push((stream.id(), ExpectedVersion::Any));
            self.names.push(None);
            self.streams.len() - 1
        });
        match stream.name() {
            Ok(Some(name)) if self.names[self.current].is_none() => {
                // One name a stream: what was added before has it as well.
                for event in Arc::make_mut(&mut self.events).iter_mut().filter(|event| event.stream_id == stream) {
                    event.stream_name = Some(name.clone());
                }
                self.names[self.current] = Some(name);
            }
            Ok(_) => {}
            Err(invalid) => self.refuse(invalid),
        }
        self
    }

    /// Makes this an answer to an event, as sagas give: what is added from now on is caused by it and correlated with what it
    /// is correlated with, and gets ids that follow from the event and the step. So when the event is delivered again and
    /// answered again, the answer is stored once.
    ///
    /// `step` tells apart what is done because of the same event, over all sagas: `"payment/charge"`. **A step serves one append**:
    /// in a loop each append needs its own (`format!("payment/charge/{n}")`), because two equal ones under one step are the same
    /// answer given twice, and are stored once. The same step must always give the same answer: what depends on anything but the event (the time, a random number) is another payload
    /// the second time, and refused.
    #[must_use]
    pub fn in_answer_to<D>(mut self, event: &Event<D>, step: &str) -> Self {
        self.answer = Some((event.id, step.to_owned()));
        self.metadata(&Metadata::caused_by(event))
    }

    /// Adds an event. What cannot be stored is reported when the append is sent, and then nothing of it is stored.
    #[must_use]
    pub fn event<D: Serialize>(self, data: D) -> Self {
        let id = self.next_id();
        self.event_with_id(id, data)
    }

    /// Adds an event whose id the caller chose: one derived from a request makes that request idempotent.
    #[must_use]
    pub fn event_with_id<D: Serialize>(mut self, id: Uuid, data: D) -> Self {
        match codec::encode(&data) {
            Ok(encoded) => self.add(id, encoded.event_type.to_owned(), encoded.data),
            Err(invalid) => self.refuse(invalid),
        }
        self
    }

    /// Adds several events to the current stream.
    #[must_use]
    pub fn events<D: Serialize>(self, data: impl IntoIterator<Item = D>) -> Self {
        data.into_iter().fold(self, Self::event)
    }

    /// Adds an event by its type and the JSON text of its data, for callers that have no Rust type for it: gateways, tools,
    /// adapters. The text is checked, and stored as it is written.
    ///
    /// ```
    /// use highwater::{Append, stream_id};
    /// let append = Append::to(stream_id("order", "17")).raw("Placed", r#"{ "cents": 1299 }"#).raw("Shipped", "null");
    /// assert_eq!(append.event_ids().count(), 2);
    /// ```
    #[must_use]
    pub fn raw(self, event_type: impl Into<String>, json: impl Into<String>) -> Self {
        let id = self.next_id();
        self.raw_with_id(id, event_type, json)
    }

    /// [`raw`](Self::raw), with an id that the caller chose.
    #[must_use]
    pub fn raw_with_id(mut self, id: Uuid, event_type: impl Into<String>, json: impl Into<String>) -> Self {
        let data = json.into();
        match codec::check_json("the data", &data) {
            Ok(()) => self.add(id, event_type.into(), data),
            Err(invalid) => self.refuse(invalid),
        }
        self
    }

    /// Gives the event that was added last this schema version. Without it, or with 0, an event is stored with the current
    /// version of its type, as the store's [`Upcasters`](crate::Upcasters) have it.
    #[must_use]
    pub fn schema_version(mut self, schema_version: u32) -> Self {
        match Arc::make_mut(&mut self.events).last_mut() {
            Some(event) => event.schema_version = schema_version,
            None => {
                let reason = "it belongs to an event, and none was added before it".to_owned();
                self.refuse(Invalid::Setting { name: "schema_version", reason });
            }
        }
        self
    }

    /// Adds a record as it is, for tools that move events without knowing their types. Its `stream_id` is where it
    /// goes.
    #[must_use]
    pub fn record(mut self, mut record: NewRecord) -> Self {
        self = self.and_to(record.stream());
        if let Some(name) = record.stream_name.as_ref().filter(|name| !name.is_sound()) {
            self.refuse(name.refused(record.stream_id));
        }
        record.stream_name.clone_from(&self.names[self.current]);
        record.created_at = record.created_at.trunc_subsecs(6);
        let sound = codec::check_json("the data", &record.data)
            .and_then(|()| codec::check_text("the metadata", &record.metadata))
            .and_then(|()| Metadata::from_json(&record.metadata).map(drop));
        match sound {
            Ok(()) => self.push(record),
            Err(invalid) => self.refuse(invalid),
        }
        self
    }

    /// Gives all events of this append, those added before and those added later, this metadata, besides what the append was given
    /// before: of the same key the later value counts. So `in_answer_to` and an actor go together, in either order.
    #[must_use]
    pub fn metadata(mut self, metadata: &Metadata) -> Self {
        let before = Metadata::from_json(&self.metadata).unwrap_or_default();
        self.metadata = before.merged(metadata).to_json();
        if let Err(invalid) = codec::check_text("the metadata", &self.metadata) {
            self.refuse(invalid);
        }
        for event in Arc::make_mut(&mut self.events) {
            event.metadata.clone_from(&self.metadata);
        }
        self
    }

    /// The ids of its events, in order.
    pub fn event_ids(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.events.iter().map(|event| event.id)
    }

    /// Its streams, in the order they were named, with what is expected of each.
    #[must_use]
    pub fn streams(&self) -> &[(Uuid, ExpectedVersion)] {
        &self.streams
    }

    /// Its events, checked against `limits`: what a [`Prepared`](crate::backend::Prepared) append is made of.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn checked(&self, limits: &Limits) -> Result<Arc<Vec<NewRecord>>, Invalid> {
        self.check(limits)?;
        Ok(self.events.clone())
    }

    /// An append of events that are complete already: each to its stream, at its version.
    pub(crate) fn of_events<D: Serialize>(events: &[Event<D>]) -> Result<Self, Invalid> {
        let Some(first) = events.first() else { return Err(Invalid::EmptyAppend) };
        let mut append = Self::to(first.stream());
        // Per stream of the append, the version its next event must have; 0 when that is left open.
        let mut wanted: Vec<u64> = Vec::new();
        for event in events {
            let encoded = codec::encode(&event.data)?;
            append = append.and_to(event.stream());
            match wanted.get_mut(append.current) {
                None => {
                    let version = event.stream_version;
                    append.streams[append.current].1 = match version {
                        0 => ExpectedVersion::Any,
                        _ => ExpectedVersion::Exact(version - 1),
                    };
                    wanted.push(if version == 0 { 0 } else { version.saturating_add(1) });
                }
                Some(next) => {
                    if event.stream_version != 0 && event.stream_version != *next {
                        let (stream_id, stream_name) = (event.stream_id, append.names[append.current].clone());
                        let (wanted, found) = (*next, event.stream_version);
                        return Err(Invalid::VersionsNotContiguous { stream_id, stream_name, wanted, found });
                    }
                    *next = if *next == 0 { 0 } else { next.saturating_add(1) };
                }
            }
            let metadata = event.metadata.to_json();
            codec::check_text("the metadata", &metadata)?;
            append.push(NewRecord {
                id: event.id,
                stream_id: event.stream_id,
                stream_name: append.names[append.current].clone(),
                event_type: encoded.event_type.to_owned(),
                schema_version: event.schema_version,
                data: encoded.data,
                metadata,
                created_at: event.created_at.trunc_subsecs(6),
            });
        }
        Ok(append)
    }

    /// The id of the next event: one that follows from what this is an answer to, or a new one.
    fn next_id(&self) -> Uuid {
        match &self.answer {
            Some((cause, step)) => Uuid::new_v5(cause, format!("{step}/{}", self.events.len()).as_bytes()),
            None => Uuid::now_v7(),
        }
    }

    /// Adds an event to the current stream, as of now.
    fn add(&mut self, id: Uuid, event_type: String, data: String) {
        self.push(NewRecord {
            id,
            stream_id: self.streams[self.current].0,
            stream_name: self.names[self.current].clone(),
            event_type,
            schema_version: 0,
            data,
            metadata: self.metadata.clone(),
            created_at: Utc::now().trunc_subsecs(6),
        });
    }

    fn push(&mut self, event: NewRecord) {
        Arc::make_mut(&mut self.events).push(event);
    }

    fn refuse(&mut self, invalid: Invalid) {
        self.invalid.get_or_insert(invalid);
    }

    fn check(&self, limits: &Limits) -> Result<(), Invalid> {
        if let Some(invalid) = &self.invalid {
            return Err(invalid.clone());
        }
        if self.events.is_empty() {
            return Err(Invalid::EmptyAppend);
        }
        if self.events.len() > limits.append_events_max {
            return Err(Invalid::TooManyEvents { count: self.events.len(), limit: limits.append_events_max });
        }
        let mut total = 0;
        for event in self.events.iter() {
            check_event(event, limits)?;
            total += event.data.len() + event.metadata.len();
        }
        if total > limits.append_bytes_max {
            return Err(Invalid::AppendTooLarge { bytes: total, limit: limits.append_bytes_max });
        }
        self.check_ids()?;
        self.check_streams()
    }

    fn check_ids(&self) -> Result<(), Invalid> {
        // Ids that were drawn one after the other are ascending, and need no looking up.
        if self.events.is_sorted_by(|a, b| a.id < b.id) {
            return Ok(());
        }
        let mut ids = HashSet::with_capacity(self.events.len());
        match self.events.iter().find(|event| !ids.insert(event.id)) {
            Some(event) => Err(Invalid::DuplicateId(event.id)),
            None => Ok(()),
        }
    }

    /// Every stream that is named has an event.
    fn check_streams(&self) -> Result<(), Invalid> {
        if self.streams.len() == 1 {
            return Ok(());
        }
        let used: HashSet<Uuid> = self.events.iter().map(|event| event.stream_id).collect();
        match self.streams.iter().zip(&self.names).find(|((stream, _), _)| !used.contains(stream)) {
            Some(((stream, _), name)) => Err(Invalid::NoEventFor { stream_id: *stream, stream_name: name.clone() }),
            None => Ok(()),
        }
    }
}

fn check_event(event: &NewRecord, limits: &Limits) -> Result<(), Invalid> {
    let limit = limits.event_type_bytes_max.min(255);
    let name = &event.event_type;
    if name.is_empty() || name.len() > limit || name.contains('\0') {
        let event_type = name.chars().take(80).collect();
        return Err(Invalid::EventType { event_type, limit });
    }
    let bytes = event.data.len() + event.metadata.len();
    let limit = limits.event_bytes_max.min(EVENT_BYTES_BOUND);
    if bytes > limit {
        return Err(Invalid::EventTooLarge { event_type: name.clone(), bytes, limit });
    }
    if event.schema_version > i32::MAX as u32 {
        return Err(Invalid::SchemaVersion(event.schema_version));
    }
    if !(1..=9999).contains(&event.created_at.year()) {
        return Err(Invalid::CreatedAt(event.created_at.to_string()));
    }
    Ok(())
}

/// Where an append was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// The place in the log of the append's last event: the highest of them all.
    pub global_sequence: u64,
    /// The version of the append's last event in its stream.
    pub stream_version: u64,
    /// The place of every event, in the order of the append.
    pub positions: Vec<Position>,
    /// Whether the append had been stored before, and these are the places it got then.
    pub repeated: bool,
}

/// Where one event was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Its version in its stream.
    pub stream_version: u64,
    /// Its place in the log.
    pub global_sequence: u64,
}

/// A place in the log. A distinct type, so that it is not mistaken for a version of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GlobalSequence(pub u64);

impl Appended {
    /// From the positions of an append's events, in its order. `None` when there are none.
    #[must_use]
    pub fn new(positions: Vec<Position>, repeated: bool) -> Option<Self> {
        let last = *positions.last()?;
        let Position { stream_version, global_sequence } = last;
        Some(Self { global_sequence, stream_version, positions, repeated })
    }
}
