//! What is known about an event besides what happened.

use std::fmt::Display;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{Event, Invalid};

const CORRELATION_ID: &str = "correlation_id";
const CAUSATION_ID: &str = "causation_id";
const ACTOR: &str = "actor";

/// A free JSON object that travels with an event. Three of its keys have dedicated methods here.
///
/// ```
/// use highwater::Metadata;
/// let metadata = Metadata::new().with_correlation_id("req-7").with_actor("anna").with("ip", "10.0.0.1");
/// assert_eq!(metadata.correlation_id(), Some("req-7"));
/// assert_eq!(metadata.to_json(), r#"{"actor":"anna","correlation_id":"req-7","ip":"10.0.0.1"}"#);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata(Map<String, Value>);

impl Metadata {
    /// No metadata: `{}`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Metadata for what is done because of `event`: caused by it, and correlated with whatever it is correlated with
    /// (or with itself, when it began the conversation).
    #[must_use]
    pub fn caused_by<D>(event: &Event<D>) -> Self {
        let metadata = Self::new().with_causation_id(event.id);
        match event.metadata.correlation_id() {
            Some(correlation) => metadata.with_correlation_id(correlation),
            None => metadata.with_correlation_id(event.id),
        }
    }

    /// Sets the id that all events of one conversation share.
    #[must_use]
    pub fn with_correlation_id(self, id: impl Display) -> Self {
        self.with(CORRELATION_ID, id.to_string())
    }

    /// Sets the id of the event or command that caused this one.
    #[must_use]
    pub fn with_causation_id(self, id: impl Display) -> Self {
        self.with(CAUSATION_ID, id.to_string())
    }

    /// Sets who did it.
    #[must_use]
    pub fn with_actor(self, actor: impl Into<String>) -> Self {
        self.with(ACTOR, actor.into())
    }

    /// Sets any other key.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.0.insert(key.into(), value.into());
        self
    }

    /// With the keys of another; of the same key its value counts.
    pub(crate) fn merged(mut self, other: &Self) -> Self {
        self.0.extend(other.0.iter().map(|(key, value)| (key.clone(), value.clone())));
        self
    }

    /// The id that all events of one conversation share.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&str> {
        self.get(CORRELATION_ID)?.as_str()
    }

    /// The id of the event or command that caused this one.
    #[must_use]
    pub fn causation_id(&self) -> Option<&str> {
        self.get(CAUSATION_ID)?.as_str()
    }

    /// [`causation_id`](Self::causation_id) as the id of an event, when it is one.
    #[must_use]
    pub fn causation_event(&self) -> Option<Uuid> {
        self.causation_id()?.parse().ok()
    }

    /// Who did it.
    #[must_use]
    pub fn actor(&self) -> Option<&str> {
        self.get(ACTOR)?.as_str()
    }

    /// The value of any key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// The object itself.
    #[must_use]
    pub fn as_object(&self) -> &Map<String, Value> {
        &self.0
    }

    /// The object as JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        if self.0.is_empty() {
            return "{}".to_owned();
        }
        serde_json::to_string(&self.0).expect("a map of JSON values with string keys is always JSON")
    }

    /// Reads metadata from JSON text, which must be an object.
    ///
    /// # Errors
    /// [`Invalid::MetadataNotAnObject`].
    pub fn from_json(text: &str) -> Result<Self, Invalid> {
        if text == "{}" {
            return Ok(Self::default());
        }
        serde_json::from_str(text).map(Self).map_err(|_| Invalid::MetadataNotAnObject)
    }
}

impl From<Map<String, Value>> for Metadata {
    fn from(object: Map<String, Value>) -> Self {
        Self(object)
    }
}
