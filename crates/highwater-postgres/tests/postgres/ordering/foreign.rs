//! Writers that are not ours, by every way there is, against readers that are; and a reader that only remembers the last
//! number it saw, which has to lose events here: otherwise nobody else's losing none would prove anything.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use highwater_postgres::PgEventStore;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};

use crate::bus::{Recorder, batched, bus};
use crate::support::*;

/// Of each kind.
const WRITERS: usize = 4;
/// For how long they write, all of them: those that stay open for long among those that do not.
const WRITING: Duration = Duration::from_secs(2);
/// For how long a transaction stays open after it has drawn its numbers.
const OPEN_MICROS_MAX: u64 = 20_000;
/// How many others end while one is prepared: those who began before it are gone by then. Only then does it show whether
/// readers still know how old it is.
const ENDED_MEANWHILE: usize = 24 * WRITERS;

#[derive(Clone, Copy, Debug)]
enum Way {
    Function,
    Insert,
    Copy,
    /// Prepared, and ended by another session.
    TwoPhase,
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_writers_lose_no_event_to_our_readers_and_many_to_a_naive_one() {
    let db = Arc::new(Db::new());
    let bus = bus(&db, batched(100)).await;
    let recorder = Recorder::new("projection:foreign");
    let subscription = bus.subscribe(recorder.clone()).await.unwrap();
    let store = bus.store().clone();
    let done = Arc::new(AtomicBool::new(false));
    let naive = tokio::spawn(follow_naively(db.clone(), done.clone()));
    let all = tokio::spawn(follow(store.clone(), None, done.clone()));
    let some = tokio::spawn(follow(store.clone(), Some("Noted"), done.clone()));
    let ended: Arc<AtomicUsize> = Arc::default();
    let writers: Vec<_> = [Way::Function, Way::Insert, Way::Copy, Way::TwoPhase]
        .into_iter()
        .flat_map(|way| (0..WRITERS).map(move |writer| (way, writer)))
        .map(|(way, writer)| tokio::spawn(write(db.clone(), way, writer, ended.clone())))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    let mut connection = db.connection().await;
    let stored: Vec<i64> = sqlx::query_scalar("SELECT global_sequence FROM events ORDER BY global_sequence")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let stored: Vec<u64> = stored.into_iter().map(|n| n.try_into().unwrap()).collect();
    assert_eq!(all.await.unwrap(), stored, "a reader of everything");
    assert_eq!(some.await.unwrap(), stored, "a reader with a filter");
    subscription.caught_up().await.unwrap();
    assert_eq!(recorder.sequences(), stored, "a subscriber");

    let seen: HashSet<u64> = naive.await.unwrap().into_iter().collect();
    let lost = stored.iter().filter(|n| !seen.contains(n)).count();
    println!("{} events of foreign writers: 0 lost by ours, {lost} lost by a naive reader", stored.len());
    assert!(lost > 0, "a naive reader lost none of {}: this has shown nothing", stored.len());
}

async fn write(db: Arc<Db>, way: Way, writer: usize, ended: Arc<AtomicUsize>) {
    let mut connection = db.connection().await;
    let started = Instant::now();
    for n in 0.. {
        if started.elapsed() >= WRITING * soak(1) as u32 {
            return;
        }
        db.execute(&mut connection, "BEGIN").await;
        for _ in 0..fastrand::usize(1..4) {
            draw(&db, &mut connection, way).await;
            tokio::time::sleep(Duration::from_micros(fastrand::u64(0..OPEN_MICROS_MAX / 4))).await;
        }
        tokio::time::sleep(Duration::from_micros(fastrand::u64(0..OPEN_MICROS_MAX))).await;
        let end = if fastrand::u8(..6) == 0 { "ROLLBACK" } else { "COMMIT" };
        if !matches!(way, Way::TwoPhase) {
            db.execute(&mut connection, end).await;
            ended.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        let gid = format!("{}_{writer}_{n}", db.schema);
        db.execute(&mut connection, &format!("PREPARE TRANSACTION '{gid}'")).await;
        if fastrand::bool() {
            // Its session is gone before it ends.
            connection.close().await.unwrap();
            connection = db.connection().await;
        }
        let enough = ended.load(Ordering::SeqCst) + fastrand::usize(0..ENDED_MEANWHILE);
        while ended.load(Ordering::SeqCst) < enough && started.elapsed() < WRITING * soak(1) as u32 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        db.execute(&mut connection, &format!("{end} PREPARED '{gid}'")).await;
    }
}

/// One event, on the transaction that is open.
async fn draw(db: &Db, connection: &mut PgConnection, way: Way) {
    match way {
        Way::Insert | Way::TwoPhase => db.insert(connection).await,
        Way::Function => {
            let sql = "SELECT {s}.append(gen_random_uuid(), 'Noted', '{\"text\":\"function\"}')";
            db.execute(connection, sql).await;
        }
        Way::Copy => {
            let sql = format!(
                "COPY \"{}\".events (id, stream_id, stream_version, event_type, data) FROM STDIN WITH (FORMAT text)",
                db.schema
            );
            let mut copy = connection.copy_in_raw(&sql).await.unwrap();
            let row = format!("{}\t{}\t1\tNoted\t{{\"text\":\"copy\"}}\n", uuid::Uuid::now_v7(), uuid::Uuid::now_v7());
            copy.send(row.as_bytes()).await.unwrap();
            copy.finish().await.unwrap();
        }
    }
}

/// Everything that a reader of ours is given until nobody writes any more and it has been given all there is.
async fn follow(store: PgEventStore, only: Option<&'static str>, done: Arc<AtomicBool>) -> Vec<u64> {
    let (mut seen, mut after) = (Vec::new(), 0);
    loop {
        let nobody_writes = done.load(Ordering::SeqCst);
        let page = match only {
            Some(name) => page_of(&store, after, &[name]).await,
            None => page(&store, after).await,
        };
        seen.extend(numbers(&page));
        if page.complete_to == after {
            if nobody_writes {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        after = page.complete_to;
    }
}

/// The same with nothing but the last number to go by.
async fn follow_naively(db: Arc<Db>, done: Arc<AtomicBool>) -> Vec<u64> {
    let mut connection = db.connection().await;
    let sql = format!("SELECT global_sequence FROM \"{}\".events WHERE global_sequence > $1 ORDER BY 1", db.schema);
    let mut seen: Vec<i64> = Vec::new();
    loop {
        let nobody_writes = done.load(Ordering::SeqCst);
        let after = seen.last().copied().unwrap_or(0);
        let more: Vec<i64> =
            sqlx::query_scalar(AssertSqlSafe(sql.clone())).bind(after).fetch_all(&mut connection).await.unwrap();
        if more.is_empty() && nobody_writes {
            return seen.into_iter().map(|n| n.try_into().unwrap()).collect();
        }
        seen.extend(more);
    }
}
