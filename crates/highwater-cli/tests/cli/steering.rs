//! `pause`, `resume`, `rebuild` and `checkpoint`.

use std::sync::Arc;

use highwater::backend::Requests as _;
use highwater::{
    BoxError, Event, EventBus, FailurePolicy, GlobalSequence, InstanceMode, Projection, ReliableDeliveryConfig,
    StateIs, SubscriptionState, observer_fn,
};

use tokio::sync::Notify;

use crate::support::{Counter, Fixed, Kind, Note, Place, coordinated, eventually, on_each_backend, picky, say};

on_each_backend! {
    async fn a_subscriber_is_paused_and_resumed_from_outside<K>(place: Place<K>) {
        let store = place.store().await;
        let bus = EventBus::with_config(store.clone(), coordinated());
        let subscription = picky(&bus, FailurePolicy::DeadLetter, &Fixed::default()).await;
        subscription.caught_up().await.unwrap();
        let mut talk = place.talk();
        talk.run(&["pause", "projection:picky"]).await;
        eventually("it is paused", async || subscription.state() == SubscriptionState::Paused).await;
        talk.run(&["resume", "projection:picky", "--json"]).await;
        let at = say(&store, "a", "good").await;
        bus.wait_for("projection:picky", GlobalSequence(at)).await.unwrap();
        talk.is("pause");
        bus.shutdown().await.unwrap();
    }
}

on_each_backend! {
    async fn checkpoints_are_shown_and_moved_where_nobody_leads<K>(place: Place<K>) {
        let store = place.store().await;
        let mut talk = place.talk();
        talk.run(&["checkpoint", "show"]).await;
        let bus = EventBus::with_config(store.clone(), coordinated());
        let subscription = picky(&bus, FailurePolicy::DeadLetter, &Fixed::default()).await;
        for text in ["one", "bad", "three"] {
            say(&store, "a", text).await;
        }
        subscription.caught_up().await.unwrap();
        talk.run(&["checkpoint", "show"]).await;
        talk.run(&["checkpoint", "set", "projection:picky", "1"]).await;
        bus.shutdown().await.unwrap();
        talk.run(&["checkpoint", "set", "projection:picky", "4"]).await;
        talk.run(&["checkpoint", "set", "projection:picky", "1"]).await;
        talk.run(&["checkpoint", "reset", "projection:picky", "--json"]).await;
        talk.run(&["checkpoint", "show", "projection:picky", "--json"]).await;
        talk.run(&["checkpoint", "show", "projection:nobody"]).await;
        talk.run(&["checkpoint", "set", "projection:nobody", "1"]).await;
        talk.run(&["dead-letters", "list", "--state", "all"]).await;
        talk.is("checkpoint");
    }
}

on_each_backend! {
    async fn by_force_a_leader_is_fenced_and_resumes_from_the_new_place<K>(place: Place<K>) {
        let store = place.store().await;
        let bus = EventBus::with_config(store.clone(), coordinated());
        let seen = Counter::default();
        let counted = seen.clone();
        let observer = observer_fn("projection:counted", move |_: Event<Note>| {
            counted.add();
            async { Ok(()) }
        });
        let subscription = bus.subscribe(observer).await.unwrap();
        for text in ["one", "two", "three"] {
            say(&store, "a", text).await;
        }
        subscription.caught_up().await.unwrap();
        assert_eq!(seen.get(), 3);
        let mut talk = place.talk();
        talk.run(&["checkpoint", "reset", "projection:counted"]).await;
        talk.run(&["checkpoint", "set", "projection:counted", "1", "--force"]).await;
        talk.is("checkpoint_force");
        eventually("it is handed two of them again", async || seen.get() == 5).await;
        bus.shutdown().await.unwrap();
    }
}

/// A projection that can be emptied.
struct Model(Counter);

impl Projection<Note> for Model {
    const STATE: StateIs = StateIs::Outside;

    fn subscriber_id(&self) -> &str {
        "projection:model"
    }

    async fn apply(&self, _: &Event<Note>) -> Result<(), BoxError> {
        self.0.add();
        Ok(())
    }

    async fn reset(&self) -> Result<(), BoxError> {
        self.0.clear();
        Ok(())
    }
}

on_each_backend! {
    async fn a_projection_is_rebuilt_by_who_leads<K>(place: Place<K>) {
        let store = place.store().await;
        let bus = EventBus::with_config(store.clone(), coordinated());
        let seen = Counter::default();
        let model = bus.subscribe(Model(seen.clone())).await.unwrap();
        let picky = picky(&bus, FailurePolicy::DeadLetter, &Fixed::default()).await;
        say(&store, "a", "one").await;
        model.caught_up().await.unwrap();
        picky.caught_up().await.unwrap();
        // What was written before and is no event's doing goes with it.
        seen.add();
        let mut talk = place.talk();
        talk.run(&["rebuild", "projection:model"]).await;
        talk.run(&["rebuild", "projection:model", "--yes"]).await;
        talk.run(&["rebuild", "projection:model", "--force"]).await;
        eventually("it is filled anew", async || seen.get() == 1).await;
        talk.run(&["rebuild", "projection:picky", "--force"]).await;
        bus.shutdown().await.unwrap();
        talk.run(&["rebuild", "projection:model", "--yes", "--wait", "0"]).await;
        talk.is("rebuild");
    }
}

on_each_backend! {
    async fn a_pause_waits_until_who_leads_has_heard_of_it<K>(place: Place<K>) {
        let store = place.store().await;
        let bus = EventBus::with_config(store.clone(), coordinated());
        let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (tell, wait) = (begun.clone(), go_on.clone());
        let observer = observer_fn("projection:slow one", move |_: Event<Note>| {
            let (tell, wait) = (tell.clone(), wait.clone());
            async move {
                tell.notify_one();
                wait.notified().await;
                Ok(())
            }
        });
        bus.subscribe(observer).await.unwrap();
        say(&store, "a", "one").await;
        begun.notified().await;
        let mut talk = place.talk();
        talk.run(&["pause", "projection:slow one", "--wait", "1"]).await;
        go_on.notify_one();
        talk.run(&["pause", "projection:slow one", "--json"]).await;
        talk.run(&["resume", "projection:slow one"]).await;
        talk.run(&["resume", "projection:slow one"]).await;
        bus.shutdown().await.unwrap();
        talk.run(&["pause", "projection:slow one"]).await;
        talk.run(&["resume", "projection:slow one"]).await;
        talk.is("pause_waits");
    }
}

on_each_backend! {
    async fn a_rebuild_that_nobody_can_do_yet_is_filed_once<K>(place: Place<K>) {
        let store = place.store().await;
        let bus = EventBus::with_config(store.clone(), coordinated());
        let model = bus.subscribe(Model(Counter::default())).await.unwrap();
        model.caught_up().await.unwrap();
        bus.shutdown().await.unwrap();
        let mut talk = place.talk();
        talk.run(&["rebuild", "projection:model", "--yes"]).await;
        talk.run(&["rebuild", "projection:model", "--yes", "--by", "ben"]).await;
        talk.run(&["pause", "projection:model"]).await;
        talk.run(&["rebuild", "projection:model", "--yes"]).await;
        talk.is("rebuild_nobody");
        assert_eq!(store.open_requests(&["projection:model".to_owned()]).await.unwrap().len(), 1);
    }
}

on_each_backend! {
    async fn all_commands_agree_that_what_stopped_without_coordination_has_no_leader<K>(place: Place<K>) {
        let store = place.store().await;
        let alone = ReliableDeliveryConfig { instance_mode: InstanceMode::SingleInstance, ..coordinated() };
        let bus = EventBus::with_config(store.clone(), alone);
        let model = bus.subscribe(Model(Counter::default())).await.unwrap();
        let picky = picky(&bus, FailurePolicy::DeadLetter, &Fixed::default()).await;
        say(&store, "a", "bad").await;
        model.caught_up().await.unwrap();
        picky.caught_up().await.unwrap();
        bus.shutdown().await.unwrap();
        say(&store, "a", "later").await;
        let status = place.run(&["status"]).await.fine();
        assert!(status.contains(" stopped "), "{status}");
        let doctor = place.run(&["doctor"]).await;
        assert!(doctor.out.contains("and no instance leads"), "{doctor:?}");
        let replay: &[&str] = &["dead-letters", "replay", "--subscriber", "projection:picky", "--yes", "--wait", "0"];
        for filed in [&["rebuild", "projection:model", "--yes"], replay] {
            let filed = place.run(filed).await;
            assert!(filed.code == 0 && filed.err.contains("no instance leads for projection:"), "{filed:?}");
        }
        let paused = place.run(&["pause", "projection:model"]).await.fine();
        assert!(paused.contains("no instance leads for it"), "{paused}");
    }
}
