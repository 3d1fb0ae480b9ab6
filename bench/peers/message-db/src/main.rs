//! message-db: functions in the database, which is all there is to it; here they are called through sqlx.

mod consumer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr as _;
use std::sync::Arc;

use driver::{About, Appending, Delivery, Error, Placed, Settings, Sink, Store, locked_version};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::types::Json;
use uuid::Uuid;

/// As PgPool::connect has it: message-db has no pool of its own.
const CONNECTIONS: u32 = 10;
/// What streams are called; a consumer reads one category.
const CATEGORY: &str = "order";
/// Categories of the fastest way, where nobody reads them all: a write locks its category until its commit.
const CATEGORIES: u128 = 16;
/// Files of its package in the order its own install script has them.
const INSTALL: [&str; 20] = [
    "roles/message-store",
    "schema/message-store",
    "extensions/pgcrypto",
    "tables/messages",
    "types/message",
    "functions/message-store-version",
    "functions/hash-64",
    "functions/category",
    "functions/acquire-lock",
    "functions/is-category",
    "functions/id",
    "functions/cardinal-id",
    "functions/stream-version",
    "functions/write-message",
    "functions/get-stream-messages",
    "functions/get-category-messages",
    "functions/get-last-stream-message",
    "indexes/messages-id",
    "indexes/messages-stream",
    "indexes/messages-category",
];
const WRITE: &str = "SELECT write_message($1, $2, $3, $4, NULL, $5)";
/// All of them in one statement, each after the one before it.
const WRITE_MANY: &str = "SELECT write_message(id, $1, $2, data, NULL, $3 + n - 1) \
                          FROM unnest($4::text[], $5::jsonb[]) WITH ORDINALITY AS message (id, data, n) ORDER BY n";
const READ_STREAM: &str = "SELECT data FROM get_stream_messages($1, 0, -1)";
const EVENT_TYPE: &str = "Placed";

struct MessageDb {
    pool: PgPool,
    settings: Settings,
}

impl Store for MessageDb {
    fn about() -> About {
        About {
            name: "message-db".to_owned(),
            versions: format!("@eventide/message-db 1.3.1, {}", locked_version(include_str!("../Cargo.lock"), "sqlx")),
            page: "docs.eventide-project.org, \"Message DB\", \"Server Functions\"".to_owned(),
            documented: "write_message with the expected version, one transaction for several; all streams in one category; a pool of \
                         10 connections; its consumer reads 1,000 messages at a time, looks again after 100 ms and stores its \
                         position every 100 messages, as Eventide's does"
                .to_owned(),
            fastest: Some(
                "streams in 16 categories where nobody has to read them all; several messages in one statement; \
                 connections that are not tested before each use; the best of several pool sizes; its consumer looks again \
                 after 5 ms and stores its position every 1,000 messages"
                    .to_owned(),
            ),
            pools: vec![8, 16, 32, 64],
            installs: Some("one category for all streams, so that one consumer reads them all: one write at a time".to_owned()),
            deliveries: BTreeMap::from([
                (
                    Delivery::Batched,
                    "the position is a message of its own, committed after 100 messages (fastest: 1,000); a crash of the \
                     server undoes nothing of it, and messages after the last one come again"
                        .to_owned(),
                ),
                (
                    Delivery::Each,
                    "the position is a message of its own, committed after each; a crash of the server undoes nothing".to_owned(),
                ),
            ]),
            no_failover: Some("members of a consumer group have fixed parts, and nobody takes over that of another".to_owned()),
            tables: vec!["message_store.messages".to_owned()],
            notes: [
                "Its SQL is that of its npm package, unchanged, without roles' privileges and views.",
                "It has no client for Rust: the loop of its consumer is ours, after Eventide's.",
                "write_message locks its category, by its name, until the commit: within one, order is commit order.",
            ]
            .map(str::to_owned)
            .to_vec(),
            objection: "Services of its users have a category for each entity, and write to many at once; a benchmark of one category \
                        measures its lock."
                .to_owned(),
            ..About::default()
        }
    }

    async fn prepare(url: &str, _settings: &Settings) -> Result<(), Error> {
        let folder = PathBuf::from(std::env::var_os("MESSAGE_DB").ok_or("MESSAGE_DB does not say where its SQL is")?);
        let pool = PgPoolOptions::new().max_connections(1).connect_with(options(url)?).await?;
        for file in INSTALL {
            let path = folder.join(file).with_extension("sql");
            let sql = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            sqlx::raw_sql(&sql).execute(&pool).await.map_err(|error| format!("{file}: {error}"))?;
        }
        Ok(())
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let pool = PgPoolOptions::new()
            .max_connections(settings.pool(CONNECTIONS))
            .test_before_acquire(!settings.is_fastest())
            .connect_with(options(url)?)
            .await?;
        Ok(Self { pool, settings })
    }

    async fn append(&self, Appending { stream, version, events }: Appending) -> Result<u64, Error> {
        // A new stream is at -1.
        let (name, expected) = (self.name(stream), i64::try_from(version)? - 1);
        if let [placed] = &events[..] {
            write(&self.pool, &name, placed, expected).await?;
            return Ok(1);
        }
        if self.settings.is_fastest() {
            let ids: Vec<String> = events.iter().map(|_| Uuid::new_v4().to_string()).collect();
            let data: Vec<Json<&Placed>> = events.iter().map(Json).collect();
            let many = sqlx::query(WRITE_MANY).bind(name).bind(EVENT_TYPE).bind(expected).bind(ids).bind(data);
            many.execute(&self.pool).await?;
            return Ok(1);
        }
        let mut transaction = self.pool.begin().await?;
        for (placed, expected) in events.iter().zip(expected..) {
            write(&mut *transaction, &name, placed, expected).await?;
        }
        transaction.commit().await?;
        Ok(1)
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        let messages: Vec<String> =
            sqlx::query_scalar(READ_STREAM).bind(self.name(stream)).fetch_all(&self.pool).await?;
        let orders = messages.iter().map(|data| serde_json::from_str::<Placed>(data));
        Ok(orders.collect::<Result<Vec<_>, _>>()?.len())
    }

    async fn follow(&self, id: &str, delivery: Delivery, sink: Arc<Sink>) -> Result<(), Error> {
        tokio::select! {
            followed = consumer::run(&self.pool, id, delivery, &self.settings, &sink) => followed,
            () = sink.stopped() => Ok(()),
        }
    }
}

impl MessageDb {
    fn name(&self, stream: Uuid) -> String {
        match self.settings.is_fastest() && !self.settings.subscriber {
            true => format!("{CATEGORY}{}-{stream}", stream.as_u128() % CATEGORIES),
            false => format!("{CATEGORY}-{stream}"),
        }
    }
}

async fn write(on: impl sqlx::PgExecutor<'_>, stream: &str, placed: &Placed, expected: i64) -> Result<(), sqlx::Error> {
    let id = Uuid::new_v4().to_string();
    sqlx::query(WRITE).bind(id).bind(stream).bind(EVENT_TYPE).bind(Json(placed)).bind(expected).execute(on).await?;
    Ok(())
}

/// Its functions call one another without a schema.
fn options(url: &str) -> Result<PgConnectOptions, Error> {
    Ok(PgConnectOptions::from_str(url)?.options([("search_path", "message_store,public")]))
}

#[tokio::main]
async fn main() -> ExitCode {
    driver::run::<MessageDb>().await
}
