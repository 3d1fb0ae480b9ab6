//! Events that other languages and people at a prompt write.

use highwater::backend::Log;
use highwater::{Append, EventStore};
use sqlx::Row;
use uuid::Uuid;

use crate::support::*;

#[tokio::test]
async fn rows_by_function_insert_and_copy_are_read_in_order_with_ours() {
    let db = Db::new();
    let store = db.store().await;
    let mut connection = db.connection().await;
    let stream = Uuid::now_v7();
    db.execute(&mut connection, &format!("SELECT * FROM {{s}}.append('{stream}', 'Noted', '{{\"text\":\"1\"}}')"))
        .await;
    store.append(&Append::to(stream).event(note("2"))).await.unwrap();
    db.execute(
        &mut connection,
        &format!(
            "INSERT INTO {{s}}.events (id, stream_id, stream_version, event_type, data)
             VALUES (gen_random_uuid(), '{stream}', 3, 'Noted', '{{\"text\":\"3\"}}')"
        ),
    )
    .await;
    let copy = format!("COPY {}.events (id, stream_id, stream_version, event_type, data) FROM STDIN", db.schema);
    let mut copying = connection.copy_in_raw(&copy).await.unwrap();
    let row = format!("{}\t{stream}\t4\tNoted\t{{\"text\":\"4\"}}\n", Uuid::now_v7());
    copying.send(row.as_bytes()).await.unwrap();
    copying.finish().await.unwrap();
    store.append(&Append::to(stream).event(note("5"))).await.unwrap();

    let events = store.read_all_events_since::<Note>(0).collect().await.unwrap();
    let texts: Vec<_> = events.iter().map(|event| event.data.clone()).collect();
    assert_eq!(texts, ["1", "2", "3", "4", "5"].map(note));
    assert!(events.iter().zip(1..).all(|(event, version)| event.stream_version == version));
}

#[tokio::test]
async fn copy_and_the_function_in_open_transactions_hold_readers_back() {
    let db = Db::new();
    let store = db.store().await;
    for by_copy in [true, false] {
        let mut connection = db.connection().await;
        db.execute(&mut connection, "BEGIN").await;
        if by_copy {
            let copy =
                format!("COPY {}.events (id, stream_id, stream_version, event_type, data) FROM STDIN", db.schema);
            let mut copying = connection.copy_in_raw(&copy).await.unwrap();
            let row = format!("{}\t{}\t1\tNoted\t{{\"text\":\"copied\"}}\n", Uuid::now_v7(), Uuid::now_v7());
            copying.send(row.as_bytes()).await.unwrap();
            copying.finish().await.unwrap();
        } else {
            db.execute(&mut connection, "SELECT {s}.append(gen_random_uuid(), 'Noted', '{\"text\":\"called\"}')").await;
        }
        let last = store.append(&one()).await.unwrap().global_sequence;
        assert_eq!(page(&store, last - 2).await.complete_to, last - 2);
        db.execute(&mut connection, "COMMIT").await;
        assert_eq!(numbers(&page(&store, last - 2).await), [last - 1, last]);
    }
}

#[tokio::test]
async fn the_function_checks_expectations_and_ids_like_the_library() {
    let db = Db::new();
    let store = db.store().await;
    let mut connection = db.connection().await;
    let (stream, id) = (Uuid::now_v7(), Uuid::now_v7());
    let call = |stream: Uuid, data: &str, expected: &str, id: Uuid| {
        format!(
            "SELECT global_sequence, stream_version FROM {}.append('{stream}', 'Noted', '{{\"text\":\"{data}\"}}', expected => {expected}, id => '{id}')",
            db.schema
        )
    };
    let run = async |connection: &mut sqlx::PgConnection, sql: String| {
        let row = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_one(connection).await;
        row.map(|row| (row.get::<i64, _>(0), row.get::<i64, _>(1))).map_err(|error| {
            error.as_database_error().and_then(|error| error.code().map(|code| code.into_owned())).unwrap()
        })
    };
    assert_eq!(run(&mut connection, call(stream, "a", "0", id)).await, Ok((1, 1)));
    // The same again is the same, though the stream exists by now.
    assert_eq!(run(&mut connection, call(stream, "a", "0", id)).await, Ok((1, 1)));
    assert_eq!(run(&mut connection, call(stream, "b", "0", id)).await, Err("HW003".to_owned()));
    assert_eq!(run(&mut connection, call(Uuid::now_v7(), "a", "0", id)).await, Err("HW003".to_owned()));
    assert_eq!(run(&mut connection, call(stream, "a", "0", Uuid::now_v7())).await, Err("HW001".to_owned()));
    assert_eq!(run(&mut connection, call(stream, "a", "7", Uuid::now_v7())).await, Err("HW001".to_owned()));
    assert!(run(&mut connection, call(stream, "a", "1", Uuid::now_v7())).await.is_ok_and(|done| done.1 == 2));
    assert!(run(&mut connection, call(stream, "a", "-1", Uuid::now_v7())).await.is_ok_and(|done| done.1 == 3));
    assert!(run(&mut connection, call(stream, "a", "NULL", Uuid::now_v7())).await.is_ok_and(|done| done.1 == 4));
    assert_eq!(store.read_events::<Note>(stream).collect().await.unwrap().len(), 4);
}

#[tokio::test]
async fn the_function_refuses_escapes_that_cannot_be_read_back_and_nothing_that_looks_like_one() {
    let db = Db::new();
    let store = db.store().await;
    let mut connection = db.connection().await;
    let call =
        format!("SELECT * FROM {}.append(gen_random_uuid(), 'Noted', $1::json, metadata => $2::json)", db.schema);
    let call = async |connection: &mut sqlx::PgConnection, data: &str, metadata: &str| {
        let called = sqlx::query(sqlx::AssertSqlSafe(call.clone())).bind(data).bind(metadata).execute(connection).await;
        called.map(drop).map_err(|error| error.as_database_error().unwrap().code().unwrap().into_owned())
    };
    let escapes = [r"\u0000", r"\\\u0000", r"\ud800", r"\uD800\u0041", r"\udc00\ud800", r"\ud83d\\\ude00"];
    for wrong in escapes {
        for json in [format!(r#"{{"text":"{wrong}"}}"#), format!(r#"{{"a":[[{{"{wrong}":1}}]]}}"#)] {
            assert_eq!(call(&mut connection, &json, "{}").await, Err("HW008".to_owned()), "{json}");
            assert_eq!(call(&mut connection, "1", &json).await, Err("HW008".to_owned()), "{json}");
        }
    }
    // Whatever a backslash means in the caller's own strings.
    db.execute(&mut connection, "SET standard_conforming_strings = off").await;
    assert_eq!(call(&mut connection, r#""\u0000""#, "{}").await, Err("HW008".to_owned()));
    let right = r#"{"text":"\u00e4 \ud83d\ude00 \\u0000 \\\\ud800","n":1e99999}"#;
    assert_eq!(call(&mut connection, right, "{}").await, Ok(()));
    assert_eq!(page(&store, 0).await.records[0].data, right);
}

#[tokio::test]
async fn the_function_makes_its_transaction_durable_and_mortal() {
    let db = Db::new();
    db.store().await;
    let mut connection = db.connection().await;
    db.execute(&mut connection, "SET synchronous_commit = off").await;
    db.execute(&mut connection, "BEGIN").await;
    db.execute(&mut connection, "SELECT {s}.append(gen_random_uuid(), 'Noted', 'null')").await;
    let show = async |connection: &mut sqlx::PgConnection, name: &str| -> String {
        sqlx::query_scalar("SELECT current_setting($1)").bind(name).fetch_one(connection).await.unwrap()
    };
    assert_eq!(show(&mut connection, "synchronous_commit").await, "on");
    assert_eq!(show(&mut connection, "idle_in_transaction_session_timeout").await, "5s");
    db.execute(&mut connection, "COMMIT").await;
    assert_eq!(show(&mut connection, "synchronous_commit").await, "off");
}

#[tokio::test]
async fn a_number_of_ones_own_is_refused() {
    let db = Db::new();
    db.store().await;
    let mut connection = db.connection().await;
    let own = "INSERT INTO {s}.events (global_sequence, id, stream_id, stream_version, event_type, data)
        VALUES (1000, gen_random_uuid(), gen_random_uuid(), 1, 'Noted', 'null')";
    let refused = db.try_execute(&mut connection, own).await.unwrap_err();
    assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "428C9");
}

#[tokio::test]
async fn a_function_called_in_a_transaction_with_an_old_snapshot_breaks_no_stream() {
    let db = Db::new();
    let store = db.store().await;
    let stream = Uuid::now_v7();
    let call = format!("SELECT * FROM {{s}}.append('{stream}', 'Noted', '{{\"text\":\"late\"}}')");
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let mut connection = db.connection().await;
        db.execute(&mut connection, &format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM {{s}}.events")).await;
        store.append(&Append::to(stream).event(note("meanwhile"))).await.unwrap();
        let refused = db.try_execute(&mut connection, &call).await.unwrap_err();
        assert_eq!(refused.as_database_error().and_then(|error| error.code()).as_deref(), Some("HW001"), "{refused:?}");
        db.execute(&mut connection, "ROLLBACK").await;
    }
    assert_eq!(sequences(&store).await.len(), 2);
}

#[tokio::test]
async fn names_that_sql_gives_can_be_used_by_everybody() {
    let db = Db::new();
    let store = db.store().await;
    let mut connection = db.connection().await;
    let call = format!(
        "SELECT * FROM {}.append(gen_random_uuid(), 'Noted', '{{\"text\":\"a\"}}', stream_name => $1)",
        db.schema
    );
    let call = async |connection: &mut sqlx::PgConnection, name: &str| {
        let called = sqlx::query(sqlx::AssertSqlSafe(call.clone())).bind(name).execute(connection).await;
        called.map(drop).map_err(|error| error.as_database_error().unwrap().code().unwrap().into_owned())
    };
    let long = |bytes: usize| format!("order/{}", "x".repeat(bytes - 6));
    for name in ["order/17", "rad/größe 7/b", &long(127)] {
        assert_eq!(call(&mut connection, name).await, Ok(()), "{name}");
        let last = store.read_all_events_since::<Note>(0).collect().await.unwrap().pop().unwrap();
        assert_eq!(last.stream().to_string(), name);
    }
    for name in ["", "order", "/17", "order/", "order/1\u{7}7", &long(128)] {
        assert_eq!(call(&mut connection, name).await, Err("HW008".to_owned()), "{name}");
    }
    let longer = "INSERT INTO {s}.events (id, stream_id, stream_version, event_type, data, stream_name)
        VALUES (gen_random_uuid(), gen_random_uuid(), 1, 'Noted', 'null', repeat('x', 1001))";
    let longer = longer.replace("{s}", &db.schema);
    assert!(sqlx::raw_sql(sqlx::AssertSqlSafe(longer)).execute(&mut connection).await.is_err(), "it cannot be copied");
}
