//! A database that stores something else than was sent.

use futures_util::future::join_all;
use highwater::backend::Log;
use highwater::{Append, Error};
use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteConnection;
use uuid::Uuid;

use crate::support::{Folder, connection, execute, new, note, sequences};

/// A lone event, one statement's worth, several statements' worth, and a stream that is there.
fn every_way(there: Uuid) -> [Append; 4] {
    let many: Vec<&str> = std::iter::repeat_n("good", 150).chain(["bad"]).collect();
    [new(&["bad"]), new(&["a", "bad"]), new(&many), Append::to(there).events([note("a"), note("bad"), note("c")])]
}

const BAD: &str = "WHEN NEW.data ->> '$.text' = 'bad' BEGIN";

async fn create(connection: &mut SqliteConnection, trigger: &str) {
    let sql = format!("CREATE TRIGGER meddle {trigger}");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_of_which_a_trigger_would_store_something_else_is_an_error_and_stores_nothing() {
    let folder = Folder::new();
    let store = folder.store().await;
    let there = Uuid::now_v7();
    store.append(&Append::to(there).event(note("first"))).await.unwrap();
    let mut by_hand = connection(&folder.database()).await;
    for trigger in [
        format!("BEFORE INSERT ON events {BAD} SELECT RAISE(IGNORE); END"),
        format!("AFTER INSERT ON Events {BAD} DELETE FROM events WHERE id = NEW.id; END"),
        format!("AFTER INSERT ON events {BAD} UPDATE events SET stream_version = 7000 WHERE id = NEW.id; END"),
        format!("AFTER INSERT ON events {BAD} UPDATE events SET event_type = 'Other' WHERE id = NEW.id; END"),
        format!("AFTER INSERT ON events {BAD} UPDATE events SET schema_version = 7 WHERE id = NEW.id; END"),
        format!("AFTER INSERT ON events {BAD} UPDATE events SET stream_name = 'other/1' WHERE id = NEW.id; END"),
        format!("AFTER INSERT ON events {BAD} UPDATE events SET data = '{{}}' WHERE id = NEW.id; END"),
        // One more, of another stream, before each: then numbers do not follow each other.
        "BEFORE INSERT ON events WHEN NEW.event_type <> 'extra' BEGIN
            INSERT INTO events (stream_version, created_at, id, stream_id, event_type, data)
            VALUES (1, 0, randomblob(16), randomblob(16), 'extra', 'null'); END"
            .to_owned(),
    ] {
        create(&mut by_hand, &trigger).await;
        let before = sequences(&store).await;
        for append in every_way(there) {
            // What is right by chance may be stored: one row, whose number is known for certain.
            let lone = append.event_ids().count() == 1 && trigger.contains("extra");
            let told = store.append(&append).await;
            assert!(lone || matches!(told, Err(Error::Altered { .. })), "{trigger}: {told:?}");
            let mut work = store.begin().await.unwrap();
            work.append(append);
            let told = work.commit().await;
            assert!(lone || matches!(told, Err(Error::Altered { .. })), "{trigger}, in a unit of work: {told:?}");
        }
        execute(&mut by_hand, "DROP TRIGGER meddle").await;
        if trigger.contains("extra") {
            execute(&mut by_hand, "DELETE FROM events WHERE event_type = 'extra'").await;
        } else {
            assert_eq!(sequences(&store).await, before, "{trigger}: nothing is stored");
        }
    }
    for append in every_way(there) {
        store.append(&append).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_callers_whose_rows_are_dropped_are_refused_and_the_appender_continues() {
    let folder = Folder::new();
    let store = folder.store().await;
    let mut by_hand = connection(&folder.database()).await;
    create(&mut by_hand, &format!("BEFORE INSERT ON events {BAD} SELECT RAISE(IGNORE); END")).await;
    let told = join_all((0..60).map(|n| {
        let store = store.clone();
        async move { (n % 3 == 0, store.append(&new(&["a", if n % 3 == 0 { "bad" } else { "good" }])).await) }
    }))
    .await;
    for (bad, told) in told {
        match told {
            Ok(done) => assert_eq!((bad, done.stream_version), (false, 2)),
            Err(error) => assert!(bad && matches!(error, Error::Altered { .. }), "{error:?}"),
        }
    }
    assert_eq!(sequences(&store).await.len(), 80);
    execute(&mut by_hand, "DROP TRIGGER meddle").await;
    store.append(&new(&["bad"])).await.unwrap();
}
