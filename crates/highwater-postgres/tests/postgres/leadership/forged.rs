//! What a role without grants can do to leadership: delay it by a second, or keep it, which is said. Never more.

use std::time::{Duration, Instant};

use highwater::backend::{Diagnose, LeaderHold, Leadership, Severity};
use highwater::operations::Cause;
use highwater::{CoordinatorConfig, EventStore, GlobalSequence, Problem, ReliableDeliveryConfig};
use highwater_postgres::{PgEventBus, PgEventStore};
use sqlx::postgres::PgConnection;
use uuid::Uuid;

use super::{coordinated, leader};
use crate::bus::{Recorder, bus, say, until};
use crate::forger::Forger;
use crate::support::{Db, eventually};

const ID: &str = "projection:forged";

fn settled() -> ReliableDeliveryConfig {
    let coordination = CoordinatorConfig { spread: false, ..coordinated().coordination };
    ReliableDeliveryConfig { coordination, ..coordinated() }
}

/// The process of the session that the leader's locks hang on.
async fn leading_process(store: &PgEventStore) -> i32 {
    let holders = store.lock_holders(&[ID.to_owned()]).await.unwrap();
    i32::try_from(holders[0].pid.unwrap()).unwrap()
}

async fn end(db: &Db, pid: i32) {
    let ending = sqlx::query("SELECT pg_terminate_backend($1)").bind(pid);
    ending.execute(&mut db.connection().await).await.unwrap();
}

async fn sessions(admin: &mut PgConnection) -> Vec<Uuid> {
    sqlx::query_scalar("SELECT session FROM event_bus_instances").fetch_all(admin).await.unwrap()
}

/// A stranger that has the subscriber's lock is named by `health()`, `why` and `doctor`.
async fn is_named(bus: &PgEventBus, forger: &Forger, pid: i32) {
    let mut holders = Vec::new();
    eventually("it is a problem", async || {
        let problems = bus.health().await.problems.into_iter();
        let found = problems.into_iter().find_map(|problem| match problem {
            Problem::NotLed { subscriber_id, holders, .. } => Some((subscriber_id, holders)),
            _ => None,
        });
        found.is_some_and(|(id, found)| {
            holders = found;
            id == ID
        })
    })
    .await;
    let [holder] = &holders[..] else { panic!("one has it: {holders:?}") };
    assert_eq!((holder.pid, &holder.role), (Some(pid.cast_unsigned()), &Some(forger.role.clone())));
    assert_eq!(holder.application_name.as_deref(), Some("forgery"));
    let named = format!("process {pid} (forgery, role \"{}\")", forger.role);
    let explained = bus.store().explain(ID).await.unwrap();
    assert!(matches!(explained.causes[0], Cause::LockHeld { .. }), "{explained}");
    assert!(explained.to_string().contains(&named), "{explained}");
    let findings = bus.store().diagnose().await.unwrap();
    let found = findings.iter().find(|finding| finding.found.contains(&named)).expect("doctor names it");
    assert_eq!((found.severity, found.topic), (Severity::Bad, "subscribers"));
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_that_a_role_without_grants_repeats_keep_nobody_from_taking_over() {
    let db = Db::new();
    let store = db.store().await;
    let forger = Forger::create(&db).await;
    let buses: [PgEventBus; 3] = [bus(&db, settled()).await, bus(&db, settled()).await, bus(&db, settled()).await];
    for bus in &buses {
        bus.subscribe(Recorder::new(ID)).await.unwrap();
    }
    let mut admin = db.connection().await;
    eventually("all instances are there", async || sessions(&mut admin).await.len() == 3).await;
    let mut connection = forger.connection().await;
    let forging = async {
        loop {
            // It may overhear who is there, also who has come back. Each of them is to believe that the lock is meant for another.
            for session in sessions(&mut admin).await.into_iter().chain([Uuid::now_v7()]) {
                forger.say_released(&mut connection, ID, session).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let taking_over = async {
        for _ in 0..3 {
            let before = leader(&store, ID).await.expect("an instance leads").term;
            end(&db, leading_process(&store).await).await;
            let ended = Instant::now();
            eventually("another leads", async || leader(&store, ID).await.is_some_and(|it| it.term > before)).await;
            // Another session's second, a sweep, and what a busy machine takes.
            assert!(ended.elapsed() < Duration::from_secs(4), "it took {:?}", ended.elapsed());
        }
    };
    eventually("an instance leads", async || leader(&store, ID).await.is_some()).await;
    tokio::select! {
        () = forging => unreachable!("it continues for ever"),
        () = taking_over => {}
    }
    drop(connection);
    for bus in buses {
        bus.shutdown().await.unwrap();
    }
    forger.drop(&db).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_that_has_the_lock_is_named_by_health_and_why_and_doctor_and_nothing_is_lost() {
    let db = Db::new();
    let store = db.store().await;
    let forger = Forger::create(&db).await;
    let bus = bus(&db, settled()).await;
    let recorder = Recorder::new(ID);
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    let at = say(&store, "before").await;
    bus.wait_for(ID, GlobalSequence(at)).await.unwrap();
    subscription.unsubscribe().await.unwrap();
    let mut connection = forger.connection().await;
    let pid = forger.lock(&mut connection, ID).await;
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    let at = say(&store, "meanwhile").await;
    is_named(&bus, &forger, pid).await;
    // It goes, and all is as it was.
    drop(connection);
    bus.wait_for(ID, GlobalSequence(at)).await.unwrap();
    assert_eq!(recorder.texts(), ["before", "meanwhile"]);
    let led = leader(&store, ID).await.map(|leader| leader.hold);
    assert_eq!(led, Some(LeaderHold::Held));
    until(&subscription, highwater::SubscriptionState::is_live).await;
    assert!(!bus.health().await.problems.iter().any(|problem| matches!(problem, Problem::NotLed { .. })));
    bus.shutdown().await.unwrap();
    forger.drop(&db).await;
}

/// Every role sees both of a leader's locks, and may wait for them where instances only try.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_that_has_all_locks_of_a_leader_that_is_gone_is_not_taken_for_it() {
    for in_good_order in [false, true] {
        let db = Db::new();
        let store = db.store().await;
        let forger = Forger::create(&db).await;
        let (leads, stands_by) = (bus(&db, settled()).await, bus(&db, settled()).await);
        let recorder = Recorder::new(ID);
        leads.subscribe(recorder.clone()).await.unwrap();
        let at = say(&store, "before").await;
        leads.wait_for(ID, GlobalSequence(at)).await.unwrap();
        stands_by.subscribe(recorder.clone()).await.unwrap();
        let leading = leading_process(&store).await;
        let mut connection = forger.connection().await;
        let keys = forger.locks_of(&mut connection, leading).await;
        assert_eq!(keys.len(), 2, "the subscriber's and the instance's");
        let taking = async {
            let pid = forger.lock(&mut connection, ID).await;
            forger.take(&mut connection, &keys).await;
            pid
        };
        let ending = async {
            let mut admin = db.connection().await;
            eventually("the stranger waits", async || forger.waits(&mut admin).await).await;
            match in_good_order {
                true => leads.shutdown().await.unwrap(),
                false => end(&db, leading).await,
            }
        };
        let (pid, ()) = tokio::join!(taking, ending);
        // Until then it may handle what the next leader handles as well.
        eventually("the former leader knows that it does not lead", async || {
            let subscriptions = leads.subscriptions();
            subscriptions.iter().all(|subscription| subscription.state().is_standby())
        })
        .await;
        let at = say(&store, "meanwhile").await;
        is_named(&stands_by, &forger, pid).await;
        let found = store.leaders().await.unwrap();
        assert!(found.iter().all(|leader| leader.hold == LeaderHold::Gone), "{found:?}");
        drop(connection);
        stands_by.wait_for(ID, GlobalSequence(at)).await.unwrap();
        assert_eq!(recorder.texts(), ["before", "meanwhile"]);
        for bus in [leads, stands_by] {
            bus.shutdown().await.unwrap();
        }
        forger.drop(&db).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_that_has_the_lock_of_an_instance_that_is_gone_is_not_counted_among_the_instances() {
    let db = Db::new();
    let store = db.store().await;
    let forger = Forger::create(&db).await;
    let bus = bus(&db, coordinated()).await;
    for id in [ID, "projection:another"] {
        bus.subscribe(Recorder::new(id)).await.unwrap();
    }
    let mut admin = db.connection().await;
    eventually("it is there, and leads", async || {
        sessions(&mut admin).await.len() == 1 && leader(&store, ID).await.is_some()
    })
    .await;
    let (session, pid) = (sessions(&mut admin).await[0], leading_process(&store).await);
    let mut connection = forger.connection().await;
    let ending = async {
        eventually("the stranger waits", async || forger.waits(&mut admin).await).await;
        end(&db, pid).await;
    };
    tokio::join!(forger.lock_instance(&mut connection, session), ending);
    // One that was just opened is not forgotten at once.
    db.execute(&mut admin, "UPDATE {s}.event_bus_instances SET since = now() - interval '1 minute'").await;
    eventually("it is forgotten, though its lock is held", async || !sessions(&mut admin).await.contains(&session))
        .await;
    drop(connection);
    bus.shutdown().await.unwrap();
    forger.drop(&db).await;
}

/// An instance whose runtime is blocked for seconds shows itself no more, and keeps what it leads.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_own_lock_a_stranger_has_taken_meanwhile_opens_a_new_session() {
    let db = Db::new();
    let store = db.store().await;
    let forger = Forger::create(&db).await;
    let (url, schema) = (db.url.clone(), db.schema.clone());
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let leads = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let db = std::mem::ManuallyDrop::new(Db { url, schema });
            let bus = bus(&db, coordinated()).await;
            let subscription = bus.subscribe(Recorder::new(ID)).await.unwrap();
            until(&subscription, highwater::SubscriptionState::is_live).await;
            released.recv().unwrap();
            stopped.await.unwrap();
            bus.shutdown().await.unwrap();
        });
    });
    let mut admin = db.connection().await;
    let held = async || leader(&store, ID).await.filter(|leader| leader.hold == LeaderHold::Held);
    eventually("it leads", async || held().await.is_some()).await;
    let session = sessions(&mut admin).await[0];
    let mut connection = forger.connection().await;
    // It gets the lock once the instance is not seen any more.
    forger.lock_instance(&mut connection, session).await;
    release.send(()).unwrap();
    eventually("it leads with another session", async || {
        held().await.is_some() && sessions(&mut admin).await.iter().any(|now| *now != session)
    })
    .await;
    stop.send(()).unwrap();
    eventually("it stops", async || leads.is_finished()).await;
    leads.join().unwrap();
    drop(connection);
    forger.drop(&db).await;
}
