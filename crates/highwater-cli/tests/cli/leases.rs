//! Leases, and subscribers that are removed.

use highwater::backend::Checkpoints as _;
use highwater::{Claim, Coordinator, EventBus, FailurePolicy, ProjectorCoordinator as _};

use crate::support::{Fixed, Kind, Place, coordinated, eventually, on_each_backend, picky, say};

on_each_backend! {
    async fn a_lease_is_no_subscriber_that_fails<K>(place: Place<K>) {
        let store = place.store().await;
        let bus = EventBus::with_config(store.clone(), coordinated());
        let subscription = picky(&bus, FailurePolicy::DeadLetter, &Fixed::default()).await;
        say(&store, "a", "good").await;
        // It leads, with the first term of the store.
        subscription.caught_up().await.unwrap();
        let coordinator = Coordinator::with_config(&store, &coordinated().coordination);
        let claim = Claim::of("timer:night");
        let guard = coordinator.acquire(&claim).await.unwrap();
        bus.shutdown().await.unwrap();
        let mut talk = place.talk();
        talk.run(&["status"]).await;
        talk.run(&["why", "timer:night"]).await;
        talk.run(&["why", "timer:night", "--json"]).await;
        talk.run(&["checkpoint", "show"]).await;
        talk.run(&["pause", "timer:night"]).await;
        talk.run(&["rebuild", "timer:night", "--yes"]).await;
        talk.run(&["subscribers", "remove", "timer:night", "--yes"]).await;
        let json = place.run(&["status", "--json"]).await.fine();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let (lease, pid) = (&json["leases"][0], u64::from(std::process::id()));
        assert_eq!((lease["lease"].as_str(), lease["held"].as_bool()), (Some("timer:night"), Some(true)));
        assert_eq!((lease["holder"]["pid"].as_u64(), json["subscribers"].as_array().unwrap().len()), (Some(pid), 1));
        guard.release().await;
        coordinator.close().await;
        talk.run(&["why", "timer:night"]).await;
        let doctor = place.run(&["doctor"]).await;
        assert!(!doctor.out.contains("timer:night"), "{doctor:?}");
        talk.run(&["subscribers", "remove", "timer:night", "--yes"]).await;
        talk.run(&["why", "timer:night"]).await;
        talk.is("leases");
    }
}

on_each_backend! {
    async fn a_subscriber_that_is_gone_is_removed<K>(place: Place<K>) {
        let store = place.store().await;
        let bus = EventBus::with_config(store.clone(), coordinated());
        let subscription = picky(&bus, FailurePolicy::DeadLetter, &Fixed::default()).await;
        for text in ["one", "bad", "three"] {
            say(&store, "a", text).await;
        }
        subscription.caught_up().await.unwrap();
        let mut talk = place.talk();
        talk.run(&["subscribers", "remove", "projection:nobody", "--yes"]).await;
        talk.run(&["subscribers", "remove", "projection:picky", "--yes"]).await;
        bus.shutdown().await.unwrap();
        let doctor = place.run(&["doctor", "--json"]).await;
        assert!(!doctor.out.contains("delete its checkpoint"), "{doctor:?}");
        talk.run(&["subscribers", "remove", "projection:picky"]).await;
        talk.run(&["subscribers", "remove", "projection:picky", "--yes"]).await;
        talk.run(&["status"]).await;
        talk.run(&["dead-letters", "list", "--state", "all"]).await;
        talk.run(&["subscribers", "remove", "projection:picky", "--yes"]).await;
        let bus = EventBus::with_config(store.clone(), coordinated());
        let again = picky(&bus, FailurePolicy::DeadLetter, &Fixed::default()).await;
        again.caught_up().await.unwrap();
        eventually("it is stored that it is back", async || {
            store.checkpoint("projection:picky").await.unwrap().is_some_and(|found| found.global_sequence == 3)
        })
        .await;
        talk.run(&["subscribers", "remove", "projection:picky", "--force", "--json"]).await;
        talk.is("subscribers_remove");
        bus.shutdown().await.unwrap();
    }
}
