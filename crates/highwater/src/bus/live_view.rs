//! State in memory, folded from the whole log on every instance.

mod failures;
mod follower;
mod options;
mod snapshot;
mod status;

use std::any::type_name;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use uuid::Uuid;

use self::follower::Follower;
use self::status::{ViewProblem, ViewStatus};
use super::{Bus, Inner};
use crate::lock::read;
use crate::{BusError, Error, Evolve, GlobalSequence, IntoGlobalSequence, codec};

/// How soon to look again whether a view has noticed that the log is in another life.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub use self::options::ViewOptions;
pub use self::snapshot::ViewSnapshot;
pub(super) use self::status::ViewEntry;

/// State that an instance keeps in memory, folded from all events that it knows, and kept up to date.
///
/// It has no name, no checkpoint and no leader: every instance folds its own from the beginning of the log when it starts, or
/// from a [`ViewSnapshot`]. So it is right after a restart and on every instance, which state that a
/// [`Projection`](crate::Projection) keeps in memory is not.
///
/// ```
/// use highwater::prelude::*;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// enum Order { Placed { cents: i64 } }
///
/// #[derive(Default)]
/// struct Revenue { cents: i64 }
///
/// impl Evolve for Revenue {
///     type Event = Order;
///     fn evolve(&mut self, event: &Event<Order>) {
///         let Order::Placed { cents } = event.data;
///         self.cents += cents;
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = MemoryEventStore::new();
/// let bus = MemoryEventBus::new(store.clone());
/// let revenue = bus.live_view::<Revenue>()?;
///
/// let done = store.append(&Append::to(stream_id("order", "17")).event(Order::Placed { cents: 1299 })).await?;
/// let cents = revenue.read_after(&done, |revenue| revenue.cents).await?;     // read your own writes
/// assert_eq!(cents, 1299);
/// # Ok::<(), highwater::Error>(()) }).unwrap();
/// ```
///
/// Clones share it; with the last one it stops. When the server was restarted or replaced it is folded again from the
/// beginning, because what was read before may have been lost; [`read`](Self::read) gives the former state meanwhile.
#[derive(Debug)]
pub struct LiveView<S> {
    shared: Arc<Handle<S>>,
}

struct Handle<S> {
    id: Uuid,
    bus: Arc<Inner>,
    folded: Arc<RwLock<ViewSnapshot<S>>>,
    status: watch::Receiver<ViewStatus>,
    task: AbortHandle,
}

impl Bus {
    /// Starts folding state from the whole log in memory, from the beginning, and keeps it up to date. Returns at once;
    /// [`LiveView::ready`] waits until everything that is committed now is in it.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the types of its events cannot be told, or for a setting that cannot be used;
    /// [`Error::ShutDown`].
    pub fn live_view<S>(&self) -> Result<LiveView<S>, Error>
    where
        S: Evolve + Sync + 'static,
    {
        self.live_view_with(ViewOptions::default())
    }

    /// The same from streams of some kinds only: `bus.live_view_of_kinds::<Orders>(["order"])`. For enums that share names of
    /// variants with others.
    ///
    /// # Errors
    /// As [`live_view`](Self::live_view).
    pub fn live_view_of_kinds<S>(
        &self,
        kinds: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<LiveView<S>, Error>
    where
        S: Evolve + Sync + 'static,
    {
        self.live_view_with(ViewOptions::default().of_kinds(kinds))
    }

    /// The same from a snapshot. One whose last event the log does not have at that place belongs to another log, or to one
    /// that was restored to an earlier state: then the view starts from the beginning, and a warning is logged. So it does, and
    /// says so, when the snapshot was folded from other types of events or other kinds of streams than the view has now, or when
    /// events were skipped in it, which can perhaps be folded now.
    ///
    /// # Errors
    /// As [`live_view`](Self::live_view).
    pub fn live_view_from<S>(&self, snapshot: ViewSnapshot<S>) -> Result<LiveView<S>, Error>
    where
        S: Evolve + Sync + 'static,
    {
        self.live_view_with(ViewOptions::default().snapshot(snapshot))
    }

    /// The same as its options say.
    ///
    /// # Errors
    /// As [`live_view`](Self::live_view).
    pub fn live_view_with<S>(&self, options: ViewOptions<S>) -> Result<LiveView<S>, Error>
    where
        S: Evolve + Sync + 'static,
    {
        self.inner.config.validate()?;
        crate::kinds::check_kinds(options.kinds.as_deref())?;
        let types = codec::event_types::<S::Event>()?;
        let folded = Arc::new(RwLock::new(ViewSnapshot::default()));
        let (sender, status) = watch::channel(ViewStatus::default());
        let follower = Follower::new(self.inner.clone(), types, options, folded.clone(), sender);
        let mut state = self.inner.state();
        if state.shut_down {
            return Err(Error::ShutDown);
        }
        self.start_services(&mut state);
        let (id, task) = (Uuid::now_v7(), tokio::spawn(follower.run()).abort_handle());
        state.views.insert(id, ViewEntry::new(type_name::<S>(), status.clone(), task.clone()));
        drop(state);
        Ok(LiveView { shared: Arc::new(Handle { id, bus: self.inner.clone(), folded, status, task }) })
    }
}

impl<S> LiveView<S> {
    /// Waits until everything that was committed when the view started is in it, for as long as that takes.
    ///
    /// # Errors
    /// [`BusError::ViewStopped`] when an event could not be folded, unless such are [skipped](ViewOptions::skip_failures); [`Error::ShutDown`] when the bus was shut down.
    pub async fn ready(&self) -> Result<(), Error> {
        self.wait(|status| status.ready).await
    }

    /// Looks at the state, as soon as it is [ready](Self::ready). Nothing new is folded meanwhile, so look briefly.
    ///
    /// # Errors
    /// [`BusError::ViewNotReady`] when it is not ready within
    /// [`wait_timeout`](crate::ReliableDeliveryConfig::wait_timeout); else as [`ready`](Self::ready).
    pub async fn read<T>(&self, look: impl FnOnce(&S) -> T) -> Result<T, Error> {
        self.read_when(None, look).await
    }

    /// Looks at the state as soon as an event is in it: `&appended`, or a [`GlobalSequence`]. The log is asked once whether
    /// that event's place is still that event's.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_after<T>(&self, event: impl IntoGlobalSequence, look: impl FnOnce(&S) -> T) -> Result<T, Error> {
        let GlobalSequence(event) = event.into_global_sequence();
        self.read_when(Some(event), look).await
    }

    async fn read_when<T>(&self, wanted: Option<u64>, look: impl FnOnce(&S) -> T) -> Result<T, Error> {
        let waited = self.shared.bus.config.wait_timeout;
        let there = async {
            let Some(wanted) = wanted else { return self.wait(|status| status.ready).await };
            loop {
                self.wait(|status| status.ready && status.position >= wanted).await?;
                let life = self.shared.status.borrow().life;
                // In a life of the log that is over, that position says nothing about the event. The view will notice.
                match self.shared.bus.shared.backend.life().await {
                    Ok(now) if life == Some(now) => return Ok(()),
                    Err(error) if !error.is_retryable() => return Err(error),
                    _ => tokio::time::sleep(LOOK_AGAIN).await,
                }
            }
        };
        if let Ok(there) = tokio::time::timeout(waited, there).await {
            there?;
            return self.with_snapshot(|folded| look(&folded.state));
        }
        let folded_to = self.shared.status.borrow().folded_to;
        Err(Error::Bus(BusError::ViewNotReady { view: type_name::<S>(), wanted, folded_to, waited }))
    }

    /// A copy of the state with its position, as soon as it is [ready](Self::ready).
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    pub async fn snapshot(&self) -> Result<ViewSnapshot<S>, Error>
    where
        S: Clone,
    {
        self.ready().await?;
        self.with_snapshot(ViewSnapshot::clone)
    }

    /// Looks at what is folded. The lock is not held over any await, so nothing can wait for itself.
    fn with_snapshot<T>(&self, of: impl FnOnce(&ViewSnapshot<S>) -> T) -> Result<T, Error> {
        let folded = read(&self.shared.folded);
        // Under the lock: what an event left half folded is never seen.
        sound::<S>(&self.shared.status.borrow())?;
        Ok(of(&folded))
    }

    async fn wait(&self, there: impl Fn(&ViewStatus) -> bool) -> Result<(), Error> {
        let mut status = self.shared.status.clone();
        let seen = status.wait_for(|status| sound::<S>(status).is_err() || there(status)).await;
        seen.map_or(Err(Error::ShutDown), |status| sound::<S>(&status))
    }
}

/// Whether a view can still be read.
fn sound<S>(status: &ViewStatus) -> Result<(), Error> {
    match &status.problem {
        None | Some(ViewProblem::Trouble(_)) => Ok(()),
        Some(ViewProblem::Stopped(reason)) => {
            Err(Error::Bus(BusError::ViewStopped { view: type_name::<S>(), reason: reason.to_string() }))
        }
        Some(ViewProblem::Ended) => Err(Error::ShutDown),
    }
}

impl<S> Clone for LiveView<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<S> std::fmt::Debug for Handle<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("status", &self.status.borrow()).finish_non_exhaustive()
    }
}

impl<S> Drop for Handle<S> {
    fn drop(&mut self) {
        self.task.abort();
        self.bus.state().views.remove(&self.id);
    }
}
