//! What an application writes to be handed events.

use std::fmt;
use std::future::Future;

use crate::{BoxError, BoxFuture, Event, SubscriberOptions};

/// Code that is handed events one by one, in the form that can be used as `dyn`.
///
/// Applications usually write a [`Projection`], which is an observer by itself.
pub trait EventObserver<D>: Send + Sync {
    /// The durable name that its checkpoint is stored under: `projection:<name>` or `saga:<name>`. Instances with the same
    /// name share one position, so it must never change, and no two observers may have the same.
    fn subscriber_id(&self) -> &str;

    /// What it chooses.
    fn options(&self) -> SubscriberOptions {
        SubscriberOptions::default()
    }

    /// Handles one event. An event may be delivered again after a crash; its `id` tells.
    ///
    /// # Errors
    /// Whatever keeps it from taking the event in. [`Permanent`] says that trying again is no use.
    fn on_event<'a>(&'a self, event: &'a Event<D>) -> BoxFuture<'a, Result<(), BoxError>>;

    /// Forgets everything, to handle all events again. Called when a rebuild is requested, before the checkpoint is set
    /// back; it may be called again when that fails.
    ///
    /// # Errors
    /// By default, that it cannot.
    fn reset(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async { Err(NO_RESET.into()) })
    }
}

pub(crate) const NO_RESET: &str = "it has no reset(), so it cannot be rebuilt";

/// Code that is handed events one by one, as an application writes it.
///
/// ```
/// use highwater::{BoxError, Event, EventObserver, Projection};
/// use std::sync::atomic::{AtomicI64, Ordering};
///
/// enum Order { Placed { cents: i64 } }
///
/// #[derive(Default)]
/// struct Revenue(AtomicI64);
///
/// impl Projection<Order> for Revenue {
///     fn subscriber_id(&self) -> &str { "projection:revenue" }
///     async fn apply(&self, event: &Event<Order>) -> Result<(), BoxError> {
///         let Order::Placed { cents } = event.data;
///         self.0.fetch_add(cents, Ordering::Relaxed);
///         Ok(())
///     }
/// }
///
/// let revenue = Revenue::default();
/// let observer: &dyn EventObserver<Order> = &revenue;
/// assert_eq!(observer.subscriber_id(), "projection:revenue");
/// ```
pub trait Projection<D>: Send + Sync {
    /// See [`EventObserver::subscriber_id`].
    fn subscriber_id(&self) -> &str;

    /// See [`EventObserver::options`].
    fn options(&self) -> SubscriberOptions {
        SubscriberOptions::default()
    }

    /// See [`EventObserver::on_event`]. Takes `&self`: a panic or a time-out must not leave it unusable.
    ///
    /// # Errors
    /// Whatever keeps it from taking the event in.
    fn apply(&self, event: &Event<D>) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// See [`EventObserver::reset`].
    ///
    /// # Errors
    /// By default, that it cannot.
    fn reset(&self) -> impl Future<Output = Result<(), BoxError>> + Send {
        async { Err(NO_RESET.into()) }
    }
}

impl<D: Sync + 'static, P: Projection<D>> EventObserver<D> for P {
    fn subscriber_id(&self) -> &str {
        Projection::subscriber_id(self)
    }

    fn options(&self) -> SubscriberOptions {
        Projection::options(self)
    }

    fn on_event<'a>(&'a self, event: &'a Event<D>) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(self.apply(event))
    }

    fn reset(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(Projection::reset(self))
    }
}

/// A projection into the database that the events are in: it is handed the open transaction, and what it writes there is
/// committed together with its checkpoint. So it sees each event exactly once, whatever crashes when.
///
/// `Tx` is the backend's transaction: `PgTx` on PostgreSQL, [`MemoryTx`](crate::MemoryTx) in memory.
///
/// ```
/// use highwater::{BoxError, Event, MemoryTx, TransactionalProjection};
///
/// enum Order { Placed { cents: i64 } }
///
/// struct Revenue;
///
/// impl TransactionalProjection<Order, MemoryTx> for Revenue {
///     fn subscriber_id(&self) -> &str { "projection:revenue" }
///     async fn apply(&self, tx: &mut MemoryTx, event: &Event<Order>) -> Result<(), BoxError> {
///         let Order::Placed { cents } = event.data;
///         let before = tx.get("revenue").and_then(|value| value.as_i64()).unwrap_or(0);
///         tx.put("revenue", before + cents);
///         Ok(())
///     }
/// }
/// ```
pub trait TransactionalProjection<D, Tx>: Send + Sync
where
    D: Send + Sync,
    Tx: Send,
{
    /// See [`EventObserver::subscriber_id`].
    fn subscriber_id(&self) -> &str;

    /// See [`EventObserver::options`]. How many events share a transaction follows from the checkpoint mode.
    fn options(&self) -> SubscriberOptions {
        SubscriberOptions::default()
    }

    /// Takes one event in, writing through `tx` and nowhere else.
    ///
    /// # Errors
    /// Whatever keeps it from taking the event in. Everything it wrote is rolled back then.
    fn apply(&self, tx: &mut Tx, event: &Event<D>) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Handles several events at once, for projections that can do so faster than one by one. When it fails, the whole
    /// transaction is rolled back and the events come again through [`apply`](Self::apply), each in its own transaction.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    fn apply_batch(&self, tx: &mut Tx, events: &[Event<D>]) -> impl Future<Output = Result<(), BoxError>> + Send {
        async move {
            for event in events {
                self.apply(tx, event).await?;
            }
            Ok(())
        }
    }

    /// Empties the read model, in the same transaction that sets the checkpoint back.
    ///
    /// # Errors
    /// By default, that it cannot.
    fn reset(&self, tx: &mut Tx) -> impl Future<Output = Result<(), BoxError>> + Send {
        // Named, so that implementations see what it is for.
        let _tx = tx;
        async { Err(NO_RESET.into()) }
    }
}

/// An error that says of itself that trying again is no use: the event goes to the dead letters at once.
///
/// ```
/// # use highwater::{BoxError, Permanent};
/// fn parse(text: &str) -> Result<i64, BoxError> {
///     Ok(text.parse().map_err(Permanent::new)?)
/// }
/// assert!(parse("seven").unwrap_err().is::<Permanent>());
/// ```
#[derive(Debug)]
pub struct Permanent(BoxError);

impl Permanent {
    /// Makes an error permanent.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Permanent {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}
