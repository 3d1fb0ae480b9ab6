//! What is committed, what is open, and what readers may see of it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use highwater::backend::{
    Direction, NamedStream, NewRecord, OpenWriter, Page, Position, ReadLimit, Record, StreamPage, StreamRead,
    already_stored,
};
use highwater::{Append, Appended, Error, Filter};
use tokio::time::Instant;
use uuid::Uuid;

use super::Flaw;

/// How long a reader with that flaw waits for a writer.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a transaction has drawn, and when.
#[derive(Clone)]
struct Numbers {
    drawn: Vec<u64>,
    at: Instant,
}

#[derive(Default)]
pub(super) struct DrawnState {
    transactions: u64,
    /// The last number drawn.
    drawn: u64,
    committed: BTreeMap<u64, Record>,
    ids: HashMap<Uuid, u64>,
    versions: HashMap<Uuid, u64>,
    /// By transaction, what it will bring to light and which numbers it holds.
    open: BTreeMap<u64, Vec<Record>>,
    numbers: BTreeMap<u64, Numbers>,
    /// Who holds a stream.
    holders: HashMap<Uuid, u64>,
    /// Which life of the log this is.
    life: u64,
}

impl DrawnState {
    pub(super) fn next_transaction(&mut self) -> u64 {
        self.transactions += 1;
        self.transactions
    }

    pub(super) fn is_anything_open(&self) -> bool {
        !self.open.is_empty()
    }

    pub(super) fn drawn(&self) -> u64 {
        self.drawn
    }

    pub(super) fn life(&self) -> u64 {
        self.life
    }

    pub(super) fn head(&self) -> u64 {
        self.committed.last_key_value().map_or(0, |(last, _)| *last)
    }

    pub(super) fn count(&self, up_to: u64) -> u64 {
        self.committed.range(..=up_to).count() as u64
    }

    pub(super) fn newest_schema_version(&self, event_type: &str) -> Option<u32> {
        let of_type = self.committed.values().filter(|record| record.event_type == event_type);
        of_type.map(|record| record.schema_version).max()
    }

    /// Stores a record as it is.
    pub(super) fn put(&mut self, record: Record) {
        self.drawn = self.drawn.max(record.global_sequence);
        self.versions.insert(record.stream_id, record.stream_version);
        self.ids.insert(record.id, record.global_sequence);
        self.committed.insert(record.global_sequence, record);
    }

    /// Forgets everything but what was drawn, and begins another life.
    pub(super) fn clear(&mut self) {
        self.committed.clear();
        self.ids.clear();
        self.versions.clear();
        self.life += 1;
    }

    pub(super) fn open_writers(&self) -> Vec<OpenWriter> {
        self.numbers.keys().map(|transaction| OpenWriter::new(transaction.to_string())).collect()
    }

    /// Draws numbers, which hold readers back until the transaction ends.
    pub(super) fn draw(&mut self, transaction: u64, count: usize) {
        let first = self.drawn + 1;
        self.drawn += count as u64;
        self.numbers.insert(transaction, Numbers { drawn: (first..=self.drawn).collect(), at: Instant::now() });
    }

    /// Takes a stream, unless another transaction has it.
    pub(super) fn hold(&mut self, transaction: u64, stream_id: Uuid) -> bool {
        *self.holders.entry(stream_id).or_insert(transaction) == transaction
    }

    /// `None` while another transaction is at work on the same streams or ids.
    pub(super) fn begin(
        &mut self,
        transaction: u64,
        append: &Append,
        new: &[NewRecord],
    ) -> Result<Option<Appended>, Error> {
        let held = |stream_id: &Uuid| self.holders.get(stream_id).is_some_and(|holder| *holder != transaction);
        let in_flight = |new: &NewRecord| self.open.values().flatten().any(|record| record.id == new.id);
        if append.streams().iter().any(|(stream_id, _)| held(stream_id)) || new.iter().any(in_flight) {
            return Ok(None);
        }
        let found: Vec<Record> =
            new.iter().filter_map(|new| self.ids.get(&new.id)).map(|at| self.committed[at].clone()).collect();
        if let Some(stored) = already_stored(new, &found)? {
            return Ok(Some(stored));
        }
        for &(stream_id, expected) in append.streams() {
            let actual = self.versions.get(&stream_id).copied().unwrap_or(0);
            if !expected.accepts(actual) {
                return Err(Error::Conflict { stream_id, stream_name: None, expected, actual });
            }
        }
        if !self.numbers.contains_key(&transaction) {
            self.draw(transaction, new.len());
        }
        let numbers = self.numbers[&transaction].drawn.clone();
        let records: Vec<Record> =
            new.iter().zip(numbers).map(|(new, number)| self.number(transaction, new, number)).collect();
        let place = |record: &Record| Position {
            stream_version: record.stream_version,
            global_sequence: record.global_sequence,
        };
        let appended = Appended::new(records.iter().map(place).collect(), false);
        self.open.insert(transaction, records);
        Ok(appended)
    }

    fn number(&mut self, transaction: u64, new: &NewRecord, global_sequence: u64) -> Record {
        self.holders.insert(new.stream_id, transaction);
        let version = self.versions.entry(new.stream_id).or_default();
        *version += 1;
        let last = self.committed.values().rfind(|record| record.stream_id == new.stream_id);
        let stream_name = last.and_then(|record| record.stream_name.clone()).or_else(|| new.stream_name.clone());
        Record {
            id: new.id,
            stream_id: new.stream_id,
            stream_name,
            stream_version: *version,
            global_sequence,
            event_type: new.event_type.clone(),
            schema_version: new.schema_version,
            data: new.data.clone(),
            metadata: new.metadata.clone(),
            created_at: new.created_at,
        }
    }

    pub(super) fn commit(&mut self, transaction: u64) {
        for record in self.end(transaction) {
            self.ids.insert(record.id, record.global_sequence);
            self.committed.insert(record.global_sequence, record);
        }
    }

    pub(super) fn roll_back(&mut self, transaction: u64, flaw: Option<Flaw>) {
        for record in self.end(transaction) {
            if flaw != Some(Flaw::SkipsVersionsOnRollback) {
                *self.versions.entry(record.stream_id).or_default() -= 1;
            }
        }
    }

    fn end(&mut self, transaction: u64) -> Vec<Record> {
        self.holders.retain(|_, holder| *holder != transaction);
        self.numbers.remove(&transaction);
        self.open.remove(&transaction).unwrap_or_default()
    }

    /// What a reader may see: all that is committed.
    fn visible(&self, flaw: Option<Flaw>) -> BTreeMap<u64, &Record> {
        let open = self.open.values().flatten().filter(|_| flaw == Some(Flaw::ShowsWhatIsOpen));
        self.committed.values().chain(open).map(|record| (record.global_sequence, record)).collect()
    }

    pub(super) fn read_stream(&self, stream_id: Uuid, read: &StreamRead, flaw: Option<Flaw>) -> StreamPage {
        let visible = self.visible(flaw);
        let mut records: Vec<&Record> = visible.into_values().filter(|record| record.stream_id == stream_id).collect();
        records.retain(|record| record.global_sequence > read.after && read.types.contains(&record.event_type));
        records.sort_by_key(|record| record.stream_version);
        match read.direction {
            Direction::Forwards => records.retain(|record| record.stream_version >= read.from),
            Direction::Backwards => {
                records.retain(|record| record.stream_version <= read.from);
                records.reverse();
            }
        }
        let (records, end) = page(records.into_iter(), read.limit);
        StreamPage { records, end }
    }

    pub(super) fn streams(&self, prefix: &str, after: Option<&NamedStream>, limit: usize) -> Vec<NamedStream> {
        let first = self.committed.values().filter(|record| record.stream_version == 1);
        let named = |record: &Record| {
            let name = record.stream_name.clone()?;
            Some(NamedStream { name, stream_id: record.stream_id, version: self.versions[&record.stream_id] })
        };
        let mut streams: Vec<NamedStream> = first.filter_map(named).collect();
        streams.retain(|stream| stream.name.as_str().starts_with(prefix));
        let key = |stream: &NamedStream| (stream.name.clone(), stream.stream_id);
        streams.retain(|stream| after.is_none_or(|after| key(stream) > key(after)));
        streams.sort_by_key(key);
        streams.truncate(limit);
        streams
    }

    pub(super) fn record(&self, event_id: Uuid) -> Option<Record> {
        self.ids.get(&event_id).map(|at| self.committed[at].clone())
    }

    /// How far a reader may go.
    pub(super) fn settled(&self, filter: &Filter, flaw: Option<Flaw>) -> u64 {
        let naive = match flaw {
            Some(Flaw::ReadsNaively | Flaw::ShowsWhatIsOpen) => true,
            Some(Flaw::SettlesOnlyUnfilteredReads) => *filter != Filter::ALL,
            _ => false,
        };
        let waits_for = |numbers: &&Numbers| {
            let given_up = flaw == Some(Flaw::GivesUpOnSlowCommits) && numbers.at.elapsed() > PATIENCE;
            !naive && !given_up
        };
        let lowest_open = self.numbers.values().filter(waits_for).flat_map(|numbers| &numbers.drawn).min();
        let frontier = lowest_open.map_or(u64::MAX, |lowest| lowest - 1);
        self.visible(flaw).last_key_value().map_or(0, |(last, _)| *last).min(frontier)
    }

    pub(super) fn read_all(&self, after: u64, filter: &Filter, limit: ReadLimit, flaw: Option<Flaw>) -> Page {
        let (visible, settled) = (self.visible(flaw), self.settled(filter, flaw));
        let wanted = visible.into_values().filter(|record| {
            let at = record.global_sequence;
            after < at && at <= settled && filter.accepts(record)
        });
        let (records, end) = page(wanted, limit);
        let complete_to = match records.last() {
            Some(last) if !end => last.global_sequence,
            _ => after.max(settled),
        };
        Page { records, complete_to, incarnation: self.life }
    }
}

/// As many records as the limit allows, one at least, and whether those were all.
fn page<'a>(wanted: impl Iterator<Item = &'a Record>, limit: ReadLimit) -> (Vec<Record>, bool) {
    let mut wanted = wanted.peekable();
    let (mut records, mut bytes) = (Vec::new(), 0);
    while records.is_empty() || (records.len() < limit.events && bytes < limit.bytes) {
        let Some(record) = wanted.next() else { break };
        bytes += record.bytes();
        records.push(record.clone());
    }
    (records, wanted.peek().is_none())
}
