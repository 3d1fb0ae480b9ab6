//! One projection with a table, on both databases, and what operators do when its table changes.

use highwater::backend::Transactional;
use highwater::{BoxError, Event, EventBus, SubscriptionState, TransactionalProjection};
use highwater_postgres::PgTx;
use highwater_sqlite::{SqliteEventStore, SqliteTx};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _, SqlSafeStr as _, SqlStr};

use crate::support::{Kind, Note, Place, Postgres, Sqlite, coordinated, eventually, say};

/// The texts of notes, in a table called after the place. Its second version has their length beside them.
struct Texts {
    table: String,
    version: u32,
}

impl Texts {
    fn sql(&self, sql: &str) -> SqlStr {
        AssertSqlSafe(sql.replace("{table}", &self.table)).into_sql_str()
    }
}

highwater::for_each_tx! { Tx in [SqliteTx, PgTx];
    impl TransactionalProjection<Note, Tx> for Texts {
        fn subscriber_id(&self) -> &str {
            "projection:texts"
        }

        fn version(&self) -> u32 {
            self.version
        }

        async fn setup(&self, tx: &mut Tx) -> Result<(), BoxError> {
            if self.version > 1 {
                sqlx::query(self.sql("DROP TABLE IF EXISTS {table}")).execute(&mut **tx).await?;
            }
            let length = if self.version > 1 { ", length bigint NOT NULL" } else { "" };
            let create = format!("CREATE TABLE IF NOT EXISTS {{table}} (place bigint PRIMARY KEY, text text NOT NULL{length})");
            sqlx::query(self.sql(&create)).execute(&mut **tx).await?;
            Ok(())
        }

        async fn apply(&self, tx: &mut Tx, event: &Event<Note>) -> Result<(), BoxError> {
            let Note::Noted { text } = &event.data else { return Ok(()) };
            let place = i64::try_from(event.global_sequence.unwrap_or_default())?;
            let insert = match self.version {
                1 => "INSERT INTO {table} (place, text) VALUES ($1, $2)",
                _ => "INSERT INTO {table} (place, text, length) VALUES ($1, $2, length($2))",
            };
            sqlx::query(self.sql(insert)).bind(place).bind(text).execute(&mut **tx).await?;
            Ok(())
        }

        async fn reset(&self, tx: &mut Tx) -> Result<(), BoxError> {
            sqlx::query(self.sql("DELETE FROM {table}")).execute(&mut **tx).await?;
            Ok(())
        }
    }
}

/// The texts, and in the second version their lengths in all.
async fn read<K: Kind>(place: &Place<K>, texts: &Texts) -> (i64, Option<i64>) {
    let length = if texts.version > 1 { "CAST(sum(length) AS bigint)" } else { "CAST(NULL AS bigint)" };
    let sql = texts.sql(&format!("SELECT count(*), {length} FROM {{table}}"));
    if place.url.starts_with("sqlite:") {
        let store = SqliteEventStore::open(&place.url).await.unwrap();
        return sqlx::query_as(sql).fetch_one(store.pool()).await.unwrap();
    }
    let mut connection = PgConnection::connect(&place.url).await.unwrap();
    sqlx::query_as(sql).fetch_one(&mut connection).await.unwrap()
}

async fn its_table_changes<K: Kind>(place: Place<K>)
where
    Texts: TransactionalProjection<Note, <K::Store as Transactional>::Tx>,
{
    let table = match place.url.starts_with("sqlite:") {
        true => "texts".to_owned(),
        false => format!("\"{}\".texts", place.schema),
    };
    let texts = |version| Texts { table: table.clone(), version };
    let store = place.store().await;
    for text in ["one", "two"] {
        say(&store, "a", text).await;
    }
    let bus = EventBus::with_config(store.clone(), coordinated());
    bus.subscribe(texts(1)).await.unwrap().caught_up().await.unwrap();
    bus.shutdown().await.unwrap();
    assert_eq!(read(&place, &texts(1)).await, (2, None));

    let bus = EventBus::with_config(store.clone(), coordinated());
    let subscription = bus.subscribe(texts(2)).await.unwrap();
    let is_halted = async || matches!(subscription.state(), SubscriptionState::Halted { .. });
    eventually("it halts", is_halted).await;
    let mut talk = place.talk();
    let is_seen = async || {
        let overview = highwater::EventStore::overview(&store).await.unwrap();
        overview.subscribers.iter().any(|subscriber| subscriber.state() == "halted")
    };
    eventually("that is reported", is_seen).await;
    talk.run(&["why", "projection:texts"]).await;
    talk.run(&["rebuild", "projection:texts", "--yes"]).await;
    talk.run(&["rebuild", "projection:texts", "--force"]).await;
    talk.is("new_tables");
    subscription.caught_up().await.unwrap();
    bus.shutdown().await.unwrap();
    assert_eq!(read(&place, &texts(2)).await, (2, Some(6)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_projection_written_once_gets_its_table_and_a_new_one_on_postgres() {
    its_table_changes(Postgres::place()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_projection_written_once_gets_its_table_and_a_new_one_on_sqlite() {
    its_table_changes(Sqlite::place()).await;
}
