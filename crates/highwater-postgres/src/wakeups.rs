//! Wake-ups on PostgreSQL: in this process at once, to others by NOTIFY, from others by LISTEN.
//!
//! NOTIFY is sent after the commit, on a connection of its own: inside the append's transaction it would take a lock that
//! is held through the commit of everybody. It carries a number and never an event.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use chrono::{SecondsFormat, Utc};
use highwater::{Wakeup, Wakeups};
use sqlx::PgConnection;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::{broadcast, mpsc, watch};

use crate::connect::Connector;
use crate::row::unsigned;
use crate::sql::Sql;
use crate::store::PgEventStore;

/// The least time between two notifications. The first goes out at once; what follows closely is told in one.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(2);
/// How long to wait before trying a lost connection again: at first, and at most.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What begins a hint about leadership; all others are numbers.
const RELEASED: &str = "released ";
/// Hints about leadership that may wait to be heard; who misses some looks by itself.
const LEADERSHIP_HINTS: usize = 256;

/// Both ends of the wake-ups of a store.
pub(crate) struct PgWakeups {
    announcer: Announcer,
    channel: String,
    options: PgConnectOptions,
    listening: Once,
    hearing: Arc<Hearing>,
    /// What other instances say about leadership.
    leadership: broadcast::Sender<Arc<str>>,
    /// Closed when the store is gone: the listener ends then.
    alive: watch::Sender<()>,
}

/// Whether other processes are heard.
#[derive(Debug, Default)]
struct Hearing {
    /// Since when they are not, and why.
    lost: Mutex<Option<String>>,
}

impl Hearing {
    /// Said once, and not again with every attempt that fails.
    fn lost(&self, error: &sqlx::Error) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if lost.is_none() {
            tracing::warn!(%error, "not hearing from other processes; looking instead");
            *lost = Some(format!("since {}: {error}", Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true)));
        }
    }

    fn restored(&self) {
        if self.lost.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            tracing::info!("hearing from other processes again");
        }
    }

    fn why_not(&self) -> Option<String> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Gives hints: to this process directly, to others through a task that notifies them.
#[derive(Debug, Clone)]
pub(crate) struct Announcer {
    /// What waiters in this process see: hints from everywhere.
    hints: watch::Sender<u64>,
    /// What other processes are to be told: hints from here alone.
    outgoing: watch::Sender<u64>,
    /// What other instances are to be told about leadership.
    released: mpsc::UnboundedSender<String>,
}

impl Announcer {
    pub(crate) fn announce(&self, global_sequence: u64) {
        raise(&self.hints, global_sequence);
        raise(&self.outgoing, global_sequence);
    }

    /// Says to other instances that leadership was given back. Should it not arrive, they find out by themselves.
    pub(crate) fn released(&self, hint: &str) {
        // Ends with the store, and then there is nobody to tell.
        drop(self.released.send(hint.to_owned()));
    }
}

/// Wakes everybody, with the highest number so far.
fn raise(hints: &watch::Sender<u64>, global_sequence: u64) {
    hints.send_modify(|highest| *highest = global_sequence.max(*highest));
}

impl PgWakeups {
    pub(crate) fn new(connector: Connector, options: PgConnectOptions, sql: Arc<Sql>, channel: String) -> Self {
        let (released, releases) = mpsc::unbounded_channel();
        let announcer = Announcer { hints: watch::Sender::new(0), outgoing: watch::Sender::new(0), released };
        let mouth = Mouth { connector, sql, channel: channel.clone(), connection: None };
        tokio::spawn(mouth.run(announcer.outgoing.subscribe(), releases));
        let (listening, hearing, alive) = (Once::new(), Arc::default(), watch::Sender::new(()));
        let leadership = broadcast::Sender::new(LEADERSHIP_HINTS);
        Self { announcer, channel, options, listening, hearing, leadership, alive }
    }

    pub(crate) fn announcer(&self) -> Announcer {
        self.announcer.clone()
    }

    fn listen(&self, sql: &Arc<Sql>) {
        self.listening.call_once(|| {
            let ear = Ear {
                sql: sql.clone(),
                channel: self.channel.clone(),
                hints: self.announcer.hints.clone(),
                leadership: self.leadership.clone(),
                hearing: self.hearing.clone(),
            };
            tokio::spawn(listen(self.options.clone(), ear, self.alive.subscribe()));
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
        let wakeup = Wakeup::new(&wakeups.announcer.hints);
        wakeups.listen(&self.inner.sql);
        wakeup
    }

    /// Nothing before somebody waits: nobody listens then.
    fn push_degraded(&self) -> Option<String> {
        self.inner.wakeups.hearing.why_not()
    }
}

/// Tells other processes.
struct Mouth {
    connector: Connector,
    sql: Arc<Sql>,
    channel: String,
    connection: Option<PgConnection>,
}

impl Mouth {
    /// Ends with the store. A hint that cannot be sent is sent again, unless a newer one replaces it.
    async fn run(mut self, mut outgoing: watch::Receiver<u64>, mut releases: mpsc::UnboundedReceiver<String>) {
        let mut wait = RECONNECT.0;
        loop {
            let sent = tokio::select! {
                changed = outgoing.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let highest = outgoing.borrow_and_update().to_string();
                    self.say(&highest).await
                }
                Some(hint) = releases.recv() => self.say_released(hint, &mut releases).await,
            };
            match sent {
                Ok(()) => {
                    wait = RECONNECT.0;
                    tokio::time::sleep(NOTIFY_INTERVAL).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot notify other processes; they find new events by looking");
                    self.connection = None;
                    outgoing.mark_changed();
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(RECONNECT.1);
                }
            }
        }
    }

    /// Everything that waits to be said about leadership, without saying the same twice.
    async fn say_released(
        &mut self,
        hint: String,
        releases: &mut mpsc::UnboundedReceiver<String>,
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
        let failed = |e| crate::error::failed("notify", e);
        let open = match &mut self.connection {
            Some(open) => open,
            closed => closed.insert(self.connector.connect_asynchronous("notify", None).await?.0),
        };
        sqlx::query(self.sql.notify.clone()).bind(&self.channel).bind(what).execute(open).await.map_err(failed)?;
        Ok(())
    }
}

/// What listening needs, whichever connection it is done on.
struct Ear {
    sql: Arc<Sql>,
    channel: String,
    hints: watch::Sender<u64>,
    leadership: broadcast::Sender<Arc<str>>,
    hearing: Arc<Hearing>,
}

/// Hears from other processes, for as long as there is a store: listens first, then says that there may be something new.
async fn listen(options: PgConnectOptions, ear: Ear, mut alive: watch::Receiver<()>) {
    let name = format!("{} listen", options.get_application_name().unwrap_or("highwater"));
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options.application_name(&name));
    let mut wait = RECONNECT.0;
    let for_ever = async {
        loop {
            let lost = ear.hear(&pool, &mut wait).await;
            ear.hearing.lost(&lost);
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RECONNECT.1);
        }
    };
    tokio::select! {
        () = for_ever => {}
        // Never sent to: this is the end of the store.
        _ = alive.changed() => {}
    }
    pool.close().await;
}

impl Ear {
    /// Listens until the connection is lost.
    async fn hear(&self, pool: &sqlx::PgPool, wait: &mut Duration) -> sqlx::Error {
        let mut listener = match PgListener::connect_with(pool).await {
            Ok(listener) => listener,
            Err(error) => return error,
        };
        listener.eager_reconnect(false);
        if let Err(error) = listener.listen(&self.channel).await {
            return error;
        }
        // Listened first, looked second: whatever was told while nobody listened is made up for here.
        match sqlx::query_scalar::<_, i64>(self.sql.head.clone()).fetch_one(&mut listener).await {
            Ok(head) if unsigned(head) > *self.hints.borrow() => raise(&self.hints, unsigned(head)),
            Ok(_) => {}
            Err(error) => return error,
        }
        *wait = RECONNECT.0;
        self.hearing.restored();
        loop {
            match listener.try_recv().await {
                Ok(Some(notification)) => match notification.payload().strip_prefix(RELEASED) {
                    // Nobody may be interested.
                    Some(hint) => drop(self.leadership.send(hint.into())),
                    None => raise(&self.hints, notification.payload().parse().unwrap_or(0)),
                },
                Ok(None) => return sqlx::Error::WorkerCrashed,
                Err(error) => return error,
            }
        }
    }
}
