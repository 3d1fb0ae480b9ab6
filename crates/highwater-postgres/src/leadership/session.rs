//! The one connection that an instance's locks hang on.
//!
//! It never opens a transaction and never waits for a lock: the server's time-out for a silent session only counts while the
//! session is idle. On any error it is closed, and with it every lock is released: an uncertain lock is worse than none.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use highwater::Error;
use highwater::backend::{Moment, Validity};
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::postgres::types::Oid;
use tokio::sync::watch;
use uuid::Uuid;

use super::key::{self, Key, halves};
use crate::connect::{Connector, Kept};
use crate::error::{failed, in_time, sqlstate};
use crate::pooler::insist_on_session;
use crate::sql::Sql;

/// What a session needs to be opened.
pub(super) struct Place {
    pub(super) connector: Connector,
    /// The store's own, which may be the first to see that the primary has moved.
    pub(super) store: Connector,
    pub(super) sql: Arc<Sql>,
    pub(super) schema: String,
    pub(super) bound: Duration,
    /// The connection was seen to be a dedicated session. Once is enough: from then on every sweep checks whether it is
    /// still the same.
    pub(super) own: AtomicBool,
}

pub(super) struct Session {
    pub(super) id: Uuid,
    kept: Kept,
    pid: i32,
    own: Key,
    sql: Arc<Sql>,
    bound: Duration,
    pub(super) validity: Arc<Validity>,
    held: HashMap<Key, LockHold>,
    /// Whether the others see it.
    shown: bool,
    /// When the server was last asked anything, and when which locks the session holds.
    asked: Moment,
    looked: Moment,
}

/// A lock that is held.
struct LockHold {
    number: u64,
    /// Since when it is uncollected, until the caller that wanted it has it.
    uncollected: Option<Moment>,
    lost: watch::Sender<bool>,
}

impl Place {
    pub(super) async fn open(&self) -> Result<Session, Error> {
        let mut connection = self.connector.connect("lead", None).await?;
        if !self.own.load(Ordering::Relaxed) {
            insist_on_session(&mut connection, &self.connector, "lead", &self.sql).await?;
            self.own.store(true, Ordering::Relaxed);
        }
        let sent = Moment::now();
        let opening = sqlx::query(self.sql.lead_session.clone())
            .bind(i32::try_from(self.bound.as_millis()).unwrap_or(i32::MAX))
            .fetch_one(&mut connection);
        let row = answered(self.bound, opening).await?;
        let read = |e| failed("open a session for leadership", e);
        let (pid, role): (i32, Oid) = (row.try_get(0).map_err(read)?, row.try_get(1).map_err(read)?);
        let id = key::session(pid, role.0);
        let mut session = Session {
            id,
            kept: Kept::new(connection, ()),
            pid,
            own: Key::instance(&self.schema, id),
            sql: self.sql.clone(),
            bound: self.bound,
            validity: Arc::new(Validity::new(sent, self.bound)),
            held: HashMap::new(),
            shown: false,
            asked: sent,
            looked: sent,
        };
        session.show(true).await?;
        if session.shown { Ok(session) } else { Err(lost("the server has no room for the lock of a new session")) }
    }

    /// Whether the server may have been replaced since a session was opened.
    pub(super) fn doubts(&self, session: &Session) -> bool {
        [&self.store, &self.connector].iter().any(|way| session.kept.is_doubted(way))
    }
}

impl Session {
    /// How often the server hears of it, at least.
    fn ping_interval(&self) -> Duration {
        self.bound / 20
    }

    /// How often it makes sure which locks it holds.
    fn look_interval(&self) -> Duration {
        self.bound / 5
    }

    pub(super) fn until_ping(&self) -> Duration {
        self.ping_interval().saturating_sub(self.asked.elapsed())
    }

    pub(super) fn leads_nothing(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn holds(&self, key: Key) -> bool {
        self.held.contains_key(&key)
    }

    /// Records that a lock is given to a caller. The receiver resolves when it is lost.
    pub(super) fn give(&mut self, key: Key, number: u64) -> watch::Receiver<bool> {
        let lost = watch::Sender::new(false);
        let tells = lost.subscribe();
        self.held.insert(key, LockHold { number, uncollected: Some(Moment::now()), lost });
        tells
    }

    /// Callers have collected their locks.
    pub(super) fn collected(&mut self, locks: &[(Key, u64)]) {
        for (key, number) in locks {
            if let Some(held) = self.held.get_mut(key).filter(|held| held.number == *number) {
                held.uncollected = None;
            }
        }
    }

    /// Releases what has been uncollected for longer than that. Returns whether there was any.
    pub(super) async fn take_back_uncollected(&mut self, patience: Duration) -> Result<bool, Error> {
        let lies = |held: &LockHold| held.uncollected.is_some_and(|since| since.elapsed() > patience);
        let lying: Vec<Key> = self.held.iter().filter(|(_, held)| lies(held)).map(|(key, _)| *key).collect();
        for held in lying.iter().filter_map(|key| self.held.get(key)) {
            held.lost.send_replace(true);
        }
        self.unlock(&lying).await?;
        Ok(!lying.is_empty())
    }

    /// Shows to the other instances that this one is there, or hides it: by its own lock.
    pub(super) async fn show(&mut self, shown: bool) -> Result<(), Error> {
        if shown == self.shown {
            return Ok(());
        }
        let own = self.own;
        if !shown {
            self.shown = false;
            return self.unlock(&[own]).await;
        }
        match self.sweep(&[own]).await? {
            Swept::Got(got) if got == [own] => self.shown = true,
            // Without it the others would take this one for gone, with everything that it leads. A new session has another key.
            Swept::Got(_) => return Err(lost("another session has the lock by which instances see this one")),
            Swept::Refused(error) => {
                tracing::debug!(%error, "cannot acquire the lock by which other instances see this one; retrying")
            }
        }
        Ok(())
    }

    /// Tries for locks that it does not hold, and says which it got. Also says to the server that it is still there, and
    /// finds out whether everything is as it should be.
    pub(super) async fn sweep(&mut self, keys: &[Key]) -> Result<Swept, Error> {
        match self.ask(keys, self.looked.elapsed() >= self.look_interval()).await {
            Ok(answer) => {
                let got = answer.got(keys);
                answer.check(self.pid, &self.expected(), &got)?;
                Ok(Swept::Got(got))
            }
            // The server has no room for more. Some of what was tried for may have been got; what was held before still is.
            Err(error) if is_short_of_room(&error) => {
                let answer = self.ask(&[], true).await?;
                let got = answer.among(keys);
                answer.check(self.pid, &self.expected(), &got)?;
                self.unlock(&got).await?;
                Ok(Swept::Refused(error))
            }
            Err(error) => Err(error),
        }
    }

    async fn ask(&mut self, keys: &[Key], look: bool) -> Result<Answer, Error> {
        let (high, low) = halves(keys);
        let sent = Moment::now();
        let asking =
            sqlx::query(self.sql.lead_sweep.clone()).bind(high).bind(low).bind(look).fetch_one(self.kept.connection());
        let row = answered(self.bound.saturating_sub(self.asked.elapsed()), asking).await?;
        let answer = Answer::read(&row).map_err(|e| failed("try for leadership", e))?;
        if look {
            self.looked = sent;
        }
        self.asked = sent;
        self.validity.extend(sent, self.bound);
        Ok(answer)
    }

    /// The locks that it should hold.
    fn expected(&self) -> HashSet<i64> {
        let own = self.shown.then_some(&self.own);
        self.held.keys().chain(own).map(|key| key.number()).collect()
    }

    /// Gives locks back, those that are still the ones meant.
    pub(super) async fn release(&mut self, given_back: &[(Key, u64)]) -> Result<(), Error> {
        let current = |(key, number): &&(Key, u64)| self.held.get(key).is_some_and(|held| held.number == *number);
        let keys: Vec<Key> = given_back.iter().filter(current).map(|(key, _)| *key).collect();
        self.unlock(&keys).await
    }

    /// Releases locks that no caller has been given.
    pub(super) async fn unlock(&mut self, keys: &[Key]) -> Result<(), Error> {
        if keys.is_empty() {
            return Ok(());
        }
        let (high, low) = halves(keys);
        let sent = Moment::now();
        let asking = sqlx::query_scalar(self.sql.lead_release.clone()).bind(high).bind(low);
        let patience = self.bound.saturating_sub(self.asked.elapsed());
        let released: Vec<bool> = answered(patience, asking.fetch_one(self.kept.connection())).await?;
        if released.len() != keys.len() || released.contains(&false) {
            return Err(lost("a lock that was to be given back was not held"));
        }
        for key in keys {
            self.held.remove(key);
        }
        self.asked = sent;
        self.validity.extend(sent, self.bound);
        Ok(())
    }

    /// Ends it, as far as the server can be reached. Every holder of a lock is notified first.
    pub(super) async fn close(mut self, gently: bool) {
        for hold in self.held.values() {
            hold.lost.send_replace(true);
        }
        self.held.clear();
        if !gently {
            return;
        }
        match tokio::time::timeout(self.bound / 4, self.kept.close()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the session for leadership was gone before it was closed"),
            Err(_) => tracing::debug!("the session for leadership could not be closed in time"),
        }
    }
}

/// What came of a sweep.
pub(super) enum Swept {
    Got(Vec<Key>),
    /// The server could not, though nothing is wrong with the session.
    Refused(Error),
}

/// Whether the server has run out of something, locks for instance.
fn is_short_of_room(error: &Error) -> bool {
    let Error::Unavailable { source, .. } = error else { return false };
    source.downcast_ref().and_then(sqlstate).is_some_and(|code| code.starts_with("53"))
}

/// What the server says to a sweep.
struct Answer {
    pid: i32,
    read_only: bool,
    got: Vec<i64>,
    /// All locks of the session, if it was asked for them.
    held: Option<Vec<i64>>,
}

impl Answer {
    fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        let (pid, read_only) = (row.try_get(0)?, row.try_get(1)?);
        Ok(Self { pid, read_only, got: row.try_get(2)?, held: row.try_get(3)? })
    }

    /// Those of the locks tried for that were got.
    fn got(&self, keys: &[Key]) -> Vec<Key> {
        let place = |place: &i64| keys.get(usize::try_from(place - 1).ok()?).copied();
        self.got.iter().filter_map(place).collect()
    }

    /// Those of some locks that the session holds.
    fn among(&self, keys: &[Key]) -> Vec<Key> {
        let held: HashSet<i64> = self.held.iter().flatten().copied().collect();
        keys.iter().copied().filter(|key| held.contains(&key.number())).collect()
    }

    /// Whether everything is as it should be. The locks that are `new` may be there already or not.
    fn check(&self, pid: i32, expected: &HashSet<i64>, new: &[Key]) -> Result<(), Error> {
        if self.pid != pid {
            return Err(lost("another session answers: a pooler stands between"));
        }
        if self.read_only {
            return Err(Error::NotPrimary { reason: "the server has become a replica, or read-only".to_owned() });
        }
        let Some(held) = &self.held else { return Ok(()) };
        let new: HashSet<i64> = new.iter().map(|key| key.number()).collect();
        let held: HashSet<i64> = held.iter().copied().filter(|key| !new.contains(key)).collect();
        if held == *expected { Ok(()) } else { Err(lost("the session does not hold the locks that it should")) }
    }
}

fn lost(reason: &str) -> Error {
    Error::Unavailable { action: "keep leadership", source: reason.into() }
}

/// An answer that comes too late is none: by then the server may have ended the session.
async fn answered<T>(patience: Duration, asking: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, Error> {
    in_time(patience, "keep leadership: no answer in time", async {
        asking.await.map_err(|e| failed("keep leadership", e))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(held: Option<&[i64]>) -> Answer {
        Answer { pid: 7, read_only: false, got: Vec::new(), held: held.map(<[i64]>::to_vec) }
    }

    #[test]
    fn whatever_is_not_as_it_should_be_costs_the_session() {
        let (expected, new) = (HashSet::from([1, 2]), [Key { high: 0, low: 3 }]);
        let check = |answer: Answer| answer.check(7, &expected, &new);
        assert!(check(answer(None)).is_ok());
        assert!(check(answer(Some(&[1, 2]))).is_ok());
        assert!(check(answer(Some(&[2, 3, 1]))).is_ok(), "one that was got just now");
        assert!(check(answer(Some(&[1]))).is_err(), "a lock is gone");
        assert!(check(answer(Some(&[1, 2, 4]))).is_err(), "a lock that nobody here knows of");
        assert!(check(Answer { pid: 8, ..answer(None) }).is_err(), "another session");
        let read_only = check(Answer { read_only: true, ..answer(None) });
        assert!(matches!(read_only, Err(Error::NotPrimary { .. })));
    }
}
