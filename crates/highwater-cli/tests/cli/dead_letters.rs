//! `dead-letters`.

use highwater::backend::Backend;
use highwater::operations::DeadLetterQuery;
use highwater::{EventBus, FailurePolicy};

use crate::support::{Fixed, Kind, Place, coordinated, eventually, on_each_backend, picky, say};

async fn dead_letters(store: &dyn Backend) -> Vec<String> {
    let dead_letters = store.dead_letters(&DeadLetterQuery::default()).await.unwrap();
    dead_letters.into_iter().map(|dead_letter| dead_letter.id.to_string()).collect()
}

on_each_backend! {
    async fn dead_letters_are_listed_shown_replayed_and_discarded<K>(place: Place<K>) {
        let (store, fixed) = (place.store().await, Fixed::default());
        let bus = EventBus::with_config(store.clone(), coordinated());
        let subscription = picky(&bus, FailurePolicy::DeadLetter, &fixed).await;
        for text in ["bad one", "good", "bad two", "bad three"] {
            say(&store, "a", text).await;
        }
        subscription.caught_up().await.unwrap();
        let ids = dead_letters(&store).await;
        let mut talk = place.talk();
        talk.run(&["dead-letters", "list"]).await;
        talk.run(&["dead-letters", "list", "--limit", "1"]).await;
        talk.run(&["dead-letters", "list", "--until", "1h"]).await;
        talk.run(&["dead-letters", "list", "--type", "Struck"]).await;
        talk.run(&["dead-letters", "list", "--stream", "note/b"]).await;
        talk.run(&["dead-letters", "list", "--json", "--limit", "1"]).await;
        talk.run(&["dead-letters", "show", &ids[0]]).await;
        talk.run(&["dead-letters", "replay", &ids[0]]).await;
        talk.run(&["dead-letters", "show", &ids[0]]).await;
        talk.run(&["dead-letters", "discard", &ids[0], "--reason", "not needed"]).await;
        fixed.now();
        talk.run(&["dead-letters", "replay", "--all"]).await;
        talk.run(&["dead-letters", "replay"]).await;
        talk.run(&["dead-letters", "replay", "--type", "Noted", "--since", "1h", "--yes"]).await;
        talk.run(&["dead-letters", "replay", "--all", "--yes"]).await;
        talk.run(&["dead-letters", "list", "--state", "all"]).await;
        talk.is("dead_letters");
        bus.shutdown().await.unwrap();
    }
}

on_each_backend! {
    async fn many_are_dealt_with_at_once_and_as_json<K>(place: Place<K>) {
        let (store, fixed) = (place.store().await, Fixed::default());
        let bus = EventBus::with_config(store.clone(), coordinated());
        let subscription = picky(&bus, FailurePolicy::ParkStream, &fixed).await;
        for (stream, text) in [("a", "bad one"), ("a", "waits"), ("b", "bad two"), ("c", "bad three")] {
            say(&store, stream, text).await;
        }
        subscription.caught_up().await.unwrap();
        let mut talk = place.talk();
        talk.run(&["dead-letters", "list"]).await;
        talk.run(&["dead-letters", "discard", "--stream", "note/b", "--reason", "too late", "--yes"]).await;
        fixed.now();
        talk.run(&["dead-letters", "replay", "--subscriber", "projection:picky", "--stream", "note/a", "--yes"]).await;
        talk.run(&["dead-letters", "replay", "--subscriber", "projection:picky", "--yes", "--json"]).await;
        talk.run(&["dead-letters", "replay", "--all", "--yes"]).await;
        talk.is("dead_letters_many");
        bus.shutdown().await.unwrap();
    }
}

on_each_backend! {
    async fn when_nobody_leads_it_is_said_and_the_request_stays<K>(place: Place<K>) {
        let (store, fixed) = (place.store().await, Fixed::default());
        let bus = EventBus::with_config(store.clone(), coordinated());
        let subscription = picky(&bus, FailurePolicy::DeadLetter, &fixed).await;
        say(&store, "a", "bad").await;
        subscription.caught_up().await.unwrap();
        bus.shutdown().await.unwrap();
        let id = dead_letters(&store).await.remove(0);
        let mut talk = place.talk();
        talk.run(&["dead-letters", "replay", &id, "--wait", "0"]).await;
        talk.run(&["dead-letters", "replay", &id, "--wait", "1"]).await;
        talk.is("dead_letters_nobody");

        fixed.now();
        let bus = EventBus::with_config(store.clone(), coordinated());
        picky(&bus, FailurePolicy::DeadLetter, &fixed).await;
        eventually("the dead letter is replayed", async || dead_letters(&store).await.is_empty()).await;
        bus.shutdown().await.unwrap();
    }
}
