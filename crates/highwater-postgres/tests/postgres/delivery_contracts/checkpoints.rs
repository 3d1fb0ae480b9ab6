//! Who may say where a subscriber has got to.

use std::time::{Duration, Instant};

use highwater::backend::{Refused, Requests, chain};
use sqlx::postgres::PgConnectOptions;
use throwaway_postgres::ThrowawayPostgres;

use super::*;

#[tokio::test]
async fn taking_over_gives_a_higher_term_and_where_to_continue() {
    let db = Db::new();
    let store = db.store().await;
    let first = store.take_over(&Claim { start: 5, ..Claim::of("s") }).await.unwrap();
    assert_eq!((first.fresh, first.checkpoint.global_sequence), (true, 5));
    assert_eq!(at(&store, "s").await, Some(5), "where it starts is stored");
    store.store_checkpoints(&[write(&first.checkpoint.fence(), 9)]).await.unwrap();
    let other = store.take_over(&Claim::of("t")).await.unwrap();
    let second = store.take_over(&Claim { start: 77, ..Claim::of("s") }).await.unwrap();
    assert_eq!((second.fresh, second.checkpoint.global_sequence), (false, 9));
    assert!(
        first.checkpoint.term.number < other.checkpoint.term.number
            && other.checkpoint.term.number < second.checkpoint.term.number
    );
    assert_ne!(first.checkpoint.term.nonce, second.checkpoint.term.nonce);
    assert_eq!(second.checkpoint.incarnation, page(&store, 0).await.incarnation, "one number for a life of the server");
    let stored = store.checkpoints().await.unwrap();
    assert_eq!(
        stored.iter().map(|c| (&*c.subscriber_id, c.term)).collect::<Vec<_>>(),
        [("s", second.checkpoint.term), ("t", other.checkpoint.term)]
    );
    assert_eq!(store.checkpoint("nobody").await.unwrap(), None);
}

#[tokio::test]
async fn terms_keep_rising_after_the_checkpoints_were_deleted() {
    let db = Db::new();
    let store = db.store().await;
    let before = take_over(&store, "s").await;
    db.execute(&mut db.connection().await, "TRUNCATE {s}.event_bus_checkpoints").await;
    let after = take_over(&store, "s").await;
    assert!(after.term.number > before.term.number, "{before:?} {after:?}");
    let refused = store.store_checkpoints(&[write(&before, 3)]).await.unwrap();
    assert_eq!(refused, [Some(Refused::Superseded { term: after.term.number })]);
}

#[tokio::test]
async fn a_checkpoint_is_stored_under_the_term_that_holds_and_no_other() {
    let db = Db::new();
    let store = db.store().await;
    let fence = take_over(&store, "s").await;
    let superseded = Some(Refused::Superseded { term: fence.term.number });
    let interrupted = Fence { incarnation: fence.incarnation + 1, ..fence.clone() };
    let missing = Fence { subscriber_id: "gone".into(), ..fence.clone() };
    for (bad, why) in [
        (other_number(&fence), superseded.clone()),
        (other_nonce(&fence), superseded),
        (interrupted, Some(Refused::Interrupted)),
        (missing, Some(Refused::Missing)),
    ] {
        let alone = store.store_checkpoints(&[write(&bad, 3)]).await.unwrap();
        assert_eq!(alone, std::slice::from_ref(&why), "{bad:?}");
        assert_eq!(at(&store, "s").await, Some(0), "{bad:?}");
        // And the same among others.
        let other = take_over(&store, "other").await;
        let both = [write(&other, 4), write(&bad, 3)];
        assert_eq!(store.store_checkpoints(&both).await.unwrap(), [None, why], "{bad:?}");
        assert_eq!((at(&store, "s").await, at(&store, "other").await), (Some(0), Some(4)), "{bad:?}");
    }
    assert_eq!(store.store_checkpoints(&[write(&fence, 3)]).await.unwrap(), [None]);
    assert_eq!(at(&store, "s").await, Some(3));
    assert_eq!(store.store_checkpoints(&[]).await.unwrap(), []);
}

#[tokio::test]
async fn many_checkpoints_are_stored_at_once_each_with_its_own_event() {
    let db = Db::new();
    let store = db.store().await;
    let mut writes = Vec::new();
    for n in (0..20_u64).rev() {
        let fence = take_over(&store, &format!("s{n:02}")).await;
        writes.push(CheckpointWrite { event_id: Some(Uuid::from_u128(u128::from(n))), ..write(&fence, 100 + n) });
    }
    assert_eq!(store.store_checkpoints(&writes).await.unwrap(), [const { None }; 20]);
    for write in &mut writes {
        write.event_id = None;
        write.global_sequence += 1;
    }
    assert_eq!(store.store_checkpoints(&writes).await.unwrap(), [const { None }; 20]);
    assert_eq!(store.store_checkpoints(&writes[..1]).await.unwrap(), [None]);
    for (n, stored) in store.checkpoints().await.unwrap().into_iter().enumerate() {
        assert_eq!((stored.subscriber_id, stored.global_sequence), (format!("s{n:02}"), 101 + n as u64));
        assert_eq!(stored.event_id, Some(Uuid::from_u128(n as u128)), "an event that is not given stays");
    }
}

/// Notes down what every write of a checkpoint ran under.
const SPY: &str = "CREATE TABLE {s}.seen (application_name text, synchronous_commit text, pid integer);
    CREATE FUNCTION {s}.spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO {s}.seen VALUES (current_setting('application_name'), current_setting('synchronous_commit'),
            pg_backend_pid());
        RETURN NULL;
    END $$;
    CREATE TRIGGER spy AFTER INSERT OR UPDATE ON {s}.event_bus_checkpoints FOR EACH ROW EXECUTE FUNCTION {s}.spy()";

#[tokio::test]
async fn only_the_checkpoint_connection_commits_without_waiting_for_the_disk() {
    let db = Db::new();
    db.store().await;
    let mut connection = db.connection().await;
    db.execute(&mut connection, SPY).await;
    // As if the database's default were off.
    let options: PgConnectOptions = db.url.parse().unwrap();
    let options = options.options([("synchronous_commit", "off")]);
    let store = PgEventStore::connect_to_with(options, db.config()).await.unwrap();
    let fence = take_over(&store, "s").await;
    store.store_checkpoints(&[write(&fence, 1)]).await.unwrap();
    let mut tx = begin(&store, &fence).await;
    let setting: String =
        sqlx::query_scalar("SHOW synchronous_commit").fetch_one(&mut **inside(&mut tx)).await.unwrap();
    assert_eq!(setting, "on");
    store.commit(tx, &fence, Closing::Advance { from: 1, to: 2, event_id: None }).await.unwrap();
    let seen: Vec<(String, String)> = sqlx::query_as("SELECT application_name, synchronous_commit FROM seen")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let seen: Vec<(&str, &str)> = seen.iter().map(|(name, setting)| (name.as_str(), setting.as_str())).collect();
    assert_eq!(seen, [("highwater", "on"), ("highwater checkpoint", "off"), ("highwater deliver", "on")]);
}

#[tokio::test]
async fn a_checkpoint_connection_whose_caller_stopped_waiting_is_not_used_again() {
    let db = Db::new();
    let store = db.store().await;
    let mut connection = db.connection().await;
    db.execute(&mut connection, SPY).await;
    let fence = take_over(&store, "s").await;
    for sequence in [1, 2] {
        store.store_checkpoints(&[write(&fence, sequence)]).await.unwrap();
    }
    let tx = begin(&store, &fence).await;
    // With an event it is waited for a moment; without one, as where there are several, not at all.
    let writes = [highwater::backend::CheckpointWrite { event_id: Some(Uuid::now_v7()), ..write(&fence, 3) }];
    // It is not waited for, or not long.
    for writes in [&[write(&fence, 3)], &writes] {
        let refused = store.store_checkpoints(writes).await.unwrap();
        let [Some(Refused::Held { by: Some(by) })] = &refused[..] else { panic!("{refused:?}") };
        assert!(by.contains("highwater deliver") && by.contains("pg_terminate_backend("), "{by}");
    }
    let given_up = tokio::time::timeout(Duration::from_millis(20), store.store_checkpoints(&writes)).await;
    assert!(given_up.is_err(), "the row is held");
    // At once, while the statement of the other connection may still be waiting.
    store.rollback(tx, false).await;
    assert_eq!(store.store_checkpoints(&[write(&fence, 4)]).await.unwrap(), [None]);
    let pids: Vec<i32> = sqlx::query_scalar(
        "SELECT DISTINCT ON (pid) pid FROM seen WHERE application_name = 'highwater checkpoint' ORDER BY pid",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    assert_eq!(pids.len(), 2);
}

#[tokio::test]
async fn taking_over_does_not_wait_for_ever_for_a_frozen_transaction() {
    let db = Db::new();
    let store = db.store().await;
    let fence = take_over(&store, "s").await;
    let tx = begin(&store, &fence).await;
    let began = Instant::now();
    let held = store.take_over(&Claim::of("s")).await.unwrap_err();
    assert!(
        matches!(held, Error::Unavailable { action: "take over: another transaction holds the checkpoint", .. }),
        "{held:?}"
    );
    let said = chain(&held);
    assert!(said.contains("highwater deliver") && said.contains("pg_terminate_backend("), "{said}");
    assert!((Duration::from_secs(4)..Duration::from_secs(9)).contains(&began.elapsed()));
    store.rollback(tx, false).await;
    assert_eq!(store.store_checkpoints(&[write(&fence, 1)]).await.unwrap(), [None], "nothing was taken over");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_from_before_a_restart_is_refused_until_the_subscriber_is_taken_over_again() {
    let mut server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    let store = db.store().await;
    let before = take_over(&store, "s").await;
    store.store_checkpoints(&[write(&before, 1)]).await.unwrap();
    server.restart().unwrap();
    let mut answer = Vec::new();
    eventually("the server answers", async || match store.store_checkpoints(&[write(&before, 2)]).await {
        Ok(answers) => {
            answer = answers;
            true
        }
        Err(error) => {
            assert!(error.is_retryable(), "{error:?}");
            false
        }
    })
    .await;
    assert_eq!(answer, [Some(Refused::Interrupted)]);
    let interrupted = Backend::begin(&store, &before, Opening::Handler, None).await.unwrap_err();
    assert!(matches!(interrupted, Error::Interrupted { .. }), "{interrupted:?}");
    let mut taken = None;
    eventually("it is taken over", async || {
        taken = store.take_over(&Claim::of("s")).await.ok();
        taken.is_some()
    })
    .await;
    let after = taken.unwrap().checkpoint.fence();
    assert_ne!(after.incarnation, before.incarnation);
    assert_eq!(store.store_checkpoints(&[write(&after, 2)]).await.unwrap(), [None]);
}

#[tokio::test]
async fn a_subscriber_that_exists_is_paused_for_all_instances_until_it_is_resumed() {
    let db = Db::new();
    let (here, there) = (db.store().await, db.store().await);
    let wanted: Vec<String> = ["s", "t", "nobody"].map(str::to_owned).to_vec();
    take_over(&here, "s").await;
    take_over(&here, "t").await;
    assert!(!here.set_paused("nobody", true).await.unwrap());
    assert!(!here.set_paused("nobody", false).await.unwrap());
    for _ in 0..2 {
        assert!(here.set_paused("s", true).await.unwrap());
    }
    assert_eq!(there.paused(&wanted).await.unwrap(), ["s"]);
    assert_eq!(there.paused(&wanted[1..]).await.unwrap(), [""; 0]);
    assert!(there.set_paused("s", false).await.unwrap());
    assert_eq!(here.paused(&wanted).await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn pausing_does_not_wait_for_the_subscribers_transaction() {
    let db = Db::new();
    let store = db.store().await;
    let fence = take_over(&store, "s").await;
    let tx = begin(&store, &fence).await;
    tokio::time::timeout(Duration::from_secs(2), store.set_paused("s", true)).await.expect("no waiting").unwrap();
    store.rollback(tx, false).await;
}

#[tokio::test]
async fn a_term_that_had_to_wait_is_higher_than_those_given_meanwhile() {
    let db = Db::new();
    let store = db.store().await;
    let tx = begin(&store, &take_over(&store, "s").await).await;
    let waits = tokio::spawn({
        let store = store.clone();
        async move { take_over(&store, "s").await }
    });
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND application_name = 'highwater' AND query LIKE '%' || $1 || '%'";
    let mut connection = db.connection().await;
    eventually("it waits for the row", async || {
        sqlx::query_scalar::<_, i64>(waiting).bind(&db.schema).fetch_one(&mut connection).await.unwrap() == 1
    })
    .await;
    let meanwhile = take_over(&store, "t").await;
    store.rollback(tx, false).await;
    let waited = waits.await.unwrap();
    assert!(waited.term.number > meanwhile.term.number, "{waited:?} {meanwhile:?}");
}
