//! The contract, held against PostgreSQL.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "tests fail by panicking, and nobody calls them")]

#[path = "contract/planted.rs"]
mod planted;
#[path = "postgres/support.rs"]
#[expect(dead_code, unused_imports, reason = "shared with the other tests, which use more of it")]
mod support;

use std::collections::BTreeMap;
use std::sync::Mutex;

use highwater::backend::BoxFuture;
use highwater::{Append, Appended, BoxError, Error};
use highwater_contract::{Harness, OpenAppend, Settings};
use highwater_postgres::{PgConfig, PgEventStore, PgTx};
use sqlx::AssertSqlSafe;
use support::Db;

/// A schema for every log; all are dropped with it.
struct Postgres {
    url: String,
    logs: Mutex<Vec<Db>>,
}

impl Postgres {
    fn on(url: String) -> Self {
        Self { url, logs: Mutex::default() }
    }
}

fn config(schema: &str, settings: Settings) -> PgConfig {
    let Settings { upcasters, limits } = settings;
    // Cases keep up to eight transactions open at once.
    PgConfig { schema: schema.to_owned(), upcasters, limits, pool_connections_max: 12, ..PgConfig::default() }
}

impl Harness for Postgres {
    type Store = PgEventStore;

    async fn fresh(&self, settings: Settings) -> PgEventStore {
        let db = Db::on(self.url.clone());
        let store = db.store_with(config(&db.schema, settings)).await;
        let mut connection = db.connection().await;
        db.execute(&mut connection, "CREATE TABLE {s}.tallies (key text PRIMARY KEY, count bigint NOT NULL)").await;
        self.logs.lock().unwrap().push(db);
        store
    }

    async fn reopen(&self, store: &PgEventStore, settings: Settings) -> PgEventStore {
        PgEventStore::connect_with(&self.url, config(store.schema(), settings)).await.unwrap()
    }

    async fn begin(&self, store: &PgEventStore, append: Append) -> Result<Box<dyn OpenAppend>, Error> {
        let mut tx = store.pool().begin().await.unwrap();
        match store.append_on(&mut tx, &append).await {
            Ok((appended, _announcement)) => Ok(Box::new(Open { tx, appended })),
            Err(error) => {
                tx.rollback().await.unwrap();
                Err(error)
            }
        }
    }

    async fn tally(&self, store: &PgEventStore, tx: &mut PgTx, key: &str) -> Result<(), BoxError> {
        let tally = "INSERT INTO {s}.tallies AS t VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET count = t.count + 1";
        sqlx::query(sql(store, tally)).bind(key).execute(&mut **tx).await?;
        Ok(())
    }

    async fn tallies(&self, store: &PgEventStore) -> BTreeMap<String, u64> {
        let tallies = sql(store, "SELECT key, count FROM {s}.tallies");
        let rows: Vec<(String, i64)> = sqlx::query_as(tallies).fetch_all(store.pool()).await.unwrap();
        rows.into_iter().map(|(key, count)| (key, count as u64)).collect()
    }

    async fn clear_tallies(&self, store: &PgEventStore, tx: &mut PgTx) -> Result<(), BoxError> {
        sqlx::query(sql(store, "DELETE FROM {s}.tallies")).execute(&mut **tx).await?;
        Ok(())
    }

    async fn spoil(&self, _: &PgEventStore, tx: &mut PgTx) {
        assert!(sqlx::query("SELECT 1 / 0").execute(&mut **tx).await.is_err());
    }

    async fn clean_up(&self) {
        self.logs.lock().unwrap().clear();
    }
}

/// A statement about a store's own schema.
fn sql(store: &PgEventStore, text: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(text.replace("{s}", &format!("\"{}\"", store.schema())))
}

struct Open {
    tx: PgTx,
    appended: Appended,
}

impl OpenAppend for Open {
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<Appended, Error>> {
        Box::pin(async move {
            self.tx.commit().await.unwrap();
            Ok(self.appended)
        })
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            self.tx.rollback().await.unwrap();
            Ok(())
        })
    }
}

highwater_contract::suite!(Postgres::on(support::url()));
