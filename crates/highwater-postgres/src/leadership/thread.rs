//! The thread that keeps leadership: it has a dedicated runtime, so that a handler which blocks the application's does not
//! cost leadership.
//!
//! It owns the session and does one thing at a time on it: gives locks back, tries for those that are wanted, and lets the
//! server know that it is there. A lock that is held is never tried for a second time, because the server would grant it again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use highwater::Error;
use highwater::backend::{Moment, Seen, SharedError, Validity};
use tokio::sync::{Notify, broadcast, mpsc, oneshot, watch};
use tokio::time::Instant;
use uuid::Uuid;

use super::key::Key;
use super::session::{Place, Session, Swept};
use crate::wakeups::Announcer;

/// The least time between two attempts to connect, and between two sweeps.
const RECONNECT: Duration = Duration::from_millis(50);
const SWEEP_AGAIN: Duration = Duration::from_millis(5);
/// How long a lock that was asked for may lie there.
const COLLECTED_WITHIN: Duration = Duration::from_secs(1);
/// How long a lock that was released for another session is left to that one.
const RESERVED: Duration = Duration::from_secs(1);

/// What the thread is told.
pub(super) enum Command {
    /// A caller wants a lock.
    Want(WantedLock),
    /// A lock is released; `to` a session, if it is meant for one.
    Release { key: Key, number: u64, to: Option<Uuid>, done: Option<oneshot::Sender<()>> },
    /// The caller has collected its lock.
    Collected { key: Key, number: u64 },
    /// A caller wants to know whether there is a session.
    Ready(oneshot::Sender<Result<(), Error>>),
    /// It is over.
    Close(oneshot::Sender<()>),
}

pub(super) struct WantedLock {
    pub(super) key: Key,
    /// Whether to answer at once that another holder has it.
    pub(super) once: bool,
    /// Closed when no caller waits any more.
    pub(super) answer: oneshot::Sender<Result<Option<Granted>, Error>>,
}

/// A lock that was acquired.
pub(super) struct Granted {
    pub(super) session: Uuid,
    pub(super) number: u64,
    pub(super) lost: watch::Receiver<bool>,
    pub(super) validity: Arc<Validity>,
}

pub(super) struct Keeper {
    pub(super) place: Place,
    pub(super) standby_interval: Duration,
    pub(super) commands: mpsc::Receiver<Command>,
    /// What other instances say about leadership. Any role that may connect can say it as well.
    pub(super) hints: broadcast::Receiver<Arc<str>>,
    /// The instances, and what each wants.
    pub(super) rivals: watch::Receiver<Rivals>,
    pub(super) announcer: Announcer,
    /// The application looks at the other instances every second; unless it hangs.
    pub(super) seen: Arc<Seen>,
    /// When it last left a lock lying that it had asked for.
    pub(super) distrusted: Option<Moment>,
    /// The session that is open, for callers that look at the other instances.
    pub(super) current: watch::Sender<Option<Uuid>>,
    /// An instance is gone.
    pub(super) alarm: Arc<Notify>,
}

/// The sessions of all instances that live, with the locks that each of them wants.
pub(super) type Rivals = HashMap<Uuid, HashSet<Key>>;

#[derive(Default)]
struct Waiting {
    wants: HashMap<Key, VecDeque<WantedLock>>,
    /// Until when locks are left to another instance. An entry stays until the lock has been tried for after that: whatever
    /// is announced meanwhile, a free lock is never left alone for longer than that one time.
    reserved: HashMap<Key, Instant>,
    released: Vec<(Key, u64)>,
    collected: Vec<(Key, u64)>,
    announcements: Vec<(Key, Option<Uuid>)>,
    done: Vec<oneshot::Sender<()>>,
    ready: Vec<oneshot::Sender<Result<(), Error>>>,
    closed: Option<oneshot::Sender<()>>,
    /// So many sweeps are to be made at once. After what others do, two: what they free is not all free at the same moment.
    hasty: u8,
    /// Locks are numbered, so that one released late is not taken for the one held now.
    granted: u64,
}

impl Keeper {
    /// Until it is closed, or no sender is left.
    pub(super) async fn run(mut self) {
        let mut waiting = Waiting::default();
        let mut session: Option<Session> = None;
        let mut swept = Instant::now();
        let mut attempted: Option<Instant> = None;
        loop {
            if !self.listen(&mut waiting, session.as_ref(), swept, attempted).await {
                break;
            }
            if let Some(hung) = session.take_if(|session| self.has_hung(session)) {
                tracing::warn!("the application makes no progress; releasing leadership until it does");
                self.current.send_replace(None);
                hung.close(true).await;
            }
            if session.is_none() && waiting.is_wanted() && !self.hangs() {
                // Others may want something too by then, and one attempt serves them all.
                if let Some(again) = attempted.map(|attempted| attempted + RECONNECT) {
                    tokio::time::sleep_until(again).await;
                }
                attempted = Some(Instant::now());
                match self.open(&mut waiting).await {
                    Some(Ok(opened)) => {
                        tracing::debug!(session = %opened.id, "a session for leadership is open");
                        self.current.send_replace(Some(opened.id));
                        session = Some(opened);
                        waiting.hasty = 2;
                    }
                    Some(Err(error)) => waiting.fail(error),
                    None => break,
                }
            }
            if session.is_some() {
                waiting.ready.drain(..).for_each(|ready| tell(ready, Ok(())));
            }
            if let Some(open) = &mut session {
                let kept = self.keep(open, &mut waiting, &mut swept).await;
                if let Err(error) = kept {
                    tracing::warn!(%error, "leadership lost with its session; retrying");
                    self.current.send_replace(None);
                    if let Some(lost) = session.take() {
                        lost.close(false).await;
                    }
                }
            }
            waiting.finish(session.is_none());
        }
        self.current.send_replace(None);
        if let Some(open) = session {
            open.close(true).await;
        }
        waiting.finish(true);
        waiting.fail(Error::ShutDown);
        if let Some(closed) = waiting.closed {
            tell(closed, ());
        }
    }

    /// Whether the application has not been seen for a while, or not since it left a lock lying. It keeps what it leads: a
    /// handler may block its runtime. But it gets nothing more, because it would do nothing with it.
    fn hangs(&self) -> bool {
        self.seen.hangs() || self.distrusted.is_some_and(|distrusted| distrusted > self.seen.at())
    }

    /// Whether it has not been seen for so long that it is useless: then it gives up what it leads, and is not counted among
    /// the instances that could lead. Without anything to lead, it ceases to be counted much sooner.
    fn has_hung(&self, session: &Session) -> bool {
        self.seen.has_hung(session.leads_nothing(), self.place.bound)
    }

    /// Opens a session, and receives commands meanwhile: a caller that stops need not wait for a server that does not
    /// answer. `None` when it is over.
    async fn open(&mut self, waiting: &mut Waiting) -> Option<Result<Session, Error>> {
        let mut opening = std::pin::pin!(self.place.open());
        loop {
            tokio::select! {
                opened = &mut opening => return Some(opened),
                command = self.commands.recv() => waiting.accept(command?),
            }
            waiting.finish(true);
            if waiting.closed.is_some() {
                return None;
            }
        }
    }

    /// Waits until there is something to do. False when it is over.
    async fn listen(
        &mut self,
        waiting: &mut Waiting,
        session: Option<&Session>,
        swept: Instant,
        attempted: Option<Instant>,
    ) -> bool {
        let due = match session {
            Some(session) if waiting.is_wanted() && !self.hangs() => {
                session.until_ping().min(self.standby_interval.saturating_sub(swept.elapsed()))
            }
            Some(session) => session.until_ping(),
            None if waiting.is_wanted() && self.hangs() => self.standby_interval,
            None if waiting.is_wanted() => RECONNECT.saturating_sub(attempted.map_or(RECONNECT, |at| at.elapsed())),
            None => Duration::MAX,
        };
        let due = if waiting.hasty > 0 && session.is_some() && !self.hangs() {
            due.min(SWEEP_AGAIN.saturating_sub(swept.elapsed()))
        } else {
            due
        };
        tokio::select! {
            command = self.commands.recv() => match command {
                Some(command) => waiting.accept(command),
                None => return false,
            },
            hint = self.hints.recv() => match hint {
                Ok(hint) => waiting.on_hint(&hint, session.map(|session| session.id), &self.rivals.borrow()),
                Err(broadcast::error::RecvError::Lagged(_)) => waiting.hasty = 2,
                // The store is gone; remaining lock holders continue without hints.
                Err(broadcast::error::RecvError::Closed) => tokio::time::sleep(due.min(self.standby_interval)).await,
            },
            () = self.alarm.notified() => waiting.hasty = 2,
            () = tokio::time::sleep(due.min(Duration::from_secs(3600))) => {}
        }
        while let Ok(command) = self.commands.try_recv() {
            waiting.accept(command);
        }
        waiting.closed.is_none()
    }

    /// Does what is due on the session.
    async fn keep(&mut self, session: &mut Session, waiting: &mut Waiting, swept: &mut Instant) -> Result<(), Error> {
        if self.place.doubts(session) {
            return Err(Error::NotPrimary { reason: "the server may have been replaced".to_owned() });
        }
        session.release(&std::mem::take(&mut waiting.released)).await?;
        session.collected(&std::mem::take(&mut waiting.collected));
        if session.take_back_uncollected(COLLECTED_WITHIN).await? {
            self.distrusted = Some(Moment::now());
        }
        session.show(!self.hangs()).await?;
        for (key, to) in waiting.announcements.drain(..) {
            self.announcer.released(&hint(key, to));
        }
        waiting.done.drain(..).for_each(|done| tell(done, ()));
        let due = swept.elapsed() >= self.standby_interval || (waiting.hasty > 0 && swept.elapsed() >= SWEEP_AGAIN);
        let due = due && !self.hangs();
        let keys = if due { waiting.wanted(|key| session.holds(key)) } else { Vec::new() };
        if due {
            *swept = Instant::now();
            waiting.hasty = waiting.hasty.saturating_sub(1);
        }
        if keys.is_empty() && !session.until_ping().is_zero() {
            if due {
                waiting.refuse();
            }
            return Ok(());
        }
        let got = match session.sweep(&keys).await? {
            Swept::Got(got) => got,
            Swept::Refused(error) => {
                // Callers that want a lock are notified, and retry; leaders keep leading.
                waiting.fail(error);
                return Ok(());
            }
        };
        waiting.tried(&keys);
        let mut unwanted = Vec::new();
        for key in &got {
            if !waiting.grant(*key, session) {
                unwanted.push(*key);
            }
        }
        if due {
            waiting.refuse();
        }
        session.unlock(&unwanted).await
    }
}

impl Waiting {
    fn accept(&mut self, command: Command) {
        match command {
            Command::Want(want) => {
                self.wants.entry(want.key).or_default().push_back(want);
                self.hasty = self.hasty.max(1);
            }
            Command::Release { key, number, to, done } => {
                self.released.push((key, number));
                self.announcements.push((key, to));
                self.done.extend(done);
                // A caller in this process may be waiting for it.
                self.hasty = 2;
            }
            Command::Collected { key, number } => self.collected.push((key, number)),
            Command::Ready(ready) => self.ready.push(ready),
            Command::Close(closed) => self.closed = Some(closed),
        }
    }

    /// Another instance has released something: perhaps for another one, which is believed only of one that lives and wants it,
    /// and once.
    fn on_hint(&mut self, hint: &str, own: Option<Uuid>, rivals: &Rivals) {
        self.hasty = 2;
        if let Some((key, to)) = understood(hint)
            && own != Some(to)
            && rivals.get(&to).is_some_and(|wants| wants.contains(&key))
        {
            self.reserved.entry(key).or_insert_with(|| Instant::now() + RESERVED);
        }
    }

    /// Locks were tried for. Those that were not acquired have a holder, which may again release them for another.
    fn tried(&mut self, keys: &[Key]) {
        for key in keys {
            self.reserved.remove(key);
        }
    }

    fn is_wanted(&mut self) -> bool {
        self.wants.retain(|_, wants| {
            wants.retain(|want| !want.answer.is_closed());
            !wants.is_empty()
        });
        self.ready.retain(|ready| !ready.is_closed());
        !self.wants.is_empty() || !self.ready.is_empty()
    }

    /// The locks to be tried for. Those that are held here belong to another caller in this process.
    fn wanted(&mut self, held: impl Fn(Key) -> bool) -> Vec<Key> {
        self.is_wanted();
        let now = Instant::now();
        let free = |key: &&Key| !held(**key) && self.reserved.get(key).is_none_or(|until| *until <= now);
        self.wants.keys().filter(free).copied().collect()
    }

    /// Gives a lock to the first caller that still waits for it.
    fn grant(&mut self, key: Key, session: &mut Session) -> bool {
        self.granted += 1;
        let number = self.granted;
        while let Some(want) = self.wants.get_mut(&key).and_then(VecDeque::pop_front) {
            let (lost, validity) = (session.give(key, number), session.validity.clone());
            let granted = Granted { session: session.id, number, lost, validity };
            if want.answer.send(Ok(Some(granted))).is_ok() {
                return true;
            }
        }
        false
    }

    /// Tells callers that do not wait that another holder has it; they have had their try, or would not get one.
    fn refuse(&mut self) {
        for wants in self.wants.values_mut() {
            let (once, patient): (VecDeque<WantedLock>, _) =
                std::mem::take(wants).into_iter().partition(|want| want.once);
            *wants = patient;
            once.into_iter().for_each(|want| tell(want.answer, Ok(None)));
        }
    }

    /// No session can be opened: every caller is notified, and may ask again.
    fn fail(&mut self, error: Error) {
        let shared = SharedError::new(error);
        for want in self.wants.drain().flat_map(|(_, wants)| wants) {
            tell(want.answer, Err(shared.for_caller()));
        }
        self.ready.drain(..).for_each(|ready| tell(ready, Err(shared.for_caller())));
    }

    /// Without a session everything that was to be released is released.
    fn finish(&mut self, without_session: bool) {
        if without_session {
            self.released.clear();
            self.collected.clear();
            self.announcements.clear();
            self.done.drain(..).for_each(|done| tell(done, ()));
        }
    }
}

/// A caller that no longer waits does not need to know.
fn tell<T>(whom: oneshot::Sender<T>, what: T) {
    drop(whom.send(what).err());
}

/// What other instances are notified of: a lock is free, and perhaps for which session.
fn hint(key: Key, to: Option<Uuid>) -> String {
    match to {
        Some(to) => format!("{}.{} {to}", key.high, key.low),
        None => String::new(),
    }
}

/// The lock that was released for a session.
fn understood(hint: &str) -> Option<(Key, Uuid)> {
    let (key, to) = hint.split_once(' ')?;
    let (high, low) = key.split_once('.')?;
    Some((Key { high: high.parse().ok()?, low: low.parse().ok()? }, to.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let (key, to) = (Key { high: -5, low: 7 }, Uuid::now_v7());
        assert_eq!(understood(&hint(key, Some(to))), Some((key, to)));
        assert_eq!(understood(&hint(key, None)), None);
        for nonsense in ["", " ", "1.2", "1 2", "x.y z", "1.2 z"] {
            assert_eq!(understood(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_release_says_for_whom() {
        let (key, to) = (Key { high: 1, low: 2 }, Some(Uuid::now_v7()));
        let mut waiting = Waiting::default();
        waiting.accept(Command::Release { key, number: 3, to, done: None });
        assert_eq!((waiting.announcements, waiting.released), (vec![(key, to)], vec![(key, 3)]));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_meant_for_another_or_held_here_is_not_tried_for() {
        let (key, own) = (Key { high: 1, low: 2 }, Uuid::now_v7());
        let mut waiting = Waiting::default();
        let (answer, _waits) = oneshot::channel();
        waiting.accept(Command::Want(WantedLock { key, once: false, answer }));
        let nothing = |_: Key| false;
        assert_eq!(waiting.wanted(nothing), [key]);
        assert_eq!(waiting.wanted(|held| held == key), [], "the server would grant it again");
        let other = Uuid::now_v7();
        let rivals = HashMap::from([(own, HashSet::from([key])), (other, HashSet::from([key]))]);
        waiting.on_hint(&hint(key, Some(own)), Some(own), &rivals);
        assert_eq!(waiting.wanted(nothing), [key], "it is meant for this one");
        waiting.on_hint(&hint(key, Some(other)), Some(own), &rivals);
        assert_eq!(waiting.wanted(nothing), [], "it is meant for another");
        tokio::time::advance(RESERVED).await;
        assert_eq!(waiting.wanted(nothing), [key], "which has had its time");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_to_be_meant_for_another_is_left_to_it_once_until_it_was_tried_for() {
        let (key, own, other) = (Key { high: 1, low: 2 }, Uuid::now_v7(), Uuid::now_v7());
        let mut waiting = Waiting::default();
        let (answer, _waits) = oneshot::channel();
        waiting.accept(Command::Want(WantedLock { key, once: false, answer }));
        let nothing = |_: Key| false;
        let meant = hint(key, Some(other));
        waiting.on_hint(&meant, Some(own), &HashMap::new());
        assert_eq!(waiting.wanted(nothing), [key], "nobody has ever heard of that session");
        waiting.on_hint(&meant, Some(own), &HashMap::from([(other, HashSet::from([Key { high: 3, low: 4 }]))]));
        assert_eq!(waiting.wanted(nothing), [key], "it does not want it");
        let rivals = HashMap::from([(other, HashSet::from([key]))]);
        waiting.on_hint(&meant, Some(own), &rivals);
        for _ in 0..2 {
            assert_eq!(waiting.wanted(nothing), []);
            tokio::time::advance(RESERVED / 2).await;
            waiting.on_hint(&meant, Some(own), &rivals);
        }
        assert_eq!(waiting.wanted(nothing), [key], "repeating it does not make it last longer");
        waiting.tried(&[key]);
        waiting.on_hint(&meant, Some(own), &rivals);
        assert_eq!(waiting.wanted(nothing), [], "it was held in between, so it may have been released again");
    }
}
