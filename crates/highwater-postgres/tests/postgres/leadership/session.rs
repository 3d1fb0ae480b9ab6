//! The connection that leadership hangs on.

use highwater::ProjectorCoordinator;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use highwater::{
    BoxError, Claim, Coordinator, CoordinatorConfig, Event, GlobalSequence, InstanceMode, ReliableDeliveryConfig,
    SubscriptionState,
};
use highwater_postgres::{PgConfig, PgEventBus};

use super::worker::{EFFECTS, Job};
use super::{coordinated, leader};
use crate::bus::{Recorder, bus, quick, say};
use crate::support::{Db, Note, eventually};

/// Sessions that hold an advisory lock with this key, by what `pg_locks` shows.
async fn holders(db: &Db, subscriber_id: &str) -> Vec<(i32, String)> {
    let mut connection = db.connection().await;
    let key = format!("{}/{subscriber_id}", db.schema);
    sqlx::query_as(
        "SELECT l.pid, a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid)
         WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
            AND l.classid::bigint = ('x' || substr(md5($1), 1, 8))::bit(32)::bigint
            AND l.objid::bigint = ('x' || substr(md5($1), 9, 8))::bit(32)::bigint",
    )
    .bind(key)
    .fetch_all(&mut connection)
    .await
    .unwrap()
}

#[tokio::test]
async fn a_coordinated_subscriber_holds_a_lock_of_64_bits_and_releases_it_when_it_stops() {
    let db = Db::new();
    let bus = bus(&db, coordinated()).await;
    let subscription = bus.subscribe(Recorder::new("projection:a")).await.unwrap();
    eventually("the lock is held", async || holders(&db, "projection:a").await.len() == 1).await;
    assert!(holders(&db, "projection:a").await[0].1.ends_with(" lead"));
    // One that has the lock and does not lead yet is not waited for: it never began.
    crate::bus::until(&subscription, |state| state.term().is_some()).await;
    subscription.unsubscribe().await.unwrap();
    assert_eq!(holders(&db, "projection:a").await, [], "it is free when unsubscribing has returned");
    bus.subscribe(Recorder::new("projection:a")).await.unwrap();
    eventually("the lock is held", async || holders(&db, "projection:a").await.len() == 1).await;
    bus.shutdown().await.unwrap();
    assert_eq!(holders(&db, "projection:a").await, [], "and when shutting down has");
}

#[tokio::test]
async fn a_single_instance_takes_no_lock() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    let at = say(bus.store(), "x").await;
    bus.subscribe(Recorder::new("projection:a")).await.unwrap();
    bus.wait_for("projection:a", GlobalSequence(at)).await.unwrap();
    assert_eq!(holders(&db, "projection:a").await, []);
    let leaders = highwater::backend::Leadership::leaders(bus.store()).await.unwrap();
    assert_eq!(leaders[0].hold, highwater::backend::LeaderHold::Unknown, "{leaders:?}");
}

#[tokio::test]
async fn many_subscribers_share_one_session_that_is_never_in_a_transaction() {
    let db = Db::new();
    let name = format!("session {}", db.schema);
    let options: sqlx::postgres::PgConnectOptions = db.url.parse().unwrap();
    db.store().await;
    let options = options.application_name(&name);
    let store = highwater_postgres::PgEventStore::connect_to_with(options, db.config()).await.unwrap();
    let bus = PgEventBus::with_config(store, coordinated());
    for n in 0..30 {
        bus.subscribe(Recorder::new(&format!("projection:{n}"))).await.unwrap();
    }
    let all_live = async || bus.subscriptions().iter().all(|subscription| subscription.state().is_live());
    eventually("all lead", all_live).await;
    let mut connection = db.connection().await;
    for _ in 0..50 {
        let states: Vec<(String, bool)> = sqlx::query_as(
            "SELECT coalesce(state, ''), wait_event_type IS NOT DISTINCT FROM 'Lock' FROM pg_stat_activity
             WHERE application_name = $1 || ' lead'",
        )
        .bind(&name)
        .fetch_all(&mut connection)
        .await
        .unwrap();
        assert_eq!(states.len(), 1, "one session for all");
        assert!(!states[0].0.contains("transaction") && !states[0].1, "{states:?}");
    }
}

#[tokio::test]
async fn a_lock_connection_that_is_killed_costs_leadership_at_once_and_it_is_got_back() {
    let db = Db::new();
    let one = bus(&db, coordinated()).await;
    let recorder = Recorder::new("projection:a");
    let subscription = one.subscribe(recorder.clone()).await.unwrap();
    let first = say(one.store(), "x").await;
    one.wait_for("projection:a", GlobalSequence(first)).await.unwrap();
    let term = subscription.state().term().unwrap();
    let [(pid, _)] = holders(&db, "projection:a").await[..] else { panic!("one session holds the lock") };
    let mut connection = db.connection().await;
    sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(&mut connection).await.unwrap();
    // The pool lives on, so events could still be handled; but another leader might be at it.
    eventually("it leads again, with a new term", async || subscription.state().term().is_some_and(|t| t > term)).await;
    let second = say(one.store(), "y").await;
    one.wait_for("projection:a", GlobalSequence(second)).await.unwrap();
    assert_eq!(recorder.sequences(), [first, second]);
    let [(new, _)] = holders(&db, "projection:a").await[..] else { panic!("one session holds the lock") };
    assert_ne!(new, pid);
}

#[tokio::test]
async fn a_lock_connection_that_is_killed_again_and_again_loses_no_event() {
    let db = Db::new();
    let buses = [bus(&db, coordinated()).await, bus(&db, coordinated()).await];
    let recorders = [Recorder::new("projection:a"), Recorder::new("projection:a")];
    for (bus, recorder) in buses.iter().zip(&recorders) {
        bus.subscribe(recorder.clone()).await.unwrap();
    }
    let mut connection = db.connection().await;
    let mut all = Vec::new();
    for n in 0..30 {
        all.push(say(buses[0].store(), &n.to_string()).await);
        if n % 3 == 0 {
            for (pid, _) in holders(&db, "projection:a").await {
                sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(&mut connection).await.unwrap();
            }
        }
    }
    buses[0].wait_for("projection:a", GlobalSequence(*all.last().unwrap())).await.unwrap();
    let mut seen: Vec<u64> = recorders.iter().flat_map(|recorder| recorder.sequences()).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, all);
}

/// On a runtime with one thread, which the handler blocks for longer than the bound.
#[tokio::test]
async fn a_handler_that_hogs_the_runtime_does_not_cost_leadership() {
    let db = Db::new();
    let hogged = bus(&db, coordinated()).await;
    let calls = Arc::new(AtomicU32::new(0));
    let count = calls.clone();
    let hog = highwater::observer_fn("projection:hog", move |_: Event<Note>| {
        let count = count.clone();
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(2_500));
            Ok::<_, BoxError>(())
        }
    });
    let subscription = hogged.subscribe(hog).await.unwrap();
    eventually("it leads", async || subscription.state().is_live()).await;
    let term = subscription.state().term();
    // Another instance, on a dedicated thread, tries all the time.
    let other = std::thread::spawn({
        let (url, schema) = (db.url.clone(), db.schema.clone());
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let db = std::mem::ManuallyDrop::new(Db { url, schema });
                let store = highwater_postgres::PgEventStore::connect_with(&db.url, db.config()).await.unwrap();
                let coordinator = Coordinator::with_config(&store, &coordinated().coordination);
                let end = Instant::now() + Duration::from_secs(3);
                while Instant::now() < end {
                    assert!(coordinator.try_acquire(&Claim::of("projection:hog")).await.unwrap().is_none());
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        }
    });
    let at = say(hogged.store(), "x").await;
    hogged.wait_for("projection:hog", GlobalSequence(at)).await.unwrap();
    eventually("the other has ended", async || other.is_finished()).await;
    other.join().unwrap();
    assert_eq!((subscription.state().term(), calls.load(Ordering::SeqCst)), (term, 1));
}

#[tokio::test]
async fn a_guard_is_given_back_with_the_end_of_its_connection() {
    let db = Db::new();
    let (one, other) = (db.store().await, db.store().await);
    let (one, other) = (
        Coordinator::with_config(&one, &coordinated().coordination),
        Coordinator::with_config(&other, &coordinated().coordination),
    );
    let claim = Claim::of("report:nightly");
    let guard = one.acquire(&claim).await.unwrap();
    let lost = guard.lost();
    assert!(guard.is_held() && other.try_acquire(&claim).await.unwrap().is_none());
    let [(pid, _)] = holders(&db, "report:nightly").await[..] else { panic!("one session holds the lock") };
    let mut connection = db.connection().await;
    sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(&mut connection).await.unwrap();
    lost.await;
    assert!(!guard.is_held());
    let next = other.acquire(&claim).await.unwrap();
    assert!(next.is_held() && next.term() > guard.term());
    // Releasing what was lost takes nothing away from the new leader.
    drop(guard);
    assert!(one.try_acquire(&claim).await.unwrap().is_none());
    assert!(next.is_held());
}

#[tokio::test]
async fn two_installations_in_one_database_do_not_keep_each_other_out() {
    let (db, other) = (Db::new(), Db::new());
    let buses = [bus(&db, coordinated()).await, bus(&other, coordinated()).await];
    for bus in &buses {
        let subscription = bus.subscribe(Recorder::new("projection:same")).await.unwrap();
        eventually("it leads", async || subscription.state().is_live()).await;
    }
    assert!(leader(buses[0].store(), "projection:same").await.is_some());
}

#[tokio::test]
async fn a_coordinated_instance_takes_over_from_a_single_one_for_good() {
    let db = Db::new();
    let single = bus(&db, quick()).await;
    let halted = single.subscribe(Recorder::new("projection:a")).await.unwrap();
    eventually("it is live", async || halted.state().is_live()).await;
    let coordinated = bus(&db, ReliableDeliveryConfig { instance_mode: InstanceMode::Coordinated, ..quick() }).await;
    let leads = coordinated.subscribe(Recorder::new("projection:a")).await.unwrap();
    eventually("it is live", async || leads.state().is_live()).await;
    let at = say(single.store(), "x").await;
    coordinated.wait_for("projection:a", GlobalSequence(at)).await.unwrap();
    eventually("the older one halts", async || matches!(halted.state(), SubscriptionState::Halted { .. })).await;
    assert!(leads.state().is_live());
}

/// Who stands by would look again only after a minute.
fn patient() -> ReliableDeliveryConfig {
    let minute = Duration::from_secs(60);
    let coordination =
        CoordinatorConfig { takeover_bound: minute, standby_interval: minute, ..CoordinatorConfig::default() };
    ReliableDeliveryConfig { coordination, ..coordinated() }
}

#[tokio::test]
async fn a_leader_that_stops_says_so_and_is_followed_at_once() {
    let db = Db::new();
    let store = async || db.store_with(PgConfig { watch_instances: false, ..db.config() }).await;
    let (one, other) =
        (PgEventBus::with_config(store().await, patient()), PgEventBus::with_config(store().await, patient()));
    let leads = one.subscribe(Recorder::new("projection:a")).await.unwrap();
    eventually("it leads", async || leads.state().is_live()).await;
    let stands_by = other.subscribe(Recorder::new("projection:a")).await.unwrap();
    eventually("it stands by", async || stands_by.state().is_standby()).await;
    leads.unsubscribe().await.unwrap();
    eventually("the other leads", async || stands_by.state().is_live()).await;
    // And back, by a guard that is only dropped.
    let again = one.subscribe(Recorder::new("projection:a")).await.unwrap();
    eventually("it stands by", async || again.state().is_standby()).await;
    other.shutdown().await.unwrap();
    eventually("it leads", async || again.state().is_live()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_dies_is_noticed_at_once_by_the_one_that_watches_it() {
    let db = Db::new();
    let store = Job::prepare(&db).await;
    let worker = Job::new(&db, "a").start();
    eventually("the worker leads", async || leader(&store, EFFECTS).await.is_some()).await;
    let bus = PgEventBus::with_config(store.clone(), patient());
    let stands_by = bus.subscribe(Recorder::new(EFFECTS)).await.unwrap();
    eventually("it stands by", async || stands_by.state().is_standby()).await;
    let mut connection = db.connection().await;
    let watching = "SELECT count(*) FROM pg_stat_activity a JOIN pg_locks l USING (pid)
        WHERE a.application_name LIKE '% neighbour' AND l.locktype = 'advisory' AND NOT l.granted
            AND (l.classid::bigint << 32 | l.objid::bigint) IN (
                SELECT ('x' || substr(md5($1 || '//' || session), 1, 16))::bit(64)::bigint FROM event_bus_instances)";
    eventually("each watches the other", async || {
        let count: i64 = sqlx::query_scalar(watching).bind(&db.schema).fetch_one(&mut connection).await.unwrap();
        count == 2
    })
    .await;
    worker.kill();
    eventually("it leads", async || stands_by.state().is_live()).await;
}

#[tokio::test]
async fn who_stands_by_knows_who_leads_and_how_far_it_is() {
    let db = Db::new();
    let (one, other) = (bus(&db, coordinated()).await, bus(&db, coordinated()).await);
    let leads = one.subscribe(Recorder::new("projection:a")).await.unwrap();
    eventually("it leads", async || leads.state().is_live()).await;
    let stands_by = other.subscribe(Recorder::new("projection:a")).await.unwrap();
    let mut told = None;
    eventually("it knows who leads", async || {
        told = match stands_by.state() {
            SubscriptionState::Standby { leader } => leader,
            _ => None,
        };
        told.is_some()
    })
    .await;
    let told = told.unwrap();
    assert_eq!((told.instance.pid, Some(told.term)), (std::process::id(), leads.state().term()));
    let at = say(one.store(), "x").await;
    stands_by.caught_up().await.unwrap();
    let progress = stands_by.progress().await.unwrap();
    assert_eq!((progress.checkpoint, progress.lag_events), (at, 0));
    assert!(progress.state.is_standby());
    assert!(other.health().await.is_ready());
}
