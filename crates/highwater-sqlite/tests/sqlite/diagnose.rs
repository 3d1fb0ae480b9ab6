//! What a file says about itself.

use highwater::backend::{Diagnose, Finding, Log, Severity, Transfer};
use highwater::{Append, Error};
use highwater_sqlite::{SqliteConfig, SqliteEventStore, Synchronous};
use uuid::Uuid;

use crate::support::{Folder, connection, execute, note};
use crate::worker::{Job, Task};

async fn worst(store: &SqliteEventStore, topic: &str) -> Severity {
    let findings = store.diagnose().await.unwrap();
    let worst = findings.iter().filter(|finding| finding.topic == topic).map(|finding| finding.severity).max();
    worst.unwrap_or_else(|| panic!("nothing is said about {topic}: {findings:#?}"))
}

#[tokio::test]
async fn what_initializing_would_do_is_said_before_and_nothing_is_left_after() {
    let folder = Folder::new();
    let store = SqliteEventStore::open(&folder.url()).await.unwrap();
    let steps: Vec<_> = store.planned().await.unwrap().iter().map(|step| step.version).collect();
    assert_eq!(steps, [1, 2, 3, 4, 5]);
    assert_eq!(worst(&store, "layout").await, Severity::Bad);
    store.initialize().await.unwrap();
    assert!(store.planned().await.unwrap().is_empty());
    let findings = store.diagnose().await.unwrap();
    assert!(findings.iter().all(|finding| finding.severity == Severity::Good), "{findings:#?}");
}

#[tokio::test]
async fn what_does_harm_is_named() {
    let folder = Folder::new();
    let store = folder.store_with(SqliteConfig { synchronous: Synchronous::Normal, ..SqliteConfig::default() }).await;
    assert_eq!(worst(&store, "durability").await, Severity::Note);
    let dead_letter =
        "INSERT INTO event_bus_dlq (id, subscriber_id, event_id, global_sequence, stream_id, event_type, created_at)
        VALUES (x'01', 's', x'02', 1, x'03', 'Noted', 0)";
    sqlx::query(dead_letter).execute(store.pool()).await.unwrap();
    assert_eq!(worst(&store, "dead letters").await, Severity::Warning);
    sqlx::query(
        "INSERT INTO highwater_migrations (version, name, oldest, applied_at) VALUES (99, 'from the future', 99, 0)",
    )
    .execute(store.pool())
    .await
    .unwrap();
    let refused = store.planned().await.unwrap_err();
    assert!(matches!(&refused, Error::Unfit { reason } if reason.contains("upgrade the library")), "{refused:?}");
    assert_eq!(worst(&store, "layout").await, Severity::Bad);
}

/// A database with something in it, after this was done to it by hand.
async fn after(sql: &'static str) -> (Folder, SqliteEventStore) {
    let folder = Folder::new();
    let store = folder.store().await;
    let stream = Uuid::now_v7();
    for _ in 0..4 {
        store.append(&Append::to(stream).event(note("x"))).await.unwrap();
    }
    execute(&mut connection(&folder.database()).await, sql).await;
    (folder, store)
}

#[tokio::test]
async fn what_is_missing_is_named_with_what_to_do() {
    for (sql, topic, severity, words) in [
        ("SELECT 1", "layout", Severity::Good, "everything is there"),
        ("DROP INDEX event_bus_dlq_open", "layout", Severity::Bad, "make it again: CREATE INDEX event_bus_dlq_open"),
        ("DROP TABLE event_bus_reports", "layout", Severity::Bad, "restore a backup"),
        ("DROP TABLE events", "layout", Severity::Bad, "restore a backup"),
        ("ALTER TABLE event_bus_leaders ADD COLUMN mine TEXT", "layout", Severity::Warning, "put it back"),
        ("DELETE FROM events WHERE global_sequence = 2", "streams", Severity::Bad, "version 4 and has 3 events"),
        (
            "INSERT INTO event_bus_checkpoints VALUES ('projection:one', 1, NULL, 0, 1, zeroblob(16), NULL, NULL)",
            "subscribers",
            Severity::Warning,
            "up to 3 events behind",
        ),
        (
            "INSERT INTO event_bus_checkpoints VALUES ('projection:one', 9, NULL, 0, 1, zeroblob(16), NULL, NULL)",
            "subscribers",
            Severity::Bad,
            "5 beyond the end",
        ),
    ] {
        let (_folder, store) = after(sql).await;
        let findings = store.diagnose().await.unwrap();
        let named = |finding: &&Finding| finding.topic == topic && finding.to_string().contains(words);
        let found = findings.iter().find(named).unwrap_or_else(|| panic!("{sql}: {findings:#?}"));
        assert_eq!(found.severity, severity, "{sql}: {found}");
    }
}

#[tokio::test]
async fn a_damaged_page_is_found() {
    let folder = Folder::new();
    let store = folder.store().await;
    for _ in 0..50 {
        store.append(&Append::to(Uuid::now_v7()).event(note("x".repeat(400)))).await.unwrap();
    }
    let copy = folder.path().join("copy.db");
    store.backup(&copy).await.unwrap();
    let mut bytes = std::fs::read(&copy).unwrap();
    let end = bytes.len();
    // Roots of tables come first, so these hold events.
    bytes[end - 8_192..].fill(0xa5);
    std::fs::write(&copy, bytes).unwrap();
    let damaged = SqliteEventStore::open(copy.to_str().unwrap()).await.unwrap();
    assert_eq!(worst(&damaged, "pages").await, Severity::Bad);
    assert_eq!(worst(&store, "pages").await, Severity::Good);
}

#[tokio::test]
async fn a_filling_that_has_not_ended_is_bad() {
    let folder = Folder::new();
    let store = folder.store().await;
    let filling = store.fill("elsewhere").await.unwrap();
    assert_eq!(worst(&store, "filling").await, Severity::Bad);
    filling.finish().await.unwrap();
    assert_eq!(worst(&store, "filling").await, Severity::Good);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_keeps_everybody_from_writing_is_named() {
    let folder = Folder::new();
    let store = folder.store().await;
    assert_eq!(worst(&store, "writers").await, Severity::Good);
    let said = async || {
        let findings = store.diagnose().await.unwrap();
        let found = findings.into_iter().find(|finding| finding.topic == "writers").unwrap();
        assert_eq!(found.severity, Severity::Warning, "{found}");
        found.found
    };
    let worker = Job::on(&folder, Task::Hold).start();
    worker.says("held", 1).await;
    let found = said().await;
    assert!(found.contains(&format!("process {} (", worker.pid())), "{found}");
    worker.end().await;
    let work = store.begin().await.unwrap();
    let found = said().await;
    assert!(found.contains("a unit of work of this process"), "{found}");
    work.rollback().await.unwrap();
    assert_eq!(worst(&store, "writers").await, Severity::Good);
}
