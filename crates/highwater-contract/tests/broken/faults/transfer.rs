//! Faults of being filled.
#![expect(clippy::ptr_arg, reason = "what changes a batch may make it shorter, and all changes have one type")]

use highwater::transfer::TransferError;
use std::sync::Mutex;

use highwater::backend::{
    Batch, BoxFuture, DeadLetterDetail, Diagnose, FilledCheckpoint, Filling, Finding, Log, Page, ReadLimit, Record,
    Request, Severity, Transfer, Unfinished,
};
use highwater::{Error, Filter, MemoryEventStore};

use crate::faulty::{Fault, Sound};

type Fill<'a> = BoxFuture<'a, Result<Box<dyn Filling>, Error>>;
type Done<'a> = BoxFuture<'a, Result<(), Error>>;

/// Changes what it is given, and then stores it.
#[derive(Clone, Copy)]
pub(crate) struct Fills {
    records: fn(&mut Vec<Record>),
    checkpoints: fn(&mut Vec<FilledCheckpoint>),
    dead_letters: fn(&mut Vec<DeadLetterDetail>),
    requests: fn(&mut Vec<Request>),
}

impl Fills {
    const SOUND: Self = Self { records: |_| (), checkpoints: |_| (), dead_letters: |_| (), requests: |_| () };

    pub(crate) fn records(change: fn(&mut Vec<Record>)) -> Self {
        Self { records: change, ..Self::SOUND }
    }

    pub(crate) fn checkpoints(change: fn(&mut Vec<FilledCheckpoint>)) -> Self {
        Self { checkpoints: change, ..Self::SOUND }
    }

    pub(crate) fn dead_letters(change: fn(&mut Vec<DeadLetterDetail>)) -> Self {
        Self { dead_letters: change, ..Self::SOUND }
    }

    pub(crate) fn requests(change: fn(&mut Vec<Request>)) -> Self {
        Self { requests: change, ..Self::SOUND }
    }
}

pub(crate) fn without_metadata(records: &mut Vec<Record>) {
    records.iter_mut().for_each(|record| record.metadata = "{}".to_owned());
}

pub(crate) fn without_holes(records: &mut Vec<Record>) {
    let first = records.first().map_or(0, |first| first.global_sequence);
    records.iter_mut().zip(first..).for_each(|(record, number)| record.global_sequence = number);
}

pub(crate) fn half(records: &mut Vec<Record>) {
    records.truncate(records.len().div_ceil(2));
}

pub(crate) fn not_paused(checkpoints: &mut Vec<FilledCheckpoint>) {
    checkpoints.iter_mut().for_each(|checkpoint| checkpoint.paused = false);
}

pub(crate) fn without_events(checkpoints: &mut Vec<FilledCheckpoint>) {
    checkpoints.iter_mut().for_each(|checkpoint| checkpoint.event_id = None);
}

pub(crate) fn without_attempts(dead_letters: &mut Vec<DeadLetterDetail>) {
    dead_letters.iter_mut().for_each(|detail| detail.attempts.clear());
}

pub(crate) fn open_ones(dead_letters: &mut Vec<DeadLetterDetail>) {
    dead_letters.retain(|detail| detail.dead_letter.state.is_open());
}

impl Fault for Fills {
    fn fill<'a>(&'a self, sound: &'a Sound, source: &'a str) -> Fill<'a> {
        Box::pin(async move {
            let inner = Some(sound.memory.fill(source).await?);
            Ok(Box::new(Tampered { changes: *self, inner, ..Tampered::SOUND }) as Box<dyn Filling>)
        })
    }
}

/// A filling in front of another one, or of none: then nothing is stored, and that is not said.
struct Tampered {
    inner: Option<Box<dyn Filling>>,
    changes: Fills,
    /// What is refused counts as stored.
    anything: bool,
    finishes: bool,
    abandons: bool,
    /// After the one behind it: fields are dropped in their order.
    dropped: Opens,
}

impl Tampered {
    const SOUND: Self = Self {
        inner: None,
        changes: Fills::SOUND,
        anything: false,
        finishes: true,
        abandons: true,
        dropped: Opens(None),
    };
}

/// What is made of a batch.
fn changed<T: Clone>(items: &[T], change: fn(&mut Vec<T>)) -> Vec<T> {
    let mut changed = items.to_vec();
    change(&mut changed);
    changed
}

impl Filling for Tampered {
    fn filled_to(&self) -> u64 {
        self.inner.as_ref().map_or(0, |inner| inner.filled_to())
    }

    fn put<'a>(&'a mut self, batch: Batch<'a>) -> Done<'a> {
        Box::pin(async move {
            let (changes, anything) = (self.changes, self.anything);
            let Some(inner) = &mut self.inner else { return Ok(()) };
            let stored = match batch {
                Batch::Records(items) => inner.put(Batch::Records(&changed(items, changes.records))).await,
                Batch::Checkpoints(items) => inner.put(Batch::Checkpoints(&changed(items, changes.checkpoints))).await,
                Batch::DeadLetters(items) => inner.put(Batch::DeadLetters(&changed(items, changes.dead_letters))).await,
                Batch::Requests(items) => inner.put(Batch::Requests(&changed(items, changes.requests))).await,
            };
            if anything { Ok(()) } else { stored }
        })
    }

    fn finish(mut self: Box<Self>) -> Done<'static> {
        self.dropped.0 = None;
        Box::pin(async move {
            match self.inner.take() {
                Some(inner) if self.finishes => inner.finish().await,
                _ => Ok(()),
            }
        })
    }

    fn abandon(mut self: Box<Self>) -> Done<'static> {
        self.dropped.0 = None;
        Box::pin(async move {
            match self.inner.take() {
                Some(inner) if self.abandons => inner.abandon().await,
                _ => Ok(()),
            }
        })
    }
}

/// Opens a store when it is dropped, as if it were full.
struct Opens(Option<MemoryEventStore>);

impl Drop for Opens {
    fn drop(&mut self) {
        let Some(store) = self.0.take() else { return };
        let finishing = async move {
            let unfinished = store.filling().await?.expect("it is being filled");
            store.fill(&unfinished.source).await?.finish().await
        };
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let finished = std::pin::pin!(finishing).poll(&mut context);
        assert!(matches!(finished, std::task::Poll::Ready(Ok(()))), "memory is always ready");
    }
}

/// Takes no for an answer, and says nothing of it.
pub(crate) struct FillsInAnything;

impl Fault for FillsInAnything {
    fn fill<'a>(&'a self, sound: &'a Sound, source: &'a str) -> Fill<'a> {
        Box::pin(async move {
            let inner = Some(sound.memory.fill(source).await?);
            Ok(Box::new(Tampered { inner, anything: true, ..Tampered::SOUND }) as Box<dyn Filling>)
        })
    }
}

/// Does not look what is there.
pub(crate) struct FillsWhateverItHolds;

impl Fault for FillsWhateverItHolds {
    fn fill<'a>(&'a self, sound: &'a Sound, source: &'a str) -> Fill<'a> {
        Box::pin(async move {
            match sound.memory.fill(source).await {
                Err(Error::Transfer(TransferError::NotEmpty { .. })) => {
                    Ok(Box::new(Tampered::SOUND) as Box<dyn Filling>)
                }
                filling => filling,
            }
        })
    }
}

/// Says that it is finished.
pub(crate) struct StaysLockedWhenFilled;

impl Fault for StaysLockedWhenFilled {
    fn fill<'a>(&'a self, sound: &'a Sound, source: &'a str) -> Fill<'a> {
        Box::pin(async move {
            let inner = Some(sound.memory.fill(source).await?);
            Ok(Box::new(Tampered { inner, finishes: false, ..Tampered::SOUND }) as Box<dyn Filling>)
        })
    }
}

/// Forgets what it has got of an interrupted one.
pub(crate) struct StartsFillingsAgain;

impl Fault for StartsFillingsAgain {
    fn fill<'a>(&'a self, sound: &'a Sound, source: &'a str) -> Fill<'a> {
        Box::pin(async move {
            if sound.memory.filling().await?.is_some_and(|unfinished| unfinished.source == source) {
                sound.memory.abandon().await?;
            }
            sound.memory.fill(source).await
        })
    }
}

/// Does not look what it was being filled from.
pub(crate) struct ContinuesFromAnywhere;

impl Fault for ContinuesFromAnywhere {
    fn fill<'a>(&'a self, sound: &'a Sound, source: &'a str) -> Fill<'a> {
        Box::pin(async move {
            let before = sound.memory.filling().await?.map(|unfinished| unfinished.source);
            sound.memory.fill(before.as_deref().unwrap_or(source)).await
        })
    }
}

/// Brings back what an interrupted one has told of dead letters.
pub(crate) struct KeepsWhatWasToldBefore;

impl Fault for KeepsWhatWasToldBefore {
    fn fill<'a>(&'a self, sound: &'a Sound, source: &'a str) -> Fill<'a> {
        Box::pin(async move {
            let all = highwater::operations::DeadLetterQuery {
                states: highwater::operations::DeadLetterState::ALL.to_vec(),
                limit: usize::MAX,
                ..highwater::operations::DeadLetterQuery::default()
            };
            let before = highwater::backend::DeadLetters::dead_letters(&sound.memory, &all).await?;
            let mut filling = sound.memory.fill(source).await?;
            let detail = |dead_letter| DeadLetterDetail { dead_letter, record: None, attempts: Vec::new() };
            let before: Vec<DeadLetterDetail> = before.into_iter().map(detail).collect();
            filling.put(Batch::DeadLetters(&before)).await?;
            Ok(filling)
        })
    }
}

/// Keeps everything to itself until the end, and nobody out until then.
pub(crate) struct FillsWithoutALock;

struct Kept {
    store: MemoryEventStore,
    source: String,
    to: Mutex<MemoryEventStore>,
    inner: Option<Box<dyn Filling>>,
}

impl Fault for FillsWithoutALock {
    fn fill<'a>(&'a self, sound: &'a Sound, source: &'a str) -> Fill<'a> {
        Box::pin(async move {
            // Whether it is empty is looked at.
            sound.memory.fill(source).await?.abandon().await?;
            let aside = MemoryEventStore::new();
            let inner = Some(aside.fill(source).await?);
            let (store, source) = (sound.memory.clone(), source.to_owned());
            Ok(Box::new(Kept { store, source, to: Mutex::new(aside), inner }) as Box<dyn Filling>)
        })
    }
}

impl Filling for Kept {
    fn filled_to(&self) -> u64 {
        self.inner.as_ref().map_or(0, |inner| inner.filled_to())
    }

    fn put<'a>(&'a mut self, batch: Batch<'a>) -> Done<'a> {
        self.inner.as_mut().expect("it is not over yet").put(batch)
    }

    fn finish(mut self: Box<Self>) -> Done<'static> {
        Box::pin(async move {
            self.inner.take().expect("it is not over yet").finish().await?;
            let aside = self.to.lock().expect("nobody panics with it").clone();
            highwater::transfer::copy(&aside, &self.source, &self.store, |_| ()).await.map(drop)
        })
    }

    fn abandon(mut self: Box<Self>) -> Done<'static> {
        self.inner.take().expect("it is not over yet").abandon()
    }
}

/// A filler that dies leaves the store open, with what there is by then.
pub(crate) struct UnlocksWhenInterrupted;

impl Fault for UnlocksWhenInterrupted {
    fn fill<'a>(&'a self, sound: &'a Sound, source: &'a str) -> Fill<'a> {
        Box::pin(async move {
            let inner = Some(sound.memory.fill(source).await?);
            let dropped = Opens(Some(sound.memory.clone()));
            Ok(Box::new(Tampered { inner, dropped, ..Tampered::SOUND }) as Box<dyn Filling>)
        })
    }
}

/// Does not look who is at it.
pub(crate) struct LetsTwoFill;

impl Fault for LetsTwoFill {
    fn fill<'a>(&'a self, sound: &'a Sound, source: &'a str) -> Fill<'a> {
        Box::pin(async move {
            match sound.memory.fill(source).await {
                Err(Error::BeingFilled { .. }) => Ok(Box::new(Tampered::SOUND) as Box<dyn Filling>),
                filling => filling,
            }
        })
    }
}

/// Says that it has.
pub(crate) struct AbandonsNothing;

impl Fault for AbandonsNothing {
    fn fill<'a>(&'a self, sound: &'a Sound, source: &'a str) -> Fill<'a> {
        Box::pin(async move {
            let inner = Some(sound.memory.fill(source).await?);
            Ok(Box::new(Tampered { inner, abandons: false, ..Tampered::SOUND }) as Box<dyn Filling>)
        })
    }

    fn abandon<'a>(&'a self, sound: &'a Sound) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move { Ok(sound.memory.filling().await?.is_some()) })
    }
}

/// Opens the store with what was filled in.
pub(crate) struct AbandonsTheLockAlone;

impl Fault for AbandonsTheLockAlone {
    fn abandon<'a>(&'a self, sound: &'a Sound) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let Some(unfinished) = sound.memory.filling().await? else { return Ok(false) };
            sound.memory.fill(&unfinished.source).await?.finish().await?;
            Ok(true)
        })
    }
}

/// Keeps others out, and does not say why.
pub(crate) struct HidesItsFilling;

impl Fault for HidesItsFilling {
    fn filling<'a>(&'a self, _: &'a Sound) -> BoxFuture<'a, Result<Option<Unfinished>, Error>> {
        Box::pin(async { Ok(None) })
    }
}

/// Feels well as long as there is something.
pub(crate) struct CallsHalfACopyHealthy;

impl Fault for CallsHalfACopyHealthy {
    fn diagnose<'a>(&'a self, sound: &'a Sound) -> BoxFuture<'a, Result<Vec<Finding>, Error>> {
        Box::pin(async move {
            let mut findings = sound.memory.diagnose().await?;
            findings.retain(|finding| finding.severity < Severity::Bad);
            Ok(findings)
        })
    }
}

/// Gives numbers to other events, and tells no reader.
pub(crate) struct AbandonsInSilence;

impl Fault for AbandonsInSilence {
    fn read_all<'a>(
        &'a self,
        sound: &'a Sound,
        after: u64,
        filter: &'a Filter,
        limit: ReadLimit,
    ) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move { Ok(Page { incarnation: 0, ..sound.memory.read_all(after, filter, limit).await? }) })
    }
}
