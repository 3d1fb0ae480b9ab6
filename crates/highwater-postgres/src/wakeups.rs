//! Wake-ups on PostgreSQL: in this process at once, to others by NOTIFY, from others by LISTEN.
//!
//! NOTIFY is sent after the commit, on a dedicated connection: inside the append's transaction it would take the one lock
//! that all notifying writers share, and hold it through the commit. It carries a number and never an event.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use chrono::{SecondsFormat, Utc};
use highwater::backend::{Backoff, Wakeup, Wakeups, chain, lock};
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::Instant;

use crate::connect::{Connector, Kept, set_up_listener};
use crate::error::{failed, in_time};
use crate::hosts::Hosts;
use crate::pooler::{self, Session};
use crate::row::unsigned;
use crate::sql::Sql;
use crate::store::PgEventStore;

/// The least time between two notifications. The first goes out at once; those that follow closely are merged into one.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(2);
/// After a notification that took long, so many times as long, up to a bound: notifications of all stores are committed one after
/// the other, and what many small processes append is not to wait for them.
const NOTIFY_REST: (u32, Duration) = (4, Duration::from_millis(100));
/// How long to wait before trying a lost connection again: at first, and at most.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How often the listening connection is asked for an answer, and how long that may take: a connection whose other end has
/// vanished says nothing, which is what an idle one says as well.
const PING: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(5));

/// What begins a hint about leadership; all others are numbers.
const RELEASED: &str = "released ";
/// Hints about leadership that may wait to be told, and to be heard. What does not fit is dropped: an instance that misses
/// some looks by itself.
const LEADERSHIP_HINTS: usize = 256;

/// Both ends of the wake-ups of a store.
pub(crate) struct PgWakeups {
    announcer: Announcer,
    channel: String,
    hosts: Hosts,
    /// Sent when the listening connection is lost, and when there is another.
    losses: watch::Sender<u64>,
    /// The way to a dedicated session.
    direct: Connector,
    listening: Once,
    status: Arc<ListenStatus>,
    /// What other instances say about leadership.
    leadership: broadcast::Sender<Arc<str>>,
    /// Closed when the store is gone: the listener ends then.
    alive: watch::Sender<()>,
}

/// Whether notifications of other processes arrive.
#[derive(Debug, Default)]
struct ListenStatus {
    lost: Mutex<Option<Lost>>,
}

/// Since when they are not, and why.
#[derive(Debug)]
struct Lost {
    since: String,
    why: String,
}

impl ListenStatus {
    /// Logged once, and again only when the reason changes, not with every attempt that fails.
    fn lost(&self, why: String) {
        let mut lost = lock(&self.lost);
        if lost.as_ref().is_some_and(|lost| lost.why == why) {
            return;
        }
        tracing::warn!(error = why, "LISTEN lost; polling");
        let now = || Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true);
        let since = lost.take().map_or_else(now, |lost| lost.since);
        *lost = Some(Lost { since, why });
    }

    fn restored(&self) {
        if lock(&self.lost).take().is_some() {
            tracing::info!("LISTEN is back; no longer polling");
        }
    }

    fn why_not(&self) -> Option<String> {
        let lost = lock(&self.lost);
        lost.as_ref().map(|Lost { since, why }| format!("since {since}: {why}"))
    }
}

/// Gives hints: to this process directly, to others through a task that notifies them.
#[derive(Debug, Clone)]
pub(crate) struct Announcer {
    /// What waiters in this process see: hints from everywhere.
    hints: watch::Sender<u64>,
    /// What other processes are to be notified of: hints from here alone.
    outgoing: watch::Sender<u64>,
    /// What other instances are to be told about leadership.
    released: mpsc::Sender<String>,
}

impl Announcer {
    pub(crate) fn announce(&self, global_sequence: u64) {
        raise(&self.hints, global_sequence);
        raise(&self.outgoing, global_sequence);
    }

    /// Notifies other instances that leadership was released. If that does not arrive, they find out by themselves.
    pub(crate) fn released(&self, hint: &str) {
        if let Err(error) = self.released.try_send(hint.to_owned()) {
            tracing::debug!(%error, "other instances are not told that leadership was given back; they look by themselves");
        }
    }
}

/// Wakes all waiting readers, with the highest number so far. From another process it may be any number: every role that may
/// connect can send one.
fn raise(hints: &watch::Sender<u64>, global_sequence: u64) {
    hints.send_modify(|highest| *highest = global_sequence.max(*highest));
}

/// Withdraws a hint of a number that has never been issued. `hinted` was the highest before it was asked what has been
/// issued: a hint that came since is not concerned, because its number may have been issued since.
fn cap(hints: &watch::Sender<u64>, hinted: u64, issued: u64) {
    hints.send_if_modified(|highest| {
        if *highest == hinted && hinted > issued {
            tracing::debug!(hinted, issued, "dropped a hint of a number that has never been issued");
            *highest = issued;
        }
        // No reader is to be woken for it.
        false
    });
}

impl PgWakeups {
    pub(crate) fn new(connector: Connector, direct: Connector, sql: Arc<Sql>, channel: String) -> Self {
        let (released, releases) = mpsc::channel(LEADERSHIP_HINTS);
        let announcer = Announcer { hints: watch::Sender::new(0), outgoing: watch::Sender::new(0), released };
        let hosts = connector.hosts().clone();
        let notifier = Notifier { connector, sql, channel: channel.clone(), connection: None };
        tokio::spawn(notifier.run(announcer.outgoing.subscribe(), releases));
        let (listening, status, alive) = (Once::new(), Arc::default(), watch::Sender::new(()));
        let leadership = broadcast::Sender::new(LEADERSHIP_HINTS);
        let losses = watch::Sender::new(0);
        Self { announcer, channel, hosts, losses, direct, listening, status, leadership, alive }
    }

    pub(crate) fn announcer(&self) -> Announcer {
        self.announcer.clone()
    }

    fn listen(&self, sql: &Arc<Sql>) {
        self.listening.call_once(|| {
            let listener = Listener {
                sql: sql.clone(),
                channel: self.channel.clone(),
                hints: self.announcer.hints.clone(),
                losses: self.losses.clone(),
                leadership: self.leadership.clone(),
                status: self.status.clone(),
                hosts: self.hosts.clone(),
                direct: self.direct.clone(),
            };
            tokio::spawn(listen(listener, self.alive.subscribe()));
        });
    }
}

impl PgEventStore {
    /// What other instances say about leadership, from now on.
    pub(crate) fn leadership_hints(&self) -> broadcast::Receiver<Arc<str>> {
        let wakeups = &self.inner.wakeups;
        let hints = wakeups.leadership.subscribe();
        wakeups.listen(&self.inner.sql);
        hints
    }
}

impl Wakeups for PgEventStore {
    fn announce(&self, global_sequence: u64) {
        self.inner.wakeups.announcer.announce(global_sequence);
    }

    /// The first waiter starts the one connection that listens for all of them.
    fn wakeups(&self) -> Wakeup {
        let wakeups = &self.inner.wakeups;
        let wakeup = Wakeup::with_losses(&wakeups.announcer.hints, &wakeups.losses);
        wakeups.listen(&self.inner.sql);
        wakeup
    }

    /// Nothing before a reader waits: there is no listener then.
    fn push_degraded(&self) -> Option<String> {
        self.inner.wakeups.status.why_not()
    }
}

/// How long to wait after a notification that took so long.
fn rest_after(took: Duration) -> Duration {
    let (times, most) = NOTIFY_REST;
    (took * times).clamp(NOTIFY_INTERVAL, most)
}

/// Tells other processes.
struct Notifier {
    connector: Connector,
    sql: Arc<Sql>,
    channel: String,
    connection: Option<Kept>,
}

impl Notifier {
    /// Ends with the store. A hint that cannot be sent is sent again, unless a newer one replaces it.
    async fn run(mut self, mut outgoing: watch::Receiver<u64>, mut releases: mpsc::Receiver<String>) {
        let mut wait = Backoff::new(RECONNECT.0, RECONNECT.1);
        let mut told = false;
        loop {
            let begun;
            let sent = tokio::select! {
                changed = outgoing.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let highest = outgoing.borrow_and_update().to_string();
                    begun = Instant::now();
                    self.say(&highest).await
                }
                Some(hint) = releases.recv() => {
                    begun = Instant::now();
                    self.say_released(hint, &mut releases).await
                }
            };
            match sent {
                Ok(()) => {
                    wait.reset();
                    if std::mem::take(&mut told) {
                        tracing::info!("other processes are notified again");
                    }
                    tokio::time::sleep(rest_after(begun.elapsed())).await;
                }
                Err(error) => {
                    // Once, and not with every attempt.
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(%error, "cannot notify other processes; retrying, they poll");
                    }
                    self.connection = None;
                    outgoing.mark_changed();
                    tokio::time::sleep(wait.next_delay()).await;
                }
            }
        }
    }

    /// All queued announcements about leadership, without duplicates.
    async fn say_released(
        &mut self,
        hint: String,
        releases: &mut mpsc::Receiver<String>,
    ) -> Result<(), highwater::Error> {
        let mut hints = BTreeSet::from([hint]);
        while let Ok(hint) = releases.try_recv() {
            hints.insert(hint);
        }
        for hint in hints {
            self.say(&format!("{RELEASED}{hint}")).await?;
        }
        Ok(())
    }

    async fn say(&mut self, what: &str) -> Result<(), highwater::Error> {
        let failed = |e| failed("notify", e);
        let opening = async { Ok((self.connector.connect_asynchronous("notify", None).await?, ())) };
        let kept = Kept::or_new(self.connection.take(), &self.connector, opening).await?;
        let kept = self.connection.insert(kept);
        let saying = sqlx::query(self.sql.notify.clone()).bind(&self.channel).bind(what).execute(kept.connection());
        in_time(self.connector.timeout(), "notify in time", async { saying.await.map(drop).map_err(failed) }).await
    }
}

/// What listening needs, whichever connection it is done on.
struct Listener {
    sql: Arc<Sql>,
    channel: String,
    hints: watch::Sender<u64>,
    losses: watch::Sender<u64>,
    leadership: broadcast::Sender<Arc<str>>,
    status: Arc<ListenStatus>,
    /// Those of the store, which is the first to know that the primary has moved.
    hosts: Hosts,
    direct: Connector,
}

/// Why listening failed.
enum ListenError {
    Lost(String),
    /// No notification would ever arrive through it.
    Pooler(String),
    /// The primary is elsewhere now.
    Moved,
}

impl From<sqlx::Error> for ListenError {
    fn from(error: sqlx::Error) -> Self {
        pooler::told_by(&error).map_or_else(|| Self::Lost(error.to_string()), Self::Pooler)
    }
}

/// Listens to other processes, for as long as there is a store: listens first, then says that there may be something new.
async fn listen(listener: Listener, mut alive: watch::Receiver<()>) {
    let mut wait = Backoff::new(RECONNECT.0, RECONNECT.1);
    // Before the first connection nothing can be lost: it looks where the log ends.
    let mut again = false;
    let for_ever = async {
        loop {
            let ended = listener.receive(&mut wait, std::mem::replace(&mut again, true)).await;
            let pause = match ended {
                ListenError::Moved => continue,
                ListenError::Lost(error) => {
                    listener.lose();
                    listener.status.lost(error);
                    wait.next_delay()
                }
                ListenError::Pooler(found) => {
                    listener.status.lost(pooler::explain(&found));
                    RECONNECT.1
                }
            };
            tokio::time::sleep(pause).await;
        }
    };
    tokio::select! {
        () = for_ever => {}
        // Never sent to: this is the end of the store.
        _ = alive.changed() => {}
    }
}

impl Listener {
    /// Listens until the connection is lost.
    async fn receive(&self, wait: &mut Backoff, again: bool) -> ListenError {
        let mut moves = self.hosts.watch_moves();
        if let Err(error) = self.direct.locate("listen").await {
            return ListenError::Lost(chain(&error));
        }
        moves.mark_unchanged();
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(self.direct.timeout())
            .connect_lazy_with(self.direct.hosts().options(self.direct.hosts().primary(), Some("listen")));
        // The pool is dropped and not closed: that would wait for a server which may never answer again.
        tokio::select! {
            error = self.receive_on(&pool, wait, again) => error.map_or_else(|error| error, |never| match never {}),
            _ = moves.changed() => ListenError::Moved,
        }
    }

    async fn receive_on(&self, pool: &PgPool, wait: &mut Backoff, again: bool) -> Result<Infallible, ListenError> {
        let listener = tokio::time::timeout(self.direct.timeout(), self.start(pool)).await;
        let mut listener = listener.map_err(|elapsed| ListenError::Lost(elapsed.to_string()))??;
        if again {
            // When the former connection was lost, those of readers were perhaps still there.
            self.lose();
        }
        wait.reset();
        self.status.restored();
        let mut due = tokio::time::interval_at(Instant::now() + PING.0, PING.0);
        loop {
            let heard = tokio::select! {
                heard = listener.try_recv() => heard?,
                _ = due.tick() => {
                    self.ping(&mut listener).await?;
                    continue;
                }
            };
            match heard {
                Some(notification) => match notification.payload().strip_prefix(RELEASED) {
                    // There may be no receiver.
                    Some(hint) => drop(self.leadership.send(hint.into())),
                    None => raise(&self.hints, notification.payload().parse().unwrap_or(0)),
                },
                None => return Err(sqlx::Error::WorkerCrashed.into()),
            }
        }
    }

    /// The server may have begun another life, with lower numbers: readers look, whatever they have seen.
    fn lose(&self) {
        self.losses.send_modify(|losses| *losses = losses.wrapping_add(1));
    }

    /// Makes sure that the other end is there, and by the same answer that no hint is higher than what has been issued.
    async fn ping(&self, listener: &mut PgListener) -> Result<(), ListenError> {
        let hinted = *self.hints.borrow();
        let asking = sqlx::query_scalar(self.sql.last_value.clone()).fetch_one(listener);
        let issued: i64 = tokio::time::timeout(PING.1, asking).await.map_err(|_| {
            ListenError::Lost(format!("the listening connection has not answered within {:?}", PING.1))
        })??;
        cap(&self.hints, hinted, unsigned(issued));
        Ok(())
    }

    async fn start(&self, pool: &PgPool) -> Result<PgListener, ListenError> {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.eager_reconnect(false);
        self.make_sure_of_session(&mut listener, pool).await?;
        set_up_listener(&mut listener, &self.sql).await?;
        listener.listen(&self.channel).await?;
        // LISTEN first, look second: notifications missed before are made up for here.
        let hinted = *self.hints.borrow();
        let head: i64 = sqlx::query_scalar(self.sql.head.clone()).fetch_one(&mut listener).await?;
        if unsigned(head) > hinted {
            raise(&self.hints, unsigned(head));
        } else {
            cap(&self.hints, hinted, unsigned(head));
        }
        Ok(listener)
    }

    /// Listening through a pooler that shares sessions gives no error, and no notification ever arrives.
    async fn make_sure_of_session(&self, listener: &mut PgListener, pool: &PgPool) -> Result<(), ListenError> {
        let mut other = PgConnection::connect_with(&pool.connect_options()).await?;
        let session = pooler::is_own_session(listener, &mut other, &self.sql).await?;
        other.close().await?;
        match session {
            Session::Dedicated => Ok(()),
            Session::Pooled(found) => Err(ListenError::Pooler(found)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_of_a_number_that_was_never_issued_is_taken_back_and_a_newer_one_is_not() {
        let hints = watch::Sender::new(0);
        raise(&hints, u64::MAX);
        let hinted = *hints.borrow();
        cap(&hints, hinted, 17);
        assert_eq!(*hints.borrow(), 17);
        let mut waiter = hints.subscribe();
        raise(&hints, 19);
        cap(&hints, 17, 18);
        assert!(waiter.has_changed().unwrap() && *waiter.borrow_and_update() == 19, "it came after the question");
        cap(&hints, 19, 19);
        assert!(!waiter.has_changed().unwrap() && *waiter.borrow() == 19);
    }

    #[test]
    fn a_loss_dates_from_its_beginning_and_is_told_by_its_latest_reason() {
        let status = ListenStatus::default();
        assert_eq!(status.why_not(), None);
        status.lost("refused".to_owned());
        let since = status.why_not().unwrap().replace("refused", "");
        status.lost("a pooler".to_owned());
        assert_eq!(status.why_not(), Some(format!("{since}a pooler")));
        status.restored();
        assert_eq!(status.why_not(), None);
    }

    #[test]
    fn a_store_spends_a_fifth_of_its_time_on_notifying_at_most() {
        let millis = Duration::from_millis;
        for (took, rest) in [(0, 2), (1, 4), (10, 40), (25, 100), (1_000, 100)] {
            assert_eq!(rest_after(millis(took)), millis(rest));
        }
    }
}
