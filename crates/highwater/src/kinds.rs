//! Notices event types that occur in streams of different kinds. An event's type is the name of its variant alone, so two enums
//! with a variant of the same name are mixed up by whatever knows that name.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::lock::lock;
use crate::{EventTypes, Filter, Invalid, NewRecord, Record, StreamName};

/// Refuses what cannot be the kinds to choose from: nothing would ever come of it, in silence.
pub(crate) fn check_kinds(kinds: Option<&[String]>) -> Result<(), Invalid> {
    let reason = match kinds {
        None => return Ok(()),
        Some([]) => "it names no kind, so that no event would ever come".to_owned(),
        Some(kinds) => {
            let is_one =
                |kind: &&String| !kind.is_empty() && !kind.contains('/') && !kind.chars().any(char::is_control);
            match kinds.iter().find(|kind| !is_one(kind)) {
                None => return Ok(()),
                Some(kind) => {
                    format!("{kind:?} is no kind: it is what stands before the slash, as `order` of `order/17`")
                }
            }
        }
    };
    Err(Invalid::Setting { name: "of_kinds", reason })
}

/// Types that are remembered. An application that has more is not warned about the rest.
const TYPES_MAX: usize = 1_000;

/// In which kind of stream each type occurred first.
#[derive(Debug, Default)]
pub(crate) struct KindsOfTypes(HashMap<String, Seen>);

#[derive(Debug)]
struct Seen {
    kind: String,
    told: bool,
}

impl KindsOfTypes {
    /// The kind that the type occurred in before, when this one is another and it was not told yet.
    pub(crate) fn other_kind(&mut self, event_type: &str, name: &StreamName) -> Option<String> {
        let kind = name.kind();
        if let Some(seen) = self.0.get_mut(event_type) {
            let new = !seen.told && seen.kind != kind;
            seen.told |= new;
            return new.then(|| seen.kind.clone());
        }
        if self.0.len() < TYPES_MAX {
            self.0.insert(event_type.to_owned(), Seen { kind: kind.to_owned(), told: false });
        }
        None
    }

    /// Warns of types that a subscriber, or a live view, is handed from streams of different kinds. One that names kinds, or knows
    /// every type, means it so.
    pub(crate) fn check_read<'a>(
        &mut self,
        reader: &str,
        filter: &Filter,
        records: impl IntoIterator<Item = &'a Record>,
    ) {
        if filter.kinds.is_some() || filter.types == EventTypes::All {
            return;
        }
        for record in records {
            if let Some(name) = &record.stream_name
                && let Some(other) = self.other_kind(&record.event_type, name)
            {
                tracing::warn!(
                    reader,
                    event_type = record.event_type,
                    kinds = %format_args!("{other}, {}", name.kind()),
                    "events of one type come from streams of different kinds; if they are of different enums, rename one with \
                     #[serde(rename)], or ask for the kinds that are meant with of_kinds"
                );
            }
        }
    }
}

/// What a store has written: a backend has one, and brings it to [`Prepared::new`](crate::backend::Prepared::new).
#[derive(Debug, Default)]
pub struct KindsWritten(Mutex<KindsOfTypes>);

impl KindsWritten {
    /// Warns of types that are written to streams of different kinds. Costs nothing where streams have no names.
    pub(crate) fn check(&self, records: &[NewRecord]) {
        let mut last: Option<(&str, &StreamName)> = None;
        for record in records {
            let Some(name) = &record.stream_name else { continue };
            // Most events are like the one before.
            if last.replace((&record.event_type, name)) == Some((&record.event_type, name)) {
                continue;
            }
            if let Some(other) = lock(&self.0).other_kind(&record.event_type, name) {
                tracing::warn!(
                    event_type = record.event_type,
                    kinds = %format_args!("{other}, {}", name.kind()),
                    "events of one type are written to streams of different kinds; whatever reads that type is handed both: if \
                     they are of different enums, rename one with #[serde(rename)]"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_kind_is_refused() {
        let check = |kinds: &[&str]| check_kinds(Some(&kinds.iter().map(ToString::to_string).collect::<Vec<_>>()));
        assert!(check_kinds(None).is_ok() && check(&["order", "bike rental"]).is_ok());
        for kinds in [&[][..], &[""], &["order", "bike/"], &["a/b"], &["a\0"]] {
            assert!(matches!(check(kinds), Err(Invalid::Setting { name: "of_kinds", .. })), "{kinds:?}");
        }
    }

    #[test]
    fn a_type_in_streams_of_two_kinds_is_told_once() {
        let mut kinds = KindsOfTypes::default();
        let mut other = |event_type, name: &str| kinds.other_kind(event_type, &name.into());
        assert_eq!(other("Registered", "bike/1"), None);
        assert_eq!(other("Registered", "bike/2"), None);
        assert_eq!(other("Rented", "rental/1"), None);
        assert_eq!(other("Registered", "customer/1"), Some("bike".to_owned()));
        assert_eq!(other("Registered", "customer/2"), None);
    }
}
