//! The tables of delivery, made or adopted.

use highwater::backend::Log;
use highwater::{Append, Claim};

use super::*;

/// The tables before there were terms.
const OLD: &str = "CREATE TABLE {s}.event_bus_checkpoints (subscriber_id varchar(255) PRIMARY KEY,
        last_global_sequence bigint NOT NULL DEFAULT 0, last_event_id uuid NOT NULL,
        updated_at timestamptz NOT NULL DEFAULT now());
    CREATE TABLE {s}.event_bus_dlq (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), subscriber_id varchar(255) NOT NULL,
        event_id uuid NOT NULL, global_sequence bigint NOT NULL, error_message text, retry_count integer NOT NULL DEFAULT 0,
        created_at timestamptz NOT NULL DEFAULT now(), last_retry_at timestamptz,
        CONSTRAINT unique_subscriber_event UNIQUE (subscriber_id, event_id));
    CREATE INDEX idx_dlq_subscriber ON {s}.event_bus_dlq (subscriber_id);
    CREATE INDEX idx_dlq_created_at ON {s}.event_bus_dlq (created_at)";

#[tokio::test]
async fn tables_from_before_there_were_terms_are_adopted_with_what_they_hold() {
    let db = Db::new();
    let store = db.store().await;
    let stream_id = Uuid::now_v7();
    store.append(&Append::to(stream_id).event(note("hello"))).await.unwrap();
    let record = page(&store, 0).await.records.remove(0);
    let gone = Uuid::now_v7();
    let mut connection = db.connection().await;
    db.back_to(&mut connection, 2).await;
    db.execute(&mut connection, OLD).await;
    let rows = format!(
        "INSERT INTO {{s}}.event_bus_checkpoints VALUES ('s', 41, '{}');
         INSERT INTO {{s}}.event_bus_dlq (subscriber_id, event_id, global_sequence, error_message, retry_count)
         VALUES ('s', '{}', 1, 'no', 3), ('s', '{gone}', 2, 'never', 5)",
        record.id, record.id,
    );
    db.execute(&mut connection, &rows).await;
    let planned = highwater::backend::Diagnose::planned(&store).await.unwrap();
    assert!(planned[0].does.contains("adopts"), "{planned:?}");
    store.initialize().await.unwrap();

    let taken = store.take_over(&Claim::of("s")).await.unwrap();
    assert_eq!((taken.fresh, taken.checkpoint.global_sequence), (false, 41));
    let fence = taken.checkpoint.fence();
    let dead_letters = store.dead_letters(&DeadLetterQuery::of("s")).await.unwrap();
    let seen: Vec<_> = dead_letters.iter().map(|l| (l.stream_id, &*l.event_type, l.retry_count, l.state)).collect();
    assert_eq!(seen, [(stream_id, "Noted", 3, DeadLetterState::Dead), (Uuid::nil(), "", 5, DeadLetterState::Dead)]);
    assert_eq!(store.dead_letter(dead_letters[0].id).await.unwrap().unwrap().record, Some(record.clone()));
    // And they are ordinary tables from here on.
    close(&store, &fence, Closing::Discarded { dead_letter: dead_letters[1].id, by: "me", reason: "gone" })
        .await
        .unwrap();
    let again = NewDeadLetter { event_id: record.id, ..failure(stream_id, 42, "again") };
    let (again, _) = bury(&store, &fence, &again).await;
    assert_eq!((again.id, again.error_message.as_deref()), (dead_letters[0].id, Some("again")));
    close(&store, &fence, Closing::Reset { to: 0, by: "me", nonce: Uuid::now_v7(), setup_version: None })
        .await
        .unwrap();
    assert_eq!(at(&store, "s").await, Some(0));
    store.initialize().await.unwrap();
}

#[tokio::test]
async fn adopted_dead_letters_without_a_unique_key_get_one() {
    let db = Db::new();
    let store = db.store().await;
    let mut connection = db.connection().await;
    db.back_to(&mut connection, 2).await;
    db.execute(&mut connection, OLD).await;
    db.execute(&mut connection, "ALTER TABLE {s}.event_bus_dlq DROP CONSTRAINT unique_subscriber_event").await;
    store.initialize().await.unwrap();
    let fence = take_over(&store, "s").await;
    let dead_letter = failure(Uuid::now_v7(), 1, "no");
    let (first, _) = bury(&store, &fence, &dead_letter).await;
    let (second, _) = bury(&store, &fence, &dead_letter).await;
    assert_eq!(first.id, second.id);
    assert_eq!(store.count_dead_letters(&all_of("s")).await.unwrap(), 1);
}

#[tokio::test]
async fn each_table_is_adopted_also_without_the_other() {
    for kept in ["event_bus_checkpoints", "event_bus_dlq"] {
        let db = Db::new();
        let store = db.store().await;
        let mut connection = db.connection().await;
        db.back_to(&mut connection, 2).await;
        db.execute(&mut connection, OLD).await;
        for gone in ["event_bus_checkpoints", "event_bus_dlq"].iter().filter(|table| **table != kept) {
            db.execute(&mut connection, &format!("DROP TABLE {{s}}.{gone}")).await;
        }
        store.initialize().await.unwrap();
        let fence = take_over(&store, "s").await;
        bury(&store, &fence, &failure(Uuid::now_v7(), 1, "no")).await;
        assert_eq!(store.count_dead_letters(&all_of("s")).await.unwrap(), 1, "{kept}");
    }
}

#[tokio::test]
async fn checkpoints_can_be_updated_in_place() {
    let db = Db::new();
    db.store().await;
    let room: bool = sqlx::query_scalar(
        "SELECT 'fillfactor=40' = ANY (reloptions) FROM pg_class WHERE oid = 'event_bus_checkpoints'::regclass",
    )
    .fetch_one(&mut db.connection().await)
    .await
    .unwrap();
    assert!(room, "a page has room for the next version of its rows");
    let indexes: i64 =
        sqlx::query_scalar("SELECT count(*) FROM pg_index WHERE indrelid = 'event_bus_checkpoints'::regclass")
            .fetch_one(&mut db.connection().await)
            .await
            .unwrap();
    assert_eq!(indexes, 1, "an index on what is written would make every update touch it");
}

#[tokio::test]
async fn what_is_not_a_request_or_a_state_cannot_be_stored_by_hand() {
    let db = Db::new();
    db.store().await;
    let mut connection = db.connection().await;
    for sql in [
        "INSERT INTO {s}.event_bus_requests (id, subscriber_id, kind, requested_by)
         VALUES (gen_random_uuid(), 's', 'dance', 'me')",
        "INSERT INTO {s}.event_bus_requests (id, subscriber_id, kind, requested_by)
         VALUES (gen_random_uuid(), 's', 'replay', 'me')",
        "INSERT INTO {s}.event_bus_dlq (subscriber_id, event_id, global_sequence, stream_id, event_type, state)
         VALUES ('s', gen_random_uuid(), 1, gen_random_uuid(), 'x', 'undead')",
    ] {
        let refused = db.try_execute(&mut connection, sql).await.unwrap_err();
        assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "23514", "{sql}");
    }
}
