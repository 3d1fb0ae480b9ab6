//! Leadership among several instances, the same on every backend.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::guard::Name;
use super::known::Known;
use super::roll::{Roll, Wanted};
use super::{
    Candidate, HeldLock, Instance, Leader, LeaderHold, LeadershipGuard, LeadershipSettings, ProjectorCoordinator, View,
    spread,
};
use crate::config::check_label;
use crate::lock::lock;
use crate::subscriber::check_id;
use crate::{Backend, BoxFuture, Claim, CoordinatorConfig, Error};

/// How often to look for other instances.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often to query the leaders while the instances stay the same: one that took over from itself has another term.
const ASK_INTERVAL: Duration = Duration::from_secs(2);
/// How long to collect what changes together before telling the others.
const COLLECT: Duration = Duration::from_millis(20);
/// Subscribers released at one look: those that move stand still for a moment.
const MOVES_MAX: usize = 6;

/// Coordinates instances over the locks of a backend. Each bus has its own.
///
/// Leadership is a lock and a term: first the lock, which decides which instance tries; then, in a later step, the term,
/// which decides which may write. The checkpoint comes with the term, and from nowhere else: what was read before the lock
/// was held may be out of date.
pub struct Coordinator {
    inner: Arc<Inner>,
}

struct Inner {
    backend: Arc<dyn Backend>,
    candidate: Box<dyn Candidate>,
    instance: Instance,
    /// Settings that cannot work are refused when something is wanted.
    config: CoordinatorConfig,
    roll: Arc<Roll>,
    known: Mutex<Known>,
    spread_at: Mutex<Option<Instant>>,
    attending: Mutex<Option<JoinHandle<()>>>,
}

impl Coordinator {
    /// For one instance over a store, with the defaults. Nothing is opened before something is wanted.
    #[must_use]
    pub fn new(backend: &dyn Backend) -> Self {
        Self::with_config(backend, &CoordinatorConfig::default())
    }

    /// The same, with these settings.
    #[must_use]
    pub fn with_config(backend: &dyn Backend, config: &CoordinatorConfig) -> Self {
        Self::of(backend, Instance::here(config.instance_label.clone()), config)
    }

    /// The same for an instance whose label no application may choose.
    pub(crate) fn of(backend: &dyn Backend, instance: Instance, config: &CoordinatorConfig) -> Self {
        let candidate = backend.candidate(&instance, &LeadershipSettings::from(config));
        let (roll, known, spread_at, attending) =
            (Arc::default(), Mutex::default(), Mutex::default(), Mutex::default());
        let (backend, config) = (backend.shared(), config.clone());
        let inner = Inner { backend, candidate, instance, config, roll, known, spread_at, attending };
        Self { inner: Arc::new(inner) }
    }

    /// This instance.
    #[must_use]
    pub fn instance(&self) -> &Instance {
        &self.inner.instance
    }

    /// Enters a subscriber among what is wanted. With the first one, this instance begins to look for others.
    fn want(&self, claim: &Claim) -> Result<Wanted, Error> {
        self.inner.config.validate()?;
        check_id(&claim.subscriber_id)?;
        check_label("prefers", claim.prefers.as_deref())?;
        let mut attending = lock(&self.inner.attending);
        if attending.as_ref().is_none_or(JoinHandle::is_finished) {
            *attending = Some(tokio::spawn(attend(self.inner.clone())));
        }
        Ok(self.inner.roll.want(claim))
    }

    /// Makes leadership of a lock.
    async fn begin_term(
        &self,
        claim: &Claim,
        held: Box<dyn HeldLock>,
        wanted: Wanted,
    ) -> Result<LeadershipGuard, Error> {
        // It may have been lost on the way here, and belong to another instance, whose term must not be touched.
        if !held.is_held() {
            let source = "the lock was lost before it could be used".into();
            return Err(Error::Unavailable { action: "take over", source });
        }
        let (backend, claim) = (self.inner.backend.clone(), claim.clone().by(&self.inner.instance, held.session()));
        // To its end, also when the caller stops waiting: a term raised after the lock was released would fence the leader
        // of that moment.
        let taking = tokio::spawn(async move {
            let taken = backend.take_over(&claim).await?;
            Ok(LeadershipGuard::new(taken, held).entered(wanted.led()))
        });
        match taking.await {
            Ok(taken) => taken,
            Err(died) => Err(Error::Unavailable { action: "take over", source: died.into() }),
        }
    }
}

impl ProjectorCoordinator for Coordinator {
    fn ready(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            self.inner.config.validate()?;
            self.inner.candidate.ready().await
        })
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<LeadershipGuard>, Error>> {
        Box::pin(async move {
            let wanted = self.want(claim)?;
            if self.inner.roll.stands_back(&claim.subscriber_id).is_some() {
                return Ok(None);
            }
            let Some(held) = self.inner.candidate.try_hold(&claim.subscriber_id).await? else { return Ok(None) };
            self.begin_term(claim, held, wanted).await.map(Some)
        })
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<LeadershipGuard, Error>> {
        Box::pin(async move {
            let wanted = self.want(claim)?;
            if let Some(until) = self.inner.roll.stands_back(&claim.subscriber_id) {
                tokio::time::sleep_until(until).await;
            }
            let held = self.inner.candidate.hold(&claim.subscriber_id).await?;
            self.begin_term(claim, held, wanted).await
        })
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    fn leader(&self, subscriber_id: &str) -> Option<Leader> {
        self.inner.known().leaders.get(subscriber_id).cloned()
    }

    fn unled_for(&self, subscriber_id: &str) -> Option<Duration> {
        self.inner.known().unled_for(subscriber_id).filter(|unled| *unled > self.inner.config.takeover_bound)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.inner.stop_attending();
            self.inner.candidate.close().await;
        })
    }
}

impl Inner {
    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    fn stop_attending(&self) {
        if let Some(task) = lock(&self.attending).take() {
            task.abort();
        }
    }

    async fn attend_once(&self) -> Result<(), Error> {
        let view = self.candidate.view(&self.roll.wants()).await?;
        view.members.iter().for_each(|member| self.roll.seen_leading(member.session, &member.leads));
        if self.is_out_of_date(&view) {
            let leaders = self.backend.leaders().await?;
            self.known().learn(leaders, self.roll.awaited(), self.instance.id);
        }
        let awaited: HashSet<Name> = self.roll.awaited().into_iter().collect();
        self.known().unled.retain(|name, _| awaited.contains(name));
        // What changes is looked at at once; but what moves stands still for a moment, so it moves at leisure.
        let mut spread_at = lock(&self.spread_at);
        if self.config.spread && spread_at.is_none_or(|at| at.elapsed() >= LOOK_INTERVAL) {
            *spread_at = Some(Instant::now());
            self.spread(view);
        }
        Ok(())
    }

    /// Whether another instance than is known here leads what this instance waits for, or may do so with another term.
    fn is_out_of_date(&self, view: &View) -> bool {
        let holders = view.members.iter().flat_map(|member| member.leads.iter().map(|id| (&**id, &member.instance.id)));
        let holders: HashMap<_, _> = holders.collect();
        let (awaited, known) = (self.roll.awaited(), self.known());
        if !awaited.is_empty() && known.at.is_none_or(|at| at.elapsed() >= ASK_INTERVAL) {
            return true;
        }
        awaited.iter().any(|name| match (holders.get(&**name), known.leaders.get(&**name)) {
            (Some(holder), Some(leader)) => **holder != leader.instance.id || leader.hold != LeaderHold::Held,
            (None, Some(leader)) => leader.hold == LeaderHold::Held,
            (Some(_), None) => true,
            (None, None) => false,
        })
    }

    /// Requests the release of subscribers that should be elsewhere, a few at a time.
    fn spread(&self, mut view: View) {
        let Some(own) = view.own else { return };
        self.roll.take_back_asked();
        // A subscriber that would not be released counts, but no other instance can get it: another one moves in its place.
        let stays = self.roll.stays();
        for other in view.members.iter_mut().filter(|member| member.session != own) {
            let collects = self.roll.collects(other.session);
            other.wants.retain(|want| collects && !stays.contains(&*want.subscriber_id));
        }
        let mut planned = HashSet::new();
        // The instance that leads most comes first in it; the others wait for their turn.
        let most = MOVES_MAX * view.members.len();
        for plan in spread::plan(&view.members, most).into_iter().filter(|plan| plan.from == own) {
            if planned.len() == MOVES_MAX {
                break;
            }
            if planned.insert(plan.subscriber_id.clone()) && self.roll.ask(&plan.subscriber_id, plan.to) {
                let (id, to) = (&plan.subscriber_id, plan.to);
                tracing::debug!(subscriber_id = id, session = %to, "to be handed over to another instance, for balance");
            }
        }
    }
}

/// Looks for other instances, again and again.
async fn attend(inner: Arc<Inner>) {
    let mut troubled = false;
    loop {
        match inner.attend_once().await {
            Ok(()) => troubled = false,
            // The subscribers log it as well; here it would be logged every second.
            Err(error) if !troubled => {
                troubled = true;
                tracing::warn!(%error, "cannot see the other instances; retrying");
            }
            Err(_) => {}
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
            () = inner.roll.changed.notified() => tokio::time::sleep(COLLECT).await,
        }
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.inner.stop_attending();
    }
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator").field("instance", &self.inner.instance).finish_non_exhaustive()
    }
}
