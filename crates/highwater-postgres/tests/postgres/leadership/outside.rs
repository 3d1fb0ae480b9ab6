//! Subscribers seen and steered from another process than theirs.

use std::time::Duration;

use highwater::backend::{Checkpoints, LeaderHold, Log, explain_with_patience};
use highwater::operations::{Cause, SubscriberOverview};
use highwater::{BusError, Claim, Error, EventStore, GlobalSequence};
use highwater_postgres::{PgEventBus, PgEventStore};

use super::processes::{caught_up, effects};
use super::worker::{COUNTED, EFFECTS, Job};
use crate::bus::{Recorder, quick, say};
use crate::support::{Db, eventually, one, sequences};

async fn seen(store: &PgEventStore, subscriber_id: &str) -> Option<SubscriberOverview> {
    let overview = store.overview().await.unwrap();
    overview.subscribers.into_iter().find(|it| it.subscriber_id == subscriber_id)
}

async fn is(store: &PgEventStore, subscriber_id: &str, state: &str) -> SubscriberOverview {
    eventually(state, async || seen(store, subscriber_id).await.is_some_and(|it| it.state() == state)).await;
    seen(store, subscriber_id).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_is_seen_with_what_it_does_and_how_it_ended() {
    let db = Db::new();
    let store = Job::prepare(&db).await;
    let worker = Job::new(&db, "a").start();
    caught_up(&store).await;
    eventually("it reports", async || {
        seen(&store, EFFECTS).await.is_some_and(|it| it.report.is_some_and(|it| it.state.is_live()))
    })
    .await;
    let live = is(&store, EFFECTS, "live").await;
    let leader = live.leader.clone().unwrap();
    assert_eq!((leader.hold, leader.instance.pid, live.lag_events), (LeaderHold::Held, worker.pid(), 0));
    assert_eq!(live.report.unwrap().term, leader.term);

    // Frozen, it leads until the server has ended it, and does nothing.
    worker.freeze();
    let at = store.append(&one()).await.unwrap().global_sequence;
    let patience = Duration::from_millis(100);
    eventually("it does not move", async || {
        let explained = explain_with_patience(&store, EFFECTS, patience).await.unwrap();
        matches!(&explained.causes[0], Cause::NotMoving { .. } | Cause::NobodyLeads { .. })
    })
    .await;
    worker.thaw();
    let bus = PgEventBus::with_config(store.clone(), quick());
    bus.wait_for(EFFECTS, GlobalSequence(at)).await.unwrap();

    let pid = worker.pid();
    worker.kill();
    is(&store, EFFECTS, "no leader").await;
    let said = store.explain(EFFECTS).await.unwrap().to_string();
    assert!(said.contains("Nobody processes for it.") && said.contains(&format!("Process {pid} on ")), "{said}");

    let next = Job::new(&db, "b").start();
    caught_up(&store).await;
    is(&store, COUNTED, "live").await;
    next.stop().await;
    assert_eq!(seen(&store, COUNTED).await.unwrap().state(), "stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_that_is_waited_for_is_named() {
    let db = Db::new();
    let store = db.store().await;
    let bus = PgEventBus::with_config(db.store().await, quick());
    let subscription = bus.subscribe(Recorder::new("projection:orders")).await.unwrap();
    say(&store, "before").await;
    subscription.caught_up().await.unwrap();
    let mut connection = db.connection().await;
    db.execute(&mut connection, "SET application_name = 'the night shift'").await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await.unwrap();
    let mut tx = sqlx::Connection::begin(&mut connection).await.unwrap();
    db.insert(&mut tx).await;
    let head = store.append(&one()).await.unwrap().global_sequence;
    // Also by who has not seen it begin.
    for store in [store, db.store().await] {
        let explained = store.explain("projection:orders").await.unwrap();
        let Cause::WaitingForWriters { head: to, writers, .. } = &explained.causes[0] else {
            panic!("{explained}");
        };
        assert_eq!((*to, writers.len(), writers[0].pid), (head, 1, Some(pid)));
        assert_eq!(writers[0].application_name.as_deref(), Some("the night shift"));
        let said = explained.to_string();
        for part in
            [&*format!("process {pid}"), "open for", "application the night shift", "last statement: INSERT INTO"]
        {
            assert!(said.contains(part), "{part:?} is not in {said:?}");
        }
    }
    tx.rollback().await.unwrap();
    subscription.caught_up().await.unwrap();
    bus.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn how_far_the_log_is_settled_is_seen_by_who_comes_while_a_transaction_is_open() {
    let db = Db::new();
    let store = db.store().await;
    for _ in 0..12 {
        store.append(&one()).await.unwrap();
    }
    store.take_over(&Claim { start: 2, ..Claim::of("projection:orders") }).await.unwrap();
    let mut connection = db.connection().await;
    let mut tx = sqlx::Connection::begin(&mut connection).await.unwrap();
    db.insert(&mut tx).await; // draws 13
    store.append(&one()).await.unwrap();
    let fresh = db.store().await;
    let overview = fresh.overview().await.unwrap();
    assert_eq!((overview.frontier, overview.head, overview.open_writers.len()), (12, 14, 1));
    assert_eq!(overview.subscribers[0].lag_events, 12, "it counts against what is committed");
    let explained = fresh.explain("projection:orders").await.unwrap();
    let waits =
        |cause: &Cause| matches!(cause, Cause::WaitingForWriters { lag_events: 10, frontier: 12, head: 14, .. });
    let (waiting, catching_up) = (
        explained.causes.iter().position(waits),
        explained.causes.iter().position(|cause| matches!(cause, Cause::CatchingUp { .. })),
    );
    assert!(waiting.is_some() && waiting < catching_up, "{explained}");
    tx.commit().await.unwrap();
    let overview = fresh.overview().await.unwrap();
    assert_eq!((overview.frontier, overview.head, overview.subscribers[0].lag_events), (14, 14, 12));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_move_fences_another_process_which_continues_from_there() {
    let db = Db::new();
    let store = Job::prepare(&db).await;
    let workers = ["a", "b"].map(|name| Job::new(&db, name).start());
    for n in 0..30 {
        say(&store, &n.to_string()).await;
    }
    caught_up(&store).await;
    let all = sequences(&store).await;
    let half = all[all.len() / 2];
    let before = store.checkpoint(EFFECTS).await.unwrap().unwrap();
    let refused = store.repair().set_checkpoint(EFFECTS, half).await;
    assert!(matches!(&refused, Err(Error::Bus(BusError::Led { leader: Some(_), .. }))), "{refused:?}");
    assert_eq!(store.checkpoint(EFFECTS).await.unwrap().unwrap().term, before.term, "nothing was changed");

    let moved = store.repair().by("anna").force().set_checkpoint(EFFECTS, half).await.unwrap();
    let leader = moved.fenced.unwrap();
    assert!(workers.iter().any(|worker| worker.pid() == leader.instance.pid));
    eventually("what lies behind comes again", async || {
        let effects = effects(&db).await;
        all.iter().all(|at| effects.get(at).copied().unwrap_or(0) >= if *at > half { 2 } else { 1 })
    })
    .await;
    caught_up(&store).await;
    let now = seen(&store, EFFECTS).await.unwrap();
    let led_by = now.leader.unwrap();
    assert_eq!((led_by.instance, led_by.hold), (leader.instance, LeaderHold::Held), "the same process leads");
    assert_eq!(led_by.term, moved.term, "with the new term");

    let [a, b] = workers;
    a.stop().await;
    b.stop().await;
    let moved = store.repair().reset(EFFECTS).await.unwrap();
    assert_eq!((moved.to, moved.fenced), (0, None));
    let again = Job::new(&db, "c").start();
    caught_up(&store).await;
    assert_eq!(effects(&db).await.get(&all[0]), Some(&2), "it begins anew, and was not kept from leading");
    again.stop().await;
}
