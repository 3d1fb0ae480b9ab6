//! Checkpoints moved from outside, by hand.

use std::sync::Arc;

use highwater::backend::{LeaderHold, Requests};
use highwater::operations::{Cause, DeadLetterQuery};
use highwater::{BusError, Error, EventStore, FailurePolicy, GlobalSequence, Invalid, SubscriptionState};
use uuid::Uuid;

use super::instances::{instance, settled};
use super::players::{Act, Counter, Observer, bus, end, fill, in_state, is_halted};
use crate::checkpoints::{position, stored, take_over};
use crate::dead_letters::{found, places};
use crate::support::{QUIET, deposits, eventually, new_stream, within};
use crate::{Call, Flaky, Harness, Settings, Verdict};

pub(crate) async fn a_checkpoint_is_moved_while_nobody_leads<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 8).await;
    let (early, late) = (events[1], events[5]);
    let first = instance(&*harness, &store, settled()).await;
    let observer = Observer::new("projection:each")
        .plays(move |event, attempt| match event.global_sequence {
            Some(at) if (at == early || at == late) && attempt == 1 => Act::GiveUp("no room"),
            _ => Act::Take,
        })
        .shared();
    first.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    first.wait_for("projection:each", GlobalSequence(events[7])).await.expect("it gets there");
    end(first).await;
    assert_eq!(observer.calls(), events);

    let elsewhere = harness.reopen(&store, Settings::default()).await;
    let before = stored(&store, "projection:each").await.expect("it has a checkpoint").term;
    let repair = elsewhere.repair().by("anna");
    let moved = within("a move", repair.set_checkpoint("projection:each", events[3])).await.expect("nobody leads");
    assert_eq!((moved.from, moved.to, &moved.fenced), (events[7], events[3], &None));
    let now = stored(&store, "projection:each").await.expect("it has a checkpoint");
    assert_eq!((now.global_sequence, now.term.number), (events[3], moved.term));
    assert!(now.term.number > before.number, "nobody can write who could before");
    let open = found(&store, &DeadLetterQuery::of("projection:each")).await;
    assert_eq!(places(&open), [early], "the dead letter of what comes anew is archived");
    let why = within("an explanation", elsewhere.explain("projection:each")).await.expect("the store answers");
    assert!(
        matches!(why.causes[0], Cause::MovedByHand { checkpoint, .. } if checkpoint == events[3]),
        "nobody has to look why the repair has ended: {why}"
    );
    assert_eq!(why.subscriber.last_error.as_deref(), Some("no room"), "what was known of errors stays");

    let second = instance(&*harness, &store, settled()).await;
    second.subscribe(Arc::clone(&observer)).await.expect("nobody is kept from leading");
    second.wait_for("projection:each", GlobalSequence(events[7])).await.expect("it gets there");
    assert_eq!(observer.calls()[8..], events[4..], "it resumes from where it was put");
    end(second).await;
    within("a move", repair.reset("projection:each")).await.expect("nobody leads");
    let moved =
        within("a move", repair.set_checkpoint("projection:each", events[6])).await.expect("on as well as back");
    assert_eq!((moved.from, position(&store, "projection:each").await), (0, Some(events[6])));
    let third = instance(&*harness, &store, settled()).await;
    third.subscribe(Arc::clone(&observer)).await.expect("nobody is kept from leading");
    third.wait_for("projection:each", GlobalSequence(events[7])).await.expect("it gets there");
    assert_eq!(observer.calls()[12..], events[7..]);
    end(third).await;
}

pub(crate) async fn no_checkpoint_is_moved_under_a_leader<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 3).await;
    let elsewhere = harness.reopen(&store, Settings::default()).await;
    let repair = elsewhere.repair();
    let (coordinated, single) = (instance(&*harness, &store, settled()).await, bus(&store));
    for (bus, id, hold) in [
        (&coordinated, "projection:coordinated", LeaderHold::Held),
        (&single, "projection:single", LeaderHold::Unknown),
    ] {
        let observer = Observer::new(id).shared();
        bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
        bus.wait_for(id, GlobalSequence(events[2])).await.expect("it gets there");
        let before = stored(&store, id).await;
        match within("a move", repair.reset(id)).await {
            Err(Error::Bus(BusError::Led { subscriber_id, leader: Some(leader), .. })) => {
                assert_eq!((subscriber_id.as_str(), leader.hold), (id, hold));
                assert_eq!(leader.instance.pid, std::process::id());
            }
            other => panic!("{id} is being processed: {other:?}"),
        }
        assert_eq!(stored(&store, id).await, before, "nothing was changed");
        within("a shutdown", bus.shutdown()).await.expect("all stop in time");
        within("a move", repair.reset(id)).await.expect("it has said that it has stopped");
        assert_eq!((position(&store, id).await, observer.calls()), (Some(0), events.clone()));
    }
    // Of this one nothing is known but that it was there.
    take_over(&store, "projection:silent", 0).await;
    let refused = within("a move", repair.reset("projection:silent")).await;
    assert!(
        matches!(&refused, Err(Error::Bus(BusError::Led { .. }))),
        "it cannot be told whether it runs: {refused:?}"
    );
    within("a move", repair.force().reset("projection:silent")).await.expect("whatever runs");
}

pub(crate) async fn a_forced_move_is_followed_by_who_leads<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 6).await;
    let elsewhere = harness.reopen(&store, Settings::default()).await;
    let repair = elsewhere.repair().by("anna").force();
    let (coordinated, single) = (instance(&*harness, &store, settled()).await, bus(&store));
    let each = Observer::new("projection:each").shared();
    let single_one = Observer::new("projection:single").shared();
    let count = Counter::new("projection:count", &harness, &store).shared();
    let subscriptions = [
        coordinated.subscribe(Arc::clone(&each)).await.expect("it can be subscribed"),
        coordinated.subscribe(Arc::clone(&count)).await.expect("it can be subscribed"),
        single.subscribe(Arc::clone(&single_one)).await.expect("it can be subscribed"),
    ];
    for subscription in &subscriptions {
        within("catching up", subscription.caught_up()).await.expect("it gets there");
    }
    // Nothing new comes, and they resume from there all the same.
    for subscription in &subscriptions {
        let id = subscription.subscriber_id();
        eventually("its checkpoint is stored", async || position(&store, id).await == Some(events[5])).await;
        let before = stored(&store, id).await.expect("it has a checkpoint").term.number;
        let moved = within("a move", repair.set_checkpoint(id, events[2])).await.expect("it is forced");
        assert_eq!((moved.from, moved.to), (events[5], events[2]));
        assert!(moved.term > before && moved.fenced.is_some(), "{moved:?}");
        in_state(subscription, "it leads with the new term", |state| state.term() == Some(moved.term)).await;
        eventually("it gets there again", async || position(&store, id).await == Some(events[5])).await;
    }
    let again = [&events[..], &events[3..]].concat();
    assert_eq!((each.taken(), single_one.taken(), count.taken()), (again.clone(), again.clone(), again));
    let counts = count.counts().await;
    assert_eq!(counts.values().copied().collect::<Vec<_>>(), [1, 1, 1, 2, 2, 2], "what comes again counts again");
    let more = fill(&store, new_stream(), 2).await;
    for subscription in &subscriptions {
        let id = subscription.subscriber_id();
        coordinated.wait_for(id, GlobalSequence(more[1])).await.expect("it continues");
        assert!(!is_halted(&subscription.state()) && !subscription.state().is_standby());
    }
    end(coordinated).await;
    end(single).await;
}

pub(crate) async fn a_forced_move_gets_past_what_halts<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let events = fill(&store, new_stream(), 4).await;
    let bus = instance(&*harness, &store, settled()).await;
    let at = events[1];
    let observer = Observer::new("projection:each")
        .on_failure(FailurePolicy::Halt)
        .plays(move |event, _| if event.global_sequence == Some(at) { Act::GiveUp("no room") } else { Act::Take })
        .shared();
    let subscription = bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    in_state(&subscription, "it is halted", is_halted).await;
    within("a move", store.repair().force().set_checkpoint("projection:each", at)).await.expect("it is forced");
    bus.wait_for("projection:each", GlobalSequence(events[3])).await.expect("it continues");
    assert_eq!(observer.taken(), [events[0], events[2], events[3]]);
    in_state(&subscription, "it is live", SubscriptionState::is_live).await;
    end(bus).await;
    // What is done is not said to have failed because the leader could not be told.
    take_over(&store, "projection:other", 3).await;
    let mute =
        Flaky::new(store.clone(), |call| if matches!(call, Call::Request) { Verdict::Fail } else { Verdict::Through });
    let moved = within("a move", mute.repair().force().reset("projection:other")).await.expect("it is done");
    assert_eq!((moved.from, moved.to, position(&store, "projection:other").await), (3, 0, Some(0)));
}

pub(crate) async fn a_forced_move_replays_nothing<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    // Every id is one that a stream may have.
    let nil = fill(&store, Uuid::nil(), 1).await[0];
    let events = fill(&store, new_stream(), 3).await;
    let bus = instance(&*harness, &store, settled()).await;
    let observer = Observer::new("projection:each")
        .plays(move |event, attempt| match event.global_sequence {
            Some(at) if at == nil && attempt == 1 => Act::GiveUp("no room"),
            _ => Act::Take,
        })
        .shared();
    bus.subscribe(Arc::clone(&observer)).await.expect("it can be subscribed");
    bus.wait_for("projection:each", GlobalSequence(events[2])).await.expect("it gets there");
    let moved = within("a move", store.repair().force().set_checkpoint("projection:each", events[1])).await;
    assert_eq!(moved.expect("it is forced").to, events[1]);
    let name = ["projection:each".to_owned()];
    eventually("its leader has nothing left to do", async || {
        let open = within("requests", store.open_requests(&name)).await.expect("they can be read");
        open.is_empty() && position(&store, "projection:each").await == Some(events[2])
    })
    .await;
    let open = found(&store, &DeadLetterQuery::of("projection:each")).await;
    assert_eq!(places(&open), [nil], "what lies before the new position is left to the operator");
    assert_eq!(observer.taken(), [&events[..], &events[2..]].concat());
    end(bus).await;
    // Of this one nothing is known but that it was there: what is filed for it stays open, and no operator asked for it.
    take_over(&store, "projection:silent", 0).await;
    within("a move", store.repair().force().reset("projection:silent")).await.expect("it is forced");
    let why = within("an explanation", store.explain("projection:silent")).await.expect("the store answers");
    assert_eq!(why.subscriber.open_requests, 0, "{why}");
}

pub(crate) async fn what_cannot_be_moved_to_is_refused<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let repair = store.repair();
    let unknown = within("a move", repair.reset("projection:each")).await;
    assert!(
        matches!(&unknown, Err(Error::Bus(BusError::UnknownSubscriber(id))) if id == "projection:each"),
        "{unknown:?}"
    );
    assert_eq!(stored(&store, "projection:each").await, None, "nothing was made of it");
    let events = fill(&store, new_stream(), 2).await;
    let first = bus(&store);
    first.subscribe(Observer::new("projection:each").shared()).await.expect("it can be subscribed");
    first.wait_for("projection:each", GlobalSequence(events[1])).await.expect("it gets there");
    end(first).await;
    for repair in [repair.clone(), repair.clone().force()] {
        match within("a move", repair.set_checkpoint("projection:each", events[1] + 1)).await {
            Err(Error::Invalid(Invalid::Position { wanted, head })) => {
                assert_eq!((wanted, head), (events[1] + 1, events[1]));
            }
            other => panic!("there is nothing yet: {other:?}"),
        }
    }
    let nobody = within("a move", repair.clone().by("").reset("projection:each")).await;
    assert!(matches!(nobody, Err(Error::Invalid(Invalid::Setting { name: "by", .. }))), "{nobody:?}");
    // Where numbers are drawn early, what is open may still appear before what is there.
    let open = harness.begin(&store, deposits(new_stream(), 1)).await.expect("it can be begun");
    let later = fill(&store, new_stream(), 1).await;
    tokio::time::sleep(QUIET).await;
    let moved = within("a move", repair.set_checkpoint("projection:each", later[0])).await;
    let own = open.commit().await.expect("it is committed").global_sequence;
    match moved {
        Ok(_) => assert!(own > later[0], "{own} would have been passed over"),
        Err(Error::Unavailable { .. }) => {}
        Err(other) => panic!("it is not settled yet: {other:?}"),
    }
    eventually("it can be moved there", async || {
        repair.set_checkpoint("projection:each", later[0]).await.is_ok_and(|moved| moved.to == later[0])
    })
    .await;
}
