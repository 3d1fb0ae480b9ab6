//! One read of the end of the log, shared by all live subscribers of a bus.
//!
//! The tail reads every event once and keeps the latest pages, bounded by count and by bytes. A subscriber takes what
//! comes after its own position; one whose position is not covered any more has fallen behind and reads by itself. There is
//! no queue per subscriber, so a slow one costs nothing and delays no other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::lock::lock;
use crate::log::{end_of_writers, named_writers};
use crate::{Backend, Backoff, Error, Filter, Page, ReadLimit, Record, ReliableDeliveryConfig, Wakeup};

/// How long to wait before checking again whether an open writer has ended; at first, and at most. A rollback sends no hint.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// For how long subscribers wait for open writers before that is logged.
const WORTH_SAYING: Duration = Duration::from_secs(1);

/// How long it may take to identify them. Every subscriber waits for it: if it takes longer, it is queried again a second
/// later.
const NAMED_WITHIN: Duration = Duration::from_millis(100);

/// How long to wait before asking for a slot again.
pub(crate) const TURNED_AWAY: Duration = Duration::from_millis(20);

/// The shared end of the log.
#[derive(Debug)]
pub(crate) struct Tail {
    state: Mutex<TailState>,
    /// Counts up whenever there is something to be seen.
    news: watch::Sender<u64>,
    /// A subscriber has taken a slot.
    wanted: Notify,
    limit: ReadLimit,
    keep: ReadLimit,
    poll_interval: Duration,
}

#[derive(Debug, Default)]
struct TailState {
    pages: VecDeque<Arc<TailPage>>,
    events: usize,
    bytes: usize,
    /// Up to here the log has been read.
    position: u64,
    /// The life of the server that the pages come from.
    incarnation: u64,
    slots: usize,
    /// Counts up when no subscriber has a slot any more, and when none can.
    epoch: u64,
    /// Slots from before are void: they were taken in another life of the server.
    void_before: u64,
    error: Option<String>,
}

/// Some pages' worth of the log.
#[derive(Debug)]
pub(crate) struct TailPage {
    after: u64,
    bytes: usize,
    pub(crate) complete_to: u64,
    pub(crate) records: Arc<Vec<Record>>,
}

/// What a subscriber finds.
#[derive(Debug)]
pub(crate) enum TailRead {
    Page(Arc<TailPage>),
    /// Nothing yet.
    Nothing,
    /// What comes next is not kept any more.
    Behind,
    /// The server was restarted or replaced.
    Void,
}

impl Tail {
    pub(crate) fn new(config: &ReliableDeliveryConfig) -> Self {
        Self {
            state: Mutex::default(),
            news: watch::Sender::new(0),
            wanted: Notify::new(),
            limit: ReadLimit {
                events: config.catch_up_batch_size.min(config.tail_events_max),
                bytes: config.catch_up_batch_bytes_max.min(config.tail_bytes_max),
            },
            keep: ReadLimit { events: config.tail_events_max, bytes: config.tail_bytes_max },
            poll_interval: config.poll_interval,
        }
    }

    /// Nothing is left half done when a holder panics: the state is sound between any two statements.
    fn state(&self) -> MutexGuard<'_, TailState> {
        lock(&self.state)
    }

    /// Why the log cannot be read at the moment.
    pub(crate) fn error(&self) -> Option<String> {
        self.state().error.clone()
    }

    /// A slot for a subscriber at a position; `None` when the tail does not cover that.
    pub(crate) fn join(self: &Arc<Self>, position: u64, incarnation: u64) -> Option<Slot> {
        let mut state = self.state();
        if state.slots == 0 {
            *state = TailState { position, incarnation, ..state.next() };
        } else if state.incarnation != incarnation || !state.covers(position) {
            return None;
        }
        state.slots += 1;
        let epoch = state.epoch;
        drop(state);
        self.wanted.notify_one();
        let news = self.news.subscribe();
        Some(Slot { tail: self.clone(), news, epoch })
    }

    /// Reads for as long as a subscriber listens. Never ends by itself.
    pub(crate) async fn run(self: Arc<Self>, backend: Arc<dyn Backend>) {
        let mut wakeup = backend.wakeups();
        // The highest number in a hint, and one that was seen to be committed.
        let (mut hint, mut checked) = (0, 0);
        let mut look_again = Backoff::new(LOOK_AGAIN.0, LOOK_AGAIN.1);
        let mut backoff = Backoff::of_backend();
        let mut life = 0;
        let mut held_back = HeldBack::default();
        loop {
            let Some((position, epoch, incarnation)) = self.shared_position() else {
                self.wanted.notified().await;
                continue;
            };
            if std::mem::replace(&mut life, incarnation) != incarnation {
                // What was learnt in another life of the server does not count.
                hint = 0;
            }
            match backend.read_all(position, &Filter::ALL, self.limit).await {
                Ok(page) => {
                    backoff.reset();
                    if self.keep(page, position, epoch) {
                        look_again.reset();
                        held_back.over();
                        continue;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "the shared tail cannot read");
                    self.failed(&error);
                    tokio::time::sleep(backoff.next_delay()).await;
                    continue;
                }
            }
            // Looked for long enough: is there anything at all? Hints are not to be trusted, and a real one is never higher
            // than what is committed.
            if hint > position && look_again.is_at_limit() && hint != checked {
                match backend.head().await {
                    Ok(head) => (hint, checked) = (hint.min(head), hint.min(head)),
                    Err(error) => tracing::debug!(%error, "the shared tail cannot tell where the log ends"),
                }
            }
            // Something is known to be there that cannot be read yet: a writer is open.
            match hint > position {
                true => held_back.seen(&*backend, position, hint).await,
                false => held_back.over(),
            }
            let pause = if hint > position { look_again.next_delay() } else { self.poll_interval };
            if hint <= position {
                look_again.reset();
            }
            if let Some(new) = self.doze(&mut wakeup, position, pause).await {
                hint = hint.max(new);
                look_again.reset();
            }
        }
    }

    /// Waits for a hint that says more than is known, or that hints were lost: the log may be in another life, where what is new has
    /// lower numbers. Or for a while.
    async fn doze(&self, wakeup: &mut Wakeup, position: u64, pause: Duration) -> Option<u64> {
        let news = async {
            loop {
                match wakeup.next().await {
                    Some(hint) if hint > position || hint == 0 => return hint,
                    Some(_) => {}
                    // The store is gone; so is this, soon.
                    None => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            hint = news => Some(hint),
            () = tokio::time::sleep(pause) => None,
            // A subscriber took a slot: perhaps at another position.
            () = self.wanted.notified() => None,
        }
    }

    fn shared_position(&self) -> Option<(u64, u64, u64)> {
        let state = self.state();
        (state.slots > 0).then_some((state.position, state.epoch, state.incarnation))
    }

    /// A damaged event concerns the subscribers that want it: each reads by itself, and only they meet it.
    fn failed(&self, error: &Error) {
        let mut state = self.state();
        if !matches!(error, Error::Damaged { .. }) {
            state.error = Some(crate::chain(error));
            return;
        }
        *state = state.next();
        drop(state);
        self.news.send_modify(|news| *news += 1);
    }

    /// True when there was something new.
    fn keep(&self, page: Page, position: u64, epoch: u64) -> bool {
        let mut state = self.state();
        state.error = None;
        if state.epoch != epoch || state.position != position {
            // Every subscriber left meanwhile, and another one came.
            return true;
        }
        if page.incarnation != state.incarnation {
            // Subscribers with a slot there find out at their next look; a new one starts afresh, and waits for no other.
            *state = TailState { void_before: state.epoch + 1, ..state.next() };
        } else if page.complete_to > position {
            state.push(page, self.keep);
        } else {
            return false;
        }
        drop(state);
        self.news.send_modify(|news| *news += 1);
        true
    }
}

/// That subscribers wait for open writers, logged once each time that it takes long.
#[derive(Debug, Default)]
struct HeldBack {
    /// Since when, or since when there has been nothing to wait for.
    since: Option<Instant>,
    said: bool,
}

impl HeldBack {
    async fn seen(&mut self, backend: &dyn Backend, position: u64, hint: u64) {
        if self.said || self.since.get_or_insert_with(Instant::now).elapsed() < WORTH_SAYING {
            return;
        }
        self.since = None;
        match tokio::time::timeout(NAMED_WITHIN, backend.open_writers()).await {
            Ok(Ok(writers)) if !writers.is_empty() => {
                let (who, end) = (named_writers(&writers), end_of_writers(&writers));
                tracing::warn!(
                    position,
                    head = hint,
                    "committed events wait for open transactions to end: {who}; {end}"
                );
                self.said = true;
            }
            Ok(Ok(_)) | Err(_) => {}
            Ok(Err(error)) => tracing::debug!(%error, "cannot query which transactions hold subscribers back"),
        }
    }

    fn over(&mut self) {
        if std::mem::take(self).said {
            tracing::info!("the transactions that subscribers waited for have ended");
        }
    }
}

impl TailState {
    /// Without subscribers, and nothing read.
    fn next(&self) -> Self {
        Self { epoch: self.epoch + 1, void_before: self.void_before, ..Self::default() }
    }

    fn covers(&self, position: u64) -> bool {
        position >= self.pages.front().map_or(self.position, |first| first.after)
    }

    fn push(&mut self, page: Page, keep: ReadLimit) {
        let bytes = page.records.iter().map(Record::bytes).sum();
        let (after, complete_to) = (self.position, page.complete_to);
        self.position = complete_to;
        self.events += page.records.len();
        self.bytes += bytes;
        self.pages.push_back(Arc::new(TailPage { after, bytes, complete_to, records: Arc::new(page.records) }));
        while self.pages.len() > 1 && (self.events > keep.events || self.bytes > keep.bytes) {
            let Some(oldest) = self.pages.pop_front() else { break };
            self.events -= oldest.records.len();
            self.bytes -= oldest.bytes;
        }
    }

    fn find(&self, position: u64) -> TailRead {
        if position >= self.position {
            return TailRead::Nothing;
        }
        if !self.covers(position) {
            return TailRead::Behind;
        }
        let at = self.pages.partition_point(|page| page.complete_to <= position);
        self.pages.get(at).map_or(TailRead::Nothing, |page| TailRead::Page(page.clone()))
    }
}

/// A live subscriber's place at the tail.
#[derive(Debug)]
pub(crate) struct Slot {
    tail: Arc<Tail>,
    news: watch::Receiver<u64>,
    epoch: u64,
}

impl Slot {
    /// What comes after a position, if anything does yet.
    pub(crate) fn find(&mut self, position: u64) -> TailRead {
        // Before looking, so that nothing that comes after the look is missed.
        self.news.borrow_and_update();
        let state = self.tail.state();
        match self.epoch {
            epoch if epoch < state.void_before => TailRead::Void,
            epoch if epoch < state.epoch => TailRead::Behind,
            _ => state.find(position),
        }
    }

    /// Waits until there may be something new. May be dropped at any await.
    pub(crate) async fn changed(&mut self) {
        if self.news.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.tail.state();
        if state.epoch != self.epoch {
            return;
        }
        state.slots = state.slots.saturating_sub(1);
        if state.slots == 0 {
            *state = state.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(complete_to: u64, incarnation: u64) -> Page {
        Page { records: Vec::new(), complete_to, incarnation }
    }

    fn tail() -> Arc<Tail> {
        Arc::new(Tail::new(&ReliableDeliveryConfig::default()))
    }

    /// Takes a page in as the reading task does.
    fn read(tail: &Tail, page: Page) {
        let (position, epoch, _) = tail.shared_position().unwrap();
        tail.keep(page, position, epoch);
    }

    #[test]
    fn after_the_server_was_replaced_a_newcomer_starts_anew_though_a_slot_is_still_taken() {
        let tail = tail();
        let mut stuck = tail.join(10, 1).unwrap();
        read(&tail, page(12, 2));
        assert!(matches!(stuck.find(10), TailRead::Void));
        let mut newcomer = tail.join(5, 2).expect("nobody has to wait for the one that is stuck");
        read(&tail, page(7, 2));
        assert!(matches!(newcomer.find(5), TailRead::Page(_)));
        drop(stuck);
        assert!(matches!(newcomer.find(7), TailRead::Nothing), "its going changes nothing for the others");
        read(&tail, page(9, 2));
        assert!(matches!(newcomer.find(7), TailRead::Page(_)));
    }

    #[test]
    fn when_an_event_is_damaged_everybody_reads_by_themselves_and_may_come_back() {
        let tail = tail();
        let (mut one, mut other) = (tail.join(10, 1).unwrap(), tail.join(10, 1).unwrap());
        tail.failed(&Error::Damaged { action: "read the log", source: "event 11".into() });
        assert!(matches!(one.find(10), TailRead::Behind) && matches!(other.find(10), TailRead::Behind));
        let mut beyond = tail.join(11, 1).expect("nobody has to wait for those who are in front of it");
        drop((one, other));
        read(&tail, page(13, 1));
        assert!(matches!(beyond.find(11), TailRead::Page(_)));
        assert_eq!(tail.error(), None, "the reader that meets it says so");
    }

    #[test]
    fn who_is_too_far_behind_is_told_so_and_gets_no_slot() {
        let config = ReliableDeliveryConfig { tail_events_max: 1, ..ReliableDeliveryConfig::default() };
        let tail = Arc::new(Tail::new(&config));
        let mut slow = tail.join(0, 1).unwrap();
        let record = |global_sequence| Record {
            id: uuid::Uuid::nil(),
            stream_id: uuid::Uuid::nil(),
            stream_name: None,
            stream_version: 1,
            global_sequence,
            event_type: "Noted".to_owned(),
            schema_version: 1,
            data: "null".to_owned(),
            metadata: "{}".to_owned(),
            created_at: chrono::DateTime::UNIX_EPOCH,
        };
        for n in 1..=3 {
            read(&tail, Page { records: vec![record(n)], complete_to: n, incarnation: 1 });
        }
        assert!(matches!(slow.find(0), TailRead::Behind));
        assert!(matches!(slow.find(2), TailRead::Page(_)), "the latest is kept");
        assert!(tail.join(1, 1).is_none() && tail.join(2, 1).is_some());
    }
}
