//! Faults of leadership.

mod locks;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use highwater::backend::{
    BoxFuture, Candidate, Checkpoints, HeldLock, Instance, Leader, Leadership, LeadershipSettings, LockHolder, Taken,
    View, Want,
};
use highwater::{Claim, Error, MemoryEventStore};
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use crate::faulty::{Fault, Sound};

use locks::Odd;
pub(crate) use locks::*;

type Lock = Box<dyn HeldLock>;
type Tried<'a> = BoxFuture<'a, Result<Option<Lock>, Error>>;
type Waited<'a> = BoxFuture<'a, Result<Lock, Error>>;

/// What is wrong with a candidate. Each method does the right thing unless a quirk has it do something else.
pub(crate) trait Quirk: Send + Sync + 'static {
    fn try_hold<'a>(&'a self, sound: &'a Arc<dyn Candidate>, id: &'a str) -> Tried<'a> {
        sound.try_hold(id)
    }

    fn hold<'a>(&'a self, sound: &'a Arc<dyn Candidate>, id: &'a str) -> Waited<'a> {
        sound.hold(id)
    }

    /// What becomes of a view.
    fn sees(&self, view: View) -> View {
        view
    }

    fn close<'a>(&'a self, sound: &'a Arc<dyn Candidate>) -> BoxFuture<'a, ()> {
        sound.close()
    }
}

struct Quirky<Q> {
    sound: Arc<dyn Candidate>,
    quirk: Q,
}

impl<Q: Quirk> Candidate for Quirky<Q> {
    fn ready(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.sound.ready()
    }

    fn try_hold<'a>(&'a self, id: &'a str) -> Tried<'a> {
        self.quirk.try_hold(&self.sound, id)
    }

    fn hold<'a>(&'a self, id: &'a str) -> Waited<'a> {
        self.quirk.hold(&self.sound, id)
    }

    fn view<'a>(&'a self, wants: &'a [Want]) -> BoxFuture<'a, Result<View, Error>> {
        Box::pin(async move { Ok(self.quirk.sees(self.sound.view(wants).await?)) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.quirk.close(&self.sound)
    }
}

/// A backend whose candidates all have a quirk.
pub(crate) struct Candidates<Q>(pub(crate) fn() -> Q);

impl<Q: Quirk> Fault for Candidates<Q> {
    fn candidate(&self, sound: &Sound, instance: &Instance, settings: &LeadershipSettings) -> Box<dyn Candidate> {
        Box::new(Quirky { sound: sound.memory.candidate(instance, settings).into(), quirk: (self.0)() })
    }
}

/// No lock at all.
struct Nothing(watch::Sender<bool>);

impl Nothing {
    fn lock() -> Lock {
        Box::new(Self(watch::Sender::new(false)))
    }
}

impl HeldLock for Nothing {
    fn session(&self) -> Option<Uuid> {
        Some(Uuid::nil())
    }

    fn is_held(&self) -> bool {
        true
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }

    fn release(self: Box<Self>, _: Option<Uuid>) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

/// Says yes to every instance that asks.
pub(crate) struct LetsEverybodyLead;

impl Quirk for LetsEverybodyLead {
    fn try_hold<'a>(&'a self, _: &'a Arc<dyn Candidate>, _: &'a str) -> Tried<'a> {
        Box::pin(async { Ok(Some(Nothing::lock())) })
    }

    fn hold<'a>(&'a self, _: &'a Arc<dyn Candidate>, _: &'a str) -> Waited<'a> {
        Box::pin(async { Ok(Nothing::lock()) })
    }
}

/// Locks a session, and a session may lock again what it has locked.
#[derive(Default)]
pub(crate) struct LetsWhoLeadsLeadAgain(Arc<Mutex<HashSet<String>>>);

impl LetsWhoLeadsLeadAgain {
    fn has(&self, id: &str) -> bool {
        self.0.lock().expect("nobody panics with it").contains(id)
    }

    fn note(&self, id: &str, lock: Lock) -> Lock {
        self.0.lock().expect("nobody panics with it").insert(id.to_owned());
        let noted = Noted { id: id.to_owned(), names: Arc::clone(&self.0) };
        Box::new(Odd { lock: Some(lock), oddity: Arc::new(noted) })
    }
}

impl Quirk for LetsWhoLeadsLeadAgain {
    fn try_hold<'a>(&'a self, sound: &'a Arc<dyn Candidate>, id: &'a str) -> Tried<'a> {
        Box::pin(async move {
            if self.has(id) {
                return Ok(Some(Nothing::lock()));
            }
            Ok(sound.try_hold(id).await?.map(|lock| self.note(id, lock)))
        })
    }

    fn hold<'a>(&'a self, sound: &'a Arc<dyn Candidate>, id: &'a str) -> Waited<'a> {
        Box::pin(async move {
            if self.has(id) {
                return Ok(Nothing::lock());
            }
            Ok(self.note(id, sound.hold(id).await?))
        })
    }
}

/// Forgets a name with its lock.
struct Noted {
    id: String,
    names: Arc<Mutex<HashSet<String>>>,
}

impl Noted {
    fn forget(&self) {
        self.names.lock().expect("nobody panics with it").remove(&self.id);
    }
}

impl Oddity for Noted {
    fn release(&self, lock: Lock, to: Option<Uuid>) -> BoxFuture<'static, ()> {
        self.forget();
        lock.release(to)
    }

    fn dropped(&self, lock: Lock) {
        self.forget();
        drop(lock);
    }
}

/// Forgets who waits.
pub(crate) struct LetsNobodyLeadWhoWaits;

impl Quirk for LetsNobodyLeadWhoWaits {
    fn hold<'a>(&'a self, _: &'a Arc<dyn Candidate>, _: &'a str) -> Waited<'a> {
        Box::pin(std::future::pending())
    }
}

/// Knows one way to lock.
pub(crate) struct WaitsWhereItShouldTry;

impl Quirk for WaitsWhereItShouldTry {
    fn try_hold<'a>(&'a self, sound: &'a Arc<dyn Candidate>, id: &'a str) -> Tried<'a> {
        Box::pin(async move { sound.hold(id).await.map(Some) })
    }
}

/// Locks something that stands for a name.
pub(crate) struct TellsNamesApartBy(pub(crate) fn(&str) -> String);

impl Quirk for TellsNamesApartBy {
    fn try_hold<'a>(&'a self, sound: &'a Arc<dyn Candidate>, id: &'a str) -> Tried<'a> {
        Box::pin(async move { sound.try_hold(&(self.0)(id)).await })
    }

    fn hold<'a>(&'a self, sound: &'a Arc<dyn Candidate>, id: &'a str) -> Waited<'a> {
        Box::pin(async move { sound.hold(&(self.0)(id)).await })
    }
}

/// As much of a name as fits somewhere.
pub(crate) fn beginning(name: &str) -> String {
    name.chars().take(63).collect()
}

/// Uses names for something that must be short.
pub(crate) struct LeadsNothingWithALongName;

impl Quirk for LeadsNothingWithALongName {
    fn try_hold<'a>(&'a self, sound: &'a Arc<dyn Candidate>, id: &'a str) -> Tried<'a> {
        Box::pin(async move {
            if id.len() > 63 {
                return Err(Error::Unavailable { action: "lock", source: "the name is too long".into() });
            }
            sound.try_hold(id).await
        })
    }
}

/// Keeps locking for an instance that has gone.
pub(crate) struct KeepsWhatIsGivenUp;

impl Quirk for KeepsWhatIsGivenUp {
    fn hold<'a>(&'a self, sound: &'a Arc<dyn Candidate>, id: &'a str) -> Waited<'a> {
        let (sound, id) = (Arc::clone(sound), id.to_owned());
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            tokio::spawn(async move {
                if let Err(unheard) = answer.send(sound.hold(&id).await) {
                    std::mem::forget(unheard);
                }
            });
            answered.await.expect("the task answers")
        })
    }
}

/// Ends without a word.
pub(crate) struct KeepsEverythingWhenClosed;

impl Quirk for KeepsEverythingWhenClosed {
    fn close<'a>(&'a self, _: &'a Arc<dyn Candidate>) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

/// Gives back what it has when it is closed, and takes more.
pub(crate) struct LeadsOnWhenClosed;

impl Fault for LeadsOnWhenClosed {
    fn candidate(&self, sound: &Sound, instance: &Instance, settings: &LeadershipSettings) -> Box<dyn Candidate> {
        let quirk = Reopening { next: sound.memory.candidate(instance, settings).into() };
        Box::new(Quirky { sound: sound.memory.candidate(instance, settings).into(), quirk })
    }
}

struct Reopening {
    next: Arc<dyn Candidate>,
}

impl Quirk for Reopening {
    fn try_hold<'a>(&'a self, sound: &'a Arc<dyn Candidate>, id: &'a str) -> Tried<'a> {
        Box::pin(async move {
            match sound.try_hold(id).await {
                Err(Error::ShutDown) => self.next.try_hold(id).await,
                answer => answer,
            }
        })
    }
}

/// Reads the checkpoint, waits for the lock, and resumes from what it has read.
#[derive(Default)]
pub(crate) struct TakesOverFromWhereItBeganToWait(Arc<Mutex<HashMap<String, u64>>>);

impl Fault for TakesOverFromWhereItBeganToWait {
    fn candidate(&self, sound: &Sound, instance: &Instance, settings: &LeadershipSettings) -> Box<dyn Candidate> {
        let quirk = ReadsFirst { memory: sound.memory.clone(), read: Arc::clone(&self.0) };
        Box::new(Quirky { sound: sound.memory.candidate(instance, settings).into(), quirk })
    }

    fn take_over<'a>(&'a self, sound: &'a Sound, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        Box::pin(async move {
            let mut taken = sound.memory.take_over(claim).await?;
            let read = self.0.lock().expect("nobody panics with it").remove(&*claim.subscriber_id);
            taken.checkpoint.global_sequence = read.unwrap_or(taken.checkpoint.global_sequence);
            Ok(taken)
        })
    }
}

struct ReadsFirst {
    memory: MemoryEventStore,
    read: Arc<Mutex<HashMap<String, u64>>>,
}

impl Quirk for ReadsFirst {
    fn hold<'a>(&'a self, sound: &'a Arc<dyn Candidate>, id: &'a str) -> Waited<'a> {
        Box::pin(async move {
            if let Some(found) = self.memory.checkpoint(id).await? {
                self.read.lock().expect("nobody panics with it").insert(id.to_owned(), found.global_sequence);
            }
            sound.hold(id).await
        })
    }
}

/// Says something else of who leads.
pub(crate) struct Tells(pub(crate) fn(&mut Leader));

impl Fault for Tells {
    fn leaders<'a>(&'a self, sound: &'a Sound) -> BoxFuture<'a, Result<Vec<Leader>, Error>> {
        Box::pin(async move {
            let mut leaders = sound.memory.leaders().await?;
            leaders.iter_mut().for_each(self.0);
            Ok(leaders)
        })
    }
}

/// Shows something else of who is there.
pub(crate) struct Sees(pub(crate) fn(View) -> View);

impl Fault for Sees {
    fn candidate(&self, sound: &Sound, instance: &Instance, settings: &LeadershipSettings) -> Box<dyn Candidate> {
        Box::new(Quirky { sound: sound.memory.candidate(instance, settings).into(), quirk: Sees(self.0) })
    }
}

impl Quirk for Sees {
    fn sees(&self, view: View) -> View {
        (self.0)(view)
    }
}

pub(crate) fn nobody_else(mut view: View) -> View {
    view.members.retain(|member| Some(member.session) == view.own);
    view
}

pub(crate) fn no_labels(mut view: View) -> View {
    view.members.iter_mut().for_each(|member| member.instance.label = None);
    view
}

pub(crate) fn nothing_led(mut view: View) -> View {
    view.members.iter_mut().for_each(|member| member.leads.clear());
    view
}

/// Sees no lock that an instance has.
pub(crate) struct SeesNoLocks;

impl Fault for SeesNoLocks {
    fn lock_holders<'a>(&'a self, _: &'a Sound, _: &'a [String]) -> BoxFuture<'a, Result<Vec<LockHolder>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// Sees a lock on everything.
pub(crate) struct SeesLocksEverywhere;

impl Fault for SeesLocksEverywhere {
    fn lock_holders<'a>(
        &'a self,
        _: &'a Sound,
        subscriber_ids: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<LockHolder>, Error>> {
        Box::pin(async { Ok(subscriber_ids.iter().map(LockHolder::of).collect()) })
    }
}
