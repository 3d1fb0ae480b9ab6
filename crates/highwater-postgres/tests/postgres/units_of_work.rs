//! Appends in the application's own transactions.

use std::task::Poll;

use highwater::backend::{Log, Wakeups};
use highwater::{Append, Error, ExpectedVersion, InstanceMode, Invalid, ReliableDeliveryConfig, SubscriptionState};
use sqlx::Row;
use uuid::Uuid;

use crate::bus::{Recorder, bus, quick, say};
use crate::support::*;

async fn stock(db: &Db) -> i32 {
    sqlx::query("SELECT left_over FROM stock").fetch_one(&mut db.connection().await).await.unwrap().get(0)
}

async fn with_stock(db: &Db) {
    db.execute(&mut db.connection().await, "CREATE TABLE {s}.stock (left_over int); INSERT INTO {s}.stock VALUES (10)")
        .await;
}

const TAKE: &str = "UPDATE {s}.stock SET left_over = left_over - 1";

#[tokio::test]
async fn the_applications_writes_and_the_appends_are_committed_together() {
    let db = Db::new();
    let store = db.store().await;
    with_stock(&db).await;
    let mut work = store.begin().await.unwrap();
    db.execute(work.tx(), TAKE).await;
    work.append(one());
    work.append(one().and_to(Uuid::now_v7()).event(Note::Struck));
    assert_eq!(store.head().await.unwrap(), 0);
    let mut wakeup = store.wakeups();
    let done = work.commit().await.unwrap();
    assert_eq!(done.iter().map(|done| done.global_sequence).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(stock(&db).await, 9);
    assert_eq!(sequences(&store).await, [1, 2, 3]);
    assert_eq!(wakeup.next().await, Some(3));
}

#[tokio::test]
async fn a_conflict_or_bad_input_rolls_the_applications_writes_back() {
    let db = Db::new();
    let store = db.store().await;
    with_stock(&db).await;
    let stream = Uuid::now_v7();
    store.append(&Append::to(stream).event(note("a"))).await.unwrap();
    let conflicting = Append::to(stream).expecting(ExpectedVersion::NoStream).event(note("b"));
    let empty = Append::to(stream);
    for (append, conflict) in [(conflicting, true), (empty, false)] {
        let mut work = store.begin().await.unwrap();
        db.execute(work.tx(), TAKE).await;
        work.append(one());
        work.append(append);
        let refused = work.commit().await.unwrap_err();
        assert_eq!(matches!(refused, Error::Conflict { actual: 1, .. }), conflict, "{refused:?}");
        assert_eq!(stock(&db).await, 10);
        assert_eq!(sequences(&store).await, [1]);
        assert!(store.open_writers().await.unwrap().is_empty(), "rolled back explicitly, not some time later");
    }
}

#[tokio::test]
async fn dropping_it_rolls_back() {
    let db = Db::new();
    let store = db.store().await;
    with_stock(&db).await;
    let mut work = store.begin().await.unwrap();
    db.execute(work.tx(), TAKE).await;
    work.append(one());
    drop(work);
    store.begin().await.unwrap().rollback().await.unwrap();
    assert_eq!((stock(&db).await, store.head().await.unwrap()), (10, 0));
}

#[tokio::test]
async fn a_transaction_that_does_not_see_what_others_commit_cannot_append() {
    let db = Db::new();
    let store = db.store().await;
    let stream = Uuid::now_v7();
    for (level, begin) in [
        ("REPEATABLE READ", "BEGIN ISOLATION LEVEL REPEATABLE READ"),
        ("SERIALIZABLE", "BEGIN ISOLATION LEVEL SERIALIZABLE"),
    ] {
        let mut work = store.unit_of_work(store.pool().begin_with(begin).await.unwrap());
        sqlx::query("SELECT 1").execute(&mut **work.tx()).await.unwrap();
        store.append(&Append::to(stream).event(note("meanwhile"))).await.unwrap();
        work.append(Append::to(stream).event(note("late")));
        let refused = work.commit().await.unwrap_err();
        let mut tx = store.pool().begin_with(begin).await.unwrap();
        for refused in [refused, store.append_on(&mut tx, &one()).await.unwrap_err()] {
            let named = matches!(&refused, Error::Invalid(Invalid::Isolation(found)) if found == level);
            assert!(named && refused.to_string().contains("READ COMMITTED"), "{refused:?}");
        }
        tx.rollback().await.unwrap();
        assert!(store.open_writers().await.unwrap().is_empty(), "rolled back explicitly, not some time later");
    }
    assert_eq!(sequences(&store).await, [1, 2]);
    // One that only reads is the application's own affair.
    let mut work = store.unit_of_work(store.pool().begin_with("BEGIN ISOLATION LEVEL SERIALIZABLE").await.unwrap());
    sqlx::query("SELECT 1").execute(&mut **work.tx()).await.unwrap();
    assert!(work.commit().await.unwrap().is_empty());
}

#[tokio::test]
async fn an_open_unit_of_work_holds_no_reader_back_until_it_commits() {
    let db = Db::new();
    let store = db.store().await;
    with_stock(&db).await;
    let mut work = store.begin().await.unwrap();
    db.execute(work.tx(), TAKE).await;
    work.append(one());
    store.append(&one()).await.unwrap();
    assert!(store.open_writers().await.unwrap().is_empty());
    assert_eq!(page_of(&store, 0, &["Noted"]).await.complete_to, 1);
    work.commit().await.unwrap();
    assert_eq!(sequences(&store).await, [1, 2]);
}

#[tokio::test]
async fn a_second_attempt_after_an_unknown_outcome_finds_the_first() {
    let db = Db::new();
    let store = db.store().await;
    with_stock(&db).await;
    let (a, b) = (one(), Append::to(Uuid::now_v7()).expecting(ExpectedVersion::NoStream).event(note("b")));
    let mut first = Vec::new();
    for attempt in 0..3 {
        let mut work = store.begin().await.unwrap();
        db.execute(work.tx(), TAKE).await;
        work.append(a.clone());
        work.append(b.clone());
        let done = work.commit().await.unwrap();
        assert!(done.iter().all(|done| done.repeated == (attempt > 0)));
        first.extend(done.into_iter().map(|done| done.positions));
    }
    assert_eq!(first[0..2], first[2..4]);
    assert_eq!(stock(&db).await, 9, "the application's writes were done once as well");
    assert_eq!(sequences(&store).await, [1, 2]);
    // One that is stored and one that is not are neither a first nor a second attempt.
    let mut work = store.begin().await.unwrap();
    work.append(one());
    work.append(a);
    assert!(matches!(work.commit().await, Err(Error::PartlyStored { .. })));
    assert_eq!(sequences(&store).await, [1, 2]);
}

#[tokio::test]
async fn an_append_on_a_transaction_is_guarded_and_announced_after_the_commit() {
    let db = Db::new();
    let store = db.store().await;
    let mut connection = db.connection().await;
    db.execute(&mut connection, "SET synchronous_commit = off").await;
    let mut tx = sqlx::Connection::begin(&mut connection).await.unwrap();
    let mut wakeup = store.wakeups();
    let (done, announcement) = store.append_on(&mut tx, &one()).await.unwrap();
    let settings: (String, String) = sqlx::query_as(
        "SELECT current_setting('synchronous_commit'), current_setting('idle_in_transaction_session_timeout')",
    )
    .fetch_one(&mut *tx)
    .await
    .unwrap();
    assert_eq!(settings, ("on".to_owned(), "5s".to_owned()));
    assert_eq!(store.open_writers().await.unwrap().len(), 1);
    tx.commit().await.unwrap();
    announcement.send();
    let mut woken = 0;
    while woken < done.global_sequence {
        woken = wakeup.next().await.unwrap();
    }
    assert_eq!(sequences(&store).await, [done.global_sequence]);
}

#[tokio::test]
async fn a_transaction_that_appends_and_is_forgotten_is_ended_by_the_server() {
    let db = Db::new();
    let store = db.store().await;
    let mut connection = db.connection().await;
    db.execute(&mut connection, "SET idle_in_transaction_session_timeout = 200").await;
    let mut tx = sqlx::Connection::begin(&mut connection).await.unwrap();
    let (done, _announcement) = store.append_on(&mut tx, &one()).await.unwrap();
    let next = store.append(&one()).await.unwrap().global_sequence;
    assert_eq!((done.global_sequence, next), (1, 2));
    // A lower limit is kept; the reader continues when it has run out.
    assert_eq!(sequences(&store).await, [2]);
}

#[tokio::test]
async fn an_append_on_a_transaction_reports_conflicts_and_doubles() {
    let db = Db::new();
    let store = db.store().await;
    let stream = Uuid::now_v7();
    let append = Append::to(stream).expecting(ExpectedVersion::NoStream).event(note("a"));
    store.append(&append).await.unwrap();
    let mut connection = db.connection().await;
    let mut tx = sqlx::Connection::begin(&mut connection).await.unwrap();
    let (again, _) = store.append_on(&mut tx, &append).await.unwrap();
    assert!(again.repeated);
    let other = Append::to(stream).expecting(ExpectedVersion::NoStream).event(note("b"));
    let refused = store.append_on(&mut tx, &other).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict { actual: 1, .. }), "{refused:?}");
    tx.rollback().await.unwrap();
    assert_eq!(sequences(&store).await, [1]);
}

/// Connections of the pool that are inside a transaction although nobody has one.
async fn left_open(db: &Db) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE application_name = $1 || ' application' AND state LIKE 'idle in transaction%'";
    sqlx::query_scalar(sql).bind(&db.schema).fetch_one(&mut db.connection().await).await.unwrap()
}

/// Asks a future so often whether it is done, and then no more.
async fn given_up_after<T>(patience: u32, future: impl Future<Output = T>) {
    let (mut future, mut asked) = (std::pin::pin!(future), 0);
    std::future::poll_fn(|context| {
        asked += 1;
        if future.as_mut().poll(context).is_ready() || asked > patience { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// The driver leaves the transaction open: what the connection's next user wrote without one would never be committed.
#[tokio::test]
async fn a_beginning_that_is_given_up_leaves_no_transaction_open() {
    let db = Db::new();
    let url = format!("{}?application_name={}", db.url, db.schema);
    let config = highwater_postgres::PgConfig { schema: db.schema.clone(), ..Default::default() };
    let store = highwater_postgres::PgEventStore::connect_with(&url, config).await.unwrap();
    store.initialize().await.unwrap();
    with_stock(&db).await;
    let take = TAKE.replace("{s}", &db.schema);
    for patience in 0..40 {
        // So that there is a connection, and it is not about to be opened.
        store.begin().await.unwrap().rollback().await.unwrap();
        given_up_after(patience % 5, store.begin()).await;
        sqlx::query(sqlx::AssertSqlSafe(take.clone())).execute(store.pool()).await.unwrap();
    }
    assert_eq!(stock(&db).await, 10 - 40);
    eventually("all are back", async || left_open(&db).await == 0).await;
}

/// Statements that keep a transaction from committing, though the driver would say that it has: one that fails, and two that
/// end it.
const ENDS: [&str; 4] = ["SELECT 1 / 0", "ROLLBACK", "COMMIT", "SAVEPOINT a; SELECT 1 / 0"];

#[tokio::test]
async fn a_unit_of_work_whose_transaction_was_lost_on_the_way_says_so_with_and_without_appends() {
    let db = Db::new();
    let store = db.store().await;
    with_stock(&db).await;
    for end in ENDS {
        for appends in [false, true] {
            let mut work = store.begin().await.unwrap();
            // The application swallows what goes wrong.
            drop(db.try_execute(work.tx(), end).await);
            if appends {
                work.append(one());
            }
            let told = work.commit().await.unwrap_err();
            assert!(matches!(told, Error::Aborted { .. }), "{end}: {told:?}");
            assert!(!told.is_retryable());
        }
    }
    assert!(sequences(&store).await.is_empty(), "no append stands by itself");
    let mut work = store.begin().await.unwrap();
    db.execute(work.tx(), &format!("SAVEPOINT a; {TAKE}; ROLLBACK TO a; {TAKE}")).await;
    assert!(work.commit().await.unwrap().is_empty());
    assert_eq!(stock(&db).await, 9, "what was repaired by a savepoint is committed");
}

#[tokio::test]
async fn a_deferred_constraint_that_does_not_hold_is_the_applications_error() {
    let db = Db::new();
    let store = db.store().await;
    db.execute(&mut db.connection().await, "CREATE TABLE {s}.once (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)").await;
    let mut work = store.begin().await.unwrap();
    db.execute(work.tx(), "INSERT INTO {s}.once VALUES (1), (1)").await;
    work.append(one());
    let told = work.commit().await.unwrap_err();
    assert!(matches!(told, Error::Aborted { .. }), "{told:?}");
    // A trigger may raise anything.
    let trigger =
        "CREATE FUNCTION {s}.checked() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
         CREATE CONSTRAINT TRIGGER checked AFTER INSERT ON {s}.once DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION {s}.checked()";
    db.execute(&mut db.connection().await, trigger).await;
    let mut work = store.begin().await.unwrap();
    db.execute(work.tx(), "INSERT INTO {s}.once VALUES (1)").await;
    work.append(one());
    let told = work.commit().await.unwrap_err();
    assert!(matches!(told, Error::Aborted { .. }), "{told:?}");
    assert!(sequences(&store).await.is_empty());
}

#[tokio::test]
async fn a_transaction_that_only_reads_is_its_callers_error_and_no_other_connection_is_doubted() {
    let db = Db::new();
    let config = ReliableDeliveryConfig { instance_mode: InstanceMode::Coordinated, ..quick() };
    let bus = bus(&db, config).await;
    let subscription = bus.subscribe(Recorder::new("projection:x")).await.unwrap();
    subscription.caught_up().await.unwrap();
    for _ in 0..3 {
        let mut tx = bus.store().pool().begin().await.unwrap();
        db.execute(&mut tx, "SET TRANSACTION READ ONLY").await;
        let told = bus.store().append_on(&mut tx, &one()).await.map(drop).unwrap_err();
        assert!(matches!(told, Error::Aborted { .. }), "{told:?}");
        tx.rollback().await.unwrap();
        say(bus.store(), "x").await;
        subscription.caught_up().await.unwrap();
    }
    assert!(matches!(subscription.state(), SubscriptionState::Live { term: 1 }), "{:?}", subscription.state());
}

#[tokio::test]
async fn appending_on_a_transaction_that_was_lost_is_an_error_and_committing_it_as_a_unit_of_work_is_too() {
    let db = Db::new();
    let store = db.store().await;
    for end in ENDS {
        let mut tx = store.pool().begin().await.unwrap();
        drop(db.try_execute(&mut tx, end).await);
        let told = store.append_on(&mut tx, &one()).await.unwrap_err();
        assert!(matches!(told, Error::Aborted { .. }), "{end}: {told:?}");
        // And the same when it comes after the append, which sqlx's own commit says nothing about.
        if end != "COMMIT" {
            let mut tx = store.pool().begin().await.unwrap();
            let (_, announcement) = store.append_on(&mut tx, &one()).await.unwrap();
            drop(db.try_execute(&mut tx, end).await);
            let told = store.unit_of_work(tx).commit().await.unwrap_err();
            assert!(matches!(told, Error::Aborted { .. }), "{end}: {told:?}");
            drop(announcement);
        }
    }
    assert!(sequences(&store).await.is_empty());
    let mut tx = store.pool().begin().await.unwrap();
    let (appended, announcement) = store.append_on(&mut tx, &one()).await.unwrap();
    store.unit_of_work(tx).commit().await.unwrap();
    announcement.send();
    assert_eq!(sequences(&store).await, [appended.global_sequence]);
}
