//! Warns of a subscriber that reads more than the leader before it: its checkpoint has passed events that it wants now and was never
//! handed, and nothing else would tell.

use std::sync::Arc;
use std::time::Duration;

use crate::bus::Entry;
use crate::{Backend, Error, EventTypes, Filter, ReadLimit};

/// How long to look for such events. A long log that has none is not read to its end.
const LOOK_MAX: Duration = Duration::from_secs(10);

/// A subscriber that has begun to lead.
pub(super) struct Begun {
    subscriber_id: Arc<str>,
    reads: Arc<Filter>,
    /// After this position.
    after: u64,
}

impl Begun {
    pub(super) fn of(entry: &Entry) -> Option<Self> {
        let (reads, after) = entry.status.borrow().reads.clone()?;
        (after > 0).then(|| Self { subscriber_id: entry.id.clone(), reads, after })
    }
}

/// Compares what is read with what the reports say that are stored. Nothing waits for what is found.
pub(super) async fn compare(backend: &Arc<dyn Backend>, begun: Vec<Begun>) -> Result<(), Error> {
    if begun.is_empty() {
        return Ok(());
    }
    let reports = backend.reports().await?;
    for begun in begun {
        let report = reports.iter().find(|report| *report.subscriber_id == *begun.subscriber_id);
        if let Some(before) = report.and_then(|report| report.reads.clone())
            && let Some(more) = more(&before, &begun.reads)
        {
            tokio::spawn(warn(backend.clone(), begun, before, more));
        }
    }
    Ok(())
}

/// What to read to find events that were not read before; `None` if there are no such.
fn more(before: &Filter, now: &Filter) -> Option<Filter> {
    let is_in = |of: &Option<Vec<String>>, kind: &String| of.as_ref().is_none_or(|kinds| kinds.contains(kind));
    let more_kinds = match &now.kinds {
        None => before.kinds.is_some(),
        Some(kinds) => kinds.iter().any(|kind| !is_in(&before.kinds, kind)),
    };
    if more_kinds {
        return Some(now.clone());
    }
    let types = match (&before.types, &now.types) {
        (EventTypes::All, _) => return None,
        (_, EventTypes::All) => EventTypes::All,
        (EventTypes::Only(before), EventTypes::Only(now)) => {
            let new: Vec<String> = now.iter().filter(|name| !before.contains(name)).cloned().collect();
            if new.is_empty() {
                return None;
            }
            EventTypes::Only(new)
        }
    };
    Some(Filter { types, kinds: now.kinds.clone() })
}

async fn warn(backend: Arc<dyn Backend>, begun: Begun, before: Filter, more: Filter) {
    let looking = async {
        let mut position = 0;
        loop {
            let page = backend.read_all(position, &more, ReadLimit::default()).await?;
            let passed = |record: &&crate::Record| record.global_sequence <= begun.after && !before.accepts(record);
            if let Some(first) = page.records.iter().find(passed) {
                return Ok::<_, Error>(Some(first.clone()));
            }
            if page.complete_to <= position || page.complete_to >= begun.after {
                return Ok(None);
            }
            position = page.complete_to;
        }
    };
    // That the log cannot be read is said by what reads it.
    if let Ok(Ok(Some(first))) = tokio::time::timeout(LOOK_MAX, looking).await {
        tracing::warn!(
            subscriber = &*begun.subscriber_id,
            checkpoint = begun.after,
            event_type = first.event_type,
            stream = %first.stream(),
            global_sequence = first.global_sequence,
            "this subscriber reads more than it did before, and its checkpoint has passed events that it wants now, this one the first: \
             it was not handed them. To have them handled, rebuild it (with a transactional projection, raise its version)"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(types: &[&str]) -> Filter {
        EventTypes::only(types.iter().copied()).into()
    }

    #[test]
    fn what_is_read_besides_is_what_was_not_read_before() {
        assert_eq!(more(&only(&["A", "B"]), &only(&["B"])), None);
        assert_eq!(more(&only(&["A"]), &only(&["A", "B"])), Some(only(&["B"])));
        assert_eq!(more(&Filter::ALL, &only(&["A"])), None);
        assert_eq!(more(&only(&["A"]), &Filter::ALL), Some(Filter::ALL));
        let orders = only(&["A"]).of_kinds(["order"]);
        assert_eq!(more(&orders, &orders), None);
        assert_eq!(more(&only(&["A"]), &orders), None);
        assert_eq!(more(&orders, &only(&["A"])), Some(only(&["A"])));
        let both = only(&["A"]).of_kinds(["order", "bike"]);
        assert_eq!(more(&orders, &both), Some(both.clone()));
        let wider = only(&["A", "B"]).of_kinds(["order"]);
        assert_eq!(more(&orders, &wider), Some(only(&["B"]).of_kinds(["order"])));
    }
}
