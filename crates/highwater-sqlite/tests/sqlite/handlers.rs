//! Handlers that are handed their transaction, and what they may do in it.

use std::time::Duration;

use highwater::backend::{Checkpoints, DeadLetters, Log};
use highwater::operations::DeadLetterQuery;
use highwater::{
    BoxError, Event, FailurePolicy, GlobalSequence, ReliableDeliveryConfig, SubscriberOptions, SubscriptionState,
    TransactionalProjection, observer_fn,
};
use highwater_sqlite::{SqliteConfig, SqliteEventBus, SqliteEventStore, SqliteTx};

use crate::support::{Folder, Note, eventually, one, quick, say, sequences};

const MARKS: &str = "projection:marks";

/// Marks every event, and does what that says.
struct Marks(SqliteEventStore, FailurePolicy);

impl TransactionalProjection<Note, SqliteTx> for Marks {
    fn subscriber_id(&self) -> &str {
        MARKS
    }

    fn options(&self) -> SubscriberOptions {
        SubscriberOptions::new().max_retries(1).on_failure(self.1)
    }

    async fn apply(&self, tx: &mut SqliteTx, event: &Event<Note>) -> Result<(), BoxError> {
        let mark = sqlx::query("INSERT INTO marks VALUES ($1)").bind(event.global_sequence.unwrap() as i64);
        mark.execute(&mut **tx).await?;
        let Note::Noted { text } = &event.data else { return Ok(()) };
        match &**text {
            "append" => {
                self.0.append(&one()).await?;
            }
            "append on" => {
                // The bus announces it.
                let (_, _announcement) = self.0.append_on(tx, &one()).await?;
            }
            "roll back" => {
                sqlx::query("ROLLBACK").execute(&mut **tx).await?;
            }
            "conflict" => {
                let conflict = sqlx::query("INSERT OR ROLLBACK INTO marks VALUES (0)").execute(&mut **tx).await;
                assert!(conflict.is_err());
            }
            "conflict and more" => {
                let conflict = sqlx::query("INSERT OR ROLLBACK INTO marks VALUES (0)").execute(&mut **tx).await;
                assert!(conflict.is_err());
                self.0.append_on(tx, &one()).await?.1.send();
            }
            "owe" => {
                sqlx::query("INSERT INTO owed VALUES (-1)").execute(&mut **tx).await?;
            }
            _ => {}
        }
        Ok(())
    }
}

async fn prepared(folder: &Folder) -> SqliteEventStore {
    let config = SqliteConfig { watch_interval: Duration::from_secs(86_400), ..SqliteConfig::default() };
    let store = folder.store_with(config).await;
    for table in [
        "CREATE TABLE marks (at INTEGER PRIMARY KEY) STRICT",
        "INSERT INTO marks VALUES (0)",
        "CREATE TABLE owed (at INTEGER REFERENCES marks (at) DEFERRABLE INITIALLY DEFERRED) STRICT",
    ] {
        sqlx::query(table).execute(store.pool()).await.unwrap();
    }
    store
}

async fn marks(store: &SqliteEventStore) -> Vec<i64> {
    let marks = sqlx::query_scalar("SELECT at FROM marks WHERE at > 0 ORDER BY at");
    marks.fetch_all(store.pool()).await.unwrap()
}

/// An event whose handler does this goes the way of failures, and others are handled before and after.
async fn goes_the_way_of_failures(doing: &str, words: &str) {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let bus = SqliteEventBus::with_config(store.clone(), quick());
    for text in ["good", doing, "good"] {
        say(&store, text).await;
    }
    let subscription = bus.subscribe(Marks(store.clone(), FailurePolicy::DeadLetter)).await.unwrap();
    subscription.caught_up().await.unwrap();
    assert_eq!(marks(&store).await, [1, 3], "{doing}");
    assert_eq!(sequences(&store).await, [1, 2, 3], "{doing}: nothing was appended");
    let dead_letters = store.dead_letters(&DeadLetterQuery::of(MARKS)).await.unwrap();
    let [dead_letter] = &dead_letters[..] else { panic!("{doing}: {dead_letters:?}") };
    assert_eq!((dead_letter.global_sequence, dead_letter.retry_count), (2, 1), "{doing}: it was retried");
    let said = format!("{:?}", dead_letter.error_message);
    assert!(said.contains(words), "{doing}: {said}");
    bus.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_would_wait_for_its_own_handler_is_a_failure_of_that() {
    goes_the_way_of_failures("append", "would wait for itself").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_ends_its_transaction_fails() {
    for doing in ["roll back", "conflict", "conflict and more"] {
        goes_the_way_of_failures(doing, "has ended the transaction").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_leaves_a_constraint_violated_fails() {
    goes_the_way_of_failures("owe", "FOREIGN KEY").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_stays_where_the_handler_s_writes_are() {
    for doing in ["roll back", "conflict", "owe"] {
        let folder = Folder::new();
        let store = prepared(&folder).await;
        let bus = SqliteEventBus::with_config(store.clone(), quick());
        for text in ["good", doing, "good"] {
            say(&store, text).await;
        }
        let subscription = bus.subscribe(Marks(store.clone(), FailurePolicy::Halt)).await.unwrap();
        eventually("it halts", async || matches!(subscription.state(), SubscriptionState::Halted { .. })).await;
        assert_eq!(store.checkpoint(MARKS).await.unwrap().unwrap().global_sequence, 1, "{doing}");
        assert_eq!(marks(&store).await, [1], "{doing}");
        bus.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_on_the_handed_transaction_is_stored_with_it_and_wakes_others() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let config = ReliableDeliveryConfig { poll_interval: Duration::from_secs(60), ..quick() };
    let bus = SqliteEventBus::with_config(store.clone(), config);
    let all = observer_fn("projection:all", |_: Event<Note>| async { Ok::<_, BoxError>(()) });
    bus.subscribe(all).await.unwrap().caught_up().await.unwrap();
    bus.subscribe(Marks(store.clone(), FailurePolicy::DeadLetter)).await.unwrap().caught_up().await.unwrap();
    let at = say(&store, "append on").await;
    bus.wait_for("projection:all", GlobalSequence(at + 1)).await.unwrap();
    bus.wait_for(MARKS, GlobalSequence(at + 1)).await.unwrap();
    assert_eq!(marks(&store).await, [1, 2]);
    assert_eq!(sequences(&store).await, [1, 2]);
    bus.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_whose_dead_letters_are_deleted_by_hand_continue_without_a_restart() {
    let folder = Folder::new();
    let store = prepared(&folder).await;
    let bus = SqliteEventBus::with_config(store.clone(), quick());
    bus.subscribe(Marks(store.clone(), FailurePolicy::ParkStream)).await.unwrap();
    let stream = uuid::Uuid::now_v7();
    let append = async |text: &str| {
        let append = highwater::Append::to(stream).event(crate::support::note(text));
        store.append(&append).await.unwrap().global_sequence
    };
    for delete in ["DELETE FROM event_bus_dlq", "DELETE FROM event_bus_dlq WHERE state = 'dead'"] {
        append("conflict").await;
        let behind = append("behind").await;
        bus.wait_for(MARKS, GlobalSequence(behind)).await.unwrap();
        assert_eq!(bus.dead_letters().count(&DeadLetterQuery::default()).await.unwrap(), 2);
        sqlx::query(delete).execute(store.pool()).await.unwrap();
        let after = append("after").await;
        bus.wait_for(MARKS, GlobalSequence(after)).await.unwrap();
        // Parked, if at all, only until it is noticed that there is nothing to wait behind.
        eventually("it waits behind nothing", async || {
            bus.dead_letters().count(&DeadLetterQuery::default()).await.unwrap() == 0
        })
        .await;
        assert_eq!(marks(&store).await.last(), Some(&(after as i64)), "it was handled");
    }
}

#[tokio::test]
async fn state_in_memory_is_refused_because_the_file_outlives_it() {
    let folder = Folder::new();
    highwater_contract::assert_state_in_memory_is_refused(&SqliteEventBus::new(folder.store().await)).await;
}
