//! The fenced transaction: everything with the checkpoint, or nothing.

use std::time::{Duration, Instant};

use super::*;

const MODEL: &str = "CREATE TABLE {s}.model (n integer PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)";

/// A store with a table that a handler could keep, and a subscriber.
async fn with_model(db: &Db) -> (PgEventStore, Fence) {
    let store = db.store().await;
    db.execute(&mut db.connection().await, MODEL).await;
    let fence = take_over(&store, "s").await;
    (store, fence)
}

async fn handle(db: &Db, tx: &mut OpenTx, n: u32) {
    db.execute(inside(tx), &format!("INSERT INTO {{s}}.model VALUES ({n})")).await;
}

async fn model(db: &Db) -> Vec<i32> {
    sqlx::query_scalar("SELECT n FROM model ORDER BY n").fetch_all(&mut db.connection().await).await.unwrap()
}

fn advance(from: u64, to: u64) -> Closing<'static> {
    Closing::Advance { from, to, event_id: None }
}

/// Where a transaction that begins now finds the checkpoint.
async fn begins_at(store: &PgEventStore, fence: &Fence) -> u64 {
    let begun = Backend::begin(store, fence, Opening::Handler, None).await.unwrap();
    store.rollback(begun.tx, false).await;
    begun.global_sequence
}

#[tokio::test]
async fn what_a_handler_wrote_and_the_checkpoint_become_visible_together() {
    let db = Db::new();
    let (store, fence) = with_model(&db).await;
    let begun = Backend::begin(&store, &fence, Opening::Handler, None).await.unwrap();
    assert_eq!((begun.global_sequence, begun.dead_letter_open), (0, true));
    let mut tx = begun.tx;
    handle(&db, &mut tx, 1).await;
    assert_eq!((model(&db).await, at(&store, "s").await), (vec![], Some(0)));
    let event_id = Some(Uuid::now_v7());
    let closed = store.commit(tx, &fence, Closing::Advance { from: 0, to: 7, event_id }).await.unwrap();
    assert_eq!(closed, Closed { term: fence.term, parked_left: 0 });
    assert_eq!(model(&db).await, [1]);
    let stored = store.checkpoint("s").await.unwrap().unwrap();
    assert_eq!((stored.global_sequence, stored.event_id), (7, event_id));
    assert_eq!(begins_at(&store, &fence).await, 7);
}

#[tokio::test]
async fn a_transaction_begins_only_under_the_term_that_holds() {
    let db = Db::new();
    let (store, fence) = with_model(&db).await;
    for bad in [other_number(&fence), other_nonce(&fence)] {
        let refused = Backend::begin(&store, &bad, Opening::Handler, None).await.unwrap_err();
        assert!(
            matches!(&refused, Error::Fenced { term: Some(term), .. } if *term == fence.term.number),
            "{refused:?}"
        );
    }
    let bad = Fence { incarnation: fence.incarnation - 1, ..fence.clone() };
    let refused = Backend::begin(&store, &bad, Opening::Handler, None).await.unwrap_err();
    assert!(matches!(refused, Error::Interrupted { .. }), "{refused:?}");
    // Nothing of that holds the checkpoint.
    let later = take_over(&store, "s").await;
    assert!(matches!(
        Backend::begin(&store, &fence, Opening::Handler, None).await,
        Err(Error::Fenced { term: Some(_), .. })
    ));
    db.execute(&mut db.connection().await, "DELETE FROM {s}.event_bus_checkpoints").await;
    let refused = Backend::begin(&store, &later, Opening::Handler, None).await.unwrap_err();
    assert!(matches!(refused, Error::Fenced { term: None, .. }), "{refused:?}");
}

#[tokio::test]
async fn a_transaction_commits_only_from_where_it_began() {
    let db = Db::new();
    let (store, fence) = with_model(&db).await;
    for (closing, sabotage) in [
        (advance(4, 7), "SELECT 1"),
        (advance(0, 7), "UPDATE {s}.event_bus_checkpoints SET last_global_sequence = 1"),
        (advance(0, 7), "UPDATE {s}.event_bus_checkpoints SET term = 0"),
        (advance(0, 7), "UPDATE {s}.event_bus_checkpoints SET nonce = gen_random_uuid()"),
        (advance(0, 7), "DELETE FROM {s}.event_bus_checkpoints"),
    ] {
        let mut tx = begin(&store, &fence).await;
        handle(&db, &mut tx, 1).await;
        db.execute(inside(&mut tx), sabotage).await;
        let refused = store.commit(tx, &fence, closing).await.unwrap_err();
        assert!(
            matches!(&refused, Error::Fenced { term: Some(term), .. } if *term == fence.term.number),
            "{refused:?}"
        );
        assert_eq!((model(&db).await, at(&store, "s").await), (vec![], Some(0)), "{sabotage}");
    }
}

#[tokio::test]
async fn a_handler_that_swallowed_an_error_commits_nothing_and_is_told() {
    let db = Db::new();
    let (store, fence) = with_model(&db).await;
    let mut tx = begin(&store, &fence).await;
    handle(&db, &mut tx, 1).await;
    db.try_execute(inside(&mut tx), "SELECT 1 / 0").await.unwrap_err();
    let told = store.commit(tx, &fence, advance(0, 7)).await.unwrap_err();
    assert!(matches!(told, Error::Aborted { .. }), "{told:?}");
    assert_eq!((model(&db).await, at(&store, "s").await), (vec![], Some(0)));
}

#[tokio::test]
async fn a_handler_that_ended_its_transaction_moves_no_checkpoint_and_resolves_no_dead_letter() {
    let db = Db::new();
    let (store, fence) = with_model(&db).await;
    let (dead_letter, _) = bury(&store, &fence, &failure(Uuid::now_v7(), 3, "no")).await;
    let reset = Closing::Reset { to: 0, by: "me", nonce: Uuid::now_v7(), setup_version: None };
    for closing in [advance(3, 7), Closing::Replayed { dead_letter: dead_letter.id, by: "me" }, reset] {
        for end in ["ROLLBACK", "COMMIT", "ROLLBACK; BEGIN", "ROLLBACK; BEGIN; UPDATE {s}.model SET n = n"] {
            let mut tx = begin(&store, &fence).await;
            db.execute(inside(&mut tx), end).await;
            let told = store.commit(tx, &fence, closing).await.unwrap_err();
            let begun_anew = end.contains("BEGIN");
            let fits = matches!(told, Error::Aborted { .. }) || begun_anew && matches!(told, Error::Fenced { .. });
            assert!(fits, "{end} {closing:?}: {told:?}");
            assert_eq!(at(&store, "s").await, Some(3), "{end} {closing:?}");
            assert_eq!(store.dead_letters(&DeadLetterQuery::of("s")).await.unwrap().len(), 1, "{end} {closing:?}");
        }
    }
    assert_eq!(close(&store, &fence, advance(3, 7)).await.unwrap().term, fence.term);
}

#[tokio::test]
async fn a_constraint_that_is_checked_at_the_commit_takes_everything_back() {
    let db = Db::new();
    let (store, fence) = with_model(&db).await;
    let mut tx = begin(&store, &fence).await;
    handle(&db, &mut tx, 1).await;
    handle(&db, &mut tx, 1).await;
    let told = store.commit(tx, &fence, advance(0, 7)).await.unwrap_err();
    assert!(matches!(told, Error::Aborted { .. }), "{told:?}");
    assert_eq!((model(&db).await, at(&store, "s").await), (vec![], Some(0)));
}

#[tokio::test]
async fn beginning_waits_for_a_transaction_that_is_still_committing_and_sees_what_it_stored() {
    let db = Db::new();
    let (store, fence) = with_model(&db).await;
    let first = begin(&store, &fence).await;
    let second = tokio::spawn({
        let (store, fence) = (store.clone(), fence.clone());
        async move { Backend::begin(&store, &fence, Opening::Handler, None).await }
    });
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND application_name = 'highwater deliver' AND query LIKE '%' || $1 || '%'";
    let mut connection = db.connection().await;
    eventually("the second waits", async || {
        sqlx::query_scalar::<_, i64>(waiting).bind(&db.schema).fetch_one(&mut connection).await.unwrap() == 1
    })
    .await;
    store.commit(first, &fence, advance(0, 7)).await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert_eq!(second.global_sequence, 7);
    store.rollback(second.tx, false).await;
}

#[tokio::test]
async fn a_connection_lost_before_the_commit_is_known_to_have_stored_nothing() {
    let db = Db::new();
    let (store, fence) = with_model(&db).await;
    let mut tx = begin(&store, &fence).await;
    handle(&db, &mut tx, 1).await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut **inside(&mut tx)).await.unwrap();
    let kill = sqlx::query("SELECT pg_terminate_backend($1)").bind(pid);
    kill.execute(&mut db.connection().await).await.unwrap();
    let lost = store.commit(tx, &fence, advance(0, 7)).await.unwrap_err();
    assert!(matches!(lost, Error::Unavailable { .. }), "{lost:?}");
    assert_eq!((model(&db).await, at(&store, "s").await), (vec![], Some(0)));
    close(&store, &fence, advance(0, 7)).await.unwrap();
}

#[tokio::test]
async fn a_connection_lost_during_the_commit_leaves_the_outcome_unknown() {
    let db = Db::new();
    let (store, fence) = with_model(&db).await;
    let slow = "CREATE FUNCTION {s}.slow() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN PERFORM pg_sleep(30); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON {s}.model DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION {s}.slow()";
    db.execute(&mut db.connection().await, slow).await;
    let mut tx = begin(&store, &fence).await;
    handle(&db, &mut tx, 1).await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut **inside(&mut tx)).await.unwrap();
    let committing = tokio::spawn({
        let (store, fence) = (store.clone(), fence.clone());
        async move { store.commit(tx, &fence, advance(0, 7)).await }
    });
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE pid = $1 AND state = 'active' AND query = 'COMMIT'";
    let mut connection = db.connection().await;
    eventually("it commits and is killed", async || {
        sqlx::query_scalar::<_, i64>(kill).bind(pid).fetch_one(&mut connection).await.unwrap() == 1
    })
    .await;
    let lost = committing.await.unwrap().unwrap_err();
    assert!(matches!(lost, Error::UnknownOutcome { .. }), "{lost:?}");
    assert_eq!(begins_at(&store, &fence).await, 0, "beginning tells");
}

#[tokio::test]
async fn a_transaction_that_is_rolled_back_or_dropped_leaves_nothing_behind() {
    let db = Db::new();
    let (store, fence) = with_model(&db).await;
    for way in 0..3 {
        let mut tx = begin(&store, &fence).await;
        handle(&db, &mut tx, 1).await;
        match way {
            0 => store.rollback(tx, false).await,
            1 => store.rollback(tx, true).await,
            _ => drop(tx),
        }
        let began = Instant::now();
        assert_eq!(begins_at(&store, &fence).await, 0);
        assert!(began.elapsed() < Duration::from_secs(1), "{way}: {:?}", began.elapsed());
        assert_eq!(model(&db).await, [0; 0]);
    }
}

#[tokio::test]
async fn giving_up_a_transaction_whose_statement_still_runs_waits_for_nothing_and_frees_the_checkpoint_soon() {
    let db = Db::new();
    let (store, fence) = with_model(&db).await;
    let mut tx = begin(&store, &fence).await;
    handle(&db, &mut tx, 1).await;
    let sleep = sqlx::query("SELECT pg_sleep(60)").execute(&mut **inside(&mut tx));
    assert!(tokio::time::timeout(Duration::from_millis(100), sleep).await.is_err());
    let began = Instant::now();
    store.rollback(tx, true).await;
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    assert_eq!(begins_at(&store, &fence).await, 0);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(model(&db).await, [0; 0]);
}

#[tokio::test]
async fn a_handler_may_leave_its_transaction_idle_for_longer_than_an_appender() {
    let db = Db::new();
    let (store, fence) = with_model(&db).await;
    let mut tx = begin(&store, &fence).await;
    let settings: (String, String, String) = sqlx::query_as(
        "SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout'),
            coalesce(current_setting('client_connection_check_interval', true), '1s')",
    )
    .fetch_one(&mut **inside(&mut tx))
    .await
    .unwrap();
    assert_eq!(settings, ("1min".to_owned(), "5s".to_owned(), "1s".to_owned()));
    store.rollback(tx, false).await;
}

#[tokio::test]
async fn a_dead_letter_and_the_checkpoint_are_stored_together_or_not_at_all() {
    let db = Db::new();
    let (store, fence) = with_model(&db).await;
    let poison = "ALTER TABLE {s}.event_bus_dlq ADD CHECK (error_message <> 'poison')";
    db.execute(&mut db.connection().await, poison).await;
    let stream = Uuid::now_v7();
    let bad = failure(stream, 7, "poison");
    let told = close(&store, &fence, Closing::Bury { dead_letter: &bad, from: 0 }).await.unwrap_err();
    assert!(matches!(told, Error::Unavailable { action: "write a dead letter", .. }), "{told:?}");
    assert_eq!((at(&store, "s").await, store.count_dead_letters(&all_of("s")).await.unwrap()), (Some(0), 0));

    let dead_letter = failure(stream, 7, "no");
    let told = close(&store, &fence, Closing::Bury { dead_letter: &dead_letter, from: 3 }).await.unwrap_err();
    assert!(matches!(told, Error::Fenced { .. }), "{told:?}");
    assert_eq!((at(&store, "s").await, store.count_dead_letters(&all_of("s")).await.unwrap()), (Some(0), 0));

    let (buried, _) = bury(&store, &fence, &dead_letter).await;
    let stored = store.checkpoint("s").await.unwrap().unwrap();
    assert_eq!((stored.global_sequence, stored.event_id), (7, Some(dead_letter.event_id)));
    assert_eq!((buried.event_id, buried.state), (dead_letter.event_id, DeadLetterState::Dead));

    db.execute(&mut db.connection().await, "DROP TABLE {s}.event_bus_dlq CASCADE").await;
    close(&store, &fence, Closing::Bury { dead_letter: &failure(stream, 8, "no"), from: 7 }).await.unwrap_err();
    assert_eq!(at(&store, "s").await, Some(7));
}

#[tokio::test]
async fn a_reset_archives_dead_letters_sets_the_checkpoint_back_and_raises_the_term() {
    let db = Db::new();
    let (store, fence) = with_model(&db).await;
    let dead_letter = failure(Uuid::now_v7(), 7, "no");
    let (buried, _) = bury(&store, &fence, &dead_letter).await;
    let other = take_over(&store, "other").await;
    bury(&store, &other, &dead_letter).await;
    let mut tx = begin(&store, &fence).await;
    handle(&db, &mut tx, 1).await;
    let closed = store
        .commit(tx, &fence, Closing::Reset { to: 2, by: "me", nonce: Uuid::now_v7(), setup_version: None })
        .await
        .unwrap();
    assert!(closed.term.number > fence.term.number && closed.term.nonce != fence.term.nonce);
    let stored = store.checkpoint("s").await.unwrap().unwrap();
    assert_eq!((stored.global_sequence, stored.event_id, stored.term), (2, None, closed.term));
    assert_eq!(model(&db).await, [1]);
    let detail = store.dead_letter(buried.id).await.unwrap().unwrap();
    assert_eq!(
        (detail.dead_letter.state, detail.dead_letter.resolved_by.as_deref()),
        (DeadLetterState::Archived, Some("me"))
    );
    assert_eq!((detail.attempts[0].outcome.as_str(), detail.attempts[0].by.as_str()), ("archived", "me"));
    assert_eq!(store.count_dead_letters(&DeadLetterQuery::of("other")).await.unwrap(), 1, "others are left alone");
    assert!(matches!(Backend::begin(&store, &fence, Opening::Handler, None).await, Err(Error::Fenced { .. })));
    let renewed = Fence { term: closed.term, ..fence };
    // The event fails again: its dead letter is opened again, and knows what has been done with it.
    let (again, _) = bury(&store, &renewed, &failure(dead_letter.stream_id, 7, "still no")).await;
    assert_eq!((again.id, again.state, again.resolved_at), (buried.id, DeadLetterState::Dead, None));
    assert_eq!((again.error_message.as_deref(), again.resolved_by), (Some("still no"), None));
    assert_eq!(store.dead_letter(again.id).await.unwrap().unwrap().attempts.len(), 1);
}
