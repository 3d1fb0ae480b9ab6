//! What an instance must not do to others, or to itself, when something is short or in the way.

use std::time::Duration;

use highwater::{GlobalSequence, ReliableDeliveryConfig, SubscriptionState};
use highwater_postgres::{PgEventBus, PgEventStore};
use sqlx::Connection;
use throwaway_postgres::ThrowawayPostgres;

use super::coordinated;
use crate::bus::{Recorder, bus, say};
use crate::support::{Db, eventually};

/// The oldest transaction that the connection which watches another instance still sees.
async fn seen_by_watchers(db: &Db) -> Vec<i64> {
    let mut connection = db.connection().await;
    sqlx::query_scalar(
        "SELECT backend_xmin::text::bigint FROM pg_stat_activity
         WHERE application_name LIKE '% neighbour' AND backend_xmin IS NOT NULL",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap()
}

#[tokio::test]
async fn watching_does_not_keep_vacuum_from_its_work() {
    let db = Db::new();
    let buses = [bus(&db, coordinated()).await, bus(&db, coordinated()).await];
    for bus in &buses {
        bus.subscribe(Recorder::new("projection:a")).await.unwrap();
    }
    let mut oldest = 0;
    eventually("they watch each other", async || {
        oldest = seen_by_watchers(&db).await.into_iter().max().unwrap_or(0);
        oldest > 0
    })
    .await;
    say(buses[0].store(), "a transaction later than that").await;
    eventually("nobody holds on to it", async || seen_by_watchers(&db).await.iter().all(|seen| *seen > oldest)).await;
}

#[tokio::test]
async fn an_instance_that_was_taken_off_the_list_enters_again() {
    let db = Db::new();
    let bus = bus(&db, coordinated()).await;
    bus.subscribe(Recorder::new("projection:a")).await.unwrap();
    let mut connection = db.connection().await;
    let entered = async |connection: &mut sqlx::PgConnection| {
        let count: i64 =
            sqlx::query_scalar("SELECT count(*) FROM event_bus_instances").fetch_one(connection).await.unwrap();
        count == 1
    };
    eventually("it is entered", async || entered(&mut connection).await).await;
    db.execute(&mut connection, "DELETE FROM {s}.event_bus_instances").await;
    eventually("it is entered again", async || entered(&mut connection).await).await;
}

#[tokio::test]
async fn idle_connections_are_not_ended_by_a_setting_of_the_role() {
    let db = Db::new();
    db.store().await;
    let options: sqlx::postgres::PgConnectOptions = db.url.parse().unwrap();
    let options = options.options([("idle_session_timeout", "100"), ("statement_timeout", "60000")]);
    let store = PgEventStore::connect_to_with(options, db.config()).await.unwrap();
    let setting: String = sqlx::query_scalar("SHOW idle_session_timeout").fetch_one(store.pool()).await.unwrap();
    assert_eq!(setting, "0");
    let bus = PgEventBus::with_config(store, coordinated());
    let subscription = bus.subscribe(Recorder::new("projection:a")).await.unwrap();
    let at = say(bus.store(), "x").await;
    bus.wait_for("projection:a", GlobalSequence(at)).await.unwrap();
    assert!(subscription.state().term().is_some());
    let rests = "SELECT EXISTS (SELECT FROM pg_stat_activity
        WHERE application_name = 'highwater listen' AND query LIKE '%' || $1 || '%' AND now() - state_change > interval '0.4 s')";
    let mut admin = db.connection().await;
    eventually("the listening connection rests for longer than the role's limit", async || {
        sqlx::query_scalar::<_, bool>(rests).bind(&db.schema).fetch_one(&mut admin).await.unwrap()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_leads_on_a_server_that_has_become_read_only() {
    let mut server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    let bus = bus(&db, coordinated()).await;
    let subscription = bus.subscribe(Recorder::new("projection:a")).await.unwrap();
    eventually("it leads", async || subscription.state().is_live()).await;
    let term = subscription.state().term();
    server.set("default_transaction_read_only", "on").unwrap();
    eventually("it does not lead any more", async || subscription.state().term().is_none()).await;
    server.set("default_transaction_read_only", "off").unwrap();
    eventually("it leads again", async || subscription.state().term() > term).await;
    let at = say(bus.store(), "x").await;
    bus.wait_for("projection:a", GlobalSequence(at)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_room_for_more_locks_costs_nobody_what_it_has() {
    let server = ThrowawayPostgres::builder()
        .setting("max_locks_per_transaction", "10")
        .setting("max_connections", "30")
        .start()
        .unwrap();
    let db = Db::on(server.url());
    let bus = bus(&db, coordinated()).await;
    let leads = bus.subscribe(Recorder::new("projection:first")).await.unwrap();
    eventually("it leads", async || leads.state().is_live()).await;
    let term = leads.state().term();
    // A client takes all the room there is.
    let mut greedy = sqlx::PgConnection::connect(&db.url).await.unwrap();
    let mut taken = 0;
    while sqlx::query("SELECT pg_advisory_lock($1)").bind(taken).execute(&mut greedy).await.is_ok() {
        taken += 1_i64;
    }
    let wants = bus.subscribe(Recorder::new("projection:second")).await.unwrap();
    eventually("it says what is wrong", async || match wants.state() {
        SubscriptionState::Disconnected { error } => error.contains("shared memory"),
        _ => false,
    })
    .await;
    assert_eq!(leads.state().term(), term, "who leads leads on");
    greedy.close().await.unwrap();
    eventually("it leads as soon as there is room", async || wants.state().term().is_some()).await;
    assert_eq!(leads.state().term(), term);
}

/// How many instances the others see.
async fn shown(db: &Db) -> i64 {
    let mut connection = db.connection().await;
    sqlx::query_scalar(
        "SELECT count(*) FROM pg_locks l JOIN event_bus_instances i
            ON (l.classid::bigint << 32 | l.objid::bigint)
                = ('x' || substr(md5($1 || '//' || i.session), 1, 16))::bit(64)::bigint
         WHERE l.locktype = 'advisory' AND l.granted",
    )
    .bind(&db.schema)
    .fetch_one(&mut connection)
    .await
    .unwrap()
}

/// Nothing that runs in it gets to its work any more, though its handle is still there.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_whose_runtime_is_gone_is_not_counted_any_more() {
    let db = Db::new();
    let there = bus(&db, coordinated()).await;
    for n in 0..4 {
        there.subscribe(Recorder::new(&format!("projection:{n}"))).await.unwrap();
    }
    let (url, schema) = (db.url.clone(), db.schema.clone());
    let gone = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let bus = runtime.block_on(async {
            let db = std::mem::ManuallyDrop::new(Db { url, schema });
            let bus = bus(&db, coordinated()).await;
            for n in 0..4 {
                bus.subscribe(Recorder::new(&format!("projection:{n}"))).await.unwrap();
            }
            eventually("work is spread", async || {
                bus.subscriptions().iter().filter(|subscription| subscription.state().is_live()).count() == 2
            })
            .await;
            bus
        });
        runtime.shutdown_background();
        bus
    });
    eventually("work is spread and the other is gone", async || gone.is_finished()).await;
    let handle = gone.join().unwrap();
    eventually("one is left", async || shown(&db).await == 1).await;
    let all = async || there.subscriptions().iter().all(|subscription| subscription.state().is_live());
    eventually("the one that is left leads everything", all).await;
    drop(handle);
}

/// Its thread continues, and would take what is given to it.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_whose_runtime_hangs_gets_nothing_more() {
    let db = Db::new();
    let there = bus(&db, coordinated()).await;
    for n in 0..6 {
        there.subscribe(Recorder::new(&format!("projection:{n}"))).await.unwrap();
    }
    let all_live = async || there.subscriptions().iter().all(|subscription| subscription.state().is_live());
    eventually("it leads everything", all_live).await;
    let (url, schema) = (db.url.clone(), db.schema.clone());
    let (release, released) = std::sync::mpsc::channel::<()>();
    let hangs = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let db = std::mem::ManuallyDrop::new(Db { url, schema });
            let bus = bus(&db, coordinated()).await;
            for n in 0..6 {
                bus.subscribe(Recorder::new(&format!("projection:{n}"))).await.unwrap();
            }
            // All have said what they want, and none makes progress any more.
            tokio::time::sleep(Duration::from_millis(200)).await;
            released.recv().unwrap();
            bus.shutdown().await.unwrap();
        });
    });
    eventually("it is there", async || shown(&db).await == 2).await;
    eventually("it is not counted any more", async || shown(&db).await == 1).await;
    let at = say(there.store(), "x").await;
    for n in 0..6 {
        there.wait_for(&format!("projection:{n}"), GlobalSequence(at)).await.unwrap();
    }
    // What it took over has passed the event, and becomes live a moment later.
    eventually("who works leads", all_live).await;
    release.send(()).unwrap();
    eventually("it comes back and stops", async || hangs.is_finished()).await;
    hangs.join().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_a_transaction_holds_do_not_keep_the_others_from_being_taken_over() {
    let db = Db::new();
    let first = bus(&db, coordinated()).await;
    for n in 0..20 {
        first.subscribe(Recorder::new(&format!("projection:{n}"))).await.unwrap();
    }
    eventually("it leads everything", async || leading(&first) == 20).await;
    first.shutdown().await.unwrap();
    // Not one of ours, so nobody ends it.
    let mut psql = db.connection().await;
    db.execute(
        &mut psql,
        "BEGIN; SELECT FROM {s}.event_bus_checkpoints WHERE subscriber_id < 'projection:2' FOR UPDATE",
    )
    .await;
    let second = bus(&db, coordinated()).await;
    for n in 0..20 {
        second.subscribe(Recorder::new(&format!("projection:{n}"))).await.unwrap();
    }
    eventually("what is free is taken over", async || leading(&second) == 8).await;
    db.execute(&mut psql, "ROLLBACK").await;
    eventually("and the rest as soon as it is free", async || leading(&second) == 20).await;
}

fn leading(bus: &PgEventBus) -> usize {
    bus.subscriptions().iter().filter(|subscription| subscription.state().is_live()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_does_not_wait_for_a_server_that_is_gone() {
    let mut server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    let bus = bus(&db, ReliableDeliveryConfig { shutdown_timeout: Duration::from_secs(60), ..coordinated() }).await;
    let subscription = bus.subscribe(Recorder::new("projection:a")).await.unwrap();
    eventually("it leads", async || subscription.state().is_live()).await;
    server.stop().unwrap();
    // Much less than it would wait for a connection.
    tokio::time::timeout(Duration::from_secs(8), bus.shutdown()).await.unwrap().unwrap();
}
