//! Readers that ask for kinds of streams.

use highwater::MemoryEventStore;
use highwater::prelude::*;
use tracing::Level;

use super::support::{Listener, Note, eventually, quick, within};

const MISSING: &str = "no stream is of the kind";

#[derive(Default)]
struct Notes(usize);

impl Evolve for Notes {
    type Event = Note;

    fn evolve(&mut self, _: &Event<Note>) {
        self.0 += 1;
    }
}

async fn store() -> MemoryEventStore {
    let store = MemoryEventStore::new();
    for name in ["bike", "bike-shop", "customer"] {
        store.append(&Append::to(stream_id(name, "1")).event(Note::Struck)).await.unwrap();
    }
    store
}

#[tokio::test]
async fn a_kind_that_no_stream_is_of_is_warned_of_by_what_asks_for_it() {
    let listener = Listener::default();
    let _listening = tracing::subscriber::set_default(listener.clone());
    let bus = MemoryEventBus::with_config(store().await, quick());
    // What is there, and what asks for nothing, is not warned of.
    let right = bus.live_view_of_kinds::<Notes>(["bike"]).unwrap();
    assert_eq!(within("reading", right.read(|notes| notes.0)).await.unwrap(), 1);
    let subscribe = async |id: &str, options: SubscriberOptions| {
        let observer = observer_fn(id, |_: Event<Note>| async { Ok(()) }).with_options(options);
        bus.subscribe(observer).await.unwrap().caught_up().await.unwrap();
    };
    subscribe("projection:customers", SubscriberOptions::new().of_kinds(["customer"])).await;
    subscribe("projection:all", SubscriberOptions::new()).await;

    let misspelt = bus.live_view_of_kinds::<Notes>(["bikes"]).unwrap();
    assert_eq!(within("reading", misspelt.read(|notes| notes.0)).await.unwrap(), 0);
    eventually("the view warns", async || listener.count(Level::WARN, MISSING) == 1).await;
    subscribe("projection:bikes", SubscriberOptions::new().of_kinds(["bike", "bik"])).await;
    let said = "no stream is of the kind bik; there are streams of: bike-shop, bike, customer";
    eventually("the subscriber warns", async || listener.count(Level::WARN, said) == 1).await;
    assert_eq!(listener.count(Level::WARN, MISSING), 2, "{listener:?}");
    bus.shutdown().await.unwrap();
}

#[tokio::test]
async fn where_there_are_no_streams_yet_no_kind_is_missing() {
    let empty = MemoryEventStore::new();
    let missing = highwater::backend::missing_kinds(&empty, &["bike".to_owned()]).await.unwrap();
    assert_eq!(missing, None);
}

#[tokio::test]
async fn what_a_decision_returned_can_be_waited_for_and_nothing_is_waited_for_if_it_was_nothing() {
    let store = store().await;
    let bus = MemoryEventBus::with_config(store.clone(), quick());
    let view = bus.live_view::<Notes>().unwrap();
    bus.subscribe(observer_fn("projection:x", |_: Event<Note>| async { Ok(()) })).await.unwrap();
    for (decided, there) in [(true, 4), (false, 4)] {
        let decide = |_: &Notes| Ok::<_, BoxError>(decided.then_some(Note::Struck));
        let done = store.execute(stream_id("bike", "1"), decide).await.unwrap();
        assert_eq!(within("reading", view.read_after(&done, |notes| notes.0)).await.unwrap(), there);
        within("waiting", bus.wait_for("projection:x", &done)).await.unwrap();
    }
    bus.shutdown().await.unwrap();
}
