//! The contract, held against SQLite.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "tests fail by panicking, and nobody calls them")]

#[path = "sqlite/support.rs"]
#[expect(dead_code, unused_imports, reason = "shared with the other tests, which use more of it")]
mod support;

use std::collections::BTreeMap;
use std::sync::Mutex;

use highwater::backend::BoxFuture;
use highwater::{Append, Appended, BoxError, Error};
use highwater_contract::{Harness, OpenAppend, Settings};
use highwater_sqlite::{SqliteConfig, SqliteEventStore, SqliteTx};
use support::Folder;

/// A file for every log; all are removed with it.
#[derive(Default)]
struct Sqlite(Mutex<Vec<Folder>>);

fn config(settings: Settings) -> SqliteConfig {
    let Settings { upcasters, limits } = settings;
    SqliteConfig { upcasters, limits, ..SqliteConfig::default() }
}

impl Harness for Sqlite {
    type Store = SqliteEventStore;

    async fn fresh(&self, settings: Settings) -> SqliteEventStore {
        let folder = Folder::new();
        let store = folder.store_with(config(settings)).await;
        for table in [
            "CREATE TABLE tallies (key TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT",
            "CREATE TABLE spoils (key TEXT REFERENCES tallies (key) DEFERRABLE INITIALLY DEFERRED) STRICT",
        ] {
            sqlx::query(table).execute(store.pool()).await.unwrap();
        }
        self.0.lock().unwrap().push(folder);
        store
    }

    async fn reopen(&self, store: &SqliteEventStore, settings: Settings) -> SqliteEventStore {
        SqliteEventStore::open_with(store.path().to_str().unwrap(), config(settings)).await.unwrap()
    }

    /// There is one writer at a time, so whatever is left open is collected: as a unit of work does with its appends.
    async fn begin(&self, store: &SqliteEventStore, append: Append) -> Result<Box<dyn OpenAppend>, Error> {
        Ok(Box::new(Open { store: store.clone(), append }))
    }

    async fn tally(&self, _: &SqliteEventStore, tx: &mut SqliteTx, key: &str) -> Result<(), BoxError> {
        let tally = "INSERT INTO tallies VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET count = count + 1";
        sqlx::query(tally).bind(key).execute(&mut **tx).await?;
        Ok(())
    }

    async fn tallies(&self, store: &SqliteEventStore) -> BTreeMap<String, u64> {
        let tallies = sqlx::query_as("SELECT key, count FROM tallies");
        let rows: Vec<(String, i64)> = tallies.fetch_all(store.pool()).await.unwrap();
        rows.into_iter().map(|(key, count)| (key, count as u64)).collect()
    }

    async fn clear_tallies(&self, _: &SqliteEventStore, tx: &mut SqliteTx) -> Result<(), BoxError> {
        sqlx::query("DELETE FROM tallies").execute(&mut **tx).await?;
        Ok(())
    }

    async fn spoil(&self, _: &SqliteEventStore, tx: &mut SqliteTx) {
        sqlx::query("INSERT INTO spoils VALUES ('no such key')").execute(&mut **tx).await.unwrap();
    }

    async fn clean_up(&self) {
        self.0.lock().unwrap().clear();
    }
}

struct Open {
    store: SqliteEventStore,
    append: Append,
}

impl OpenAppend for Open {
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<Appended, Error>> {
        Box::pin(async move {
            let mut work = self.store.begin().await?;
            work.append(self.append);
            Ok(work.commit().await?.pop().expect("one append went in, so one answer came out"))
        })
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move { self.store.begin().await?.rollback().await })
    }
}

highwater_contract::suite!(Sqlite::default());
