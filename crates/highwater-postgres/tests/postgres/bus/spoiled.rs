//! Handlers that spoil the transaction that they were handed: it costs them the event, and nobody else anything.

use highwater::{GlobalSequence, ReliableDeliveryConfig};

use super::handlers::{Act, Counting, counted, dead_letters};
use super::{bus, quick, say};
use crate::roles::Roles;
use crate::support::{Db, Note};

/// Runs statements where the event says that it is bad.
fn where_it_is_bad(sql: String) -> Act {
    Box::new(move |tx, event, _| {
        let sql = sql.clone();
        Box::pin(async move {
            if matches!(&event.data, Note::Noted { text } if text == "bad") {
                sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut **tx).await?;
            }
            Ok(())
        })
    })
}

/// Of three events the one in the middle is bad, and becomes a dead letter; the others are handled.
async fn only_the_bad_one_pays(db: &Db, id: &'static str, sql: &str) -> String {
    let config = ReliableDeliveryConfig { max_retries: 1, ..quick() };
    let bus = bus(db, config.clone()).await;
    let counting = Counting::new(db, id, config, where_it_is_bad(sql.replace("{s}", &db.schema))).await;
    let mut last = 0;
    for text in ["a", "bad", "b"] {
        last = say(bus.store(), text).await;
    }
    bus.subscribe(counting).await.unwrap();
    let waited = bus.wait_for(id, GlobalSequence(last)).await;
    let dead_letters = dead_letters(&bus).await;
    waited.unwrap_or_else(|error| panic!("{sql}: {error:?}, {dead_letters:?}"));
    let others: Vec<i64> = counted(db).await.into_iter().filter(|at| *at != 2).collect();
    assert_eq!((others, dead_letters.len()), (vec![1, 3], 1), "{sql}");
    bus.shutdown().await.unwrap();
    dead_letters.into_iter().next().unwrap()
}

#[tokio::test]
async fn whatever_a_deferred_trigger_raises_at_the_commit_is_the_handlers_failure() {
    for raise in [
        "RAISE EXCEPTION 'no such customer'",
        "PERFORM 1 / 0",
        "PERFORM FROM no_such_table",
        "RAISE EXCEPTION USING ERRCODE = '42501'",
    ] {
        let db = Db::new();
        db.store().await;
        let sql = "CREATE TABLE {s}.children (parent bigint);
             CREATE FUNCTION {s}.checked() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE; RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER checked AFTER INSERT ON {s}.children DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW EXECUTE FUNCTION {s}.checked()";
        db.execute(&mut db.connection().await, &sql.replace("RAISE;", &format!("{raise};"))).await;
        only_the_bad_one_pays(&db, "projection:deferred", "INSERT INTO \"{s}\".children VALUES (7)").await;
    }
}

#[tokio::test]
async fn what_a_handler_does_to_its_transaction_costs_it_that_event_and_no_other() {
    let roles_of = Db::new();
    roles_of.store().await;
    let roles = Roles::create(&roles_of).await;
    for sql in [
        &format!("SET LOCAL ROLE {}reader", roles.0),
        "SET TRANSACTION READ ONLY",
        "ROLLBACK",
        "ROLLBACK; BEGIN",
        "ROLLBACK AND CHAIN",
        "COMMIT AND CHAIN",
        "COMMIT; BEGIN",
    ] {
        let db = Db::new();
        let said = only_the_bad_one_pays(&db, "projection:ends", sql).await;
        assert!(!said.contains("taken over"), "{sql}: {said}");
    }
    roles.drop(&roles_of).await;
}

#[tokio::test]
async fn a_replay_that_meets_a_deferred_trigger_fails_and_later_events_are_delivered() {
    let db = Db::new();
    db.store().await;
    let sql = "CREATE TABLE {s}.children (parent bigint);
         CREATE FUNCTION {s}.checked() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
         CREATE CONSTRAINT TRIGGER checked AFTER INSERT ON {s}.children DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION {s}.checked()";
    db.execute(&mut db.connection().await, sql).await;
    let config = ReliableDeliveryConfig { max_retries: 0, ..quick() };
    let bus = bus(&db, config.clone()).await;
    let insert = format!("INSERT INTO \"{}\".children VALUES (7)", db.schema);
    let counting = Counting::new(&db, "projection:replay", config, where_it_is_bad(insert)).await;
    let bad = say(bus.store(), "bad").await;
    bus.subscribe(counting).await.unwrap();
    let dead_letter = bus.wait_for("projection:replay", GlobalSequence(bad)).await.unwrap().dead_letter.unwrap();
    let replayed = bus.dead_letters().replay(dead_letter.id).await.unwrap().done().await.unwrap();
    assert_eq!((replayed.done, replayed.failed), (0, 1));
    let good = say(bus.store(), "good").await;
    bus.wait_for("projection:replay", GlobalSequence(good)).await.unwrap();
    assert_eq!(counted(&db).await, [good as i64]);
}
