//! Handlers that are handed their transaction, and what they can do wrong in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use highwater::backend::Log;
use highwater::operations::DeadLetterQuery;
use highwater::{
    Append, BoxError, Error, Event, GlobalSequence, ReliableDeliveryConfig, SubscriberOptions, TransactionalProjection,
};
use highwater_contract::delivered;
use highwater_postgres::{PgConfig, PgEventBus, PgEventStore, PgTx};
use uuid::Uuid;

use super::{Recorder, batched, bus, quick, say, say_many};
use crate::support::{Db, Note, note};

/// What a test does in its transaction.
pub type Act = Box<
    dyn for<'a> Fn(&'a mut PgTx, &'a Event<Note>, u32) -> highwater::backend::BoxFuture<'a, Result<(), BoxError>>
        + Send
        + Sync,
>;

/// Counts every event in a table of the schema, after having done something else.
pub struct Counting {
    id: &'static str,
    options: SubscriberOptions,
    insert: String,
    act: Act,
    calls: AtomicU32,
}

impl Counting {
    pub async fn new(db: &Db, id: &'static str, config: ReliableDeliveryConfig, act: Act) -> Arc<Self> {
        let mut connection = db.connection().await;
        db.execute(&mut connection, "CREATE TABLE IF NOT EXISTS {s}.counted (n bigserial, at bigint, text text)").await;
        let insert = format!("INSERT INTO \"{}\".counted (at, text) VALUES ($1, $2)", db.schema);
        let options = delivered(SubscriberOptions::new(), &config);
        Arc::new(Self { id, options, insert, act, calls: AtomicU32::new(0) })
    }
}

impl TransactionalProjection<Note, PgTx> for Counting {
    fn subscriber_id(&self) -> &str {
        self.id
    }

    fn options(&self) -> SubscriberOptions {
        self.options.clone()
    }

    async fn apply(&self, tx: &mut PgTx, event: &Event<Note>) -> Result<(), BoxError> {
        let Note::Noted { text } = &event.data else { return Ok(()) };
        sqlx::query(sqlx::AssertSqlSafe(self.insert.clone()))
            .bind(event.global_sequence.unwrap() as i64)
            .bind(text)
            .execute(&mut **tx)
            .await?;
        (self.act)(tx, event, self.calls.fetch_add(1, Ordering::SeqCst)).await
    }

    async fn reset(&self, tx: &mut PgTx) -> Result<(), BoxError> {
        let delete = self.insert.replace("INSERT INTO", "DELETE FROM").replace(" (at, text) VALUES ($1, $2)", "");
        sqlx::query(sqlx::AssertSqlSafe(delete)).execute(&mut **tx).await?;
        Ok(())
    }
}

pub fn nothing() -> Act {
    Box::new(|_, _, _| Box::pin(async { Ok(()) }))
}

/// What has been counted, in order.
pub async fn counted(db: &Db) -> Vec<i64> {
    let mut connection = db.connection().await;
    sqlx::query_scalar("SELECT at FROM counted ORDER BY at").fetch_all(&mut connection).await.unwrap()
}

pub async fn dead_letters(bus: &PgEventBus) -> Vec<String> {
    let dead_letters = bus.dead_letters().list(&DeadLetterQuery::default()).await.unwrap();
    dead_letters.into_iter().map(|dead_letter| dead_letter.error_message.unwrap_or_default()).collect()
}

#[tokio::test]
async fn an_sql_error_that_a_handler_swallows_does_not_lose_the_event() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    let swallow: Act = Box::new(|tx, _, call| {
        Box::pin(async move {
            if call < 2 {
                // The transaction is aborted from here on, and its COMMIT would roll back without an error.
                assert!(sqlx::query("SELECT 1 / 0").execute(&mut **tx).await.is_err());
            }
            Ok(())
        })
    });
    let counting = Counting::new(&db, "projection:swallow", quick(), swallow).await;
    let at = say(bus.store(), "x").await;
    bus.subscribe(counting).await.unwrap();
    bus.wait_for("projection:swallow", GlobalSequence(at)).await.unwrap();
    assert_eq!((counted(&db).await, dead_letters(&bus).await.len()), (vec![at as i64], 0));
}

#[tokio::test]
async fn a_constraint_that_is_violated_only_at_the_commit_is_the_handlers_failure() {
    let db = Db::new();
    let bus = bus(&db, ReliableDeliveryConfig { max_retries: 1, ..quick() }).await;
    let mut connection = db.connection().await;
    db.execute(
        &mut connection,
        "CREATE TABLE {s}.parents (id bigint PRIMARY KEY);
         CREATE TABLE {s}.children (parent bigint REFERENCES {s}.parents DEFERRABLE INITIALLY DEFERRED)",
    )
    .await;
    let insert = format!("INSERT INTO \"{}\".children VALUES (7)", db.schema);
    let orphan: Act = Box::new(move |tx, event, _| {
        let insert = insert.clone();
        Box::pin(async move {
            if matches!(&event.data, Note::Noted { text } if text == "bad") {
                sqlx::query(sqlx::AssertSqlSafe(insert)).execute(&mut **tx).await?;
            }
            Ok(())
        })
    });
    let config = ReliableDeliveryConfig { max_retries: 1, ..batched(10) };
    let counting = Counting::new(&db, "projection:deferred", config, orphan).await;
    for text in ["a", "bad", "b"] {
        say(bus.store(), text).await;
    }
    bus.subscribe(counting).await.unwrap().caught_up().await.unwrap();
    assert_eq!(counted(&db).await, [1, 3], "the batch was redone one by one, and only the bad event paid");
    let dead_letters = dead_letters(&bus).await;
    assert!(dead_letters.len() == 1 && dead_letters[0].contains("foreign key"), "{dead_letters:?}");
}

#[tokio::test]
async fn a_handler_that_hangs_in_the_server_is_given_up_and_its_lock_released() {
    let db = Db::new();
    let config = ReliableDeliveryConfig { handler_timeout: Some(Duration::from_millis(200)), ..quick() };
    let bus = bus(&db, config.clone()).await;
    let hang: Act = Box::new(|tx, _, call| {
        Box::pin(async move {
            if call == 0 {
                sqlx::query("SELECT pg_sleep(600)").execute(&mut **tx).await?;
            }
            Ok(())
        })
    });
    let counting = Counting::new(&db, "projection:hang", config, hang).await;
    let at = say(bus.store(), "x").await;
    bus.subscribe(counting).await.unwrap();
    bus.wait_for("projection:hang", GlobalSequence(at)).await.unwrap();
    assert_eq!((counted(&db).await, dead_letters(&bus).await.len()), (vec![1], 0));
}

#[tokio::test]
async fn a_handler_that_panics_in_its_transaction_leaves_nothing_behind_and_is_retried() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    let panic: Act = Box::new(|_, _, call| Box::pin(async move { if call == 0 { panic!("ouch") } else { Ok(()) } }));
    let counting = Counting::new(&db, "projection:panic", quick(), panic).await;
    let at = say(bus.store(), "x").await;
    bus.subscribe(counting).await.unwrap();
    bus.wait_for("projection:panic", GlobalSequence(at)).await.unwrap();
    assert_eq!((counted(&db).await, dead_letters(&bus).await.len()), (vec![1], 0));
}

#[tokio::test]
async fn an_append_in_a_handlers_transaction_is_stored_with_it_and_others_hear_of_it() {
    let db = Db::new();
    // Polling would find it as well, some day: this shows that nobody has to wait for that.
    let patient = ReliableDeliveryConfig { poll_interval: Duration::from_secs(600), ..quick() };
    let bus = bus(&db, patient.clone()).await;
    let store: PgEventStore = bus.store().clone();
    let answer: Act = Box::new(move |tx, event, call| {
        let store = store.clone();
        Box::pin(async move {
            let Note::Noted { text } = &event.data else { return Ok(()) };
            if text == "question" {
                let answer = Append::to(event.stream_id).in_answer_to(event, "answer").event(note("answer"));
                let (_, _announced_by_the_bus) = store.append_on(tx, &answer).await?;
                if call == 0 {
                    return Err("after the append".into());
                }
            }
            Ok(())
        })
    });
    let counting = Counting::new(&db, "saga:answers", patient, answer).await;
    bus.subscribe(counting).await.unwrap().caught_up().await.unwrap();
    let at = say(bus.store(), "question").await;
    bus.wait_for("saga:answers", GlobalSequence(at + 1)).await.unwrap();
    let all: Vec<i64> = counted(&db).await;
    assert_eq!(all.len(), 2, "question and answer, each once: {all:?}");
}

#[tokio::test]
async fn an_append_that_would_wait_for_the_handlers_own_transaction_is_a_typed_error() {
    let db = Db::new();
    let store =
        db.store_with(highwater_postgres::PgConfig { append_timeout: Duration::from_millis(100), ..db.config() }).await;
    let bus = PgEventBus::with_config(store.clone(), ReliableDeliveryConfig { max_retries: 0, ..quick() });
    let stuck: Act = Box::new(move |tx, event, _| {
        let store = store.clone();
        Box::pin(async move {
            let inside = Append::to(event.stream_id).event(Note::Struck);
            let (_, _announced_by_the_bus) = store.append_on(tx, &inside).await?;
            // Not in the transaction, but to a stream that the transaction holds.
            match store.append(&Append::to(event.stream_id).event(Note::Struck)).await {
                Err(error @ Error::StreamHeld { .. }) => Err(error.into()),
                other => panic!("{other:?}"),
            }
        })
    });
    let counting = Counting::new(&db, "saga:stuck", ReliableDeliveryConfig { max_retries: 0, ..quick() }, stuck).await;
    let at = say(bus.store(), "x").await;
    bus.subscribe(counting).await.unwrap();
    let dead_letter = bus.wait_for("saga:stuck", GlobalSequence(at)).await.unwrap().dead_letter.unwrap();
    assert!(dead_letter.error_message.unwrap().contains("stream held"));
}

#[tokio::test]
async fn a_rebuild_empties_the_read_model_and_sets_the_checkpoint_back_together() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    say_many(bus.store(), 50).await;
    let counting = Counting::new(&db, "projection:rebuilt", batched(10), nothing()).await;
    let subscription = bus.subscribe(counting).await.unwrap();
    subscription.caught_up().await.unwrap();
    let mut connection = db.connection().await;
    db.execute(&mut connection, "UPDATE {s}.counted SET text = 'wrong'").await;
    subscription.rebuild().await.unwrap();
    subscription.caught_up().await.unwrap();
    // A transaction is opened for a batch that is there, and not to wait for one.
    let idle: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_stat_activity
         WHERE application_name = 'highwater deliver' AND state = 'idle in transaction' AND query LIKE '%' || $1 || '%'",
    )
    .bind(&db.schema)
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert_eq!(idle, 0);
    let wrong: i64 = sqlx::query_scalar("SELECT count(*) FROM counted WHERE text = 'wrong'")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!((counted(&db).await.len(), wrong), (50, 0));
}

#[tokio::test]
async fn lost_answers_to_commits_neither_lose_nor_double_an_event() {
    let db = Db::new();
    let direct = db.store().await;
    say_many(&direct, 300).await;
    let url: sqlx::postgres::PgConnectOptions = db.url.parse().unwrap();
    let proxy = Arc::new(crate::proxy::Proxy::to(url.get_host().to_owned(), url.get_port()).await);
    let through = url.clone().host("127.0.0.1").port(proxy.port()).ssl_mode(sqlx::postgres::PgSslMode::Disable);
    let store = PgEventStore::connect_to_with(through, db.config()).await.unwrap();
    let bus = PgEventBus::with_config(store, quick());
    let cut = {
        let proxy = proxy.clone();
        let cut: Act = Box::new(move |_, _, call| {
            // The answer to what comes next, often the COMMIT, never arrives.
            proxy.lose_answers(call % 20 == 19);
            Box::pin(async { Ok(()) })
        });
        cut
    };
    let counting = Counting::new(&db, "projection:lost", batched(10), cut).await;
    let subscription = bus.subscribe(counting).await.unwrap();
    let restore = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            proxy.lose_answers(false);
        }
    });
    subscription.caught_up().await.unwrap();
    restore.abort();
    assert_eq!(counted(&db).await, (1..=300).collect::<Vec<i64>>());
}

#[tokio::test]
async fn a_streams_events_stay_in_order_while_it_is_being_answered() {
    let db = Db::new();
    let bus = bus(&db, batched(7)).await;
    let stream = Uuid::now_v7();
    let counting = Counting::new(&db, "projection:order", batched(7), nothing()).await;
    let subscription = bus.subscribe(counting).await.unwrap();
    for n in 0..100 {
        bus.store().append(&Append::to(stream).event(note(n.to_string()))).await.unwrap();
    }
    subscription.caught_up().await.unwrap();
    let mut connection = db.connection().await;
    let texts: Vec<String> =
        sqlx::query_scalar("SELECT text FROM counted ORDER BY n").fetch_all(&mut connection).await.unwrap();
    assert_eq!(texts, (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
}

/// A full disk is no fault of the event that meets it: however long it lasts, nothing is put to the dead letters.
#[tokio::test]
async fn an_event_that_meets_a_full_disk_waits_until_there_is_room() {
    const ATTEMPTS: u32 = 6;
    let db = Db::new();
    let act: Act = Box::new(|tx, _, call| {
        Box::pin(async move {
            if call < ATTEMPTS {
                let full = "DO $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$";
                // As an application would, with its own words around it.
                sqlx::raw_sql(full)
                    .execute(&mut **tx)
                    .await
                    .map_err(|source| Error::Aborted { source: source.into() })?;
            }
            Ok(())
        })
    });
    let bus = bus(&db, quick()).await;
    let counting = Counting::new(&db, "projection:counted", quick(), act).await;
    let subscription = bus.subscribe(counting.clone()).await.unwrap();
    let done = say(bus.store(), "a").await;
    bus.wait_for_within("projection:counted", GlobalSequence(done), Duration::from_secs(60)).await.unwrap();
    assert!(counting.calls.load(Ordering::SeqCst) > ATTEMPTS);
    assert_eq!(counted(&db).await, [1]);
    assert!(dead_letters(&bus).await.is_empty());
    subscription.unsubscribe().await.unwrap();
}

#[tokio::test]
async fn handlers_that_hang_in_all_transactions_keep_no_other_subscribers_dead_letter_waiting() {
    let db = Db::new();
    let store = db.store_with(PgConfig { transaction_connections_max: 2, ..db.config() }).await;
    let bus = PgEventBus::with_config(store, ReliableDeliveryConfig { max_retries: 0, ..quick() });
    let (hangs, mut hanging) = tokio::sync::mpsc::unbounded_channel();
    for id in ["projection:hangs", "projection:hangs-too"] {
        let hangs = hangs.clone();
        let hang: Act = Box::new(move |_, _, _| {
            hangs.send(()).unwrap();
            Box::pin(std::future::pending())
        });
        bus.subscribe(Counting::new(&db, id, quick(), hang).await).await.unwrap();
    }
    let failing = Recorder::new("projection:fails");
    failing.fail("x", u32::MAX);
    let at = say(bus.store(), "x").await;
    for _ in 0..2 {
        hanging.recv().await.unwrap();
    }
    bus.subscribe(failing.clone()).await.unwrap();
    let within = Duration::from_secs(8);
    let waited =
        bus.wait_for_within("projection:fails", GlobalSequence(at), within).await.expect("its dead letter is written");
    let dead_letter = waited.dead_letter.expect("it is written").id;
    // Nor what becomes of it: replayed in vain, then with success, and another one discarded.
    let done = async |filed: highwater::operations::Filed<'_>| {
        tokio::time::timeout(within, filed.done()).await.unwrap().unwrap()
    };
    let queue = bus.dead_letters();
    assert_eq!(done(queue.replay(dead_letter).await.unwrap()).await.failed, 1);
    failing.fail("x", 0);
    assert_eq!(done(queue.replay(dead_letter).await.unwrap()).await.done, 1);
    assert_eq!(failing.texts(), ["x"]);
    failing.fail("y", u32::MAX);
    let at = say(bus.store(), "y").await;
    let waited = bus.wait_for_within("projection:fails", GlobalSequence(at), within).await.unwrap();
    let discarded = queue.discard(waited.dead_letter.unwrap().id, "not needed").await.unwrap();
    assert_eq!(done(discarded).await.done, 1);
}

#[tokio::test]
async fn commits_that_take_long_do_not_make_transactions_small() {
    let db = Db::new();
    let bus = bus(&db, quick()).await;
    say_many(bus.store(), 1_000).await;
    let config = ReliableDeliveryConfig {
        checkpoint_mode: highwater::CheckpointMode::Batched { size: 500, interval: Duration::from_millis(100) },
        ..quick()
    };
    let counting = Counting::new(&db, "projection:slow", config, nothing()).await;
    // As a replica far away does it: each commit takes 150 ms, whatever is in it.
    let slow = "CREATE FUNCTION {s}.wait_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF current_setting('test.waited', true) IS DISTINCT FROM pg_current_xact_id()::text THEN
                PERFORM set_config('test.waited', pg_current_xact_id()::text, true), pg_sleep(0.15);
            END IF;
            RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER wait_once AFTER INSERT ON {s}.counted DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION {s}.wait_once()";
    db.execute(&mut db.connection().await, slow).await;
    let subscription = bus.subscribe(counting).await.unwrap();
    subscription.caught_up().await.unwrap();
    let mut connection = db.connection().await;
    let transactions: i64 =
        sqlx::query_scalar("SELECT count(DISTINCT xmin::text) FROM counted").fetch_one(&mut connection).await.unwrap();
    assert_eq!(counted(&db).await.len(), 1_000);
    // At first they grow. With small ones it would be hundreds.
    assert!(transactions <= 40, "{transactions} transactions for 1,000 events");
}

#[tokio::test]
async fn state_in_memory_is_refused_because_the_database_outlives_it() {
    let db = Db::new();
    highwater_contract::assert_state_in_memory_is_refused(&bus(&db, quick()).await).await;
}
