//! A session of the server that does nothing any more, and is there.

use highwater::backend::{LeaderHold, Leadership};
use highwater::{GlobalSequence, Problem};
use highwater_postgres::PgEventBus;
use throwaway_postgres::{ThrowawayPostgres, send_signal};

use super::coordinated;
use crate::bus::{Recorder, bus, say};
use crate::support::{Db, eventually};

const ID: &str = "projection:frozen";

/// The problem that a subscriber has no leader, with the processes that hold its lock.
async fn not_led(bus: &PgEventBus) -> Option<Vec<Option<u32>>> {
    let problems = bus.health().await.problems.into_iter();
    problems.into_iter().find_map(|problem| match problem {
        Problem::NotLed { holders, .. } => Some(holders.into_iter().map(|holder| holder.pid).collect()),
        _ => None,
    })
}

/// It has the lock of an instance that knows that it leads no more, and no other instance can get that.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_session_is_stopped_at_the_server_says_that_nobody_leads() {
    let server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    let store = db.store().await;
    let bus = bus(&db, coordinated()).await;
    let recorder = Recorder::new(ID);
    bus.subscribe(recorder.clone()).await.unwrap();
    let at = say(&store, "before").await;
    bus.wait_for(ID, GlobalSequence(at)).await.unwrap();
    let stopped = store.lock_holders(&[ID.to_owned()]).await.unwrap()[0].pid.unwrap();
    send_signal(stopped, "STOP").unwrap();
    let at = say(&store, "meanwhile").await;
    eventually("health names the session", async || not_led(&bus).await == Some(vec![Some(stopped)])).await;
    assert!(!bus.health().await.is_ready());
    let leaders = store.leaders().await.unwrap();
    assert!(matches!(&leaders[..], [one] if one.hold == LeaderHold::Held), "the server cannot know: {leaders:?}");
    send_signal(stopped, "CONT").unwrap();
    bus.wait_for(ID, GlobalSequence(at)).await.unwrap();
    assert_eq!(recorder.texts(), ["before", "meanwhile"]);
    eventually("all is well", async || bus.health().await.is_ready()).await;
    bus.shutdown().await.unwrap();
}
