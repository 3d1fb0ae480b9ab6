//! Panics of handlers, of errors and of resets.

use std::fmt;

use highwater::GlobalSequence;
use highwater::prelude::*;

use super::support::{Note, quick, say, within};

/// Panics when it is asked what it says.
#[derive(Debug)]
struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("unspeakable")
    }
}

impl std::error::Error for Unspeakable {}

#[tokio::test]
async fn a_panic_is_a_failure_wherever_it_happens() {
    let store = MemoryEventStore::new();
    let bus = MemoryEventBus::with_config(store.clone(), ReliableDeliveryConfig { max_retries: 0, ..quick() });
    // In the function itself, before there is a future; and in the error that it returns.
    bus.subscribe(observer_fn("projection:eager", |event: Event<Note>| {
        assert!(event.global_sequence.is_none(), "ouch");
        async { Ok(()) }
    }))
    .await
    .unwrap();
    bus.subscribe(observer_fn("projection:error", |_: Event<Note>| async { Err(Unspeakable.into()) })).await.unwrap();
    let at = say(&store, "a").await;
    for (id, said) in [("projection:eager", "ouch"), ("projection:error", "panics when it is shown")] {
        let dead_letter = bus.wait_for(id, GlobalSequence(at)).await.unwrap().dead_letter.unwrap();
        assert!(dead_letter.error_message.unwrap().contains(said), "{id}");
    }
    assert!(bus.health().await.is_live());
    bus.shutdown().await.unwrap();
}

pub(super) struct PanicsInReset;

impl Projection<Note> for PanicsInReset {
    const STATE: StateIs = StateIs::Nothing;

    fn subscriber_id(&self) -> &str {
        "projection:reset"
    }

    async fn apply(&self, _: &Event<Note>) -> Result<(), BoxError> {
        Ok(())
    }

    fn reset(&self) -> impl Future<Output = Result<(), BoxError>> + Send {
        assert!(self.subscriber_id().is_empty(), "ouch");
        async { Ok(()) }
    }
}

#[tokio::test]
async fn a_reset_that_panics_is_refused_and_the_subscriber_continues() {
    let store = MemoryEventStore::new();
    let bus = MemoryEventBus::with_config(store.clone(), quick());
    let subscription = bus.subscribe(PanicsInReset).await.unwrap();
    assert!(within("the answer", subscription.rebuild()).await.unwrap_err().to_string().contains("ouch"));
    let at = say(&store, "a").await;
    bus.wait_for("projection:reset", GlobalSequence(at)).await.unwrap();
    bus.shutdown().await.unwrap();
}
