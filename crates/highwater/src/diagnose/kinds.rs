//! Event types in streams of different kinds, and streams whose events have different names: what every backend finds alike.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

use super::Finding;
use crate::kinds::NEWEST_MAX;
use crate::{Backend, Error, Filter, Log, ReadLimit, StreamName};

const TOPIC: &str = "stream names";

/// What was found in a part of the log.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    /// The kinds of streams that each type occurs in.
    of_types: BTreeMap<String, BTreeSet<String>>,
    /// The first name of each stream, where one has events with others or without.
    differing: BTreeSet<String>,
}

impl Kinds {
    /// Looks at what is settled after a position, up to what is committed now.
    pub(crate) async fn since<L: Log + ?Sized>(log: &L, after: u64) -> Result<Self, Error> {
        let (mut position, mut found) = (after, Self::default());
        let end = log.head().await?;
        let mut names: HashMap<Uuid, Option<StreamName>> = HashMap::new();
        loop {
            let page = log.read_all(position, &Filter::ALL, ReadLimit::default()).await?;
            for record in page.records {
                if let Some(name) = &record.stream_name {
                    let kinds = found.of_types.entry(record.event_type).or_default();
                    if !kinds.contains(name.kind()) {
                        kinds.insert(name.kind().to_owned());
                    }
                }
                match names.get(&record.stream_id) {
                    None => drop(names.insert(record.stream_id, record.stream_name)),
                    Some(first) if *first == record.stream_name => {}
                    Some(first) => {
                        let named = first.as_ref().or(record.stream_name.as_ref());
                        found.differing.extend(named.map(|name| name.to_string()));
                    }
                }
            }
            if page.complete_to <= position || page.complete_to >= end {
                found.of_types.retain(|_, kinds| kinds.len() > 1);
                return Ok(found);
            }
            position = page.complete_to;
        }
    }

    /// Types in several kinds.
    pub(crate) fn mixed(self) -> BTreeMap<String, BTreeSet<String>> {
        self.of_types
    }
}

/// For backends: whether enums may be mixed up, and whether names are as the library writes them.
///
/// # Errors
/// When the log cannot be read.
pub async fn diagnose_kinds(store: &dyn Backend) -> Result<Vec<Finding>, Error> {
    let after = store.head().await?.saturating_sub(NEWEST_MAX);
    let Kinds { of_types, differing } = Kinds::since(store, after).await?;
    let mut findings: Vec<Finding> = of_types.iter().map(|(event_type, kinds)| mixed(event_type, kinds)).collect();
    if let Some(one) = differing.first() {
        let found = format!(
            "{} of the streams with the newest events, {one} among them, have events without their name or with another: those \
             that come before it was named, or that were inserted without it",
            differing.len()
        );
        let advice =
            "subscribers of a kind leave those events out; a writer that inserts rows by itself fills in stream_name";
        findings.push(Finding::note(TOPIC, found, advice));
    }
    if findings.is_empty() {
        findings.push(Finding::good(TOPIC, "among the newest events, every type occurs in streams of one kind"));
    }
    Ok(findings)
}

fn mixed(event_type: &str, kinds: &BTreeSet<String>) -> Finding {
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let found = format!("{event_type} occurs in streams of different kinds: {}", kinds.join(", "));
    let advice = "if they are of different enums, whatever knows the name is handed both: rename one with #[serde(rename)], and \
                  ask for kinds with of_kinds; if one enum writes both on purpose, leave it so, and silence the library's \
                  warning with the filter highwater::kinds=error";
    Finding::warning(TOPIC, found, advice)
}
