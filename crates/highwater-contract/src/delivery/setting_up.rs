//! Tables of read models: made before the first event, by one instance, and made anew when their version goes up.

mod instances;
mod model;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use highwater::backend::{Backend, Checkpoints, Closing, DeadLetterQuery, Fence, Opening};
use highwater::{BusError, Error, EventStore, GlobalSequence, SubscriptionState, transfer};
use tokio::join;
use uuid::Uuid;

pub(crate) use self::instances::{
    an_older_instance_leaves_the_subscriber_to_newer_ones, an_older_instance_stops_no_newer_one,
    of_instances_that_start_at_once_one_sets_up, who_stands_by_learns_that_the_leader_has_halted,
};
use self::model::{ID, Model, arrives, counted, counts, events, noted, play, reason, refused, version_of};
use super::players::{Counter, bus, end, fill, in_state, is_halted};
use super::rebuilding::rough_on_resets;
use crate::checkpoints::{put, stored, take_over, to};
use crate::dead_letters::found;
use crate::support::{eventually, new_stream, within};
use crate::transactions::{OWN, advance, begin, close};
use crate::{Call, Flaky, Harness, Settings, Verdict};

/// What an instance leaves behind whose tables are of this version, and which has handled everything up to an event.
async fn left_by<H: Harness>(version: u32, harness: &Arc<H>, store: &H::Store, last: u64) {
    let bus = bus(store);
    play(&bus, Model::new(version, harness, store)).await;
    arrives(&bus, last).await;
    end(bus).await;
}

pub(crate) async fn a_version_is_one_with_what_was_made<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, taken) = take_over(&store, ID, 7).await;
    assert_eq!((taken.checkpoint.setup_version, version_of(&store).await), (None, None), "nothing was ever set up");
    let make = async |fence: &Fence, key: &str| {
        let mut begun = begin(&store, fence).await;
        harness.tally(&store, begun.tx.get().expect(OWN), key).await.expect("it can be counted");
        begun.tx
    };
    store.rollback(make(&fence, "a").await, false).await;
    drop(make(&fence, "b").await);
    assert_eq!(version_of(&store).await, None);
    let tx = make(&fence, "c").await;
    let closed = store.commit(tx, &fence, Closing::SetUp { version: 3 }).await.expect("it is committed");
    assert_eq!(closed.term, fence.term, "the term stays");
    let checkpoint = stored(&store, ID).await.expect("it is stored");
    assert_eq!((checkpoint.global_sequence, checkpoint.setup_version), (7, Some(3)));
    assert_eq!(harness.tallies(&store).await, BTreeMap::from([("c".to_owned(), 1)]));

    close(&store, &fence, advance(7, 9)).await;
    assert_eq!(put(&store, to(&fence, 10)).await, None);
    let again = harness.reopen(&store, Settings::default()).await;
    let (newer, taken) = take_over(&again, ID, 0).await;
    assert_eq!(
        (taken.checkpoint.global_sequence, taken.checkpoint.setup_version),
        (10, Some(3)),
        "who takes over learns of it"
    );
    let all = again.checkpoints().await.expect("checkpoints can be read");
    assert_eq!(all.iter().map(|found| found.setup_version).collect::<Vec<_>>(), [Some(3)]);
    match store.begin(&fence, Opening::Handler, None).await {
        Err(Error::Fenced { .. }) => {}
        other => panic!("an older term sets nothing up: {other:?}"),
    }
    let nonce = Uuid::now_v7();
    let reset = Closing::Reset { to: 1, by: "anna", nonce, setup_version: Some(4) };
    let tx = make(&newer, "d").await;
    let closed = store.commit(tx, &newer, reset).await.expect("it is committed");
    let checkpoint = stored(&store, ID).await.expect("it is stored");
    assert_eq!((checkpoint.global_sequence, checkpoint.setup_version), (1, Some(4)), "both, or nothing");
    let newest = Fence { term: closed.term, ..newer };
    close(&store, &newest, Closing::Reset { to: 0, by: "anna", nonce, setup_version: None }).await;
    assert_eq!(version_of(&store).await, Some(4), "a reset that makes nothing leaves it");
}

pub(crate) async fn tables_are_set_up_once_before_the_first_event<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let mut places = fill(&store, new_stream(), 3).await;
    let first = bus(&store);
    let (_, notes) = play(&first, Model::new(1, &harness, &store)).await;
    arrives(&first, places[2]).await;
    end(first).await;
    assert_eq!(noted(&notes), [vec!["setup 1".to_owned()], events(&places)].concat());
    assert_eq!(version_of(&store).await, Some(1));

    let more = fill(&store, new_stream(), 1).await;
    let second = bus(&harness.reopen(&store, Settings::default()).await);
    let (_, notes) = play(&second, Model::new(1, &harness, &store)).await;
    arrives(&second, more[0]).await;
    end(second).await;
    assert_eq!(noted(&notes), events(&more), "once is enough");
    places.extend(more);
    assert_eq!(harness.tallies(&store).await, counted(Some(1), &places));
}

pub(crate) async fn tables_of_another_version_halt_until_they_are_rebuilt<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let places = fill(&store, new_stream(), 3).await;
    left_by(1, &harness, &store, places[2]).await;
    let more = fill(&store, new_stream(), 2).await;

    let new = bus(&store);
    let (subscription, notes) = play(&new, Model::new(2, &harness, &store)).await;
    in_state(&subscription, "it halts", is_halted).await;
    let said = reason(&subscription);
    assert!(said.contains("of version 1") && said.contains("version 2"), "{said}");
    assert!(said.contains("highwater rebuild projection:model --force"), "it says what to do: {said}");
    subscription.resume().await.expect("it can be asked to");
    match within("a replay", new.dead_letters().replay_all(ID)).await {
        Ok(filed) => match within("a replay", filed.done()).await {
            Err(Error::Bus(BusError::RequestFailed { reason, .. })) => assert!(reason.contains("version"), "{reason}"),
            other => panic!("nothing is replayed into tables of another version: {other:?}"),
        },
        Err(error) => panic!("it can be asked for: {error}"),
    }
    in_state(&subscription, "resuming changes nothing about that", is_halted).await;
    assert_eq!(noted(&notes), [""; 0], "nothing is done meanwhile");
    assert_eq!(refused(&new, places[2]).await, (Some(1), 2), "these tables are not to be read by this program");
    match within("catching up", subscription.caught_up()).await {
        Err(Error::Bus(BusError::NotRunning { .. })) => {}
        other => panic!("it is not: {other:?}"),
    }
    assert_eq!((version_of(&store).await, harness.tallies(&store).await), (Some(1), counted(Some(1), &places)));

    within("a rebuild", subscription.rebuild()).await.expect("it can be rebuilt");
    arrives(&new, more[1]).await;
    let all = [places, more].concat();
    let first = ["setup 2".to_owned(), "reset".to_owned()];
    assert_eq!(noted(&notes), [&first[..], &events(&all)].concat(), "what is emptied are the new tables");
    assert_eq!((version_of(&store).await, counts(&*harness, &store).await), (Some(2), counted(None, &all)));

    within("a rebuild", subscription.rebuild()).await.expect("it can be rebuilt again");
    arrives(&new, all[4]).await;
    let setups = noted(&notes).iter().filter(|note| note.starts_with("setup")).count();
    assert_eq!(setups, 1, "tables of this version are there");
    end(new).await;
}

pub(crate) async fn tables_of_another_version_are_rebuilt_where_that_is_chosen<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let places = fill(&store, new_stream(), 3).await;
    left_by(1, &harness, &store, places[2]).await;

    let rough = rough_on_resets(&store);
    let new = bus(&rough);
    let (_, notes) = play(&new, Model::new(3, &harness, &store).rebuilding()).await;
    eventually("it is rebuilt", async || version_of(&store).await == Some(3)).await;
    let more = fill(&store, new_stream(), 1).await;
    arrives(&new, more[0]).await;
    let all = [places, more].concat();
    assert_eq!(counts(&*harness, &store).await, counted(None, &all));
    let noted = noted(&notes);
    let last = noted.iter().rposition(|note| note.starts_with("setup"));
    assert_eq!(last, Some(2), "the first attempt left nothing, and the second was known again: {noted:?}");
    assert_eq!(noted[4..], events(&all));
    end(new).await;
}

pub(crate) async fn a_rebuild_may_be_requested_before_the_code_is_there<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let places = fill(&store, new_stream(), 3).await;
    left_by(1, &harness, &store, places[2]).await;
    let bus = bus(&store);
    bus.dead_letters().rebuild(ID).await.expect("it can be asked for");
    let (subscription, _) = play(&bus, Model::new(2, &harness, &store)).await;
    within("catching up", subscription.caught_up()).await.expect("it is rebuilt, and nothing fails before");
    assert_eq!((version_of(&store).await, counts(&*harness, &store).await), (Some(2), counted(None, &places)));
    end(bus).await;
}

pub(crate) async fn a_setup_that_fails_is_retried_and_skips_nothing<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let places = fill(&store, new_stream(), 3).await;
    let bus = bus(&store);
    let (subscription, notes) = play(&bus, Model::new(1, &harness, &store).failing(4)).await;
    let is_shown = |state: &SubscriptionState| matches!(state, SubscriptionState::Disconnected { error } if error.contains("setup() of version 1") && error.contains("no room for tables"));
    in_state(&subscription, "it is shown what fails", is_shown).await;
    arrives(&bus, places[2]).await;
    let setups = vec!["setup 1".to_owned(); 5];
    assert_eq!(noted(&notes), [setups, events(&places)].concat(), "no event before the tables are there");
    assert_eq!(harness.tallies(&store).await, counted(Some(1), &places), "what failed left nothing");
    assert_eq!(found(&store, &DeadLetterQuery::of(ID)).await, []);
    end(bus).await;
}

pub(crate) async fn a_setup_whose_answer_is_lost_is_not_done_twice<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let places = fill(&store, new_stream(), 3).await;
    let setups = AtomicU32::new(0);
    let rough = Flaky::new(store.clone(), move |call| match call {
        Call::Commit(_, Closing::SetUp { .. }) => match setups.fetch_add(1, Ordering::SeqCst) {
            0 => Verdict::Fail,
            1 => Verdict::Lose,
            _ => panic!("it was stored"),
        },
        _ => Verdict::Through,
    });
    let bus = bus(&rough);
    let (_, notes) = play(&bus, Model::new(1, &harness, &store)).await;
    arrives(&bus, places[2]).await;
    assert_eq!(noted(&notes)[2..], events(&places));
    assert_eq!(harness.tallies(&store).await, counted(Some(1), &places));
    assert_eq!(version_of(&store).await, Some(1));
    end(bus).await;
}

pub(crate) async fn tables_that_would_lack_events_are_not_made<H: Harness>(harness: Arc<H>) {
    for version in [1, 2] {
        let first = harness.fresh(Settings::default()).await;
        let places = fill(&first, new_stream(), 3).await;
        left_by(version, &harness, &first, places[2]).await;
        let plain = bus(&first);
        plain.subscribe(Counter::new("saga:plain", &harness, &first)).await.expect("it can be subscribed");
        plain.wait_for("saga:plain", GlobalSequence(places[2])).await.expect("it gets there");
        end(plain).await;
        // Read models do not move with a store.
        let copy = harness.fresh(Settings::default()).await;
        transfer::copy(&first, "the first", &copy, |_| ()).await.expect("it can be copied");

        let new = bus(&copy);
        let (subscription, notes) = play(&new, Model::new(version, &harness, &copy)).await;
        in_state(&subscription, "it halts", is_halted).await;
        assert!(reason(&subscription).contains("never set up"), "{}", reason(&subscription));
        assert_eq!((noted(&notes), version_of(&copy).await), (vec![format!("setup {version}")], None), "only tried");
        assert!(harness.tallies(&copy).await.is_empty(), "and rolled back");
        assert_eq!(refused(&new, places[2]).await, (None, version), "there is nothing to be read");
        within("a rebuild", subscription.rebuild()).await.expect("it can be rebuilt");
        arrives(&new, places[2]).await;
        assert_eq!(counts(&*harness, &copy).await, counted(None, &places), "everything is in it");

        // One that makes no tables has none to lack anything.
        let plain = Counter::new("saga:plain", &harness, &copy).shared();
        let subscription = new.subscribe(Arc::clone(&plain)).await.expect("it can be subscribed");
        let more = fill(&copy, new_stream(), 1).await;
        within("catching up", subscription.caught_up()).await.expect("it continues");
        assert_eq!(plain.taken(), more);
        end(new).await;
    }
}

pub(crate) async fn who_waits_finds_the_tables<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let bus = bus(&store);
    // There is no event to wait for, and setting up takes a few attempts.
    let (subscription, _) = play(&bus, Model::new(1, &harness, &store).failing(3)).await;
    let (caught_up, waited) = join!(subscription.caught_up(), bus.wait_for(ID, GlobalSequence(0)));
    caught_up.expect("it catches up");
    waited.expect("it gets there");
    assert_eq!(harness.tallies(&store).await, counted(Some(1), &[]));
    end(bus).await;
}

pub(crate) async fn a_version_belongs_to_the_tables_that_are_there<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let places = fill(&store, new_stream(), 3).await;
    left_by(2, &harness, &store, places[2]).await;
    store.repair().force().reset(ID).await.expect("it can be moved");
    assert_eq!(version_of(&store).await, Some(2), "moved by hand, its tables are what they were");

    // Read models do not move with a store.
    let copy = harness.fresh(Settings::default()).await;
    transfer::copy(&store, "the first", &copy, |_| ()).await.expect("it can be copied");
    assert_eq!(version_of(&copy).await, None);

    store.repair().force().remove(ID).await.expect("it can be removed");
    let bus = bus(&store);
    let (_, notes) = play(&bus, Model::new(2, &harness, &store)).await;
    arrives(&bus, places[2]).await;
    assert_eq!(noted(&notes)[0], "setup 2", "started anew, it sets up anew");
    end(bus).await;
}
