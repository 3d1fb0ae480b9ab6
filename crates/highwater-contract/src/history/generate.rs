//! Making up operations.

use std::collections::HashMap;

use highwater::backend::{Direction, NewRecord, ReadLimit};
use highwater::{Append, EventTypes, Filter};
use uuid::Uuid;

use super::Operation;
use super::draft::{self, Draft, TYPES};

/// How many streams a history has: few, so that much happens in each.
const STREAMS: usize = 8;
/// How many events one operation reads at most, so that long histories do not spend their time reading.
const READ_MAX: usize = 60;

/// Makes up operations. The same seed gives the same ones, down to ids and times.
#[must_use]
pub fn sequential(seed: u64, operations: usize) -> Vec<Operation> {
    let mut random = fastrand::Rng::with_seed(seed);
    let streams = (0..STREAMS).map(|_| Uuid::from_u128(random.u128(..))).collect();
    let mut history = History { random, streams, ..History::default() };
    (0..operations).map(|_| history.operation()).collect()
}

/// What is known of a history while it is made up: enough to make up interesting things.
#[derive(Default)]
struct History {
    random: fastrand::Rng,
    streams: Vec<Uuid>,
    versions: HashMap<Uuid, u64>,
    stored: Vec<Draft>,
    refused: Vec<Draft>,
    events: usize,
}

impl History {
    fn operation(&mut self) -> Operation {
        match self.random.u8(..100) {
            0..55 => Operation::Append(self.new_append()),
            55..63 => Operation::Append(self.repeated().unwrap_or_else(|| self.new_append())),
            63..67 => Operation::Append(self.sent_again().unwrap_or_else(|| self.new_append())),
            67..71 => Operation::Append(self.contradicting().unwrap_or_else(|| self.new_append())),
            71..74 => Operation::Append(self.half_known().unwrap_or_else(|| self.new_append())),
            74..77 => Operation::Append(self.bad()),
            77..87 => self.read_stream(),
            87..97 => self.read_all(),
            _ => Operation::Head,
        }
    }

    fn version(&self, stream_id: Uuid) -> u64 {
        self.versions.get(&stream_id).copied().unwrap_or(0)
    }

    fn stream(&mut self) -> Uuid {
        self.streams[self.random.usize(..self.streams.len())]
    }

    fn known(&mut self) -> Option<Draft> {
        (!self.stored.is_empty()).then(|| self.stored[self.random.usize(..self.stored.len())].clone())
    }

    /// Remembers what will become of a draft whose ids are all new.
    fn send(&mut self, draft: Draft) -> Append {
        let append = draft.append();
        if draft.is_accepted(|stream_id| self.version(stream_id)) {
            for record in &draft.records {
                *self.versions.entry(record.stream_id).or_default() += 1;
            }
            self.events += draft.records.len();
            self.stored.push(draft);
        } else {
            self.refused.push(draft);
        }
        append
    }

    fn new_append(&mut self) -> Append {
        let mut random = self.random.fork();
        let draft = Draft::random(&mut random, &self.streams, |stream_id| self.version(stream_id));
        self.send(draft)
    }

    fn repeated(&mut self) -> Option<Append> {
        Some(self.known()?.append())
    }

    /// Something that was refused, once more: perhaps it fits now.
    fn sent_again(&mut self) -> Option<Append> {
        let which = self.random.usize(..self.refused.len().max(1));
        if which >= self.refused.len() {
            return None;
        }
        let draft = self.refused.swap_remove(which);
        Some(self.send(draft))
    }

    /// Known ids, but one of the events is another.
    fn contradicting(&mut self) -> Option<Append> {
        let mut draft = self.known()?;
        let elsewhere = self.stream();
        let which = self.random.usize(..draft.records.len());
        let record: &mut NewRecord = &mut draft.records[which];
        match self.random.u8(..3) {
            0 => record.data = "{\"contradicting\":true}".to_owned(),
            1 => record.event_type.push('!'),
            _ if record.stream_id != elsewhere => record.stream_id = elsewhere,
            _ => record.data = "{}".to_owned(),
        }
        draft.streams.retain(|(stream_id, _)| draft.records.iter().any(|record| record.stream_id == *stream_id));
        if draft.streams.is_empty() {
            draft.streams.push((elsewhere, highwater::ExpectedVersion::Any));
        }
        Some(draft.append())
    }

    fn half_known(&mut self) -> Option<Append> {
        let mut draft = self.known()?;
        let stream_id = draft.streams[0].0;
        let at = self.random.usize(..=draft.records.len());
        draft.records.insert(at, draft::record(&mut self.random, stream_id));
        Some(draft.append())
    }

    fn bad(&mut self) -> Append {
        let stream_id = self.stream();
        let record = draft::record(&mut self.random, stream_id);
        match self.random.u8(..4) {
            0 => Append::to(stream_id),
            1 => Append::to(stream_id).record(record.clone()).record(record),
            2 => Append::to(stream_id).record(NewRecord { data: "\"\\u0000\"".to_owned(), ..record }),
            _ => Append::to(stream_id).record(NewRecord { event_type: String::new(), ..record }),
        }
    }

    fn limit(&mut self) -> ReadLimit {
        ReadLimit { events: self.random.usize(3..40), bytes: self.random.usize(500..20_000) }
    }

    fn types(&mut self) -> EventTypes {
        match self.random.u8(..4) {
            0 | 1 => EventTypes::All,
            2 => EventTypes::only([TYPES[0]]),
            _ => EventTypes::only([TYPES[1], TYPES[3], "Nobody"]),
        }
    }

    fn read_stream(&mut self) -> Operation {
        let stream_id = self.stream();
        let newest = self.version(stream_id);
        let oldest_wanted = newest.saturating_sub(READ_MAX as u64);
        let (from, direction) = match self.random.u8(..4) {
            0 => (self.random.u64(..=READ_MAX as u64), Direction::Backwards),
            1 => (u64::MAX, Direction::Forwards),
            _ => (self.random.u64(oldest_wanted..=newest + 1), Direction::Forwards),
        };
        let skip = if self.random.bool() { 0 } else { self.random.usize(..=self.events) };
        Operation::ReadStream { stream_id, from, direction, skip, types: self.types(), limit: self.limit() }
    }

    fn read_all(&mut self) -> Operation {
        let filter = match self.random.u8(..4) {
            0 => Filter::from(self.types()).of_kinds(["order"]),
            1 => Filter::ALL.of_kinds(["customer", "nobody"]),
            _ => self.types().into(),
        };
        let (skip, take) = (self.random.usize(..=self.events), self.random.usize(1..=READ_MAX));
        Operation::ReadAll { skip, take, filter, limit: self.limit() }
    }
}
