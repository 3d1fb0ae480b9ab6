//! `why`: every cause is produced for real.

use highwater::backend::Transactional;
use std::time::{Duration, Instant};

use highwater::{
    BoxError, Event, EventBus, FailurePolicy, GlobalSequence, InstanceMode, ReliableDeliveryConfig, SubscriberOptions,
    SubscriptionState, observer_fn,
};
use highwater_postgres::{PgConfig, PgEventStore};
use throwaway_postgres::{PoolMode, ThrowawayPgBouncer, ThrowawayPostgres};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{
    Fixed, Kind, Note, PATIENCE, Place, Postgres, Ran, check, coordinated, eventually, on_each_backend, open_writer,
    picky, say,
};
use crate::worker::{Worker, has_handled};

const PICKY: &str = "projection:picky";

/// Waits until it is given as the first reason, and returns what is said.
async fn because<K: Kind>(place: &Place<K>, subscriber: &str, cause: &str) -> String {
    let arguments = ["why", subscriber, "--patience", "1"];
    let deadline = Instant::now() + PATIENCE;
    loop {
        let asked = place.run(&[&arguments[..], &["--json"]].concat()).await;
        // Nothing but JSON once it is known.
        let said: serde_json::Value = match asked.code {
            4 => serde_json::Value::Null,
            _ => serde_json::from_str(&asked.out).unwrap_or_else(|error| panic!("{error}: {asked:?}")),
        };
        if said["causes"][0]["cause"] == cause {
            return place.neutral(&place.run(&arguments).await.fine());
        }
        assert!(Instant::now() < deadline, "{cause} is not the first reason in time: {asked:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Subscribes something that does with every event what it is told.
async fn doing<B: Transactional, F>(
    bus: &EventBus<B>,
    id: &str,
    on_failure: FailurePolicy,
    does: impl Fn() -> F + Send + Sync + 'static,
) where
    F: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    let observer = observer_fn(id, move |_: Event<Note>| does());
    bus.subscribe(observer.with_options(SubscriberOptions::new().on_failure(on_failure))).await.unwrap();
}

on_each_backend! {
    async fn it_has_caught_up_or_was_paused_or_stopped<K>(place: Place<K>) {
        let store = place.store().await;
        let bus = EventBus::with_config(store.clone(), coordinated());
        let subscription = picky(&bus, FailurePolicy::DeadLetter, &Fixed::default()).await;
        say(&store, "a", "good").await;
        check("why_caught_up", &because(&place, PICKY, "caught_up").await);
        place.run(&["pause", PICKY]).await.fine();
        eventually("it is paused", async || subscription.state() == SubscriptionState::Paused).await;
        say(&store, "a", "later").await;
        check("why_paused", &because(&place, PICKY, "paused").await);
        place.run(&["resume", PICKY]).await.fine();
        because(&place, PICKY, "caught_up").await;
        bus.shutdown().await.unwrap();
        check("why_stopped", &because(&place, PICKY, "stopped").await);
    }
}

on_each_backend! {
    async fn nobody_leads<K>(place: Place<K>) {
        let store = place.store().await;
        let worker = Worker::start(&place);
        let at = say(&store, "a", "good").await;
        has_handled(&store, at).await;
        because(&place, PICKY, "caught_up").await;
        drop(worker);
        say(&store, "a", "later").await;
        check("why_nobody_leads", &because(&place, PICKY, "nobody_leads").await);
        let status = place.neutral(&place.run(&["status"]).await.fine());
        assert!(status.contains("no leader  none"), "{status}");
    }
}

on_each_backend! {
    async fn its_leader_does_not_move<K>(place: Place<K>) {
        let store = place.store().await;
        let bus = EventBus::with_config(store.clone(), coordinated());
        doing(&bus, "projection:stuck", FailurePolicy::DeadLetter, std::future::pending).await;
        say(&store, "a", "good").await;
        check("why_not_moving", &because(&place, "projection:stuck", "not_moving").await);
    }
}

on_each_backend! {
    async fn it_retries_an_event<K>(place: Place<K>) {
        let store = place.store().await;
        let hour = Duration::from_secs(3_600);
        let config = ReliableDeliveryConfig {
            max_retries: 5,
            initial_retry_delay: hour,
            max_retry_delay: hour,
            ..coordinated()
        };
        let bus = EventBus::with_config(store.clone(), config);
        picky(&bus, FailurePolicy::DeadLetter, &Fixed::default()).await;
        say(&store, "a", "bad").await;
        check("why_retrying", &because(&place, PICKY, "retrying").await);
        bus.shutdown().await.unwrap();
    }
}

on_each_backend! {
    async fn streams_are_parked_and_dead_letters_are_open<K>(place: Place<K>) {
        let store = place.store().await;
        let bus = EventBus::with_config(store.clone(), coordinated());
        let subscription = picky(&bus, FailurePolicy::ParkStream, &Fixed::default()).await;
        for (stream, text) in [("a", "bad"), ("a", "waits"), ("b", "bad"), ("c", "good")] {
            say(&store, stream, text).await;
        }
        subscription.caught_up().await.unwrap();
        check("why_parked", &because(&place, PICKY, "caught_up").await);
        bus.shutdown().await.unwrap();
    }
}

on_each_backend! {
    async fn it_has_halted<K>(place: Place<K>) {
        let store = place.store().await;
        let bus = EventBus::with_config(store.clone(), coordinated());
        picky(&bus, FailurePolicy::Halt, &Fixed::default()).await;
        say(&store, "a", "bad").await;
        check("why_halted", &because(&place, PICKY, "halted").await);
        bus.shutdown().await.unwrap();
    }
}

on_each_backend! {
    async fn it_is_catching_up<K>(place: Place<K>) {
        let store = place.store().await;
        let lines = "{\"stream\":\"note/a\",\"type\":\"Struck\"}\n".repeat(20_000);
        place.feed(&["append", "--stdin"], &lines).await.fine();
        let bus = EventBus::with_config(store.clone(), coordinated());
        let slowly = || async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(())
        };
        doing(&bus, "projection:slow", FailurePolicy::DeadLetter, slowly).await;
        let said = because(&place, "projection:slow", "catching_up").await;
        assert!(said.contains("projection:slow: catching up, at "), "{said}");
        bus.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_is_named_with_who_holds_it_and_what_it_ran() {
    let place = Postgres::place();
    let store = place.store().await;
    let bus = EventBus::with_config(store.clone(), coordinated());
    let subscription = picky(&bus, FailurePolicy::DeadLetter, &Fixed::default()).await;
    say(&store, "a", "good").await;
    subscription.caught_up().await.unwrap();

    let mut holder = open_writer(&place).await;
    let at = say(&store, "a", "behind it").await;

    check("why_open_transaction", &because(&place, PICKY, "waiting_for_writers").await);
    let status = place.neutral(&place.run(&["status"]).await.fine());
    let named = "readers wait for process [pid] (role [role], application nightly-import, open for [duration], last";
    assert!(status.contains(named) && status.contains("held back"), "{status}");
    // A reader says whom it waits for, and continues once that has ended.
    let mut events = place.command(&["events", "--json"]).spawn().unwrap();
    let mut notes = BufReader::new(events.stderr.take().unwrap()).lines();
    let note = tokio::time::timeout(PATIENCE, notes.next_line()).await.expect("it says so in time").unwrap().unwrap();
    assert!(note.contains("waiting for what is still being written, after 1: process "), "{note}");
    assert!(note.contains("application nightly-import, open for"), "{note}");
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    assert_eq!(notes.next_line().await.unwrap(), None, "it says so once");
    let events = Ran::of(events).await;
    assert_eq!((events.code, events.out.lines().count()), (0, 2), "{events:?}");
    bus.wait_for(PICKY, GlobalSequence(at)).await.unwrap();
    bus.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn push_is_degraded_behind_a_pooler() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let pooler = ThrowawayPgBouncer::start(&postgres, PoolMode::Transaction).unwrap();
    let place = Place::<Postgres>::at(postgres.url());
    place.run(&["init"]).await.fine();
    let leadership_url = Some(pooler.url());
    let config = PgConfig { schema: place.schema.clone(), leadership_url, ..PgConfig::default() };
    let store = PgEventStore::connect_with(&place.url, config).await.unwrap();
    let alone = ReliableDeliveryConfig { instance_mode: InstanceMode::SingleInstance, ..coordinated() };
    let bus = EventBus::with_config(store.clone(), alone);
    picky(&bus, FailurePolicy::DeadLetter, &Fixed::default()).await;
    say(&store, "a", "good").await;
    eventually("it is said that push is degraded", async || {
        place.run(&["why", PICKY, "--json"]).await.fine().contains("push_degraded")
    })
    .await;
    check("why_push_degraded", &because(&place, PICKY, "caught_up").await);
    bus.shutdown().await.unwrap();
}
