//! A schema of its own for every test, on the server that the environment names.

use std::sync::atomic::{AtomicU64, Ordering};

use highwater::EventTypes;
use highwater::Filter;
use highwater::backend::{Log, ReadLimit};
pub use highwater_contract::notes::{Note, Warnings, eventually, new, note, one, sequences, soak};
use highwater_postgres::{PgConfig, PgEventStore};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

/// The server for tests.
pub fn url() -> String {
    std::env::var("HIGHWATER_TEST_POSTGRES_URL").unwrap_or_else(|_| {
        panic!(
            "HIGHWATER_TEST_POSTGRES_URL is not set. Run scripts/test, or one test with: \
             cargo run -p throwaway-postgres -- cargo test -p highwater-postgres NAME"
        )
    })
}

/// A schema that goes when the test ends.
pub struct Db {
    pub url: String,
    pub schema: String,
}

impl Db {
    /// On the shared server.
    pub fn new() -> Self {
        Self::on(url())
    }

    /// On a server of the test's own.
    pub fn on(url: String) -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let (pid, n) = (std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        Self { url, schema: format!("hw_{pid}_{n}_{:x}", fastrand::u32(..)) }
    }

    pub fn config(&self) -> PgConfig {
        PgConfig { schema: self.schema.clone(), ..PgConfig::default() }
    }

    /// A store with an initialized schema.
    pub async fn store(&self) -> PgEventStore {
        self.store_with(self.config()).await
    }

    pub async fn store_with(&self, config: PgConfig) -> PgEventStore {
        let store = PgEventStore::connect_with(&self.url, config).await.unwrap();
        store.initialize().await.unwrap();
        store
    }

    /// A plain connection that sees the schema first.
    pub async fn connection(&self) -> PgConnection {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        self.execute(&mut connection, "SET search_path = {s}, public").await;
        connection
    }

    /// Runs plain SQL, with `{s}` for the schema.
    pub async fn execute(&self, connection: &mut PgConnection, sql: &str) {
        self.try_execute(connection, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub async fn try_execute(&self, connection: &mut PgConnection, sql: &str) -> Result<u64, sqlx::Error> {
        let sql = sql.replace("{s}", &format!("\"{}\"", self.schema));
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(|done| done.rows_affected())
    }

    /// Takes the layout back to how an earlier version left it.
    pub async fn back_to(&self, connection: &mut PgConnection, version: usize) {
        for undo in UNDO[version - FIRST_UNDONE..].iter().rev() {
            self.execute(connection, undo).await;
        }
        self.execute(connection, &format!("DELETE FROM {{s}}.migrations WHERE version > {version}")).await;
    }

    /// Inserts one event into a fresh stream by plain SQL, on whatever transaction the connection is in.
    pub async fn insert(&self, connection: &mut PgConnection) {
        self.execute(connection, INSERT).await;
    }
}

/// The first layout that can be gone back to, and what undoes each migration after it.
const FIRST_UNDONE: usize = 2;
const UNDO: [&str; 4] = [
    "DROP TABLE {s}.event_bus_checkpoints, {s}.event_bus_pauses, {s}.event_bus_dlq, {s}.event_bus_dlq_attempts,
        {s}.event_bus_requests; DROP SEQUENCE {s}.event_bus_terms",
    "DROP TABLE {s}.event_bus_leaders, {s}.event_bus_instances, {s}.event_bus_reports; DROP FUNCTION {s}.session_is_gone",
    "DROP TABLE {s}.filling; DROP FUNCTION {s}.refuse_while_filling, {s}.filling_guard",
    "DROP TABLE {s}.server_life, {s}.settled; DROP FUNCTION {s}.life, {s}.insist_on_life, {s}.settle",
];

/// One event in a fresh stream.
pub const INSERT: &str = "INSERT INTO {s}.events (id, stream_id, stream_version, event_type, data)
    VALUES (gen_random_uuid(), gen_random_uuid(), 1, 'Noted', '{\"text\":\"sql\"}')";

impl Drop for Db {
    fn drop(&mut self) {
        let (url, schema) = (self.url.clone(), self.schema.clone());
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                // A server of the test's own may be down by now; it is thrown away as a whole.
                let Ok(mut connection) = PgConnection::connect(&url).await else { return };
                let sql = format!("SET lock_timeout = '5s'; DROP SCHEMA IF EXISTS \"{schema}\" CASCADE");
                if let Err(error) = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await {
                    eprintln!("cannot drop schema {schema}: {error}");
                }
            });
        });
        dropped.join().unwrap();
    }
}

/// A database of the test's own on the shared server, for what concerns a whole database.
pub struct Database {
    pub url: String,
    name: String,
}

impl Database {
    pub async fn create() -> Self {
        Self::create_with("").await
    }

    /// With settings, as `CREATE DATABASE` takes them.
    pub async fn create_with(settings: &str) -> Self {
        let name = format!("hw_{:x}", fastrand::u64(..));
        let url = url();
        let mut admin = PgConnection::connect(&url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name} {settings}"))).execute(&mut admin).await.unwrap();
        let options: PgConnectOptions = url.parse().unwrap();
        Self { url: options.database(&name).to_url_lossy().to_string(), name }
    }

    pub async fn remove(self) {
        let mut admin = PgConnection::connect(&url()).await.unwrap();
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut admin).await.unwrap();
    }
}

/// One page of everything after a position.
pub async fn page(store: &PgEventStore, after: u64) -> highwater::backend::Page {
    store.read_all(after, &Filter::ALL, ReadLimit::events(100)).await.unwrap()
}

/// One page of some types after a position.
pub async fn page_of(store: &PgEventStore, after: u64, types: &[&str]) -> highwater::backend::Page {
    store.read_all(after, &EventTypes::only(types.iter().copied()).into(), ReadLimit::events(100)).await.unwrap()
}

pub fn numbers(page: &highwater::backend::Page) -> Vec<u64> {
    page.records.iter().map(|record| record.global_sequence).collect()
}
