//! What a role without grants can do to leadership: delay it by a second, or keep it, which is said. Never more.

use std::time::{Duration, Instant};

use highwater::backend::{Diagnose, LeaderHold, Leadership, Severity};
use highwater::operations::Cause;
use highwater::{CoordinatorConfig, EventStore, GlobalSequence, Problem, ReliableDeliveryConfig};
use highwater_postgres::{PgEventBus, PgEventStore};
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

/// Ends the session that the leader's locks hang on.
async fn end_leader(db: &Db, store: &PgEventStore) {
    let holders = store.lock_holders(&[ID.to_owned()]).await.unwrap();
    let pid = i32::try_from(holders[0].pid.unwrap()).unwrap();
    let ending = sqlx::query("SELECT pg_terminate_backend($1)").bind(pid);
    ending.execute(&mut db.connection().await).await.unwrap();
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
    let mut sessions: Vec<Uuid> = Vec::new();
    eventually("all instances are there", async || {
        let found = sqlx::query_scalar("SELECT session FROM event_bus_instances").fetch_all(&mut admin).await;
        sessions = found.unwrap();
        sessions.len() == 3
    })
    .await;
    // It may have overheard who is there. Each of them is to believe that the lock is meant for another.
    sessions.push(Uuid::now_v7());
    let mut connection = forger.connection().await;
    let forging = async {
        loop {
            for session in &sessions {
                forger.say_released(&mut connection, ID, *session).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let taking_over = async {
        for _ in 0..3 {
            let before = leader(&store, ID).await.expect("an instance leads").term;
            end_leader(&db, &store).await;
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
    let explained = store.explain(ID).await.unwrap();
    assert!(matches!(explained.causes[0], Cause::LockHeld { .. }), "{explained}");
    assert!(explained.to_string().contains(&named), "{explained}");
    let findings = store.diagnose().await.unwrap();
    let found = findings.iter().find(|finding| finding.found.contains(&named)).expect("doctor names it");
    assert_eq!((found.severity, found.topic), (Severity::Bad, "subscribers"));
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
