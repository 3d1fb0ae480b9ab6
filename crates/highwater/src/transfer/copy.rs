//! Copying a store into an empty one, and proof that it is the same.

use std::fmt::Debug;

use futures_util::future::try_join;

use super::TransferError;
use super::contents::{Contents, Cursor, Fetch};
use super::digest::{Counts, Digest};
use super::{Batch, FilledCheckpoint, Filling};
use crate::{Backend, DeadLetterDetail, Error, Record, Request};

/// How far a transfer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What is being done.
    pub phase: Phase,
    /// How many events of that are done.
    pub done: u64,
    /// How many there are.
    pub total: u64,
}

/// What a transfer does, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Events are written.
    Events,
    /// Checkpoints, dead letters and requests are.
    Delivery,
    /// What was written is compared with what it was read from.
    Verifying,
}

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// How many of each the copy holds.
    pub counts: Counts,
    /// Events up to this one were copied: the last one when it began.
    pub copied_to: u64,
    /// How far an earlier attempt had come, from which this one resumed; 0 when there was none.
    pub resumed_after: u64,
    /// Where the source is by now. When that is beyond `copied_to`, the copy lacks what came later.
    pub source_head: u64,
}

/// Copies everything that a store holds into an empty one: events with their ids, versions and numbers, checkpoints and
/// pauses, dead letters with their attempts, open requests. Then compares both, and opens the copy only when they are the
/// same.
///
/// Events are copied up to the last one that is committed when it begins, and checkpoints are taken as they are then. The
/// source may be written to meanwhile; [`Copied::source_head`] tells. Stop its subscribers first: what they handle while
/// it is copied, the copy's subscribers handle again. `name` tells the source from others.
///
/// When it fails, or is dropped or killed, what has been copied stays and the copy stays locked. The same call resumes from
/// there; [`Transfer::abandon`](super::Transfer::abandon) gives up.
///
/// # Errors
/// As [`Transfer::fill`](super::Transfer::fill); [`Error::BeingFilled`] also when the source is, by an earlier copy that was
/// not finished; [`Invalid::Event`](crate::Invalid::Event) for an event that no append would store;
/// [`TransferError::CopyDiffers`](crate::transfer::TransferError::CopyDiffers) when the two are not the same.
pub async fn copy(
    from: &dyn Backend,
    name: &str,
    to: &dyn Backend,
    mut progress: impl FnMut(Step) + Send,
) -> Result<Copied, Error> {
    let source = Contents::of_source(from).await?;
    let mut filling = to.fill(&source.identity(name).await?).await?;
    let resumed_after = filling.filled_to();
    let done = from.count_events(resumed_after.min(source.frontier)).await?;
    let mut report = |phase, done| progress(Step { phase, done, total: source.events });
    copy_records(source.records(resumed_after), &mut *filling, done, &mut report).await?;
    report(Phase::Delivery, source.events);
    let handed_over = copy_delivery(&source, &mut *filling).await?;
    verify(&source, &Contents::of(to).await?, &handed_over, &mut report).await?;
    filling.finish().await?;
    let counts = Counts { events: source.events, ..handed_over.counts };
    Ok(Copied { counts, copied_to: source.frontier, resumed_after, source_head: from.head().await? })
}

/// Writes one page while the next is being read.
async fn copy_records(
    fetch: Fetch<'_, Record>,
    filling: &mut dyn Filling,
    mut done: u64,
    report: &mut (impl FnMut(Phase, u64) + Send),
) -> Result<(), Error> {
    report(Phase::Events, done);
    let mut page = fetch.await?;
    loop {
        let records = page.items;
        done += records.len() as u64;
        match page.next {
            Some(next) => page = try_join(filling.put(Batch::Records(&records)), next).await?.1,
            None => {
                filling.put(Batch::Records(&records)).await?;
                report(Phase::Events, done);
                return Ok(());
            }
        }
        report(Phase::Events, done);
    }
}

/// Everything but the events. Returns a hash of what was stored: a running source soon has something else.
async fn copy_delivery(source: &Contents<'_>, filling: &mut dyn Filling) -> Result<Digest, Error> {
    let mut digest = Digest::default();
    copy_pages(all(&source.checkpoints), |page| Batch::Checkpoints(page), filling, &mut digest).await?;
    copy_pages(source.dead_letters(), |page| Batch::DeadLetters(page), filling, &mut digest).await?;
    copy_pages(source.requests(), |page| Batch::Requests(page), filling, &mut digest).await?;
    Ok(digest)
}

async fn copy_pages<T>(
    fetch: Fetch<'_, T>,
    batch: impl Fn(&[T]) -> Batch<'_>,
    filling: &mut dyn Filling,
    digest: &mut Digest,
) -> Result<(), Error> {
    let mut next = Some(fetch);
    while let Some(fetch) = next.take() {
        let page = fetch.await?;
        filling.put(batch(&page.items)).await?;
        digest.batch(batch(&page.items));
        next = page.next;
    }
    Ok(())
}

/// Reads both sides again.
async fn verify(
    source: &Contents<'_>,
    copy: &Contents<'_>,
    handed_over: &Digest,
    report: &mut (impl FnMut(Phase, u64) + Send),
) -> Result<(), Error> {
    let event = |record: &Record| format!("event {} at {}", record.id, record.global_sequence);
    let mut done = 0;
    let every = |_: &Record| {
        done += 1;
        if done % REPORT_EVERY == 0 {
            report(Phase::Verifying, done);
        }
    };
    compare(source.records(0), copy.records(0), event, every).await?;
    report(Phase::Verifying, source.events);
    let kept = copy.digest_delivery(Digest::default()).await?;
    if (kept.counts, kept.hash()) == (handed_over.counts, handed_over.hash()) {
        return Ok(());
    }
    let checkpoint = |checkpoint: &FilledCheckpoint| format!("the checkpoint of {:?}", checkpoint.subscriber_id);
    let dead_letter = |detail: &DeadLetterDetail| format!("dead letter {}", detail.dead_letter.id);
    let request = |request: &Request| format!("request {}", request.id);
    compare(all(&source.checkpoints), all(&copy.checkpoints), checkpoint, |_| ()).await?;
    compare(source.dead_letters(), copy.dead_letters(), dead_letter, |_| ()).await?;
    compare(source.requests(), copy.requests(), request, |_| ()).await?;
    let difference = "its checkpoints, dead letters or requests are not those that were handed over".to_owned();
    Err(Error::Transfer(TransferError::CopyDiffers { difference }))
}

/// After how many compared events to report progress.
const REPORT_EVERY: u64 = 1_000;

fn all<T: Clone + Send>(items: &[T]) -> Fetch<'_, T> {
    let items = items.to_vec();
    Box::pin(async { Ok(super::contents::Fetched { items, next: None }) })
}

/// Goes through both, and names the first that is not the same.
async fn compare<T: PartialEq + Debug>(
    source: Fetch<'_, T>,
    copy: Fetch<'_, T>,
    name: impl Fn(&T) -> String,
    mut same: impl FnMut(&T),
) -> Result<(), Error> {
    let (mut source, mut copy) = (Cursor::from(source), Cursor::from(copy));
    loop {
        let difference = match (source.next().await?, copy.next().await?) {
            (None, None) => return Ok(()),
            (Some(wanted), Some(found)) if wanted == found => {
                same(&wanted);
                continue;
            }
            (Some(wanted), Some(found)) if name(&wanted) == name(&found) => {
                format!("{} is {wanted:?} in the source and {found:?} in the copy", name(&wanted))
            }
            (Some(wanted), Some(found)) => format!("{} stands where {} should", name(&found), name(&wanted)),
            (Some(wanted), None) => format!("{} is missing", name(&wanted)),
            (None, Some(found)) => format!("{} is not in the source", name(&found)),
        };
        return Err(Error::Transfer(TransferError::CopyDiffers { difference }));
    }
}
