//! What an application writes to be handed events.

mod state;
mod tables;

use std::fmt;
use std::future::Future;

pub use self::state::StateIs;
pub(crate) use self::tables::making_tables;
use crate::{BoxError, BoxFuture, Event, SubscriberOptions};

/// Code that is handed events one by one, in the form that can be used as `dyn`.
///
/// Applications usually write a [`Projection`], which is an observer by itself.
///
/// On a database its checkpoint outlives the process, and state that it keeps in memory does not: after a restart it would lack every
/// event before. State in memory is for a [live view](crate::LiveView).
pub trait EventObserver<D>: Send + Sync {
    /// The durable name that its checkpoint is stored under: `projection:<name>` or `saga:<name>`. Instances with the same
    /// name share one position, so it must never change, and no two observers may have the same.
    fn subscriber_id(&self) -> &str;

    /// What it chooses.
    fn options(&self) -> SubscriberOptions {
        SubscriberOptions::default()
    }

    /// Where it keeps what it makes of events: what a [`Projection`] says. Other observers are not asked.
    #[doc(hidden)]
    fn state_is(&self) -> StateIs {
        StateIs::Outside
    }

    /// Handles one event. An event may be delivered again after a crash; its `id` tells.
    ///
    /// # Errors
    /// Whatever keeps it from handling the event. [`Permanent`] says that retrying is no use.
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

/// Code that is handed events one by one, and does something with them **outside**: in a search index, in another system, by mail.
///
/// Its checkpoint is stored, so it is not handed again what it has handled: after a restart, and on another instance, it continues
/// where it was. What it keeps must outlive the process as well, so every projection says where that is. State in memory is for a
/// [`LiveView`](crate::LiveView), and tables in the database of the events are for a [`TransactionalProjection`], which counts every
/// event exactly once.
///
/// ```
/// use highwater::{BoxError, Event, EventObserver, Projection, StateIs};
/// use uuid::Uuid;
///
/// enum Order { Placed { customer: String } }
///
/// struct Mails;
///
/// impl Mails {
///     async fn send(&self, to: &str, once: Uuid) -> Result<(), BoxError> { Ok(()) }
/// }
///
/// impl Projection<Order> for Mails {
///     const STATE: StateIs = StateIs::Nothing;
///     fn subscriber_id(&self) -> &str { "projection:mails" }
///     async fn apply(&self, event: &Event<Order>) -> Result<(), BoxError> {
///         let Order::Placed { customer } = &event.data;
///         self.send(customer, event.id).await        // by the id a repetition after a crash is recognised
///     }
/// }
///
/// let observer: &dyn EventObserver<Order> = &Mails;
/// assert_eq!(observer.subscriber_id(), "projection:mails");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no projection of `{D}`",
    note = "a projection names its subscriber, says where it keeps its state (`const STATE: StateIs`), and handles events in `apply`"
)]
pub trait Projection<D>: Send + Sync {
    /// Where it keeps what it makes of events. It has no default: a wrong one would lose state at a restart, in silence. A constant,
    /// because that is decided where the type is written, and the trait cannot be used as `dyn` anyway; [`EventObserver`] can.
    const STATE: StateIs;

    /// See [`EventObserver::subscriber_id`].
    fn subscriber_id(&self) -> &str;

    /// See [`EventObserver::options`].
    fn options(&self) -> SubscriberOptions {
        SubscriberOptions::default()
    }

    /// See [`EventObserver::on_event`]. Takes `&self`: a panic or a time-out must not leave it unusable.
    ///
    /// # Errors
    /// Whatever keeps it from handling the event.
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
    fn state_is(&self) -> StateIs {
        P::STATE
    }

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
/// `Tx` is the backend's transaction: `PgTx` on PostgreSQL, `SqliteTx` on SQLite, [`MemoryTx`](crate::MemoryTx) in memory;
/// [`for_each_tx!`](crate::for_each_tx) implements it for several of them at once. Its tables are made in [`setup`](Self::setup).
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no projection of `{D}` in a `{Tx}`",
    note = "`Tx` is the transaction of the store that the bus delivers from: `PgTx`, `SqliteTx` or `MemoryTx`; `D` is the enum of events it is handed"
)]
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

    /// The version of its tables: it goes up by one whenever [`setup`](Self::setup) changes what it makes, and never down.
    ///
    /// Which version is set up is stored beside the checkpoint. When the code's is higher, the read model has to be built again from
    /// the first event, which may take long: by default the subscriber halts, and says so, until an operator requests a rebuild
    /// (`highwater rebuild NAME --force`). With [`rebuild_on_new_version`](SubscriberOptions::rebuild_on_new_version) it rebuilds
    /// itself. When the code's is lower, as on an instance that has not been upgraded yet, this instance halts and leaves the
    /// subscriber to the others: it never writes to tables that it does not know.
    fn version(&self) -> u32 {
        1
    }

    /// Makes its tables. Called by the leader, before the first event is handled and once for each [version](Self::version), in a
    /// transaction of its own: instances that start at the same time do not race. What it fails with is logged and shown, and it
    /// is called again until it succeeds; no event is handled, skipped or recorded as a dead letter meanwhile.
    ///
    /// - **Version 1 creates.** Where the subscriber has handled events in this store and no version was ever set up, as in a
    ///   [copy](crate::transfer), its tables would lack those events: it halts, as for a new version.
    /// - A projection that gets its first `setup` after it has run without one becomes **version 2**: it makes something now.
    /// - **A later version drops and creates**, or alters: it finds what any earlier version made, or nothing. All events come again
    ///   then, so dropping loses nothing: in one transaction `setup` is called, then [`reset`](Self::reset), which finds the new
    ///   tables, and the checkpoint goes back to the start.
    /// - A rebuild without a new version calls `reset` alone.
    /// - `handler_timeout` holds for each of these calls, where it is set.
    ///
    /// ```
    /// # use highwater::{BoxError, Event, MemoryTx, TransactionalProjection};
    /// # enum Order { Placed { cents: i64 } }
    /// struct Revenue;
    ///
    /// impl TransactionalProjection<Order, MemoryTx> for Revenue {
    ///     fn subscriber_id(&self) -> &str { "projection:revenue" }
    ///     fn version(&self) -> u32 { 2 }
    ///     async fn setup(&self, tx: &mut MemoryTx) -> Result<(), BoxError> {
    ///         tx.remove("revenue");                      // what version 1 made
    ///         tx.put("revenue/cents", 0);
    ///         Ok(())
    ///     }
    ///     async fn reset(&self, tx: &mut MemoryTx) -> Result<(), BoxError> {
    ///         tx.put("revenue/cents", 0);
    ///         Ok(())
    ///     }
    ///     async fn apply(&self, tx: &mut MemoryTx, event: &Event<Order>) -> Result<(), BoxError> {
    ///         let Order::Placed { cents } = event.data;
    ///         let before = tx.get("revenue/cents").and_then(|value| value.as_i64()).unwrap_or(0);
    ///         tx.put("revenue/cents", before + cents);
    ///         Ok(())
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// Whatever keeps it from making them. Everything it wrote is rolled back then.
    fn setup(&self, tx: &mut Tx) -> impl Future<Output = Result<(), BoxError>> + Send {
        // Named, so that implementations see what it is for.
        let _tx = tx;
        async {
            tables::none_are_made();
            Ok(())
        }
    }

    /// Handles one event, writing through `tx` and nowhere else.
    ///
    /// # Errors
    /// Whatever keeps it from handling the event. Everything it wrote is rolled back then.
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

    /// Empties the read model, in the same transaction that sets the checkpoint back. It finds the tables of the present
    /// [version](Self::version).
    ///
    /// # Errors
    /// By default, that it cannot.
    fn reset(&self, tx: &mut Tx) -> impl Future<Output = Result<(), BoxError>> + Send {
        // Named, so that implementations see what it is for.
        let _tx = tx;
        async { Err(NO_RESET.into()) }
    }
}

/// An error that says of itself that retrying is no use: the event goes to the dead letters at once.
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
