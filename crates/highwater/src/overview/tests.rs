//! What follows from what is stored.

use uuid::Uuid;

use super::*;
use crate::{Instance, Term};

const ID: &str = "projection:orders";

fn ago(seconds: i64) -> DateTime<Utc> {
    Utc::now() - chrono::TimeDelta::seconds(seconds)
}

fn leader(hold: LeaderHold) -> Leader {
    Leader { subscriber_id: ID.to_owned(), instance: Instance::here(None), since: ago(1000), term: 7, hold }
}

fn report(term: u64, state: SubscriptionState) -> Report {
    Report {
        subscriber_id: ID.to_owned(),
        term,
        state,
        position: 40,
        rate: 2.0,
        last_error: Some("no room".to_owned()),
        push_degraded: None,
        reads: None,
        reported_at: ago(500),
    }
}

/// At 40, of what is settled up to `frontier`, with an event behind it that is `age` seconds old.
fn seen(leader: Option<Leader>, report: Option<Report>, frontier: u64, age: i64) -> SubscriberOverview {
    let oldest = Some(ago(age)).filter(|_| frontier > 40);
    seen_at(leader, report, Ends { frontier, head: frontier }, oldest)
}

/// At 40 of a log that ends there.
fn seen_at(
    leader: Option<Leader>,
    report: Option<Report>,
    ends: Ends,
    oldest: Option<DateTime<Utc>>,
) -> SubscriberOverview {
    let known = Known {
        leaders: leader.into_iter().map(|leader| (ID.to_owned(), leader)).collect(),
        reports: report.into_iter().map(|report| (ID.to_owned(), report)).collect(),
        paused: HashSet::new(),
        requests: HashMap::new(),
        has_dead_letters: false,
    };
    let checkpoint = Checkpoint {
        subscriber_id: ID.to_owned(),
        global_sequence: 40,
        event_id: None,
        updated_at: ago(400),
        term: Term { number: 7, nonce: Uuid::nil() },
        incarnation: 0,
        setup_version: None,
    };
    known.subscriber(checkpoint, ends, oldest, PATIENCE)
}

#[test]
fn what_a_leader_says_counts_while_it_leads_with_that_term() {
    let live = |term, hold| seen(Some(leader(hold)), Some(report(term, SubscriptionState::Live { term: 7 })), 50, 1);
    assert_eq!(live(7, LeaderHold::Held).state(), "live");
    assert_eq!(live(7, LeaderHold::Unknown).state(), "live");
    assert_eq!(live(7, LeaderHold::Gone).state(), "no leader");
    assert_eq!(live(6, LeaderHold::Held).report, None, "it was another leader's");
    assert_eq!(live(6, LeaderHold::Held).state(), "catching up");
    assert_eq!(seen(None, None, 40, 0).state(), "no leader");
    assert_eq!(
        live(6, LeaderHold::Gone).last_error.as_deref(),
        Some("no room"),
        "errors are worth knowing all the same"
    );
}

#[test]
fn who_has_stopped_has_stopped_until_another_instance_leads() {
    for hold in [LeaderHold::Gone, LeaderHold::Unknown] {
        let stopped = seen(Some(leader(hold)), Some(report(7, SubscriptionState::Stopped)), 50, 1);
        assert_eq!((stopped.state(), stopped.is_led()), ("stopped", false));
    }
    let former = seen(Some(leader(LeaderHold::Held)), Some(report(6, SubscriptionState::Stopped)), 40, 0);
    assert_eq!((former.state(), former.is_led()), ("live", true));
}

#[test]
fn who_is_behind_and_has_not_moved_for_a_while_does_not_move() {
    let held = || Some(leader(LeaderHold::Held));
    let live = || Some(report(7, SubscriptionState::Live { term: 7 }));
    let still = seen(held(), live(), 50, 30);
    assert_eq!(still.state(), "not moving");
    assert!((Utc::now() - still.still_since.unwrap_or_default()).num_seconds() >= 29, "since there is something to do");
    assert_eq!(seen(held(), live(), 50, 5).state(), "live", "it has only just got something to do");
    assert_eq!(seen(held(), live(), 40, 30).state(), "live", "there is nothing to do");
    let halted = seen(held(), Some(report(7, SubscriptionState::Halted { reason: "no room".into() })), 50, 30);
    assert_eq!((halted.state(), halted.still_since), ("halted", None));
}

#[test]
fn what_was_said_of_a_rate_counts_for_a_while() {
    let said = |seconds, hold| {
        let report = Report { reported_at: ago(seconds), ..report(7, SubscriptionState::CatchingUp { term: 7 }) };
        let seen = seen(Some(leader(hold)), Some(report), 50, 3);
        (seen.rate, seen.time_left)
    };
    assert_eq!(said(1, LeaderHold::Held), (2.0, Some(Duration::from_secs(5))));
    assert_eq!(said(-60, LeaderHold::Held).0, 2.0, "its clock is ahead");
    assert_eq!(said(60, LeaderHold::Held), (0.0, None), "nothing has moved since");
    assert_eq!(said(1, LeaderHold::Gone), (0.0, None), "it is another's, or nobody's");
}

#[test]
fn lag_and_time_left_follow_from_where_it_is() {
    let report = Report { reported_at: ago(1), ..report(7, SubscriptionState::CatchingUp { term: 7 }) };
    let behind = seen(Some(leader(LeaderHold::Held)), Some(report), 50, 3);
    assert_eq!((behind.lag_events, behind.time_left), (10, Some(Duration::from_secs(5))));
    assert!(behind.lag >= Duration::from_secs(3) && behind.lag < Duration::from_secs(5), "{:?}", behind.lag);
    let there = seen(Some(leader(LeaderHold::Held)), None, 40, 0);
    assert_eq!((there.lag_events, there.lag, there.time_left), (0, Duration::ZERO, Some(Duration::ZERO)));
    assert_eq!(seen(None, None, 50, 3).time_left, None, "nobody works on it");
}

#[test]
fn who_is_held_back_is_not_live_in_silence_and_could_not_have_moved() {
    let leads = || (Some(leader(LeaderHold::Held)), Some(report(7, SubscriptionState::Live { term: 7 })));
    let at = |ends| {
        let (leader, report) = leads();
        seen_at(leader, report, ends, None)
    };
    let held_back = at(Ends { frontier: 40, head: 50 });
    assert_eq!((held_back.state(), held_back.lag_events, held_back.still_since), ("held back", 10, None));
    assert_eq!(held_back.time_left, None, "that is up to others");
    assert_eq!(at(Ends { frontier: 45, head: 50 }).state(), "not moving", "there is something that it could handle");
    assert_eq!(at(Ends { frontier: 40, head: 40 }).state(), "live");
}
