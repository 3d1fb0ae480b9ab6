//! What cannot be opened is refused in words, and left as it was.

use std::collections::BTreeMap;
use std::path::Path;

use highwater::{Error, Invalid};
use highwater_sqlite::{SqliteConfig, SqliteEventStore};

use crate::support::{Folder, connection, execute};
use crate::worker::{Job, Task};

/// Everything in a folder, byte by byte. Nobody in this process has a database in it open.
fn bytes(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let content = if entry.path().is_file() { std::fs::read(entry.path()).unwrap() } else { Vec::new() };
            (entry.file_name().into_string().unwrap(), content)
        })
        .collect()
}

/// Refused, with these words, and nothing is changed.
async fn refused(folder: &Folder, path: &Path, config: SqliteConfig, words: &[&str]) -> Error {
    let before = bytes(folder.path());
    let error = SqliteEventStore::open_with(path.to_str().unwrap(), config).await.unwrap_err();
    let said = format!("{error}: {}", std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default());
    for word in words {
        assert!(said.contains(word), "{word:?} is missing in: {said}");
    }
    assert!(bytes(folder.path()) == before, "nothing is changed: {said}");
    error
}

#[tokio::test]
async fn a_file_that_is_not_sqlite_s() {
    let folder = Folder::new();
    for content in ["not a database, but a letter to somebody ".repeat(40), "short".to_owned()] {
        std::fs::write(folder.database(), content).unwrap();
        let error = refused(&folder, &folder.database(), SqliteConfig::default(), &["not a SQLite database"]).await;
        assert!(matches!(error, Error::Unfit { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_database_of_another_application() {
    for (made, words) in [
        ("CREATE TABLE songs (name)", "application_id 0, 1 tables"),
        ("PRAGMA application_id = 4711", "application_id 4711, 0 tables"),
        ("PRAGMA journal_mode = WAL; CREATE TABLE songs (name)", "application_id 0, 1 tables"),
        ("PRAGMA application_id = 0x48577472; CREATE TABLE songs (name)", "1 tables"),
    ] {
        let folder = Folder::new();
        let mut other = connection(&folder.database()).await;
        execute(&mut other, made).await;
        sqlx::Connection::close(other).await.unwrap();
        let error =
            refused(&folder, &folder.database(), SqliteConfig::default(), &["not a Highwater database", words]).await;
        assert!(matches!(error, Error::Unfit { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_layout_that_is_too_new() {
    let folder = Folder::new();
    let store = folder.store().await;
    store.pool().close().await;
    drop(store);
    let mut other = connection(&folder.database()).await;
    execute(&mut other, "INSERT INTO highwater_migrations (version, name, oldest, applied_at) VALUES (98, 'x', 5, 0)")
        .await;
    // A newer one that says that it still fits is taken.
    let store = folder.store().await;
    crate::support::say(&store, "on a newer layout").await;
    store.pool().close().await;
    drop(store);
    execute(&mut other, "INSERT INTO highwater_migrations (version, name, oldest, applied_at) VALUES (99, 'y', 99, 0)")
        .await;
    sqlx::Connection::close(other).await.unwrap();
    crate::support::eventually("all have closed the file", async || !folder.path().join("events.db-wal").exists())
        .await;
    let words = ["migration 99", "knows only 5", "upgrade the library"];
    let error = refused(&folder, &folder.database(), SqliteConfig::default(), &words).await;
    assert!(matches!(error, Error::Unfit { .. }), "{error:?}");
}

#[tokio::test]
async fn what_is_no_file() {
    let folder = Folder::new();
    let error = refused(&folder, folder.path(), SqliteConfig::default(), &["is a folder"]).await;
    assert!(matches!(error, Error::Unfit { .. }), "{error:?}");

    let missing = folder.path().join("nowhere/events.db");
    let error = refused(&folder, &missing, SqliteConfig::default(), &["nowhere/events.db", "No such file"]).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");

    let config = SqliteConfig { create: false, ..SqliteConfig::default() };
    let error = refused(&folder, &folder.database(), config, &["there is no file", "events.db"]).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");

    std::os::unix::fs::symlink(folder.path().join("gone.db"), folder.path().join("link.db")).unwrap();
    refused(&folder, &folder.path().join("link.db"), SqliteConfig::default(), &["link.db"]).await;

    for url in ["sqlite:", "sqlite::memory:", "sqlite:events.db?mode=ro", "postgres://localhost/x"] {
        let error = SqliteEventStore::open(url).await.unwrap_err();
        assert!(matches!(error, Error::Invalid(Invalid::Setting { name: "database", .. })), "{url}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_read_only() {
    let folder = Folder::new();
    let store = folder.store().await;
    crate::support::say(&store, "before").await;
    let place = folder.path().display();
    let mounting = format!("mount --bind '{place}' '{place}'; mount -o remount,ro,bind '{place}'");
    let worker = Job::on(&folder, Task::Open).start_after(&mounting);
    let said = worker.says("refused", 1).await.remove(0);
    for word in ["Denied", "read-only"] {
        assert!(said.contains(word), "{said}");
    }
    worker.end().await;
    crate::support::say(&store, "after").await;
}

#[tokio::test]
async fn a_file_with_two_names() {
    let folder = Folder::new();
    drop(folder.store().await);
    let other = folder.path().join("other.db");
    std::fs::hard_link(folder.database(), &other).unwrap();
    for path in [&folder.database(), &other] {
        let error = SqliteEventStore::open(path.to_str().unwrap()).await.unwrap_err();
        let Error::Unfit { reason } = error else { panic!("{error:?}") };
        assert!(reason.contains("2 names (hard links)") && reason.contains("symbolic links"), "{reason}");
    }
    std::fs::remove_file(other).unwrap();
    SqliteEventStore::open(&folder.url()).await.unwrap();
}
