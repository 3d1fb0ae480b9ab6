//! Notices event types that occur in streams of different kinds. An event's type is the name of its variant alone, so two enums
//! with a variant of the same name are mixed up by whatever knows that name. And types that others write in a newer schema version.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use uuid::Uuid;

use crate::lock::lock;
use crate::{
    Backend, Error, EventTypes, Filter, Invalid, Log, NamedStream, NewRecord, ReadLimit, Record, StreamName, Upcasters,
};

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

/// Kinds that are remembered of a type. It has been told by then.
const KINDS_MAX: usize = 8;

/// In which kinds of streams each type occurred.
#[derive(Debug, Default)]
pub(crate) struct KindsOfTypes(HashMap<String, Vec<String>>);

impl KindsOfTypes {
    /// Whether nothing is known of the type, and there is room for it.
    fn is_new(&self, event_type: &str) -> bool {
        self.0.len() < TYPES_MAX && !self.0.contains_key(event_type)
    }

    /// The kinds that the type occurred in before, when this one is another.
    pub(crate) fn other_kinds(&mut self, event_type: &str, kind: &str) -> Option<String> {
        if let Some(kinds) = self.0.get_mut(event_type) {
            if kinds.len() >= KINDS_MAX || kinds.iter().any(|seen| seen == kind) {
                return None;
            }
            let others = kinds.join(", ");
            kinds.push(kind.to_owned());
            return Some(others);
        }
        if self.0.len() < TYPES_MAX {
            self.0.insert(event_type.to_owned(), vec![kind.to_owned()]);
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
                && let Some(other) = self.other_kinds(&record.event_type, name.kind())
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

/// So many of the newest numbers are looked at for what was written before: a log may have a thousand million.
pub(crate) const NEWEST_MAX: u64 = 20_000;

/// What a store has written: a backend has one, and brings it to [`Prepared::new`](crate::backend::Prepared::new).
#[derive(Debug, Default)]
pub struct KindsWritten(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    kinds: KindsOfTypes,
    /// Types that were written for the first time, each with its schema version, and not looked up yet.
    new: Vec<(String, u32)>,
}

impl Written {
    /// Warns of a type that is written to streams of different kinds.
    fn seen(&mut self, event_type: &str, kind: &str) {
        if let Some(other) = self.kinds.other_kinds(event_type, kind) {
            tracing::warn!(
                event_type,
                kinds = %format_args!("{other}, {kind}"),
                "events of one type are written to streams of different kinds; whatever reads that type is handed both: if \
                 they are of different enums, rename one with #[serde(rename)]"
            );
        }
    }
}

impl KindsWritten {
    /// Warns of types that are written to streams of different kinds. Costs nothing where streams have no names.
    pub(crate) fn check(&self, records: &[NewRecord], upcasters: &Upcasters) {
        let mut last: Option<(&str, &StreamName)> = None;
        for record in records {
            let Some(name) = &record.stream_name else { continue };
            // Most events are like the one before.
            if last.replace((&record.event_type, name)) == Some((&record.event_type, name)) {
                continue;
            }
            let mut written = lock(&self.0);
            if written.kinds.is_new(&record.event_type) {
                written.new.push((record.event_type.clone(), upcasters.version_to_store(record)));
            }
            written.seen(&record.event_type, name.kind());
        }
    }

    /// For a backend that other processes write to as well: compares what was written for the first time with what the log has, once
    /// for each type. No append waits for it.
    pub fn look_back(&self, store: &dyn Backend) {
        let new = std::mem::take(&mut lock(&self.0).new);
        if !new.is_empty()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(compare(self.0.clone(), store.shared(), new));
        }
    }
}

/// That the log cannot be read says nothing about kinds, and is no trouble here.
async fn compare(written: Arc<Mutex<Written>>, store: Arc<dyn Backend>, new: Vec<(String, u32)>) {
    let mut versions: HashMap<String, u32> = new.into_iter().collect();
    let event_types: Vec<String> = versions.keys().cloned().collect();
    let Ok(head) = store.head().await else { return };
    let (mut position, filter) = (head.saturating_sub(NEWEST_MAX), Filter::from(EventTypes::only(event_types)));
    while let Ok(page) = store.read_all(position, &filter, ReadLimit::default()).await {
        for record in &page.records {
            if let Some(name) = &record.stream_name {
                lock(&written).seen(&record.event_type, name.kind());
            }
            if let Some(version) =
                versions.get(&record.event_type).copied().filter(|version| *version < record.schema_version)
            {
                warn_of_newer(record, version);
                // Once.
                versions.remove(&record.event_type);
            }
        }
        if page.complete_to <= position || page.complete_to >= head {
            return;
        }
        position = page.complete_to;
    }
}

/// Readers bring an event up to date from the version that it is stored with: one that is stored as older than it is, is changed once more.
fn warn_of_newer(record: &Record, version: u32) {
    tracing::warn!(
        event_type = record.event_type,
        appended = version,
        stored = record.schema_version,
        "this program appends an older schema version of a type than the log holds: unless it is being upgraded, open its store with the \
         upcasters that the other programs have"
    );
}

/// Kinds that are named when one is missing.
const NAMED_MAX: usize = 10;

/// What to say when readers ask for kinds that no stream is of, while there are streams of others: most likely they are misspelt, and
/// nothing ever comes. `None`: they are there, or no stream has a name yet.
///
/// # Errors
/// When the log cannot be read.
pub async fn missing_kinds<L: Log + ?Sized>(log: &L, wanted: &[String]) -> Result<Option<String>, Error> {
    let mut missing = Vec::new();
    for kind in wanted {
        if log.streams(&format!("{kind}/"), None, 1).await?.is_empty() {
            missing.push(kind.as_str());
        }
    }
    if missing.is_empty() {
        return Ok(None);
    }
    // From kind to kind: behind "order/…" comes "order0", because 0 is next to the slash.
    let (mut there, mut after): (Vec<String>, _) = (Vec::new(), None);
    while there.len() < NAMED_MAX
        && let Some(first) = log.streams("", after.as_ref(), 1).await?.into_iter().next()
    {
        let kind = first.name.kind().to_owned();
        let name = StreamName::from(format!("{kind}0").as_str());
        after = Some(NamedStream { name, stream_id: Uuid::nil(), version: 0 });
        there.push(kind);
    }
    let said =
        || format!("no stream is of the kind {}; there are streams of: {}", missing.join(", "), there.join(", "));
    Ok((!there.is_empty()).then(said))
}

/// Warns a reader that has everything there is, and asks for kinds that do not exist.
pub(crate) async fn warn_of_missing_kinds<L: Log + ?Sized>(reader: &str, log: &L, filter: &Filter) {
    let wanted = filter.kinds.as_deref().unwrap_or_default();
    // That the log cannot be read is said by what reads it.
    if let Ok(Some(said)) = missing_kinds(log, wanted).await {
        tracing::warn!(reader, "{said}; if the spelling is right, nothing is wrong");
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
        let mut other = |event_type, name: &str| kinds.other_kinds(event_type, StreamName::from(name).kind());
        assert_eq!(other("Registered", "bike/1"), None);
        assert_eq!(other("Registered", "bike/2"), None);
        assert_eq!(other("Rented", "rental/1"), None);
        assert_eq!(other("Registered", "customer/1"), Some("bike".to_owned()));
        assert_eq!(other("Registered", "customer/2"), None);
        assert_eq!(other("Registered", "shop/1"), Some("bike, customer".to_owned()), "a third kind is news");
        assert_eq!(other("Registered", "shop/2"), None);
    }
}
