//! `pause`, `resume`, `rebuild` and `checkpoint`.

use highwater::{EventBus, FailurePolicy, SubscriptionState};

use crate::support::{Kind, Mended, Place, Postgres, coordinated, eventually, on_each_backend, picky, say};

on_each_backend! {
    async fn a_subscriber_is_paused_and_resumed_from_outside<K>(place: Place<K>) {
        let store = place.store().await;
        let bus = EventBus::new(store.clone(), coordinated());
        let subscription = picky(&bus, FailurePolicy::DeadLetter, &Mended::default()).await;
        subscription.caught_up().await.unwrap();
        let mut talk = place.talk();
        talk.run(&["pause", "projection:picky"]).await;
        eventually("it is paused", async || subscription.state() == SubscriptionState::Paused).await;
        talk.run(&["resume", "projection:picky", "--json"]).await;
        let at = say(&store, "a", "good").await;
        bus.wait_for("projection:picky", at).await.unwrap();
        talk.is("pause");
        bus.shutdown().await.unwrap();
    }
}
