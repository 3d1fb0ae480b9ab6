//! Running operations at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use highwater::backend::{Log, ReadLimit, StreamRead, lock};
use highwater::{Append, Appended, Error, EventTypes};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::draft::{Draft, TYPES};
use super::explain::explain;
use crate::support::{Reader, assert_fits, everything, seeded, stream_in_pages, within};

const STREAMS: usize = 5;

/// A call, with what was certain when it was made and what came of it.
pub(super) struct Call {
    pub(super) draft: Draft,
    pub(super) append: Append,
    /// The versions that the append's streams had reached at least.
    pub(super) versions: HashMap<Uuid, u64>,
    /// The `global_sequence` that had been reached at least.
    pub(super) global_sequence: u64,
    pub(super) answer: Result<Appended, Error>,
}

/// What all tasks know.
#[derive(Default)]
struct Known {
    streams: Vec<Uuid>,
    versions: HashMap<Uuid, u64>,
    global_sequence: u64,
    drafts: Vec<Draft>,
}

/// Has `tasks` tasks run `operations` random operations in all, at once and on the same streams, and then checks that
/// there is an order of the appends in which every answer makes sense. The store must be empty.
///
/// # Panics
/// When there is none, or when a reader was shown something that does not hold. The message names the seed.
pub async fn concurrent<L>(store: &L, seed: u64, tasks: usize, operations: usize)
where
    L: Log + Clone + 'static,
{
    let store = store.clone();
    seeded(seed, async move {
        let mut random = fastrand::Rng::with_seed(seed);
        let streams = (0..STREAMS).map(|_| Uuid::from_u128(random.u128(..))).collect();
        let known = Arc::new(Mutex::new(Known { streams, ..Known::default() }));
        let mut running = JoinSet::new();
        for _ in 0..tasks {
            let task =
                Task { store: store.clone(), random: random.fork(), known: Arc::clone(&known), calls: Vec::new() };
            running.spawn(task.run(operations.div_ceil(tasks.max(1))));
        }
        let (mut calls, mut readers) = (Vec::new(), Vec::new());
        for (done, reader) in within("random operations", running.join_all()).await {
            calls.extend(done);
            readers.push(reader);
        }
        let log = everything(&store).await;
        explain(&calls, &log).await;
        for mut reader in readers {
            reader.catch_up(&store).await;
            let wanted = log.iter().filter(|record| reader.filter.accepts(record));
            assert!(reader.seen.iter().eq(wanted), "a reader of {:?} has seen what there is", reader.filter);
        }
    })
    .await;
}

struct Task<L> {
    store: L,
    random: fastrand::Rng,
    known: Arc<Mutex<Known>>,
    calls: Vec<Call>,
}

impl<L: Log> Task<L> {
    async fn run(mut self, operations: usize) -> (Vec<Call>, Reader) {
        let types = if self.random.bool() { EventTypes::All } else { EventTypes::only([TYPES[0], TYPES[1]]) };
        let mut reader = Reader::new(types, ReadLimit::events(self.random.usize(1..20)));
        for _ in 0..operations {
            match self.random.u8(..10) {
                0..=5 => self.append().await,
                6 => self.read_stream().await,
                7 | 8 => {
                    reader.step(&self.store).await;
                }
                _ => tokio::task::yield_now().await,
            }
        }
        (self.calls, reader)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    /// Something new, or something that a caller has sent before or is sending just now.
    fn draft(&mut self) -> Draft {
        let mut random = self.random.fork();
        let mut known = self.known();
        if !known.drafts.is_empty() && random.u8(..5) == 0 {
            return known.drafts[random.usize(..known.drafts.len())].clone();
        }
        let version = |stream_id| known.versions.get(&stream_id).copied().unwrap_or(0);
        let draft = Draft::random(&mut random, &known.streams, version);
        known.drafts.push(draft.clone());
        draft
    }

    async fn append(&mut self) {
        let draft = self.draft();
        let append = draft.append();
        let (versions, global_sequence) = {
            let known = self.known();
            (known.versions.clone(), known.global_sequence)
        };
        let answer = within("an append", self.store.append(&append)).await;
        if let Ok(done) = &answer {
            assert_fits(&append, done);
            let mut known = self.known();
            known.global_sequence = known.global_sequence.max(done.global_sequence);
            for (record, position) in draft.records.iter().zip(&done.positions) {
                let version = known.versions.entry(record.stream_id).or_default();
                *version = position.stream_version.max(*version);
            }
        }
        self.calls.push(Call { draft, append, versions, global_sequence, answer });
    }

    async fn read_stream(&mut self) {
        let (stream_id, version) = {
            let which = self.random.usize(..STREAMS);
            let known = self.known();
            (known.streams[which], known.versions.get(&known.streams[which]).copied().unwrap_or(0))
        };
        let from = version.saturating_sub(5);
        let records = stream_in_pages(&self.store, stream_id, StreamRead::forwards(from)).await;
        let last = records.last().map_or(0, |record| record.stream_version);
        assert!(last >= version, "version {version} was acknowledged, but the stream ends at {last}");
    }
}
