//! What a file says about itself.

use highwater::{Diagnose, Error, Severity};
use highwater_sqlite::{SqliteConfig, SqliteEventStore, Synchronous};

use crate::support::Folder;

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
    let letter =
        "INSERT INTO event_bus_dlq (id, subscriber_id, event_id, global_sequence, stream_id, event_type, created_at)
        VALUES (x'01', 's', x'02', 1, x'03', 'Noted', 0)";
    sqlx::query(letter).execute(store.pool()).await.unwrap();
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
