//! The contract, held against PostgreSQL.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "tests fail by panicking, and nobody calls them")]

#[path = "postgres/support.rs"]
#[expect(dead_code, reason = "shared with the other tests, which use more of it")]
mod support;

use std::sync::Mutex;

use highwater::{Append, Appended, BoxFuture, Error};
use highwater_contract::{Harness, OpenAppend, Settings};
use highwater_postgres::{PgConfig, PgEventStore, PgTx};
use support::Db;

/// A schema for every log; all are dropped with it.
#[derive(Default)]
struct Postgres(Mutex<Vec<Db>>);

fn config(schema: &str, settings: Settings) -> PgConfig {
    let Settings { upcasters, limits } = settings;
    // Cases keep up to eight transactions open at once.
    PgConfig { schema: schema.to_owned(), upcasters, limits, pool_connections_max: 12, ..PgConfig::default() }
}

impl Harness for Postgres {
    type Store = PgEventStore;

    async fn fresh(&self, settings: Settings) -> PgEventStore {
        let db = Db::new();
        let store = db.store_with(config(&db.schema, settings)).await;
        self.0.lock().unwrap().push(db);
        store
    }

    async fn reopen(&self, store: &PgEventStore, settings: Settings) -> PgEventStore {
        PgEventStore::connect_with(&support::url(), config(store.schema(), settings)).await.unwrap()
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

    async fn clean_up(&self) {
        self.0.lock().unwrap().clear();
    }
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

highwater_contract::suite!(Postgres::default());
