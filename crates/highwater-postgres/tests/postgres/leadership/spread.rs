//! Twelve subscribers on three processes.

use std::collections::BTreeMap;
use std::time::Duration;

use highwater::backend::{LeaderHold, Leadership};
use highwater_contract::notes::{
    hands_over_without_a_warning, warns_of_an_older_schema_version, warns_of_what_another_program_wrote,
    warns_of_what_was_passed_by,
};
use highwater_postgres::{PgEventBus, PgEventStore};

use super::processes::{Load, caught_up, counted};
use super::taken_over_after;
use super::worker::{Job, Worker};
use crate::support::{Db, sequences};

/// How many subscribers each process leads.
async fn shares(store: &PgEventStore) -> BTreeMap<u32, usize> {
    let mut shares = BTreeMap::new();
    for leader in store.leaders().await.unwrap().into_iter().filter(|leader| leader.hold == LeaderHold::Held) {
        *shares.entry(leader.instance.pid).or_default() += 1;
    }
    shares
}

/// Waits until those workers, and no others, lead that many each.
async fn are_level(store: &PgEventStore, workers: &[Worker], each: usize) {
    let wanted: BTreeMap<u32, usize> = workers.iter().map(|worker| (worker.pid(), each)).collect();
    let since = std::time::Instant::now();
    let level = async {
        while shares(store).await != wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(10), level).await.is_err() {
        panic!("{:?} instead of {wanted:?}", shares(store).await);
    }
    eprintln!("{each} each after {:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn twelve_subscribers_are_spread_over_three_processes_as_they_come_and_go() {
    let db = Db::new();
    let store = Job::prepare(&db).await;
    let start = |name: &str| Job { idle: 10, ..Job::new(&db, name) }.start();
    let load = Load::on(&store);
    let mut workers: Vec<Worker> = ["a", "b", "c"].map(start).into();
    are_level(&store, &workers, 4).await;
    workers.remove(0).kill();
    are_level(&store, &workers, 6).await;
    workers.push(start("d"));
    are_level(&store, &workers, 4).await;
    load.end().await;
    caught_up(&store).await;
    assert_eq!(counted(&db).await, sequences(&store).await, "nothing is lost or doubled on the way");
}

#[tokio::test]
async fn a_type_that_another_program_wrote_to_streams_of_another_kind_is_warned_of() {
    let db = Db::new();
    warns_of_what_another_program_wrote(db.store().await, db.store().await).await;
}

#[tokio::test]
async fn a_type_that_another_program_writes_in_a_newer_schema_version_is_warned_of() {
    let db = Db::new();
    warns_of_an_older_schema_version(db.store().await, db.store().await).await;
}

#[tokio::test]
async fn a_subscriber_that_reads_more_than_before_is_told_what_its_checkpoint_has_passed() {
    let db = Db::new();
    let bus = async || PgEventBus::with_config(db.store().await, taken_over_after(Duration::from_secs(10)));
    warns_of_what_was_passed_by(bus().await, bus().await).await;
}

#[tokio::test]
async fn joining_spreading_and_leaving_warn_of_nothing() {
    let db = Db::new();
    // Not so short that a busy machine alone makes an instance lose what it leads, which is warned of.
    let config = taken_over_after(Duration::from_secs(10));
    let bus = async || PgEventBus::with_config(db.store().await, config.clone());
    hands_over_without_a_warning(bus().await, bus().await).await;
}
