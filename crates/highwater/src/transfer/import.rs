//! Filling an empty store from lines of JSON.

use chrono::{DateTime, Utc};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};
use uuid::Uuid;

use super::TransferError;
use super::contents::Contents;
use super::digest::{Counts, Digest};
use super::export::VERSION;
use super::line::{Footer, Header, Line};
use super::{Batch, FilledCheckpoint, Filling, Phase, Step};
use crate::{Backend, BoxError, DeadLetterDetail, Error, Record, Request};

/// How long a line may be. The largest event by default has a megabyte, and as a string up to six times that.
const LINE_BYTES_MAX: usize = 64 << 20;
/// How much is stored together.
const BATCH_LINES_MAX: usize = 1_000;
const BATCH_BYTES_MAX: usize = 4 << 20;

/// What was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// How many of each.
    pub counts: Counts,
    /// Where the log ends.
    pub imported_to: u64,
}

/// Fills an empty store with what [`export`](super::export) has written, exactly as it was: numbers, versions and all.
///
/// Everything is checked, the order and the hash included, and at last the store is read again and compared with what was
/// imported. When anything is wrong, nothing is kept. An import that was killed leaves the store locked; the next one of the
/// same export starts again from the beginning.
///
/// # Errors
/// [`TransferError::Import`](crate::transfer::TransferError::Import) with the line; and as [`Transfer::fill`](super::Transfer::fill).
pub async fn import(
    to: &dyn Backend,
    input: impl AsyncBufRead + Unpin + Send,
    mut progress: impl FnMut(Step) + Send,
) -> Result<Imported, Error> {
    let mut lines = Lines { input, number: 0, text: Vec::new(), read: Digest::default() };
    let header = lines.header().await?;
    let source = format!("an export of {} events up to {}", header.events, header.frontier);
    let mut filling = to.fill(&source).await?;
    if filling.filled_to() > 0 {
        filling.abandon().await?;
        filling = to.fill(&source).await?;
    }
    let report = |phase, done| progress(Step { phase, done, total: header.events });
    match fill(to, &mut lines, &header, &mut *filling, report).await {
        Ok(counts) => {
            filling.finish().await?;
            Ok(Imported { counts, imported_to: header.frontier })
        }
        Err(error) => {
            if let Err(left) = filling.abandon().await {
                tracing::warn!(error = %left, "a failed import could not be rolled back: abandon it");
            }
            Err(error)
        }
    }
}

async fn fill(
    to: &dyn Backend,
    lines: &mut Lines<impl AsyncBufRead + Unpin + Send>,
    header: &Header,
    filling: &mut dyn Filling,
    mut report: impl FnMut(Phase, u64) + Send,
) -> Result<Counts, Error> {
    let mut intake = Intake { filling, pending: Pending::default(), taken: Digest::default() };
    let mut order = Order::default();
    report(Phase::Events, 0);
    let footer = loop {
        match lines.next().await? {
            Line::Footer(footer) => {
                order.check_end(header).map_err(|why| lines.wrong(why))?;
                break footer;
            }
            line => {
                let item = Item::of(line).map_err(|why| lines.wrong(why))?;
                check_place(&item, &intake.taken.counts, header).map_err(|why| lines.wrong(why))?;
                order.check(&item, header).map_err(|why| lines.wrong(why))?;
                if intake.add(lines.number, lines.text.len(), item).await? {
                    report(Phase::Events, intake.taken.counts.events);
                }
            }
        }
    };
    // First, since it may say more than that something is wrong.
    intake.store().await?;
    if footer.md5 != lines.read.hash() {
        return Err(lines.wrong("the hash does not fit the lines before: the file is damaged"));
    }
    let counts = intake.taken.counts;
    check_counts(&footer, &counts, header).map_err(|why| lines.wrong(why))?;
    lines.end().await?;
    report(Phase::Verifying, counts.events);
    let stored = Contents::of(to).await?.digest().await?;
    if (stored.counts, stored.hash()) != (counts, intake.taken.hash()) {
        let difference = format!("{:?} were stored of {counts:?}, or not as they were imported", stored.counts);
        return Err(Error::Transfer(TransferError::CopyDiffers { difference }));
    }
    Ok(counts)
}

/// Kinds come one after the other.
fn check_place(item: &Item, counts: &Counts, header: &Header) -> Result<(), String> {
    let later = match item {
        Item::Record(record) if record.global_sequence > header.frontier => {
            return Err(format!("event {} lies beyond the frontier {}", record.global_sequence, header.frontier));
        }
        Item::DeadLetter(dead_letter) if dead_letter.dead_letter.global_sequence > header.frontier => {
            let (id, number) = (dead_letter.dead_letter.id, dead_letter.dead_letter.global_sequence);
            return Err(format!("dead letter {id} is of event {number}, beyond the frontier {}", header.frontier));
        }
        Item::Record(_) => counts.checkpoints + counts.dead_letters + counts.requests,
        Item::Checkpoint(_) => counts.dead_letters + counts.requests,
        Item::DeadLetter(_) => counts.requests,
        Item::Request(_) => 0,
    };
    if later == 0 { Ok(()) } else { Err(format!("{} after what comes later", item.name())) }
}

/// The last of each kind that came. Events have their own order, which is checked when they are stored.
#[derive(Default)]
struct Order {
    record: u64,
    checkpoint: Option<String>,
    dead_letter: Option<(u64, Uuid)>,
    request: Option<(DateTime<Utc>, Uuid)>,
}

impl Order {
    /// Whether one comes where it is exported. If it were imported nevertheless, what is stored would not be what was read,
    /// and no error could name the line.
    fn check(&mut self, item: &Item, header: &Header) -> Result<(), String> {
        if !matches!(item, Item::Record(_)) {
            self.check_end(header)?;
        }
        let ascending = match item {
            Item::Record(record) => {
                self.record = record.global_sequence;
                true
            }
            Item::Checkpoint(checkpoint) => ascends(&mut self.checkpoint, checkpoint.subscriber_id.clone()),
            Item::DeadLetter(dead_letter) => {
                ascends(&mut self.dead_letter, (dead_letter.dead_letter.global_sequence, dead_letter.dead_letter.id))
            }
            Item::Request(request) => ascends(&mut self.request, (request.requested_at, request.id)),
        };
        if ascending { Ok(()) } else { Err(format!("{} out of its order, or twice", item.name())) }
    }

    /// After the last event: it is where the header says the log ends.
    fn check_end(&self, header: &Header) -> Result<(), String> {
        let (last, frontier) = (self.record, header.frontier);
        if last == frontier { Ok(()) } else { Err(format!("the last event was {last}, and {frontier} was announced")) }
    }
}

fn ascends<T: Ord>(last: &mut Option<T>, next: T) -> bool {
    let ascends = last.as_ref().is_none_or(|last| *last < next);
    *last = Some(next);
    ascends
}

fn check_counts(footer: &Footer, counts: &Counts, header: &Header) -> Result<(), String> {
    if footer.counts != *counts {
        return Err(format!("{:?} were announced here, and {counts:?} came", footer.counts));
    }
    if (header.events, header.checkpoints) != (counts.events, counts.checkpoints) {
        return Err(format!("{header:?} announced other counts than came: {counts:?}"));
    }
    Ok(())
}

/// Lines as they come, counted.
struct Lines<R> {
    input: R,
    number: u64,
    text: Vec<u8>,
    /// What was read before the line at hand.
    read: Digest,
}

impl<R: AsyncBufRead + Unpin + Send> Lines<R> {
    async fn header(&mut self) -> Result<Header, Error> {
        match self.next().await? {
            Line::Header(header) if header.version == VERSION => Ok(header),
            Line::Header(header) => {
                let version = header.version;
                Err(self.wrong(format!("this is version {version} of the format, and only {VERSION} is known")))
            }
            other => {
                let name = other.name();
                Err(self.wrong(format!("an export begins with a header, and not with this {name}")))
            }
        }
    }

    /// The next line; there is one before the footer was read.
    async fn next(&mut self) -> Result<Line<'_>, Error> {
        self.number += 1;
        if !self.advance().await? {
            return Err(self.wrong("the export ends before its footer: it was cut off"));
        }
        if self.text.last() != Some(&b'\n') {
            return Err(self.wrong(match self.text.len() > LINE_BYTES_MAX {
                true => format!("it has more than {LINE_BYTES_MAX} bytes"),
                false => "it does not end: the export was cut off".to_owned(),
            }));
        }
        let line = self.number;
        serde_json::from_slice(&self.text)
            .map_err(|error| Error::Transfer(TransferError::Import { line, source: error.into() }))
    }

    /// Nothing follows the footer.
    async fn end(&mut self) -> Result<(), Error> {
        self.number += 1;
        if self.advance().await? { Err(self.wrong("something follows the footer")) } else { Ok(()) }
    }

    async fn advance(&mut self) -> Result<bool, Error> {
        self.read.bytes(&self.text);
        self.text.clear();
        let mut bounded = (&mut self.input).take(LINE_BYTES_MAX as u64 + 1);
        let read = bounded.read_until(b'\n', &mut self.text).await;
        let line = self.number;
        Ok(read.map_err(|error| Error::Transfer(TransferError::Import { line, source: error.into() }))? > 0)
    }

    fn wrong(&self, why: impl Into<BoxError>) -> Error {
        Error::Transfer(TransferError::Import { line: self.number, source: why.into() })
    }
}

enum Item {
    Record(Record),
    Checkpoint(FilledCheckpoint),
    DeadLetter(Box<DeadLetterDetail>),
    Request(Request),
}

impl Item {
    fn of(line: Line<'_>) -> Result<Self, String> {
        Ok(match line {
            Line::Event(event) => Self::Record(event.into_record()?),
            Line::Checkpoint(checkpoint) => Self::Checkpoint(checkpoint.into_owned()),
            Line::DeadLetter(dead_letter) => Self::DeadLetter(dead_letter.into_dead_letter()?.into()),
            Line::Request(request) => Self::Request(request.into_request()),
            Line::Header(_) | Line::Footer(_) => return Err(format!("a {} in the middle", line.name())),
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Record(_) => "an event",
            Self::Checkpoint(_) => "a checkpoint",
            Self::DeadLetter(_) => "a dead letter",
            Self::Request(_) => "a request",
        }
    }
}

/// What waits to be stored together, each with its line.
#[derive(Default)]
struct Pending {
    lines: Vec<u64>,
    bytes: usize,
    records: Vec<Record>,
    checkpoints: Vec<FilledCheckpoint>,
    dead_letters: Vec<DeadLetterDetail>,
    requests: Vec<Request>,
}

struct Intake<'a> {
    filling: &'a mut dyn Filling,
    pending: Pending,
    /// What was imported, as it would be exported.
    taken: Digest,
}

impl Intake<'_> {
    /// Adds one that came as a line of so many bytes, and says whether the batch was full and has been stored.
    async fn add(&mut self, line: u64, bytes: usize, item: Item) -> Result<bool, Error> {
        let pending = &mut self.pending;
        pending.lines.push(line);
        pending.bytes += bytes;
        match item {
            Item::Record(record) => {
                self.taken.record(&record);
                pending.records.push(record);
            }
            Item::Checkpoint(checkpoint) => {
                self.taken.checkpoint(&checkpoint);
                pending.checkpoints.push(checkpoint);
            }
            Item::DeadLetter(dead_letter) => {
                self.taken.dead_letter(&dead_letter);
                pending.dead_letters.push(*dead_letter);
            }
            Item::Request(request) => {
                self.taken.request(&request);
                pending.requests.push(request);
            }
        }
        self.taken.take_lines();
        let full = pending.lines.len() >= BATCH_LINES_MAX || pending.bytes >= BATCH_BYTES_MAX;
        if full {
            self.store().await?;
        }
        Ok(full)
    }

    /// Kinds come one after the other, so the lines stand in this order.
    async fn store(&mut self) -> Result<(), Error> {
        let Pending { lines, records, checkpoints, dead_letters, requests, .. } = std::mem::take(&mut self.pending);
        let mut lines = lines.into_iter();
        self.store_each(&mut lines, &records, |records| Batch::Records(records)).await?;
        self.store_each(&mut lines, &checkpoints, |checkpoints| Batch::Checkpoints(checkpoints)).await?;
        self.store_each(&mut lines, &dead_letters, |dead_letters| Batch::DeadLetters(dead_letters)).await?;
        self.store_each(&mut lines, &requests, |requests| Batch::Requests(requests)).await
    }

    /// A batch that is refused is stored one by one: that tells which line it is.
    async fn store_each<T>(
        &mut self,
        lines: &mut impl Iterator<Item = u64>,
        items: &[T],
        batch: impl Fn(&[T]) -> Batch<'_>,
    ) -> Result<(), Error> {
        let lines: Vec<u64> = lines.take(items.len()).collect();
        let Some(first) = lines.first() else { return Ok(()) };
        let wrong = |line, source| Error::Transfer(TransferError::Import { line, source });
        match self.filling.put(batch(items)).await {
            Err(Error::Invalid(whole)) => {
                for (line, item) in lines.iter().zip(items) {
                    let stored = self.filling.put(batch(std::slice::from_ref(item))).await;
                    stored.map_err(|error| wrong(*line, error.into()))?;
                }
                Err(wrong(*first, whole.into()))
            }
            stored => stored,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BoxFuture, DeadLetter, DeadLetterState};

    /// Records how many dead letters come at a time.
    struct Noting(Vec<usize>);

    impl Filling for Noting {
        fn filled_to(&self) -> u64 {
            0
        }

        fn put<'a>(&'a mut self, batch: Batch<'a>) -> BoxFuture<'a, Result<(), Error>> {
            if let Batch::DeadLetters(dead_letters) = batch {
                self.0.push(dead_letters.len());
            }
            Box::pin(async { Ok(()) })
        }

        fn finish(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
            Box::pin(async { Ok(()) })
        }

        fn abandon(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
            Box::pin(async { Ok(()) })
        }
    }

    #[tokio::test]
    async fn dead_letters_count_toward_the_bytes_of_a_batch() {
        let now = Utc::now();
        let mut noting = Noting(Vec::new());
        let mut intake = Intake { filling: &mut noting, pending: Pending::default(), taken: Digest::default() };
        for number in 1..=9 {
            let dead_letter = DeadLetter {
                id: Uuid::from_u128(number.into()),
                subscriber_id: "s".to_owned(),
                event_id: Uuid::from_u128(number.into()),
                global_sequence: number,
                stream_id: Uuid::nil(),
                stream_name: None,
                event_type: "Noted".to_owned(),
                error_message: Some("no".to_owned()),
                retry_count: 0,
                created_at: now,
                last_retry_at: None,
                state: DeadLetterState::Dead,
                parks: false,
                resolved_at: None,
                resolved_by: None,
                reason: None,
            };
            let detail = DeadLetterDetail { dead_letter, record: None, attempts: Vec::new() };
            intake.add(number, BATCH_BYTES_MAX / 2, Item::DeadLetter(detail.into())).await.unwrap();
        }
        intake.store().await.unwrap();
        assert_eq!(noting.0, [2, 2, 2, 2, 1]);
    }
}
