//! Who wrote for a subscriber, and when: checkpoints and rows never go back behind a newer term.

use std::collections::{BTreeMap, HashMap};

use super::facts::{Facts, life};
use super::finding::{Finding, count};
use crate::evidence::Violation;
use crate::record::Life;

/// One subscriber.
struct Written {
    /// Where it began, if its checkpoint was written at all.
    start: Option<u64>,
    position: u64,
    /// The highest term in the checkpoints, and in the rows.
    checkpoint_term: u64,
    row_term: u64,
    /// Who has written with a term.
    lives: HashMap<u64, Life>,
    older: Finding,
    shared: Finding,
    back: Finding,
}

impl Default for Written {
    fn default() -> Self {
        Self {
            start: None,
            position: 0,
            checkpoint_term: 0,
            row_term: 0,
            lives: HashMap::new(),
            older: Finding::new("G17"),
            shared: Finding::new("G17"),
            back: Finding::new("G16"),
        }
    }
}

impl Written {
    fn by(&mut self, term: u64, by: Life, what: impl FnOnce() -> String) {
        let first = *self.lives.entry(term).or_insert(by);
        if first != by {
            self.shared.line(|| format!("{} by {}; the term was that of {}", what(), life(by), life(first)));
        }
    }
}

pub(super) fn check(facts: &Facts<'_>) -> Vec<Violation> {
    let mut subscribers: BTreeMap<&str, Written> = BTreeMap::new();
    for write in &facts.evidence.audit {
        let written = subscribers.entry(&write.subscriber_id).or_default();
        let (to, term) = (write.global_sequence, write.term);
        let by = write.by.map_or_else(String::new, |by| format!(" by {}", life(by)));
        let what = || format!("write {}: checkpoint to {to} with term {term}", write.n);
        let start = *written.start.get_or_insert(to);
        if term < written.checkpoint_term {
            let newest = written.checkpoint_term;
            written.older.line(|| format!("{}{by}, after term {newest}", what()));
        }
        // Only a rebuild goes back: to the start, with a new term, and where there is something that can be rebuilt.
        let rebuilt = to == start && term > written.checkpoint_term && facts.rebuilds(&write.subscriber_id) > 0;
        if to < written.position && !rebuilt {
            let position = written.position;
            written.back.line(|| format!("{}{by}, back from {position}", what()));
        }
        if let Some(by) = write.by {
            written.by(term, by, what);
        }
        written.position = to;
        written.checkpoint_term = written.checkpoint_term.max(term);
    }
    for row in &facts.evidence.rows {
        let written = subscribers.entry(&row.subscriber_id).or_default();
        let what = || format!("row {}: event {} with term {}", row.n, row.global_sequence, row.term);
        if row.term < written.row_term {
            let newest = written.row_term;
            written.older.line(|| format!("{} by {}, after term {newest}", what(), life(row.by)));
        }
        written.row_term = written.row_term.max(row.term);
        written.by(row.term, row.by, what);
    }
    let told = subscribers.into_iter().flat_map(|(id, written)| {
        let older =
            written.older.told(|n| format!("{id}: an older term wrote after a newer one, {}", count(n, "time")));
        let shared = written.shared.told(|n| format!("{id}: two lives wrote with the same term, {}", count(n, "time")));
        let back =
            written.back.told(|n| format!("{id}: its checkpoint went back without a rebuild, {}", count(n, "time")));
        [older, shared, back]
    });
    told.flatten().collect()
}
