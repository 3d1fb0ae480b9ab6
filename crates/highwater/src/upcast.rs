//! Old events, read as new ones.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::{BoxError, EventTypes, Invalid, NewRecord};

type Upcast = Arc<dyn Fn(Value) -> Result<Value, BoxError> + Send + Sync>;

/// How records of older layouts become records of the current one: a registry keyed by event type and schema version,
/// applied on every typed read. What is stored never changes.
///
/// The version that new events of a type are stored with follows from it: the highest that an upcaster leads to, or 1.
///
/// ```
/// use highwater::Upcasters;
/// use serde_json::json;
///
/// let upcasters = Upcasters::new()
///     // v1 had no currency.
///     .upcast(("Placed", 1), ("Placed", 2), |mut data| {
///         data["currency"] = json!("EUR");
///         Ok(data)
///     })?
///     // Before that, the event had another name.
///     .upcast(("OrderCreated", 1), ("Placed", 1), Ok)?;
/// assert_eq!(upcasters.current_version("Placed"), 2);
/// # Ok::<(), highwater::Invalid>(())
/// ```
#[derive(Clone, Default)]
pub struct Upcasters {
    steps: HashMap<String, HashMap<u32, Step>>,
}

#[derive(Clone)]
struct Step {
    event_type: String,
    schema_version: u32,
    upcast: Upcast,
}

/// What a record became.
pub(crate) struct Upcasted {
    pub(crate) event_type: String,
    pub(crate) schema_version: u32,
    pub(crate) data: String,
}

impl Upcasters {
    /// None: events are read as they are stored.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one step, from a type at a version to a type at a version. Steps are followed one after the other.
    ///
    /// # Errors
    /// [`Invalid::Upcaster`] when there is a step from there already, or when the steps would go in a circle.
    pub fn upcast<F>(mut self, from: (&str, u32), to: (&str, u32), upcast: F) -> Result<Self, Invalid>
    where
        F: Fn(Value) -> Result<Value, BoxError> + Send + Sync + 'static,
    {
        let refuse = |reason| Invalid::Upcaster { event_type: from.0.to_owned(), schema_version: from.1, reason };
        if self.step(from.0, from.1).is_some() {
            return Err(refuse("there is one already"));
        }
        let mut at = to;
        loop {
            if at == from {
                return Err(refuse("it would lead back to where it starts"));
            }
            match self.step(at.0, at.1) {
                Some(step) => at = (&step.event_type, step.schema_version),
                None => break,
            }
        }
        let step = Step { event_type: to.0.to_owned(), schema_version: to.1, upcast: Arc::new(upcast) };
        self.steps.entry(from.0.to_owned()).or_default().insert(from.1, step);
        Ok(self)
    }

    /// The version that new events of this type are stored with.
    #[must_use]
    pub fn current_version(&self, event_type: &str) -> u32 {
        let steps = self.steps.values().flat_map(HashMap::values);
        steps.filter(|step| step.event_type == event_type).map(|step| step.schema_version).max().unwrap_or(1)
    }

    /// The version that `record` is stored with: its own, or for 0 the current one.
    #[must_use]
    pub fn version_to_store(&self, record: &NewRecord) -> u32 {
        match record.schema_version {
            0 => self.current_version(&record.event_type),
            version => version,
        }
    }

    /// The types under which events of `types` may be stored: themselves and whatever becomes one of them.
    #[must_use]
    pub fn stored_types(&self, types: &EventTypes) -> EventTypes {
        let EventTypes::Only(types) = types else { return EventTypes::All };
        let mut stored = types.clone();
        // Grows until nothing new leads into it; every round but the last adds a name.
        loop {
            let leads_in = |steps: &HashMap<u32, Step>| steps.values().any(|step| stored.contains(&step.event_type));
            let new: Vec<String> = (self.steps.iter())
                .filter(|(from, steps)| !stored.contains(from) && leads_in(steps))
                .map(|(from, _)| from.clone())
                .collect();
            if new.is_empty() {
                return EventTypes::Only(stored);
            }
            stored.extend(new);
        }
    }

    fn step(&self, event_type: &str, schema_version: u32) -> Option<&Step> {
        self.steps.get(event_type)?.get(&schema_version)
    }

    /// Follows the steps from a stored record. `None`: there are none, read it as it is.
    pub(crate) fn apply(
        &self,
        event_type: &str,
        schema_version: u32,
        data: &str,
    ) -> Result<Option<Upcasted>, BoxError> {
        let Some(mut step) = self.step(event_type, schema_version) else { return Ok(None) };
        let mut value: Value = serde_json::from_str(data)?;
        loop {
            value = (step.upcast)(value)?;
            match self.step(&step.event_type, step.schema_version) {
                Some(next) => step = next,
                None => break,
            }
        }
        Ok(Some(Upcasted {
            event_type: step.event_type.clone(),
            schema_version: step.schema_version,
            data: serde_json::to_string(&value)?,
        }))
    }
}

impl fmt::Debug for Upcasters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps =
            self.steps.iter().flat_map(|(from, steps)| steps.iter().map(move |(version, to)| (from, version, to)));
        f.debug_list()
            .entries(
                steps.map(|(from, version, to)| {
                    format!("{from} v{version} -> {} v{}", to.event_type, to.schema_version)
                }),
            )
            .finish()
    }
}
