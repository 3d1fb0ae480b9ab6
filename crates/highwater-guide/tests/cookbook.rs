//! Every answer of `docs/cookbook.md`, run as it stands there.
#![allow(
    dead_code,
    unused_variables,
    unused_imports,
    reason = "every answer has the same around it, and shows what it needs"
)]

use std::path::{Path, PathBuf};

use highwater_postgres::sqlx::AssertSqlSafe;
use highwater_postgres::{PgConfig, PgEventBus, PgEventStore, PgTx};
use highwater_sqlite::{SqliteConfig, SqliteEventBus, SqliteEventStore, SqliteTx, sqlx};

/// What an answer runs on. It is removed with it.
struct Ground {
    name: String,
    folder: PathBuf,
}

impl Ground {
    fn new(name: &str) -> std::io::Result<Self> {
        let name = format!("cookbook_{}_{:.30}", std::process::id(), name);
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(&folder)?;
        Ok(Self { name, folder })
    }

    async fn sqlite(&self, sql: &str) -> Result<SqliteEventStore, BoxError> {
        let store = SqliteEventStore::open(&format!("sqlite:{}/shop.db", self.folder.display())).await?;
        store.initialize().await?;
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(store.pool()).await?;
        Ok(store)
    }

    async fn postgres(&self, sql: &str) -> Result<PgEventStore, BoxError> {
        let url = std::env::var("HIGHWATER_TEST_POSTGRES_URL")
            .map_err(|_| "scripts/test sets HIGHWATER_TEST_POSTGRES_URL")?;
        let config = PgConfig { schema: self.name.clone(), ..PgConfig::default() };
        let store = PgEventStore::connect_with(&url, config).await?;
        store.initialize().await?;
        sqlx::raw_sql(AssertSqlSafe(sql.replace("highwater.", &format!("{}.", self.name))))
            .execute(store.pool())
            .await?;
        Ok(store)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

include!(concat!(env!("OUT_DIR"), "/cookbook.rs"));
