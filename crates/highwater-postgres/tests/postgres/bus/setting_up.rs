//! Tables of a read model on a real server: made once, whichever instances start at once and whatever ends a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use highwater::backend::Checkpoints;
use highwater::{
    BoxError, Event, InstanceMode, ReliableDeliveryConfig, SubscriberOptions, SubscriptionState,
    TransactionalProjection,
};
use highwater_postgres::PgTx;
use sqlx::AssertSqlSafe;

use super::{bus, quick, say};
use crate::support::{Db, Note, Warnings, eventually};

const ID: &str = "projection:texts";

/// Texts in a table. Setting it up fails if the table is there: no second instance may try.
struct Texts {
    schema: String,
    version: u32,
    /// Sessions to be ended in the middle of it.
    ended: Arc<AtomicU32>,
    setups: Arc<AtomicU32>,
}

impl Texts {
    fn new(db: &Db, version: u32) -> Self {
        Self { schema: db.schema.clone(), version, ended: Arc::default(), setups: Arc::default() }
    }

    async fn run(&self, tx: &mut PgTx, sql: &str) -> Result<(), BoxError> {
        let sql = sql.replace("{s}", &format!("\"{}\"", self.schema));
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut **tx).await?;
        Ok(())
    }
}

impl TransactionalProjection<Note, PgTx> for Texts {
    fn subscriber_id(&self) -> &str {
        ID
    }

    fn options(&self) -> SubscriberOptions {
        SubscriberOptions::new().rebuild_on_new_version()
    }

    fn version(&self) -> u32 {
        self.version
    }

    async fn setup(&self, tx: &mut PgTx) -> Result<(), BoxError> {
        self.setups.fetch_add(1, Ordering::SeqCst);
        match self.version {
            1 => self.run(tx, "CREATE TABLE {s}.texts (text text)").await?,
            _ => self.run(tx, "DROP TABLE {s}.texts; CREATE TABLE {s}.long_texts (text text, length bigint)").await?,
        }
        if self.ended.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            self.run(tx, "SELECT pg_terminate_backend(pg_backend_pid())").await?;
        }
        Ok(())
    }

    async fn apply(&self, tx: &mut PgTx, event: &Event<Note>) -> Result<(), BoxError> {
        let Note::Noted { text } = &event.data else { return Ok(()) };
        match self.version {
            1 => self.run(tx, &format!("INSERT INTO {{s}}.texts VALUES ('{text}')")).await,
            _ => self.run(tx, &format!("INSERT INTO {{s}}.long_texts VALUES ('{text}', length('{text}'))")).await,
        }
    }

    async fn reset(&self, tx: &mut PgTx) -> Result<(), BoxError> {
        self.run(tx, if self.version == 1 { "TRUNCATE {s}.texts" } else { "TRUNCATE {s}.long_texts" }).await
    }
}

fn coordinated() -> ReliableDeliveryConfig {
    ReliableDeliveryConfig { instance_mode: InstanceMode::Coordinated, ..quick() }
}

async fn texts(db: &Db, table: &str) -> Vec<String> {
    let sql = AssertSqlSafe(format!("SELECT text FROM {table} ORDER BY text"));
    sqlx::query_scalar(sql).fetch_all(&mut db.connection().await).await.unwrap()
}

// On one thread, where what is logged is seen.
#[tokio::test]
async fn instances_that_start_at_once_come_up_without_an_error_and_a_new_version_replaces_the_table() {
    let db = Db::new();
    let warnings = Warnings::default();
    let _listening = tracing::subscriber::set_default(warnings.clone());
    for version in [1, 2] {
        let (one, other) = (bus(&db, coordinated()).await, bus(&db, coordinated()).await);
        say(one.store(), &format!("said with {version}")).await;
        let (first, second) =
            tokio::join!(one.subscribe(Texts::new(&db, version)), other.subscribe(Texts::new(&db, version)));
        let (first, second) = (first.unwrap(), second.unwrap());
        first.caught_up().await.unwrap();
        second.caught_up().await.unwrap();
        let are_well = async || {
            let states = [first.state(), second.state()];
            states.iter().all(|state| state.is_live() || state.is_standby())
        };
        eventually("one leads and the other stands by", are_well).await;
        one.shutdown().await.unwrap();
        other.shutdown().await.unwrap();
    }
    assert_eq!(texts(&db, "long_texts").await, ["said with 1", "said with 2"], "all of it, in the new table");
    assert_eq!(warnings.said(), "");
    let found = db.store().await.checkpoint(ID).await.unwrap().unwrap();
    assert_eq!(found.setup_version, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setup_whose_session_ends_in_the_middle_leaves_nothing_and_is_done_again() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    say(bus.store(), "hello").await;
    let model = Texts { ended: Arc::new(AtomicU32::new(2)), ..Texts::new(&db, 1) };
    let setups = Arc::clone(&model.setups);
    let subscription = bus.subscribe(model).await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), subscription.caught_up()).await.unwrap().unwrap();
    assert_eq!((setups.load(Ordering::SeqCst), texts(&db, "texts").await), (3, vec!["hello".to_owned()]));
    bus.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setup_that_is_refused_says_so_until_it_is_allowed() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    say(bus.store(), "hello").await;
    let mut connection = db.connection().await;
    db.execute(&mut connection, "CREATE TABLE {s}.texts (another text)").await;
    let subscription = bus.subscribe(Texts::new(&db, 1)).await.unwrap();
    let is_said = |state: &SubscriptionState| matches!(state, SubscriptionState::Disconnected { error } if error.contains("setup() of version 1 failed") && error.contains("\"texts\" already exists"));
    eventually("it says what is in the way", async || is_said(&subscription.state())).await;
    let reports = async || bus.store().reports().await.unwrap();
    eventually("operators see it", async || reports().await.iter().any(|report| is_said(&report.state))).await;
    db.execute(&mut connection, "DROP TABLE {s}.texts").await;
    subscription.caught_up().await.unwrap();
    assert_eq!(texts(&db, "texts").await, ["hello"]);
    bus.shutdown().await.unwrap();
}
