//! Projections as an application writes them, on a bus of their own.

use highwater::backend::IntoSubscriber;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use highwater::{
    BoxError, CheckpointMode, Event, Projection, StartAt, StateIs, SubscriberOptions, TransactionalProjection,
};
use highwater_postgres::{PgEventBus, PgEventStore, PgTx};
use uuid::Uuid;

use super::BATCH;
use super::raw::{CUSTOMERS, UPSERT};
use crate::Error;
use crate::payload::Order;
use crate::read::Seen;

/// How often a counting projection stores its checkpoint.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// As by default.
    Counting,
    Synchronous,
}

struct Counting {
    id: String,
    kind: Kind,
    after: u64,
    events: AtomicUsize,
    sum: AtomicI64,
}

impl Projection<Order> for Counting {
    const STATE: StateIs = StateIs::Nothing;

    fn subscriber_id(&self) -> &str {
        &self.id
    }

    fn options(&self) -> SubscriberOptions {
        match self.kind {
            Kind::Counting => SubscriberOptions::new().start(StartAt::After(self.after)),
            Kind::Synchronous => options(CheckpointMode::Synchronous, self.after),
        }
    }

    async fn apply(&self, event: &Event<Order>) -> Result<(), BoxError> {
        let Order::Placed { amount, .. } = &event.data;
        self.events.fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(amount + event.stream_version.cast_signed(), Ordering::Relaxed);
        black_box(event);
        Ok(())
    }
}

/// How many orders of how much each customer has placed.
struct Customers {
    id: String,
    after: u64,
}

impl TransactionalProjection<Order, PgTx> for Customers {
    fn subscriber_id(&self) -> &str {
        &self.id
    }

    fn options(&self) -> SubscriberOptions {
        options(CheckpointMode::Batched { size: BATCH, interval: Duration::from_secs(1) }, self.after)
    }

    async fn apply(&self, tx: &mut PgTx, event: &Event<Order>) -> Result<(), BoxError> {
        let Order::Placed { amount, .. } = &event.data;
        let amount = amount + event.stream_version.cast_signed();
        sqlx::query(UPSERT).bind(amount % CUSTOMERS).bind(amount).execute(&mut **tx).await?;
        Ok(())
    }
}

fn options(checkpoint_mode: CheckpointMode, after: u64) -> SubscriberOptions {
    SubscriberOptions::new().start(StartAt::After(after)).checkpoint_mode(checkpoint_mode)
}

fn fresh_id() -> String {
    format!("projection:{}", Uuid::new_v4())
}

pub(super) async fn count(store: &PgEventStore, kind: Kind, after: i64) -> Result<(Seen, Duration), Error> {
    let (events, sum) = (AtomicUsize::new(0), AtomicI64::new(0));
    let counting = Arc::new(Counting { id: fresh_id(), kind, after: after.cast_unsigned(), events, sum });
    let took = deliver(store, counting.clone()).await?;
    let seen = Seen { events: counting.events.load(Ordering::Relaxed), sum: counting.sum.load(Ordering::Relaxed) };
    Ok((seen, took))
}

pub(super) async fn project(store: &PgEventStore, after: i64) -> Result<Duration, Error> {
    deliver(store, Customers { id: fresh_id(), after: after.cast_unsigned() }).await
}

/// From `subscribe()` until everything there is was handled.
async fn deliver<K>(store: &PgEventStore, what: impl IntoSubscriber<PgEventStore, K>) -> Result<Duration, Error> {
    let bus = PgEventBus::new(store.clone());
    let started = Instant::now();
    bus.subscribe(what).await?.caught_up().await?;
    let took = started.elapsed();
    bus.shutdown().await?;
    Ok(took)
}
