//! The subscriber: a listener of all events.

use std::convert::Infallible;
use std::sync::Arc;

use disintegrate::{EventListener, PersistedEvent, StreamQuery, query};
use disintegrate_postgres::{
    AbortRetry, PgEventId, PgEventListener, PgEventListenerConfig, PgEventListenerError, RetryAction,
};
use driver::{Error, Sink};
use tokio::sync::mpsc;

use crate::EventStore;
use crate::orders::OrderEvent;

struct ToSink {
    id: &'static str,
    query: StreamQuery<PgEventId, OrderEvent>,
    sink: Arc<Sink>,
}

#[async_trait::async_trait]
impl EventListener<PgEventId, OrderEvent> for ToSink {
    type Error = Infallible;

    fn id(&self) -> &'static str {
        self.id
    }

    fn query(&self) -> &StreamQuery<PgEventId, OrderEvent> {
        &self.query
    }

    async fn handle(&self, event: PersistedEvent<PgEventId, OrderEvent>) -> Result<(), Infallible> {
        let position = u64::try_from(event.id()).ok();
        match event.into_inner() {
            OrderEvent::OrderPlaced { order, .. } => self.sink.handle(&order, position),
        }
        Ok(())
    }
}

/// Runs until the sink is stopped.
pub(crate) async fn follow(
    events: EventStore,
    id: &str,
    sink: Arc<Sink>,
    config: PgEventListenerConfig<AbortRetry>,
) -> Result<(), Error> {
    // As AbortRetry, which is the default, does it; but that says nothing.
    let (failed, mut failure) = mpsc::channel(1);
    let config = config.with_retry(move |error: PgEventListenerError<Infallible>, _| {
        // If it is full, an earlier failure is told.
        drop(failed.try_send(format!("{error:?}")));
        RetryAction::Abort
    });
    // A name is for the life of the process here.
    let listener = ToSink { id: id.to_owned().leak(), query: query!(OrderEvent), sink: sink.clone() };
    let listening = PgEventListener::builder(events).register_listener(listener, config);
    tokio::select! {
        stopped = listening.start_with_shutdown(async move { sink.stopped().await }) => Ok(stopped?),
        Some(error) = failure.recv() => Err(error.into()),
    }
}
