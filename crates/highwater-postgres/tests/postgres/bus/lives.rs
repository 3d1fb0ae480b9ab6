//! Numbers of two lives of the server: what was committed without waiting for the disk is gone after a crash, and its numbers are
//! given to other events. What was handled, read or found before says nothing about those.

use std::time::Duration;

use highwater::backend::{Checkpoints, Wakeups};
use highwater::{Event, Evolve, GlobalSequence, ReliableDeliveryConfig, StartAt, SubscriberOptions, SubscriptionState};

use super::recoveries::{kill_a_backend, lazy, say_again};
use super::{Recorder, bus, quick};
use crate::support::*;

/// What is in the log, by its number.
#[derive(Default)]
struct Texts(Vec<(u64, String)>);

impl Evolve for Texts {
    type Event = Note;

    fn evolve(&mut self, event: &Event<Note>) {
        let Note::Noted { text } = &event.data else { return };
        self.0.push((event.global_sequence.unwrap(), text.clone()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_was_reached_before_a_recovery_is_not_that_of_the_event_which_gets_it_afterwards() {
    let server = lazy();
    let db = Db::on(server.url());
    // Nothing is found by polling.
    let bus = bus(&db, ReliableDeliveryConfig { poll_interval: Duration::from_secs(600), ..quick() }).await;
    let recorder = Recorder::new("projection:each");
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    let view = bus.live_view::<Texts>().unwrap();
    let mut issued_again = 0;
    for _ in 0..12 {
        let last = say_again(bus.store()).await;
        let mut careless = db.connection().await;
        db.execute(&mut careless, "CHECKPOINT; SET synchronous_commit = off").await;
        for _ in 0..10 {
            db.execute(&mut careless, INSERT).await;
        }
        // By plain SQL, which tells nobody.
        bus.store().announce(last + 10);
        bus.wait_for_within("projection:each", GlobalSequence(last + 10), Duration::from_secs(20)).await.unwrap();
        view.read_after(GlobalSequence(last + 10), |_| ()).await.unwrap();
        kill_a_backend(&server, &db).await;
        let at = say_again(bus.store()).await;
        let viewed = view.read_after(GlobalSequence(at), |texts| texts.0.contains(&(at, "one".to_owned()))).await;
        assert!(viewed.unwrap(), "event {at} is acknowledged, and not in a view that was read after it");
        eventually("it has caught up", async || subscription.caught_up().await.is_ok()).await;
        let handled = recorder.sequences().into_iter().zip(recorder.texts()).any(|(n, text)| n == at && text == "one");
        assert!(handled, "event {at} is acknowledged, and not handled after caught_up()");
        issued_again += u32::from(at <= last + 10);
        if issued_again == 2 {
            break;
        }
    }
    assert!(issued_again > 0, "no number was ever issued again");
    bus.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_is_to_start_at_the_end_says_so_when_that_end_is_gone_before_it_leads() {
    let server = lazy();
    let db = Db::on(server.url());
    let bus = bus(&db, quick()).await;
    let mut gone = false;
    for round in 0..10 {
        let last = say_again(bus.store()).await;
        let (mut careless, mut holder) = (db.connection().await, db.connection().await);
        db.execute(&mut careless, "CHECKPOINT; SET synchronous_commit = off").await;
        for _ in 0..4 {
            db.execute(&mut careless, INSERT).await;
        }
        // Its first checkpoint has to wait.
        db.execute(&mut holder, "BEGIN; LOCK TABLE {s}.event_bus_checkpoints IN EXCLUSIVE MODE").await;
        let id = format!("projection:end{round}");
        let recorder = Recorder::with(&id, SubscriberOptions::new().start(StartAt::End));
        let subscription = bus.subscribe(recorder.clone()).await.unwrap();
        kill_a_backend(&server, &db).await;
        drop(holder);
        let mut appended = Vec::new();
        for _ in 0..6 {
            appended.push(say_again(bus.store()).await);
        }
        gone = appended[0] <= last + 4;
        if !gone {
            eventually("what comes after the end is handled", async || recorder.sequences() == appended).await;
            subscription.unsubscribe().await.unwrap();
            continue;
        }
        eventually("it is said that the log is another", async || {
            matches!(subscription.state(), SubscriptionState::Disconnected { error } if error.contains("subscribe it again"))
        })
        .await;
        assert_eq!(bus.store().checkpoint(&id).await.unwrap(), None, "it has not started");
        assert!(!bus.health().await.problems.is_empty(), "and health names it");
        break;
    }
    assert!(gone, "no number was ever issued again");
    bus.shutdown().await.unwrap();
}
