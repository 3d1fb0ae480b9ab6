//! An instance that may lead.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use highwater::Error;
use highwater::backend::{BoxFuture, Candidate, HeldLock, Instance, LeadershipSettings, Member, View, Want};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use tokio::sync::watch;
use uuid::Uuid;

use super::files::{Attempt, Folder};
use super::instance;
use super::keeper::Keeper;
use crate::checkpoints::PATIENCE;
use crate::error::failed;
use crate::row::{array, micros, now};
use crate::sql;
use crate::store::SqliteEventStore;

/// How long to wait when a lock is found taken before it is checked once more: another instance may only have been testing
/// it.
const ASKING: Duration = Duration::from_millis(2);
/// For how long an instance that is not seen to live is not forgotten: it may be about to get its lock.
const NEW: Duration = Duration::from_secs(10);

pub(super) struct SqliteCandidate {
    store: SqliteEventStore,
    instance: Instance,
    standby_interval: Duration,
    keeper: Arc<Keeper>,
    closed: watch::Sender<bool>,
}

impl SqliteCandidate {
    pub(super) fn new(store: SqliteEventStore, instance: Instance, settings: &LeadershipSettings) -> Self {
        let keeper = Keeper::new(Folder::beside(&store.inner.path), settings.takeover_bound);
        let (standby_interval, closed) = (settings.standby_interval, watch::Sender::new(false));
        Self { store, instance, standby_interval, keeper, closed }
    }

    fn acquire(&self, subscriber_id: &str) -> Result<Option<Box<dyn HeldLock>>, Error> {
        self.keeper.make_ready()?;
        let taken = match self.keeper.folder.lead(subscriber_id, self.keeper.session)? {
            Attempt::Got(lock) => Some(lock),
            Attempt::Reserved => None,
            Attempt::Held(holder) => self.keeper.replace(subscriber_id, holder)?,
        };
        taken.map(|lock| self.keeper.hold(lock)).transpose()
    }

    /// Sets down what this instance wants, if the others do not know it yet.
    async fn tell(&self, wants: &[Want]) -> Result<(), Error> {
        if self.keeper.has_told(wants) {
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
                    .bind(self.keeper.session)
                    .bind(instance.id)
                    .bind(&instance.host)
                    .bind(i64::from(instance.pid))
                    .bind(&instance.label)
                    .bind(&text)
                    .bind(now());
                enter.execute(tx).await.map(drop)
            })
            .await?;
        self.keeper.told(Some(wants.to_vec()));
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
        if !members.iter().any(|member| member.session == self.keeper.session) {
            // An instance that looked while its lock was missing has forgotten this one. It announces itself again the next
            // time.
            self.keeper.told(None);
        }
        let alive = self.keeper.folder.alive()?;
        let (mut members, gone): (Vec<_>, Vec<_>) = members
            .into_iter()
            .partition(|Member { session, .. }| alive.contains_key(session) && !self.keeper.is_silent(*session));
        let names: HashSet<String> =
            members.iter().flat_map(|member| member.wants.iter().map(|want| want.subscriber_id.clone())).collect();
        for name in names {
            let holder = self.keeper.folder.holder(&name);
            if let Some(member) = members.iter_mut().find(|member| Some(member.session) == holder) {
                member.leads.push(name);
            }
        }
        members.iter_mut().for_each(|member| member.leads.sort());
        if !gone.is_empty() {
            self.forget(gone.into_iter().map(|member| member.session).collect()).await?;
        }
        Ok(View { own: Some(self.keeper.session), members })
    }
}

fn member(row: &SqliteRow) -> Result<Member, sqlx::Error> {
    let wants: Vec<(String, Option<String>)> =
        serde_json::from_str(row.try_get(5)?).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let wants = wants.into_iter().map(|(subscriber_id, prefers)| Want { subscriber_id, prefers });
    Ok(Member { session: row.try_get(0)?, instance: instance(row, 1)?, wants: wants.collect(), leads: Vec::new() })
}

impl Candidate for SqliteCandidate {
    fn ready(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(std::future::ready(self.keeper.make_ready()))
    }

    fn try_hold<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> {
        Box::pin(async move {
            if let Some(held) = self.acquire(subscriber_id)? {
                return Ok(Some(held));
            }
            tokio::time::sleep(ASKING).await;
            self.acquire(subscriber_id)
        })
    }

    fn hold<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Box<dyn HeldLock>, Error>> {
        Box::pin(async move {
            let mut closed = self.closed.subscribe();
            loop {
                if let Some(held) = self.acquire(subscriber_id)? {
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

    fn view<'a>(&'a self, wants: &'a [Want]) -> BoxFuture<'a, Result<View, Error>> {
        Box::pin(async move {
            self.keeper.make_ready()?;
            self.tell(wants).await?;
            self.see().await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.keeper.close();
            self.closed.send_replace(true);
            let left = self.store.write_lightly("leave", PATIENCE, async |tx| {
                sqlx::query(sql::instance_leave).bind(self.keeper.session).execute(tx).await.map(drop)
            });
            if let Err(error) = left.await {
                tracing::debug!(%error, "could not delete this instance's row; the others see that its lock is free");
            }
        })
    }
}

impl Drop for SqliteCandidate {
    fn drop(&mut self) {
        self.keeper.close();
    }
}
