//! Those who append: in every way there is, with every way out.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use highwater::{Append, Appended, BoxError, Error, ExpectedVersion, LiveView, StreamId, stream_id};
use tokio::sync::watch;
use uuid::{Builder, Uuid};

use super::view::{self, Seen};
use super::{Job, Journal, asynchronous_path, now};
use crate::base::{Base, OpenFor};
use crate::cast::Fact;
use crate::record::{Entry, How, Outcome, Sent};

/// Streams that all writers share.
const STREAMS: u64 = 400;
/// How long an append is sent again when its answer was lost, before its writer gives up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(12);
/// How long to wait before it is sent again.
const SEND_AGAIN: Duration = Duration::from_millis(50);

/// All writers of an instance.
pub(super) struct Writers(Vec<watch::Receiver<bool>>);

impl Writers {
    /// Returns when nothing is under way any more.
    pub(super) async fn idle(&self) -> Result<(), BoxError> {
        for busy in &self.0 {
            busy.clone().wait_for(|busy| !busy).await?;
        }
        Ok(())
    }
}

/// Starts them. They write while they are wanted to.
pub(super) fn start<S: Base>(
    store: &S,
    view: &LiveView<Seen>,
    journal: &Journal,
    job: &Job,
    wanted: &watch::Receiver<bool>,
) -> Writers {
    let start_one = |number: usize| {
        let (busy, is_busy) = watch::channel(false);
        let random = fastrand::Rng::with_seed(job.seed.wrapping_mul(31).wrapping_add(number as u64));
        let writer = Writer {
            store: store.clone(),
            view: view.clone(),
            journal: journal.clone(),
            random,
            // Numbers of one writer are apart from those of all others.
            next: number as u64,
            step: job.writers as u64,
            rest: Duration::from_millis(job.rest_millis),
            asynchronous: asynchronous_path(&job.folder),
        };
        tokio::spawn(writer.run(wanted.clone(), busy));
        is_busy
    };
    Writers((0..job.writers).map(start_one).collect())
}

struct Writer<S> {
    store: S,
    view: LiveView<Seen>,
    journal: Journal,
    random: fastrand::Rng,
    next: u64,
    step: u64,
    rest: Duration,
    /// Whether this file is there.
    asynchronous: PathBuf,
}

/// An append, and how it is to be sent.
struct Draft {
    append: Append,
    how: How,
    sent: Vec<Sent>,
    held: Option<OpenFor>,
    /// Its writer stops waiting for the first answer after this long.
    patience: Option<Duration>,
    /// It is sent once more although it was acknowledged.
    again: bool,
    /// It is looked for in the instance's view.
    looked_for: bool,
}

/// The version that a stream has to be at, if it is one.
fn expected_version(expected: ExpectedVersion) -> Option<u64> {
    match expected {
        ExpectedVersion::NoStream => Some(0),
        ExpectedVersion::Exact(version) => Some(version),
        ExpectedVersion::Any | ExpectedVersion::StreamExists => None,
    }
}

impl<S: Base> Writer<S> {
    async fn run(mut self, mut wanted: watch::Receiver<bool>, busy: watch::Sender<bool>) {
        // Ends with the instance.
        while wanted.wait_for(|wanted| *wanted).await.is_ok() {
            busy.send_replace(true);
            let number = self.next;
            self.next += self.step;
            let outcome = if S::CAN_BE_ASYNCHRONOUS && self.is_asynchronous() {
                let (sent, rows) = self.rows(number);
                self.tried(number, How::Asynchronous, sent);
                self.insert(&rows).await
            } else {
                let draft = self.draft(number);
                self.tried(number, draft.how, draft.sent.clone());
                self.send(&draft).await
            };
            let append = number;
            self.journal.write(&Entry::Ended { append, outcome, at: now() });
            busy.send_replace(false);
            let rest = self.rest.as_micros() as u64;
            tokio::time::sleep(Duration::from_micros(self.random.u64(0..=rest))).await;
        }
    }

    fn tried(&self, append: u64, how: How, events: Vec<Sent>) {
        self.journal.write(&Entry::Tried { append, how, events, at: now() });
    }

    /// One in ten; all while nobody is to wait for the disk.
    fn is_asynchronous(&mut self) -> bool {
        self.random.u32(0..10) == 0 || self.asynchronous.exists()
    }

    /// Events for a stream of their own, as rows.
    fn rows(&mut self, number: u64) -> (Vec<Sent>, String) {
        let stream_id = self.id();
        let rows = (1..=self.random.u64(1..3)).map(|version| (self.id(), stream_id, version, self.fact(number)));
        let rows: Vec<_> = rows.collect();
        let sent = rows.iter().map(|(id, stream_id, ..)| Sent { id: *id, stream_id: *stream_id, expected: None });
        let values = rows.iter().map(|(id, stream_id, version, fact)| {
            let (event_type, data) = fact.row();
            serde_json::json!([id, stream_id, version, event_type, data])
        });
        (sent.collect(), serde_json::Value::from_iter(values).to_string())
    }

    /// Once: nothing of it is lost in doubt that the next one does not replace.
    async fn insert(&self, rows: &str) -> Outcome {
        match tokio::time::timeout(GIVE_UP_AFTER, self.store.insert_asynchronously(rows)).await {
            Ok(Ok(last)) => Outcome::Stored { last, sendings: 1 },
            Ok(Err(error)) => Outcome::Unknown { why: error.to_string() },
            Err(elapsed) => Outcome::Unknown { why: elapsed.to_string() },
        }
    }

    /// From the seed, as everything is: what becomes of an event in a shaky handler follows from its id.
    fn id(&mut self) -> Uuid {
        Builder::from_random_bytes(self.random.u128(..).to_be_bytes()).into_uuid()
    }

    fn draft(&mut self, number: u64) -> Draft {
        let how = match self.random.u32(0..100) {
            0..60 => How::Single,
            60..80 => How::Batch,
            80..90 => How::Streams,
            _ => How::Unit,
        };
        let (mut append, mut sent) = (None, Vec::new());
        let streams = if how == How::Streams { self.random.usize(2..5) } else { 1 };
        for _ in 0..streams {
            let (stream, expected) = self.stream();
            // A stream is named once.
            if sent.iter().any(|sent: &Sent| sent.stream_id == stream) {
                continue;
            }
            let started = match append.take() {
                None => Append::to(stream),
                Some(append) => Append::and_to(append, stream),
            };
            let events = if how == How::Batch { self.random.usize(2..10) } else { self.random.usize(1..3) };
            let facts: Vec<Fact> = (0..events).map(|_| self.fact(number)).collect();
            let mut expects = expected_version(expected);
            append = Some(facts.into_iter().fold(started.expecting(expected), |append, fact| {
                let id = self.id();
                sent.push(Sent { id, stream_id: stream.id(), expected: expects.take() });
                append.event_with_id(id, fact)
            }));
        }
        let append = append.unwrap_or_else(|| Append::to(stream_id("thing", "0")));
        let held = (how == How::Unit).then(|| self.held());
        let patience = (self.random.u32(0..100) < 3).then(|| Duration::from_micros(self.random.u64(0..3_000)));
        let again = self.random.u32(0..100) < 5;
        Draft { append, how, sent, held, patience, again, looked_for: self.random.u32(0..5) == 0 }
    }

    fn stream(&mut self) -> (StreamId, ExpectedVersion) {
        match self.random.u32(0..100) {
            0..15 => (Uuid::from_u128(self.random.u128(..)).into(), ExpectedVersion::NoStream),
            // Most of these are conflicts: nobody looked.
            15..18 => (self.shared(), ExpectedVersion::Exact(self.random.u64(0..50))),
            18..20 => (self.shared(), ExpectedVersion::NoStream),
            _ => (self.shared(), ExpectedVersion::Any),
        }
    }

    fn shared(&mut self) -> StreamId {
        stream_id("thing", &self.random.u64(0..STREAMS).to_string())
    }

    fn fact(&mut self, append: u64) -> Fact {
        match self.random.u32(0..100) {
            0..4 => Fact::Marked { append },
            4..8 => Fact::Asked { append },
            _ => Fact::Noted { append },
        }
    }

    /// Most are short; some are open for longer than a reader likes to wait.
    fn held(&mut self) -> OpenFor {
        let longest = if self.random.u32(0..10) == 0 { 1_500 } else { 60 };
        let mut part = || Duration::from_millis(self.random.u64(0..longest) / 2);
        let (before, after) = (part(), part());
        // In half of them the append comes last, as a unit of work has it.
        let after = if self.random.bool() { after } else { Duration::ZERO };
        OpenFor { before, after, commit: self.random.u32(0..100) < 70 }
    }

    /// Sends it until it is known what came of it.
    async fn send(&self, draft: &Draft) -> Outcome {
        let (started, mut sendings) = (Instant::now(), 0);
        loop {
            sendings += 1;
            let held = draft.held.filter(|_| sendings == 1);
            let patience = draft.patience.filter(|_| sendings == 1);
            let error = match self.send_once(draft, held, patience).await {
                Ok(Some(appended)) => {
                    let last = appended.global_sequence;
                    if draft.again {
                        sendings += 1;
                        self.send_again(draft, last).await;
                    }
                    if draft.looked_for {
                        view::look_for(&self.view, &self.journal, draft.sent.last(), &appended).await;
                    }
                    return Outcome::Stored { last, sendings };
                }
                Ok(None) => return Outcome::RolledBack,
                Err(error) => error,
            };
            // A transaction of the application that failed before its commit was rolled back with everything in it; whether
            // its writer retries is up to it. Here it does, as a plain append with the same ids.
            if !error.is_retryable() {
                let conflict = matches!(error, Error::Conflict { .. });
                return Outcome::Refused { conflict, why: error.to_string() };
            }
            if started.elapsed() > GIVE_UP_AFTER {
                return Outcome::Unknown { why: error.to_string() };
            }
            tokio::time::sleep(SEND_AGAIN).await;
        }
    }

    async fn send_once(
        &self,
        draft: &Draft,
        held: Option<OpenFor>,
        patience: Option<Duration>,
    ) -> Result<Option<Appended>, Error> {
        let sending = async {
            match held {
                Some(held) => self.store.append_held(&draft.append, held).await,
                None => self.store.append(&draft.append).await.map(Some),
            }
        };
        let impatient = Error::UnknownOutcome { source: "its writer stopped waiting".into() };
        match patience {
            Some(patience) => tokio::time::timeout(patience, sending).await.unwrap_or(Err(impatient)),
            None => sending.await,
        }
    }

    /// What is acknowledged stays what it is, however often it is sent.
    async fn send_again(&self, draft: &Draft, last: u64) {
        match self.store.append(&draft.append).await {
            Ok(again) if again.repeated && again.global_sequence == last => {}
            Ok(again) => {
                let what = format!(
                    "an append that was acknowledged at {last} was sent again, and answered with {} (repeated: {})",
                    again.global_sequence, again.repeated
                );
                self.journal.write(&Entry::Trouble { what });
            }
            // Then nobody knows, which is no trouble: it is acknowledged already.
            Err(error) if error.is_retryable() => {}
            Err(error) => {
                let what = format!("an append that was acknowledged at {last} was sent again, and refused: {error}");
                self.journal.write(&Entry::Trouble { what });
            }
        }
    }
}
