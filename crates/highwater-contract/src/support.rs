//! What the cases share: events to store, readers that check what they are given, and patience with an end.

use std::any::Any;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use highwater::backend::{Backoff, Direction, Log, ReadLimit, Record, StreamRead, Transactional};
use highwater::{
    Append, Appended, BoxError, Error, Event, EventBus, EventTypes, ExpectedVersion, Filter, Invalid, Projection,
    ReliableDeliveryConfig, StateIs, SubscriberOptions,
};
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

/// How long anything may take that has to happen; longer in proportion when more of it happens.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long to look out for something that must not happen.
pub(crate) const QUIET: Duration = Duration::from_millis(100);
/// How long to wait before looking again: at first, and at most.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// The events of most cases: each kind of variant once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Ledger {
    Opened { owner: String },
    Deposited { cents: i64 },
    Noted(String),
    Transferred(i64, String),
    Closed,
}

impl Ledger {
    pub(crate) fn opened() -> Self {
        Self::Opened { owner: "anna".into() }
    }

    pub(crate) fn deposited(cents: i64) -> Self {
        Self::Deposited { cents }
    }
}

/// A stream that nobody has used.
pub(crate) fn new_stream() -> Uuid {
    Uuid::now_v7()
}

/// `count` deposits of 1, 2, 3 … to one stream.
pub(crate) fn deposits(stream_id: Uuid, count: usize) -> Append {
    Append::to(stream_id).events((1..=count as i64).map(Ledger::deposited))
}

/// How often to do something: `count` times, multiplied by `HIGHWATER_SOAK`.
pub(crate) fn soak(count: u32) -> u32 {
    count * from_environment("HIGHWATER_SOAK", 1).max(1)
}

/// Where random numbers start: `HIGHWATER_SEED`, or always the same.
pub(crate) fn seed() -> u64 {
    from_environment("HIGHWATER_SEED", 1)
}

/// Whether to run at the scale and with the seed that are the default, whatever the environment says.
static AS_BY_DEFAULT: AtomicBool = AtomicBool::new(false);

/// Runs every case of this process as often, and with the same random numbers, as when nothing is set: for who compares
/// what comes of it with what came of it before.
#[doc(hidden)]
pub fn ignore_environment() {
    AS_BY_DEFAULT.store(true, Ordering::SeqCst);
}

fn from_environment<T: std::str::FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) if !AS_BY_DEFAULT.load(Ordering::SeqCst) => {
            text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}"))
        }
        _ => default,
    }
}

/// Waits for something that has to happen.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let deadline = DEADLINE * soak(1);
    match timeout(deadline, future).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not within {deadline:?}"),
    }
}

/// Looks again and again, less and less often.
pub(crate) struct Patience(Backoff);

impl Patience {
    pub(crate) fn new() -> Self {
        Self(Backoff::new(LOOK_AGAIN.0, LOOK_AGAIN.1))
    }

    /// Waits before the next look.
    pub(crate) async fn wait(&mut self) {
        sleep(self.0.next_delay()).await;
    }
}

/// Waits until a condition holds that has to hold some time.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let look = async {
        let mut patience = Patience::new();
        while !condition().await {
            patience.wait().await;
        }
    };
    within(what, look).await;
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

/// Runs something random, and names the seed when it panics.
pub(crate) async fn seeded(seed: u64, future: impl Future<Output = ()> + Send + 'static) {
    if let Err(failed) = tokio::spawn(future).await {
        match failed.try_into_panic() {
            Ok(panic) => panic!("with seed {seed}: {}", panic_message(&*panic)),
            Err(cancelled) => panic!("with seed {seed}: {cancelled}"),
        }
    }
}

/// Stores something that nothing speaks against.
pub(crate) async fn store<L: Log + ?Sized>(log: &L, append: &Append) -> Appended {
    match within("an append", log.append(append)).await {
        Ok(done) => {
            assert_fits(append, &done);
            done
        }
        Err(error) => panic!("nothing speaks against this append: {error:?}"),
    }
}

/// Stores something, and sends it again for as long as the store says that this can help.
pub(crate) async fn store_in_the_end<L: Log + ?Sized>(log: &L, append: &Append) -> Appended {
    let send = async {
        let mut patience = Patience::new();
        loop {
            match log.append(append).await {
                Ok(done) => return done,
                Err(error) if error.is_retryable() => patience.wait().await,
                Err(error) => panic!("nothing speaks against this append: {error:?}"),
            }
        }
    };
    let done = within("an append", send).await;
    assert_fits(append, &done);
    done
}

/// What can be said of an answer without looking into the log.
pub(crate) fn assert_fits(append: &Append, done: &Appended) {
    assert_eq!(done.positions.len(), append.event_ids().count(), "one position for each event");
    let last = done.positions.last().expect("an append has events");
    assert_eq!((done.stream_version, done.global_sequence), (last.stream_version, last.global_sequence));
    let ascending = done.positions.is_sorted_by(|a, b| a.global_sequence < b.global_sequence);
    assert!(ascending, "the events of an append are numbered in its order: {done:?}");
}

/// Tries something that must be refused, and checks that it left no trace.
pub(crate) async fn refused<L: Log + ?Sized>(log: &L, append: &Append) -> Error {
    let before = everything(log).await;
    let head = head(log).await;
    let Err(error) = within("an append", log.append(append)).await else {
        panic!("this append must be refused: {append:?}");
    };
    assert_eq!(everything(log).await, before, "a refused append leaves the log as it was");
    assert_eq!(self::head(log).await, head, "a refused append leaves the head where it was");
    error
}

/// Tries something that cannot be stored, whatever the log holds.
pub(crate) async fn invalid<L: Log + ?Sized>(log: &L, append: &Append) -> Invalid {
    match refused(log, append).await {
        Error::Invalid(invalid) => invalid,
        other => panic!("bad input is Error::Invalid, not {other:?}"),
    }
}

/// Checks that an error is this conflict.
pub(crate) fn assert_conflict(error: &Error, stream: Uuid, wanted: ExpectedVersion, version: u64) {
    match error {
        Error::Conflict { stream_id, expected, actual, .. } => {
            assert_eq!((*stream_id, *expected, *actual), (stream, wanted, version), "the conflict as it is");
        }
        other => panic!("an expectation that does not hold is a conflict, not {other:?}"),
    }
}

pub(crate) async fn head<L: Log + ?Sized>(log: &L) -> u64 {
    within("the head", log.head()).await.expect("the head can be read")
}

/// Reads everything in pages and checks what holds for every page.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    pub(crate) filter: Filter,
    pub(crate) limit: ReadLimit,
    /// Up to where it has been told that it has seen everything.
    pub(crate) position: u64,
    pub(crate) seen: Vec<Record>,
    incarnation: Option<u64>,
}

impl Reader {
    pub(crate) fn new(filter: impl Into<Filter>, limit: ReadLimit) -> Self {
        Self { filter: filter.into(), limit, position: 0, seen: Vec::new(), incarnation: None }
    }

    pub(crate) fn of_everything() -> Self {
        Self::new(Filter::ALL, ReadLimit::default())
    }

    pub(crate) fn starting_after(self, position: u64) -> Self {
        Self { position, ..self }
    }

    /// Reads one page. False when there was nothing new, or nothing that is settled.
    pub(crate) async fn step<L: Log + ?Sized>(&mut self, log: &L) -> bool {
        // A log in memory is always ready, and a caller that reads it in a loop must let others have their turn.
        tokio::task::yield_now().await;
        let page = within("a page", log.read_all(self.position, &self.filter, self.limit)).await;
        let page = page.expect("a page can be read");
        assert!(page.complete_to >= self.position, "a position never goes back");
        let mut before = self.position;
        for record in &page.records {
            let at = record.global_sequence;
            assert!(at > before, "event {at} appears at or below {before}, which was reported as complete");
            assert!(at <= page.complete_to, "event {at} lies beyond {}, to where the page goes", page.complete_to);
            assert!(self.filter.accepts(record), "{} was not asked for", record.event_type);
            before = at;
        }
        assert_within(self.limit, &page.records);
        let same = self.incarnation.replace(page.incarnation).is_none_or(|before| before == page.incarnation);
        assert!(same, "nothing was interrupted, so the incarnation stays");
        let moved = page.complete_to > self.position;
        self.position = page.complete_to;
        self.seen.extend(page.records);
        moved
    }

    /// Reads to the end, and waits for what is not settled yet.
    pub(crate) async fn catch_up<L: Log + ?Sized>(&mut self, log: &L) {
        self.catch_up_for(log, usize::MAX).await;
    }

    /// Reads to the end, or until it has seen so many records.
    pub(crate) async fn catch_up_for<L: Log + ?Sized>(&mut self, log: &L, enough: usize) {
        let target = head(log).await;
        let read = async {
            let mut patience = Patience::new();
            while self.position < target && self.seen.len() < enough {
                if self.step(log).await {
                    patience = Patience::new();
                } else {
                    patience.wait().await;
                }
            }
        };
        within("reading to the end", read).await;
    }
}

/// Everything in the log, in order.
pub(crate) async fn everything<L: Log + ?Sized>(log: &L) -> Vec<Record> {
    let mut reader = Reader::of_everything();
    reader.catch_up(log).await;
    reader.seen
}

fn assert_within(limit: ReadLimit, records: &[Record]) {
    assert!(records.len() <= limit.events.max(1), "{} records in a page of {}", records.len(), limit.events);
    let but_last: usize = records.split_last().map_or(0, |(_, rest)| rest.iter().map(Record::bytes).sum());
    assert!(but_last == 0 || but_last < limit.bytes, "a page of {} bytes continued after {but_last}", limit.bytes);
}

/// One stream in pages, with checks of what holds for every page.
pub(crate) async fn stream_in_pages<L: Log + ?Sized>(log: &L, stream_id: Uuid, mut read: StreamRead) -> Vec<Record> {
    let mut seen: Vec<Record> = Vec::new();
    loop {
        let page = within("a page of a stream", log.read_stream(stream_id, read.clone())).await;
        let page = page.expect("a stream can be read");
        assert_within(read.limit, &page.records);
        for record in &page.records {
            assert_eq!(record.stream_id, stream_id, "a stream holds its own events");
            if let Some(before) = seen.last() {
                let (older, newer) = match read.direction {
                    Direction::Forwards => (before, record),
                    Direction::Backwards => (record, before),
                };
                if read.types == EventTypes::All {
                    assert_eq!(older.stream_version + 1, newer.stream_version, "versions are contiguous");
                }
                assert!(older.global_sequence < newer.global_sequence, "version order and sequence order agree");
            }
            seen.push(record.clone());
        }
        if page.end {
            return seen;
        }
        let last = page.records.last().expect("a page that is not the end holds a record at least");
        read.from = match read.direction {
            Direction::Forwards => last.stream_version + 1,
            Direction::Backwards => last.stream_version - 1,
        };
    }
}

/// One stream from its beginning.
pub(crate) async fn stream<L: Log + ?Sized>(log: &L, stream_id: Uuid) -> Vec<Record> {
    let records = stream_in_pages(log, stream_id, StreamRead::forwards(1)).await;
    if let Some(first) = records.first() {
        assert_eq!(first.stream_version, 1, "versions start at 1");
    }
    records
}

/// Checks that a log holds exactly these appends: each whole, once, at the places that were answered.
pub(crate) fn assert_holds<'a>(log: &[Record], appends: impl IntoIterator<Item = (&'a Append, &'a Appended)>) {
    let mut wanted = Vec::new();
    for (append, done) in appends {
        let places = done.positions.iter().map(|place| (place.global_sequence, place.stream_version));
        wanted.extend(append.event_ids().zip(places).map(|(id, (sequence, version))| (sequence, version, id)));
    }
    wanted.sort_unstable();
    let held: Vec<_> = log.iter().map(|record| (record.global_sequence, record.stream_version, record.id)).collect();
    assert_eq!(held, wanted, "the log holds what was acknowledged, where it was acknowledged, and nothing else");
}

/// Checks that state in memory is refused: for backends whose store outlives the process.
pub async fn assert_state_in_memory_is_refused<B: Transactional>(bus: &EventBus<B>) {
    struct InMemory;

    impl Projection<Ledger> for InMemory {
        const STATE: StateIs = StateIs::InMemory;

        fn subscriber_id(&self) -> &str {
            "projection:in-memory"
        }

        async fn apply(&self, _: &Event<Ledger>) -> Result<(), BoxError> {
            Ok(())
        }
    }

    let refused = bus.subscribe(InMemory).await;
    assert!(matches!(refused, Err(Error::Invalid(Invalid::StateInMemory { .. }))), "{refused:?}");
}

/// Options of a subscriber that is delivered to as a bus with that configuration would.
#[must_use]
pub fn delivered(options: SubscriberOptions, config: &ReliableDeliveryConfig) -> SubscriberOptions {
    let options = options
        .max_retries(config.max_retries)
        .initial_retry_delay(config.initial_retry_delay)
        .max_retry_delay(config.max_retry_delay)
        .retry_jitter(config.retry_jitter)
        .checkpoint_mode(config.checkpoint_mode)
        .catch_up_batch_size(config.catch_up_batch_size)
        .catch_up_batch_bytes_max(config.catch_up_batch_bytes_max)
        .parked_per_stream_max(config.parked_per_stream_max)
        .parked_max(config.parked_max)
        .dead_letter_retention(config.dead_letter_retention)
        .healthy_lag_max(config.healthy_lag_max);
    match config.handler_timeout {
        Some(timeout) => options.handler_timeout(timeout),
        None => options,
    }
}
