//! What an application writes to be handed events.

use std::future::Future;

use crate::{BoxError, BoxFuture, Event};

/// Code that is handed events one by one, in the form that can be used as `dyn`.
///
/// Applications usually write a [`Projection`], which is an observer by itself.
pub trait EventObserver<D>: Send + Sync {
    /// The durable name under which it has got to where it is: `projection:<name>` or `saga:<name>`. Instances with the
    /// same name share one position, so it must never change, and no two observers may have the same.
    fn subscriber_id(&self) -> &str;

    /// Takes one event in. An event may be handed over again after a crash; its `id` tells.
    ///
    /// # Errors
    /// Whatever keeps it from taking the event in.
    fn on_event<'a>(&'a self, event: &'a Event<D>) -> BoxFuture<'a, Result<(), BoxError>>;
}

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

    /// See [`EventObserver::on_event`]. Takes `&self`: a panic or a time-out must not leave it unusable.
    ///
    /// # Errors
    /// Whatever keeps it from taking the event in.
    fn apply(&self, event: &Event<D>) -> impl Future<Output = Result<(), BoxError>> + Send;
}

impl<D: Sync, P: Projection<D>> EventObserver<D> for P {
    fn subscriber_id(&self) -> &str {
        Projection::subscriber_id(self)
    }

    fn on_event<'a>(&'a self, event: &'a Event<D>) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(self.apply(event))
    }
}
