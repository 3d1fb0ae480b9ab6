//! `status`.

use highwater::backend::Checkpoints as _;
use highwater::{EventBus, FailurePolicy};

use crate::support::{Fixed, Kind, Place, coordinated, eventually, on_each_backend, picky, say};

on_each_backend! {
    async fn status_shows_how_everything_stands<K>(place: Place<K>) {
        let store = place.store().await;
        let mut talk = place.talk();
        talk.run(&["status"]).await;
        let bus = EventBus::with_config(store.clone(), coordinated());
        let subscription = picky(&bus, FailurePolicy::DeadLetter, &Fixed::default()).await;
        for text in ["good", "bad"] {
            say(&store, "a", text).await;
        }
        subscription.caught_up().await.unwrap();
        // What it says of itself arrives a moment later.
        eventually("it reports that it is live", async || {
            let reports = store.reports().await.unwrap();
            reports.iter().any(|report| report.state.name() == "live" && report.rate == 0.0 && report.last_error.is_some())
        })
        .await;
        talk.run(&["status"]).await;
        talk.run(&["status", "--json"]).await;
        bus.shutdown().await.unwrap();
        say(&store, "a", "later").await;
        talk.run(&["status"]).await;
        talk.is("status");
    }
}
