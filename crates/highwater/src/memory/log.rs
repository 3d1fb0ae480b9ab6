//! The log in memory. One lock around everything, so an append is atomic and every position is settled at once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use uuid::Uuid;

use super::MemoryEventStore;
use crate::lock::lock;
use crate::stored::already_stored;
use crate::{
    Append, Appended, BoxFuture, Direction, Error, Filter, Log, NEWEST_AMONG, NamedStream, NewRecord, OpenWriter, Page,
    Position, Prepared, ReadLimit, Record, StreamPage, StreamRead, Upcasters, Wakeups,
};

#[derive(Debug, Default)]
pub(super) struct MemoryLog(Mutex<LogState>);

/// Records in order. There are holes between their numbers when the store was filled from one that has some.
#[derive(Debug, Default)]
pub(super) struct LogState {
    pub(super) records: Vec<Record>,
    /// Per stream, its records by version, as indexes into `records`.
    streams: HashMap<Uuid, Vec<usize>>,
    ids: HashMap<Uuid, usize>,
    /// Appends are numbered after this, also when there is no such record any more.
    numbered_to: u64,
    /// Which life of the log this is. Abandoning a filling begins the next: its numbers may be given to other events.
    life: u64,
}

impl MemoryLog {
    /// No panic can happen between two changes that belong together, so a poisoned lock guards a sound state.
    pub(super) fn state(&self) -> MutexGuard<'_, LogState> {
        lock(&self.0)
    }

    /// Which life of the log this is.
    pub(super) fn life(&self) -> u64 {
        self.state().life
    }

    /// The record of an event, by its id.
    pub(super) fn record(&self, id: Uuid) -> Option<Record> {
        let state = self.state();
        state.ids.get(&id).map(|at| state.records[*at].clone())
    }
}

impl LogState {
    pub(super) fn head(&self) -> u64 {
        self.records.last().map_or(0, |last| last.global_sequence)
    }

    pub(super) fn contains(&self, id: Uuid) -> bool {
        self.ids.contains_key(&id)
    }

    pub(super) fn version(&self, stream_id: Uuid) -> u64 {
        self.streams.get(&stream_id).map_or(0, |records| records.len() as u64)
    }

    /// Ids first, versions second, and only then the first change.
    fn append(&mut self, append: &Prepared) -> Result<Appended, Error> {
        let found = append.records.iter().filter_map(|new| self.ids.get(&new.id));
        let found: Vec<Record> = found.map(|at| self.records[*at].clone()).collect();
        if let Some(stored) = already_stored(&append.records, &found)? {
            return Ok(stored);
        }
        let heads = append.streams.iter().map(|(stream_id, _)| (*stream_id, self.version(*stream_id))).collect();
        if let Some(conflict) = append.conflict(&heads) {
            return Err(conflict);
        }
        let positions = append.complete().map(|new| self.push(new)).collect();
        Ok(Appended::new(positions, false).expect("an append has at least one event: it was checked"))
    }

    fn push(&mut self, mut new: NewRecord) -> Position {
        let stream_version = self.version(new.stream_id) + 1;
        // A stream keeps its name.
        let last = self.streams.get(&new.stream_id).and_then(|versions| versions.last());
        new.stream_name = last.and_then(|at| self.records[*at].stream_name.clone()).or(new.stream_name);
        let position = Position { stream_version, global_sequence: self.numbered_to + 1 };
        self.put(new.at(position));
        position
    }

    /// Stores a record as it is.
    pub(super) fn put(&mut self, record: Record) {
        let at = self.records.len();
        self.streams.entry(record.stream_id).or_default().push(at);
        self.ids.insert(record.id, at);
        self.numbered_to = self.numbered_to.max(record.global_sequence);
        self.records.push(record);
    }

    /// How many records there are up to a position.
    pub(super) fn count(&self, up_to: u64) -> usize {
        self.records.partition_point(|record| record.global_sequence <= up_to)
    }

    fn read_stream(&self, stream_id: Uuid, read: &StreamRead) -> StreamPage {
        let versions = self.streams.get(&stream_id).map_or(&[][..], Vec::as_slice);
        let to_index = |version: u64| usize::try_from(version).unwrap_or(usize::MAX).min(versions.len());
        let wanted: Box<dyn Iterator<Item = &usize>> = match read.direction {
            Direction::Forwards => Box::new(versions[to_index(read.from.saturating_sub(1))..].iter()),
            Direction::Backwards => Box::new(versions[..to_index(read.from)].iter().rev()),
        };
        let chosen = |record: &&Record| record.global_sequence > read.after && read.types.contains(&record.event_type);
        let mut wanted = wanted.map(|at| &self.records[*at]).filter(chosen).peekable();
        let records = take_page(&mut wanted, read.limit);
        StreamPage { records, end: wanted.peek().is_none() }
    }

    fn named(&self, prefix: &str, after: Option<&NamedStream>, limit: usize) -> Vec<NamedStream> {
        let named = |(stream_id, versions): (&Uuid, &Vec<usize>)| {
            let name = versions.first().and_then(|at| self.records[*at].stream_name.clone())?;
            Some(NamedStream { name, stream_id: *stream_id, version: versions.len() as u64 })
        };
        let wanted = |it: &NamedStream| {
            it.name.as_str().starts_with(prefix)
                && after.is_none_or(|after| (&it.name, it.stream_id) > (&after.name, after.stream_id))
        };
        let mut found: Vec<NamedStream> = self.streams.iter().filter_map(named).filter(wanted).collect();
        found.sort_by(|one, other| (&one.name, one.stream_id).cmp(&(&other.name, other.stream_id)));
        found.truncate(limit);
        found
    }

    fn newest_schema_version(&self, event_type: &str) -> Option<u32> {
        let mut of_type = self.records.iter().rev().filter(|record| record.event_type == event_type).peekable();
        let from = of_type.peek()?.global_sequence.saturating_sub(NEWEST_AMONG);
        of_type.take_while(|record| record.global_sequence >= from).map(|record| record.schema_version).max()
    }

    fn read_all(&self, after: u64, filter: &Filter, limit: ReadLimit) -> Page {
        let mut wanted = self.records[self.count(after)..].iter().filter(|record| filter.accepts(record)).peekable();
        let records = take_page(&mut wanted, limit);
        // Nothing more lets itself be found: then the whole log has been looked through, not just up to the last find.
        let complete_to = match (wanted.peek(), records.last()) {
            (Some(_), Some(last)) => last.global_sequence,
            (Some(_), None) => after,
            (None, _) => after.max(self.head()),
        };
        Page { records, complete_to, incarnation: self.life }
    }
}

/// As many records as the limit allows, but one at least.
fn take_page<'a>(wanted: &mut impl Iterator<Item = &'a Record>, limit: ReadLimit) -> Vec<Record> {
    let mut bytes = 0;
    let mut records = Vec::new();
    while records.len() < limit.events.max(1) && bytes < limit.bytes.max(1) {
        let Some(record) = wanted.next() else { break };
        bytes += record.bytes();
        records.push(record.clone());
    }
    records
}

impl MemoryEventStore {
    /// Several appends together or none of them.
    pub(super) fn append_together(&self, appends: &[Append]) -> Result<Vec<Appended>, Error> {
        let prepare = |append| Prepared::new(append, &self.limits, &self.upcasters, &self.kinds);
        let prepared: Vec<Prepared> = appends.iter().map(prepare).collect::<Result<_, _>>()?;
        let mut state = self.log.state();
        self.filling.check()?;
        let (before, numbered_to) = (state.records.len(), state.numbered_to);
        let mut done = Vec::with_capacity(prepared.len());
        for append in &prepared {
            match state.append(append) {
                Ok(appended) => done.push(appended),
                Err(error) => {
                    state.truncate(before);
                    state.numbered_to = numbered_to;
                    return Err(error);
                }
            }
        }
        let head = state.head();
        drop(state);
        if done.iter().any(|appended| !appended.repeated) {
            self.announce(head);
        }
        Ok(done)
    }
}

impl LogState {
    /// Removes everything, and begins another life.
    pub(super) fn clear(&mut self) {
        self.truncate(0);
        self.life += 1;
    }

    /// Removes everything from an index on.
    fn truncate(&mut self, from: usize) {
        for record in self.records.split_off(from) {
            self.ids.remove(&record.id);
            let emptied = self.streams.get_mut(&record.stream_id).is_some_and(|versions| {
                versions.pop();
                versions.is_empty()
            });
            if emptied {
                self.streams.remove(&record.stream_id);
            }
        }
    }
}

impl Log for MemoryEventStore {
    fn append<'a>(&'a self, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let mut done = self.append_together(std::slice::from_ref(append))?;
            Ok(done.pop().expect("one append went in, so one answer came out"))
        })
    }

    fn read_stream(&self, stream_id: Uuid, read: StreamRead) -> BoxFuture<'_, Result<StreamPage, Error>> {
        Box::pin(async move { Ok(self.log.state().read_stream(stream_id, &read)) })
    }

    fn read_all<'a>(&'a self, after: u64, filter: &'a Filter, limit: ReadLimit) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move { Ok(self.log.state().read_all(after, filter, limit)) })
    }

    fn streams<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a NamedStream>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<NamedStream>, Error>> {
        Box::pin(async move { Ok(self.log.state().named(prefix, after, limit)) })
    }

    fn record(&self, event_id: Uuid) -> BoxFuture<'_, Result<Option<Record>, Error>> {
        Box::pin(async move { Ok(self.log.record(event_id)) })
    }

    fn head(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move { Ok(self.log.state().head()) })
    }

    fn life(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move { Ok(self.log.life()) })
    }

    fn frontier(&self) -> BoxFuture<'_, Result<u64, Error>> {
        self.head()
    }

    /// None ever: an append in memory is over as soon as it has begun.
    fn open_writers(&self) -> BoxFuture<'_, Result<Vec<OpenWriter>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn newest_schema_version<'a>(&'a self, event_type: &'a str) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        Box::pin(async move { Ok(self.log.state().newest_schema_version(event_type)) })
    }

    fn upcasters(&self) -> &Upcasters {
        &self.upcasters
    }
}
