//! Tables of read models among several instances, of one version and of two.

use std::sync::Arc;

use highwater::{BusError, Error, EventStore, SubscriptionState};
use tokio::join;

use super::left_by;
use super::model::{ID, Model, arrives, counted, noted, play, reason, refused};
use crate::delivery::instances::{instance, settled};
use crate::delivery::players::{config, end, fill, in_state, is_halted};
use crate::support::{new_stream, within};
use crate::{Harness, Settings};

pub(crate) async fn of_instances_that_start_at_once_one_sets_up<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let places = fill(&store, new_stream(), 3).await;
    let (one, other) = (instance(&*harness, &store, settled()).await, instance(&*harness, &store, settled()).await);
    let ((first, made_by_one), (second, made_by_other)) =
        join!(play(&one, Model::new(2, &harness, &store)), play(&other, Model::new(2, &harness, &store)));
    arrives(&one, places[2]).await;
    let is_well = |state: &SubscriptionState| state.is_live() || state.is_standby();
    in_state(&first, "the first is well", is_well).await;
    in_state(&second, "so is the second", is_well).await;
    let made = [noted(&made_by_one), noted(&made_by_other)].concat();
    assert_eq!(made.iter().filter(|note| *note == "setup 2").count(), 1, "{made:?}");
    assert_eq!(harness.tallies(&store).await, counted(Some(2), &places));
    end(one).await;
    end(other).await;
}

pub(crate) async fn an_older_instance_leaves_the_subscriber_to_newer_ones<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let places = fill(&store, new_stream(), 2).await;
    let new = instance(&*harness, &store, settled()).await;
    play(&new, Model::new(2, &harness, &store)).await;
    arrives(&new, places[1]).await;
    end(new).await;

    let old = instance(&*harness, &store, settled()).await;
    let (outdated, notes) = play(&old, Model::new(1, &harness, &store)).await;
    in_state(&outdated, "the older halts", is_halted).await;
    assert!(reason(&outdated).contains("upgrade this one"), "{}", reason(&outdated));
    let why = store.explain(ID).await.expect("it can be explained").to_string();
    assert!(why.contains("upgrade this one"), "it is seen from outside: {why}");
    let more = fill(&store, new_stream(), 2).await;
    let newer = instance(&*harness, &store, settled()).await;
    play(&newer, Model::new(2, &harness, &store)).await;
    arrives(&newer, more[1]).await;
    assert!(is_halted(&outdated.state()), "and does not come between the others");
    assert_eq!(noted(&notes), [""; 0], "it touches nothing");
    assert_eq!(harness.tallies(&store).await, counted(Some(2), &[places, more].concat()));
    end(old).await;
    end(newer).await;
}

pub(crate) async fn an_older_instance_stops_no_newer_one<H: Harness>(harness: Arc<H>) {
    // Without coordination, where the last one to start takes over; and with it.
    for config in [config(), settled()] {
        let store = harness.fresh(Settings::default()).await;
        let places = fill(&store, new_stream(), 2).await;
        let new = instance(&*harness, &store, config.clone()).await;
        let (leading, _) = play(&new, Model::new(2, &harness, &store)).await;
        arrives(&new, places[1]).await;
        let old = instance(&*harness, &store, config).await;
        let (outdated, notes) = play(&old, Model::new(1, &harness, &store)).await;
        in_state(&outdated, "the older halts", is_halted).await;
        match within("catching up", outdated.caught_up()).await {
            Err(Error::Bus(BusError::NotRunning { .. })) => {}
            other => panic!("its code knows older tables: {other:?}"),
        }
        assert_eq!(refused(&old, places[1]).await, (Some(2), 1));
        let more = fill(&store, new_stream(), 2).await;
        arrives(&new, more[1]).await;
        assert!(leading.state().is_live(), "it is not disturbed: {:?}", leading.state());
        assert_eq!(noted(&notes), [""; 0]);
        end(old).await;
        end(new).await;
    }
}

pub(crate) async fn who_stands_by_learns_that_the_leader_has_halted<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let places = fill(&store, new_stream(), 2).await;
    left_by(1, &harness, &store, places[1]).await;
    let (one, other) = (instance(&*harness, &store, settled()).await, instance(&*harness, &store, settled()).await);
    let (leading, _) = play(&one, Model::new(2, &harness, &store)).await;
    in_state(&leading, "it halts", is_halted).await;
    let (standing_by, _) = play(&other, Model::new(2, &harness, &store)).await;
    in_state(&standing_by, "it stands by", SubscriptionState::is_standby).await;
    match within("catching up", standing_by.caught_up()).await {
        Err(Error::Bus(BusError::NotRunning { reason, .. })) => assert!(reason.contains("version 1"), "{reason}"),
        other => panic!("it will not happen: {other:?}"),
    }
    end(other).await;
    end(one).await;
}
