//! Running operations one after the other.

use std::collections::HashMap;

use highwater::backend::{Log, Record, StreamRead};
use highwater::{Append, Appended, Error, Limits};
use uuid::Uuid;

use super::{Answer, Operation, Transcript};
use crate::support::{Reader, assert_fits, head, stream_in_pages, within};

/// Runs operations one after the other. Nothing else may append to the store meanwhile.
///
/// # Panics
/// When the store breaks the contract in a way that can be seen without comparing it to another.
pub async fn run<L: Log + ?Sized>(store: &L, operations: &[Operation]) -> Transcript {
    let mut run = Run::default();
    let mut answers = Vec::with_capacity(operations.len());
    for operation in operations {
        answers.push(run.operation(store, operation).await);
    }
    Transcript(answers)
}

#[derive(Default)]
struct Run {
    /// The `global_sequence` of every event that was stored, ascending.
    sequences: Vec<u64>,
    versions: HashMap<Uuid, u64>,
}

impl Run {
    async fn operation<L: Log + ?Sized>(&mut self, store: &L, operation: &Operation) -> Answer {
        match operation {
            Operation::Append(append) => match within("an append", store.append(append)).await {
                Ok(done) => self.appended(append, done),
                Err(error) => Answer::Refused(self.reason(append, &error)),
            },
            Operation::ReadStream { stream_id, from, direction, skip, types, limit } => {
                let (from, direction, limit, types) = (*from, *direction, *limit, types.clone());
                let read = StreamRead { from, direction, limit, types, after: self.after(*skip) };
                self.records(stream_in_pages(store, *stream_id, read).await)
            }
            Operation::ReadAll { skip, take, filter, limit } => {
                let mut reader = Reader::new(filter.clone(), *limit).starting_after(self.after(*skip));
                reader.catch_up_for(store, *take).await;
                reader.seen.truncate(*take);
                self.records(reader.seen)
            }
            Operation::Head => Answer::Head(self.rank(head(store).await)),
        }
    }

    /// The position after so many events.
    fn after(&self, skip: usize) -> u64 {
        skip.checked_sub(1).and_then(|last| self.sequences.get(last)).copied().unwrap_or(0)
    }

    /// Unknown numbers have no rank, and no two backends agree on them.
    fn rank(&self, global_sequence: u64) -> u64 {
        match self.sequences.binary_search(&global_sequence) {
            Ok(index) => index as u64 + 1,
            Err(0) if global_sequence == 0 => 0,
            Err(_) => u64::MAX,
        }
    }

    fn appended(&mut self, append: &Append, mut done: Appended) -> Answer {
        assert_fits(append, &done);
        if !done.repeated {
            let last = self.sequences.last().copied().unwrap_or(0);
            assert!(done.positions[0].global_sequence > last, "the order only ever grows");
            self.sequences.extend(done.positions.iter().map(|position| position.global_sequence));
            let records = append.checked(&Limits::default()).expect("what is stored is sound");
            for record in records.iter() {
                *self.versions.entry(record.stream_id).or_default() += 1;
            }
        }
        for position in &mut done.positions {
            position.global_sequence = self.rank(position.global_sequence);
        }
        done.global_sequence = self.rank(done.global_sequence);
        Answer::Appended(done)
    }

    fn records(&self, mut records: Vec<Record>) -> Answer {
        for record in &mut records {
            record.global_sequence = self.rank(record.global_sequence);
        }
        Answer::Records(records)
    }

    fn reason(&self, append: &Append, error: &Error) -> String {
        if let Error::Conflict { stream_id, expected, actual, .. } = error {
            let asked = append.streams().contains(&(*stream_id, *expected));
            let version = self.versions.get(stream_id).copied().unwrap_or(0);
            if asked && version == *actual && !expected.accepts(*actual) {
                return "a conflict, as it is".to_owned();
            }
        }
        error.to_string()
    }
}
