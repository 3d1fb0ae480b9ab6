//! What keeps a live view up to date.

use std::any::type_name;
use std::sync::{Arc, RwLock};

use tokio::sync::watch;

use super::failures::{Failures, Stopped, evolve, unpanicked};
use super::snapshot::{fitting, nothing};
use super::status::{Skipped, ViewProblem, ViewStatus};
use super::{ViewOptions, ViewSnapshot};
use crate::bus::Inner;
use crate::delivery::catch_up::CatchUp;
use crate::delivery::tail::{Slot, TURNED_AWAY, TailRead};
use crate::kinds::{KindsOfTypes, warn_of_missing_kinds};
use crate::lock::write;
use crate::{Backoff, Error, Event, EventTypes, Evolve, Filter, ReadLimit, Record, chain, codec};

/// Events that are folded before readers get a turn.
const TURN: usize = 256;

/// The task behind a view.
pub(super) struct Follower<S> {
    bus: Arc<Inner>,
    types: EventTypes,
    filter: Arc<Filter>,
    kinds: KindsOfTypes,
    /// Whether there are streams of the kinds that it asks for was checked.
    looked_for_kinds: bool,
    /// Everything up to here has been folded.
    position: u64,
    /// The life of the server that what is folded comes from. None: nothing is folded yet.
    life: Option<u64>,
    /// What is being folded until it is ready; readers get what was before.
    aside: Option<ViewSnapshot<S>>,
    /// Where it is ready, once that is known.
    target: Option<u64>,
    folded: Arc<RwLock<ViewSnapshot<S>>>,
    failures: Failures,
}

/// Why following ended.
enum Ended {
    /// The server was restarted or replaced.
    NewLife,
    /// The snapshot is not one of this log.
    OtherLog,
    /// The log cannot be read.
    Trouble(Error),
    /// An event cannot be folded.
    Stopped,
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        if matches!(error, Error::Interrupted { .. }) { Self::NewLife } else { Self::Trouble(error) }
    }
}

impl From<Stopped> for Ended {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl<S: Evolve + Sync + 'static> Follower<S> {
    pub(super) fn new(
        bus: Arc<Inner>,
        types: EventTypes,
        options: ViewOptions<S>,
        folded: Arc<RwLock<ViewSnapshot<S>>>,
        status: watch::Sender<ViewStatus>,
    ) -> Self {
        let ViewOptions { kinds, snapshot, skip_failures: skip } = options;
        let filter = Arc::new(Filter { types: bus.shared.backend.upcasters().stored_types(&types), kinds });
        let aside = fitting(snapshot, &filter);
        let position = aside.global_sequence;
        Self {
            bus,
            types,
            filter,
            kinds: KindsOfTypes::default(),
            looked_for_kinds: false,
            position,
            life: None,
            aside: Some(aside),
            target: None,
            folded,
            failures: Failures { view: type_name::<S>(), skip, status },
        }
    }

    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::of_backend();
        loop {
            let before = (self.life, self.position);
            let ended = self.follow().await;
            if before != (self.life, self.position) {
                backoff.reset();
            }
            match ended {
                Ended::NewLife => {
                    tracing::info!(view = type_name::<S>(), "the server was restarted; folding from the beginning");
                    self.start_over();
                }
                Ended::OtherLog => self.start_over(),
                Ended::Trouble(error) => self.troubled(&chain(&error)),
                Ended::Stopped => return,
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    /// From the beginning, while readers keep what is there.
    fn start_over(&mut self) {
        (self.life, self.position, self.target) = (None, 0, None);
        self.aside = Some(nothing(&self.filter));
        self.failures.status.send_modify(|status| {
            (status.position, status.folded_to, status.skipped) = (0, 0, Skipped::default());
        });
    }

    fn troubled(&self, error: &str) {
        let first = self.failures.status.borrow().problem.is_none();
        if first {
            tracing::warn!(view = type_name::<S>(), error, "a live view cannot read the log; retrying");
        }
        self.failures.status.send_modify(|status| status.problem = Some(ViewProblem::Trouble(error.into())));
    }

    /// Catches up, and follows the shared tail from there. Ends with a reason; may be dropped at any await, because what is
    /// folded and the position move together.
    async fn follow(&mut self) -> Ended {
        loop {
            let slot = match self.catch_up().await {
                Ok(slot) => slot,
                Err(ended) => return ended,
            };
            if !std::mem::replace(&mut self.looked_for_kinds, true) {
                warn_of_missing_kinds(type_name::<S>(), &*self.bus.shared.backend, &self.filter).await;
            }
            // If not, it has fallen behind the tail, and reads by itself again.
            if let Some(ended) = self.live(slot).await {
                return ended;
            }
        }
    }

    /// Reads up to where the shared tail can be joined.
    async fn catch_up(&mut self) -> Result<Slot, Ended> {
        let (parts, config) = (self.bus.shared.clone(), &self.bus.config);
        let limit = ReadLimit { events: config.catch_up_batch_size, bytes: config.catch_up_batch_bytes_max };
        loop {
            let mut reader = CatchUp::start(&parts.backend, self.position, self.filter.clone(), limit);
            while let Some(read) = reader.next().await {
                let read = read?;
                self.anchor(read.page.incarnation).await?;
                self.fold(&read.page.records, read.page.complete_to).await?;
                if read.near {
                    break;
                }
            }
            let Some(life) = self.life else { continue };
            if let Some(slot) = parts.tail.join(self.position, life) {
                return Ok(slot);
            }
            tokio::time::sleep(TURNED_AWAY).await;
        }
    }

    /// Makes sure that what is folded belongs to this life of the server, and finds out where the view is ready.
    async fn anchor(&mut self, life: u64) -> Result<(), Ended> {
        match self.life {
            Some(before) if before == life => return Ok(()),
            Some(_) => return Err(Ended::NewLife),
            None => {}
        }
        let backend = &self.bus.shared.backend;
        // After the first page of this life: were the server replaced meanwhile, the next page tells.
        let snapshot = self.aside.as_ref().map(|aside| (aside.global_sequence, aside.event_id));
        let stands = match snapshot {
            Some((number, Some(id))) => backend.record(id).await?.is_some_and(|found| found.global_sequence == number),
            Some((number, None)) => number == 0,
            None => true,
        };
        if !stands {
            tracing::warn!(
                view = type_name::<S>(),
                global_sequence = self.position,
                "the log does not have the last event of the snapshot at that place; the view starts from the beginning"
            );
            return Err(Ended::OtherLog);
        }
        self.target = Some(backend.head().await?);
        self.life = Some(life);
        Ok(())
    }

    /// Follows the tail until it does not cover this position any more.
    async fn live(&mut self, mut slot: Slot) -> Option<Ended> {
        loop {
            match slot.find(self.position) {
                TailRead::Page(page) => {
                    if let Err(ended) = self.fold(&page.records, page.complete_to).await {
                        return Some(ended);
                    }
                }
                TailRead::Nothing => slot.changed().await,
                TailRead::Behind => return None,
                TailRead::Void => return Some(Ended::NewLife),
            }
        }
    }

    async fn fold(&mut self, records: &[Record], complete_to: u64) -> Result<(), Ended> {
        let position = self.position;
        let wanted = records.iter().filter(|record| record.global_sequence > position);
        let wanted: Vec<&Record> = wanted.filter(|record| self.filter.accepts(record)).collect();
        self.kinds.check_read(type_name::<S>(), &self.filter, wanted.iter().copied());
        for some in wanted.chunks(TURN) {
            // Before the lock is taken: readers wait for what is folded, and not for what is decoded.
            let decoded = self.decode(some)?;
            match &mut self.aside {
                Some(aside) => evolve(aside, &decoded, &self.failures)?,
                // Under the lock, so that no reader sees an event half folded.
                None => evolve(&mut *write(&self.folded), &decoded, &self.failures)?,
            }
            self.position = some.last().map_or(self.position, |last| last.global_sequence);
            // Readers, and a bus that shuts down, get a turn.
            tokio::task::yield_now().await;
        }
        self.position = self.position.max(complete_to);
        if self.target.is_some_and(|target| self.position >= target)
            && let Some(aside) = self.aside.take()
        {
            *write(&self.folded) = aside;
        }
        let (position, life, ready) = (self.position, self.life, self.aside.is_none());
        self.failures.status.send_modify(|status| {
            (status.folded_to, status.problem) = (position, None);
            if ready {
                (status.position, status.life, status.ready) = (position, life, true);
            }
        });
        Ok(())
    }

    fn decode(&self, records: &[&Record]) -> Result<Vec<Event<S::Event>>, Stopped> {
        let upcasters = self.bus.shared.backend.upcasters();
        let mut decoded = Vec::with_capacity(records.len());
        for record in records {
            let decoding = || codec::decode_kept(record, &self.types, upcasters).map_err(|error| chain(&error));
            match unpanicked(decoding) {
                Ok(event) => decoded.extend(event),
                Err(why) => self.failures.met(record.global_sequence, &record.event_type, &why)?,
            }
        }
        Ok(decoded)
    }
}

/// However its task ends, nobody is left with a view that silently stays as it is.
impl<S> Drop for Follower<S> {
    fn drop(&mut self) {
        self.failures.status.send_modify(|status| {
            if !matches!(status.problem, Some(ViewProblem::Stopped(_))) {
                status.problem = Some(ViewProblem::Ended);
            }
        });
    }
}
