//! A process that is killed in the middle of its commits.

use std::collections::{BTreeMap, HashSet};

use highwater::backend::Log;
use highwater::{Append, BoxError, Event, TransactionalProjection};
use highwater_sqlite::{SqliteEventBus, SqliteEventStore, SqliteTx};
use uuid::Uuid;

use crate::support::{Folder, Note, assert_in_order, everything, note, one, quick, soak};
use crate::torn::ids;
use crate::worker::{Job, Task, report};

const CALLERS: usize = 32;
/// Events that a worker has acknowledged at least before it is killed.
const ENOUGH: usize = 60;

/// Counts the events of every stream.
struct Tally;

impl TransactionalProjection<Note, SqliteTx> for Tally {
    fn subscriber_id(&self) -> &str {
        "projection:tally"
    }

    async fn apply(&self, tx: &mut SqliteTx, event: &Event<Note>) -> Result<(), BoxError> {
        let tally = "INSERT INTO tallies VALUES ($1, 1) ON CONFLICT (stream_id) DO UPDATE SET count = count + 1";
        sqlx::query(tally).bind(event.stream_id).execute(&mut **tx).await?;
        Ok(())
    }
}

/// A worker that appends as fast as it can, and says what was acknowledged, until it is killed.
pub async fn rush(store: SqliteEventStore) {
    let bus = SqliteEventBus::with_config(store.clone(), quick());
    bus.subscribe(Tally).await.unwrap();
    let shared = Uuid::now_v7();
    let callers = (0..CALLERS).map(|caller| {
        let store = store.clone();
        tokio::spawn(async move {
            let own = Uuid::now_v7();
            for n in caller.. {
                let append = match n % 4 {
                    0 => one(),
                    1 => Append::to(own).events((0..3).map(|n| note(n.to_string()))),
                    2 => Append::to(own).events((0..20).map(|n| note(n.to_string()))),
                    _ => Append::to(shared).event(note("a")).and_to(own).event(note("b")),
                };
                store.append(&append).await.unwrap();
                report(format!("ack {}", ids(append.event_ids())));
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_in_the_middle_of_commits_loses_nothing_acknowledged_and_doubles_nothing() {
    let folder = Folder::new();
    let store = folder.store().await;
    sqlx::query("CREATE TABLE tallies (stream_id BLOB PRIMARY KEY, count INTEGER NOT NULL) STRICT")
        .execute(store.pool())
        .await
        .unwrap();
    drop(store);
    let mut acknowledged = HashSet::new();
    for round in 0..soak(5) {
        let worker = Job::on(&folder, Task::Rush).start();
        worker.says("ack", ENOUGH + fastrand::usize(..ENOUGH)).await;
        for line in worker.kill("ack") {
            acknowledged.extend(line.split_whitespace().map(|id| id.parse::<Uuid>().unwrap()));
        }
        let store = SqliteEventStore::open(&folder.url()).await.unwrap();
        let events = everything(&store).await;
        assert_in_order(&events);
        let stored: HashSet<Uuid> = events.iter().map(|event| event.id).collect();
        assert!(acknowledged.is_subset(&stored), "round {round}: what was acknowledged is there");
        // Once in a while, so that most rounds begin with a projection that is behind.
        if round % 2 == 0 || round + 1 == soak(5) {
            assert_tallies(&store, &events).await;
        }
    }
    assert!(acknowledged.len() > ENOUGH);
}

async fn assert_tallies(store: &SqliteEventStore, events: &[Event<Note>]) {
    let bus = SqliteEventBus::with_config(store.clone(), quick());
    bus.subscribe(Tally).await.unwrap().caught_up().await.unwrap();
    bus.shutdown().await.unwrap();
    let tallies: Vec<(Uuid, i64)> =
        sqlx::query_as("SELECT stream_id, count FROM tallies").fetch_all(store.pool()).await.unwrap();
    let mut counted = BTreeMap::<Uuid, i64>::new();
    events.iter().for_each(|event| *counted.entry(event.stream_id).or_default() += 1);
    assert_eq!(tallies.into_iter().collect::<BTreeMap<_, _>>(), counted, "the tallies are the log");
}
