//! An instance that may lead.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use chrono::Utc;
use highwater::{BoxFuture, Candidate, Error, Held, Instance, LeadershipSettings, Member, View, Want};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use tokio::sync::watch;
use uuid::Uuid;

use super::files::{Folder, Lock};
use super::instance;
use crate::checkpoints::PATIENCE;
use crate::error::failed;
use crate::row::{array, micros, now};
use crate::sql;
use crate::store::SqliteEventStore;

/// How long to wait when a lock is found taken before it is looked at once more: somebody may only have been asking.
const ASKING: Duration = Duration::from_millis(2);
/// How often to look whether the files that are locked are still there.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// For how long an instance that is not seen to live is not forgotten: it may be about to get its lock.
const NEW: Duration = Duration::from_secs(10);

pub(super) struct SqliteCandidate {
    store: SqliteEventStore,
    instance: Instance,
    session: Uuid,
    folder: Folder,
    standby_interval: Duration,
    state: Arc<Mutex<State>>,
    closed: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// This instance's own lock, once it is ready.
    own: Option<Lock>,
    held: Vec<Weak<Shared>>,
    /// What the others were last told.
    told: Option<Vec<Want>>,
    watching: bool,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SqliteCandidate {
    pub(super) fn new(store: SqliteEventStore, instance: Instance, settings: &LeadershipSettings) -> Self {
        let folder = Folder::beside(&store.inner.path);
        let (session, standby_interval) = (Uuid::now_v7(), settings.standby_interval);
        Self {
            store,
            instance,
            session,
            folder,
            standby_interval,
            state: Arc::default(),
            closed: watch::Sender::new(false),
        }
    }

    fn make_ready(&self) -> Result<(), Error> {
        if *self.closed.borrow() {
            return Err(Error::ShutDown);
        }
        let mut state = lock(&self.state);
        if state.own.as_ref().is_some_and(Lock::is_there) {
            return Ok(());
        }
        self.folder.create()?;
        state.own = Some(self.folder.enter(self.session)?);
        // Whoever cleaned up behind this one has forgotten it.
        state.told = None;
        if !std::mem::replace(&mut state.watching, true) {
            tokio::spawn(watch_files(Arc::downgrade(&self.state)));
        }
        Ok(())
    }

    fn take(&self, subscriber_id: &str) -> Result<Option<Box<dyn Held>>, Error> {
        self.make_ready()?;
        let Some(taken) = self.folder.lead(subscriber_id, self.session)? else { return Ok(None) };
        let shared = Arc::new(Shared { lock: Mutex::new(Some(taken)), lost: watch::Sender::new(false) });
        let mut state = lock(&self.state);
        state.held.retain(|held| held.strong_count() > 0);
        state.held.push(Arc::downgrade(&shared));
        drop(state);
        // It may have been closed in between, and then nobody would give it back.
        if *self.closed.borrow() {
            return Err(Error::ShutDown);
        }
        Ok(Some(Box::new(SqliteHeld { session: self.session, shared })))
    }

    /// Sets down what this instance wants, if the others do not know it yet.
    async fn tell(&self, wants: &[Want]) -> Result<(), Error> {
        if lock(&self.state).told.as_deref() == Some(wants) {
            return Ok(());
        }
        let instance = &self.instance;
        let text = serde_json::Value::from_iter(
            wants.iter().map(|want| serde_json::json!([want.subscriber_id, want.prefers])),
        );
        let text = text.to_string();
        self.store
            .write_lightly("enter this instance", PATIENCE, async |tx| {
                let enter = sqlx::query(sql::instance_enter)
                    .bind(self.session)
                    .bind(instance.id)
                    .bind(&instance.host)
                    .bind(i64::from(instance.pid))
                    .bind(&instance.label)
                    .bind(&text)
                    .bind(now());
                enter.execute(tx).await.map(drop)
            })
            .await?;
        lock(&self.state).told = Some(wants.to_vec());
        Ok(())
    }

    async fn forget(&self, gone: Vec<Uuid>) -> Result<(), Error> {
        let before = micros(Utc::now() - NEW);
        let gone = array(gone.iter().map(|session| session.simple().to_string().to_uppercase()));
        self.store
            .write_lightly("forget instances that are gone", PATIENCE, async |tx| {
                sqlx::query(sql::instances_forget).bind(&gone).bind(before).execute(tx).await.map(drop)
            })
            .await
    }

    async fn see(&self) -> Result<View, Error> {
        let look_failed = |e| failed("see the other instances", e);
        let rows = sqlx::query(sql::instances).fetch_all(&self.store.inner.pool).await.map_err(look_failed)?;
        let members = rows.iter().map(member).collect::<Result<Vec<_>, _>>().map_err(look_failed)?;
        if !members.iter().any(|member| member.session == self.session) {
            // Somebody who looked when its lock was not there has forgotten this one. It says so again the next time.
            lock(&self.state).told = None;
        }
        let alive = self.folder.alive()?;
        let (mut members, gone): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|member| alive.contains(&member.session));
        let names: HashSet<String> =
            members.iter().flat_map(|member| member.wants.iter().map(|want| want.subscriber_id.clone())).collect();
        for name in names {
            let holder = self.folder.holder(&name);
            if let Some(member) = members.iter_mut().find(|member| Some(member.session) == holder) {
                member.leads.push(name);
            }
        }
        members.iter_mut().for_each(|member| member.leads.sort());
        if !gone.is_empty() {
            self.forget(gone.into_iter().map(|member| member.session).collect()).await?;
        }
        Ok(View { own: Some(self.session), members })
    }
}

fn member(row: &SqliteRow) -> Result<Member, sqlx::Error> {
    let wants: Vec<(String, Option<String>)> =
        serde_json::from_str(row.try_get(5)?).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let wants = wants.into_iter().map(|(subscriber_id, prefers)| Want { subscriber_id, prefers });
    Ok(Member { session: row.try_get(0)?, instance: instance(row, 1)?, wants: wants.collect(), leads: Vec::new() })
}

/// Looks whether the files that are locked are still there. Somebody may have cleaned up: then others lock new ones.
async fn watch_files(state: Weak<Mutex<State>>) {
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let Some(state) = state.upgrade() else { return };
        let held: Vec<_> = lock(&state).held.iter().filter_map(Weak::upgrade).collect();
        held.iter().for_each(|held| held.check());
    }
}

impl Candidate for SqliteCandidate {
    fn ready(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(std::future::ready(self.make_ready()))
    }

    fn try_hold<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Box<dyn Held>>, Error>> {
        Box::pin(async move {
            if let Some(held) = self.take(subscriber_id)? {
                return Ok(Some(held));
            }
            tokio::time::sleep(ASKING).await;
            self.take(subscriber_id)
        })
    }

    fn hold<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Box<dyn Held>, Error>> {
        Box::pin(async move {
            let mut closed = self.closed.subscribe();
            loop {
                if let Some(held) = self.take(subscriber_id)? {
                    return Ok(held);
                }
                tokio::select! {
                    () = tokio::time::sleep(self.standby_interval) => {}
                    // Nothing is sent but that it is closed; and it cannot go, being borrowed.
                    _ = closed.changed() => {}
                }
            }
        })
    }

    fn look<'a>(&'a self, wants: &'a [Want]) -> BoxFuture<'a, Result<View, Error>> {
        Box::pin(async move {
            self.make_ready()?;
            self.tell(wants).await?;
            self.see().await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.closed.send_replace(true);
            give_all_back(&self.state);
            let left = self.store.write_lightly("leave", PATIENCE, async |tx| {
                sqlx::query(sql::instance_leave).bind(self.session).execute(tx).await.map(drop)
            });
            if let Err(error) = left.await {
                tracing::debug!(%error, "left without a word; the others see that the lock is free");
            }
        })
    }
}

fn give_all_back(state: &Mutex<State>) {
    let (own, held) = {
        let mut state = lock(state);
        (state.own.take(), std::mem::take(&mut state.held))
    };
    held.iter().filter_map(Weak::upgrade).for_each(|held| held.give_up());
    if let Some(own) = own {
        own.release(None);
    }
}

impl Drop for SqliteCandidate {
    fn drop(&mut self) {
        give_all_back(&self.state);
    }
}

/// A lock that is held, for whoever holds it and for the candidate.
struct Shared {
    lock: Mutex<Option<Lock>>,
    lost: watch::Sender<bool>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Lock>> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, to: Option<Uuid>) {
        if let Some(lock) = self.lock().take() {
            lock.release(to);
        }
    }

    fn give_up(&self) {
        // Told first: whoever gets it next must not meet this one at work.
        self.lost.send_replace(true);
        self.release(None);
    }

    fn check(&self) {
        if self.lock().as_ref().is_some_and(|lock| !lock.is_there()) {
            tracing::warn!("a lock file was removed by somebody; leadership is given up");
            self.give_up();
        }
    }
}

struct SqliteHeld {
    session: Uuid,
    shared: Arc<Shared>,
}

impl Held for SqliteHeld {
    fn session(&self) -> Uuid {
        self.session
    }

    fn is_held(&self) -> bool {
        self.shared.lock().as_ref().is_some_and(Lock::is_there)
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.shared.lost.subscribe()
    }

    fn release(self: Box<Self>, to: Option<Uuid>) -> BoxFuture<'static, ()> {
        self.shared.release(to);
        Box::pin(std::future::ready(()))
    }
}

impl Drop for SqliteHeld {
    fn drop(&mut self) {
        self.shared.release(None);
    }
}
