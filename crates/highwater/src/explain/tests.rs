//! What is explained from what is seen.

use super::*;
use crate::Instance;

fn leader(hold: LeaderHold) -> Leader {
    let instance = Instance { host: "web-3".to_owned(), pid: 4711, ..Instance::here(None) };
    Leader { subscriber_id: "projection:orders".to_owned(), instance, since: Utc::now(), term: 7, hold }
}

fn report(state: SubscriptionState) -> Report {
    Report {
        subscriber_id: "projection:orders".to_owned(),
        term: 7,
        state,
        position: 40,
        rate: 0.0,
        last_error: Some("no room\n  at all.".to_owned()),
        push_degraded: None,
        reads: None,
        reported_at: Utc::now(),
    }
}

/// Live and where the log is.
fn subscriber() -> SubscriberOverview {
    SubscriberOverview {
        subscriber_id: "projection:orders".to_owned(),
        lease: false,
        checkpoint: 40,
        checkpoint_at: Utc::now(),
        term: 7,
        lag_events: 0,
        lag: Duration::ZERO,
        held_back: false,
        leader: Some(leader(LeaderHold::Held)),
        paused: false,
        report: Some(report(SubscriptionState::Live { term: 7 })),
        rate: 0.0,
        time_left: Some(Duration::ZERO),
        dead_letters: 0,
        parked_streams: 0,
        open_requests: 0,
        last_error: None,
        still_since: None,
    }
}

fn behind() -> SubscriberOverview {
    SubscriberOverview { lag_events: 60, rate: 2.0, time_left: Some(Duration::from_secs(300)), ..subscriber() }
}

fn told(head: u64, subscriber: &SubscriberOverview) -> Vec<String> {
    let frontier = subscriber.checkpoint + subscriber.lag_events;
    let held_back = head > frontier && subscriber.lag_events == 0;
    let lag_events = head - subscriber.checkpoint;
    let subscriber = &SubscriberOverview { lag_events, held_back, ..subscriber.clone() };
    let writer = OpenWriter {
        pid: Some(99),
        role: Some("app".to_owned()),
        may_only_have_looked: true,
        age: Some(Duration::from_secs(600)),
        application_name: Some("psql".to_owned()),
        last_statement: Some("INSERT INTO\n events".to_owned()),
        ..OpenWriter::new("3/17")
    };
    let open_writers = if head > frontier { vec![writer] } else { Vec::new() };
    let overview =
        Overview { frontier, head, open_writers, filling: None, subscribers: Vec::new(), leases: Vec::new() };
    let said: Vec<String> = causes(&overview, subscriber, &[]).iter().map(ToString::to_string).collect();
    assert!(!said.is_empty() && said.iter().all(|said| said.ends_with('.')), "full sentences: {said:?}");
    said
}

#[test]
fn who_is_where_the_log_is_has_nothing_to_do() {
    assert_eq!(told(40, &subscriber()), ["It has handled everything, up to 40. There is nothing to do."]);
}

#[test]
fn who_is_behind_says_how_long_it_takes() {
    assert_eq!(
        told(100, &behind()),
        ["It is catching up: up to 60 events are left, which takes about 5 min at 2 events a second. Wait for it."]
    );
    let unknown = SubscriberOverview { rate: 0.0, time_left: None, ..behind() };
    assert!(told(100, &unknown)[0].contains("not known yet"));
}

#[test]
fn what_is_waited_for_is_named() {
    let [said] = &told(55, &subscriber())[..] else { panic!("one cause") };
    let named = "process 99 (role app, application psql, open for 10 min, last statement: INSERT INTO events, it has \
                 written nothing so far and may only have looked)";
    assert!(said.contains("up to 40") && said.contains("up to 55") && said.contains(named), "{said}");
    let [first, second] = &told(155, &behind())[..] else { panic!("two causes") };
    assert!(first.starts_with("The log is settled up to 100") && first.contains(named), "{first}");
    assert!(second.starts_with("It is catching up: up to 115 events"), "{second}");
}

#[test]
fn there_is_nothing_to_do_only_where_nothing_else_is_said() {
    let gone = SubscriberOverview { leader: Some(leader(LeaderHold::Gone)), report: None, ..subscriber() };
    let paused = SubscriberOverview { paused: true, ..subscriber() };
    let dead_letters = SubscriberOverview { dead_letters: 1, ..subscriber() };
    let asked = SubscriberOverview { open_requests: 2, ..subscriber() };
    for other in [gone, paused, dead_letters, asked] {
        let said = told(40, &other);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said.contains(&"It has got to the end of the log, at 40, and is not behind.".to_owned()), "{said:?}");
        assert!(said.iter().all(|said| !said.contains("nothing to do")), "{said:?}");
    }
}

#[test]
fn who_does_not_move_is_named_before_everything_else() {
    let still = SubscriberOverview { still_since: Some(Utc::now() - Duration::from_secs(60)), ..behind() };
    let said = told(100, &still);
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("Process 4711 on web-3 leads, but has not moved since "), "{said:?}");
    let uncoordinated = SubscriberOverview { leader: Some(leader(LeaderHold::Unknown)), ..still };
    let said = told(100, &uncoordinated);
    assert!(said[0].contains("has not moved") && said[1].contains("cannot be told"), "{said:?}");
}

#[test]
fn what_is_absent_is_said() {
    let gone = SubscriberOverview { leader: Some(leader(LeaderHold::Gone)), report: None, ..behind() };
    let said = told(100, &gone);
    assert!(said[0].starts_with("Nobody processes for it. Process 4711 on web-3 did so last"), "{said:?}");
    assert_eq!(said.len(), 1, "it catches up with nothing");
    let never = SubscriberOverview { leader: None, ..gone.clone() };
    assert!(told(100, &never)[0].contains("none is known to have"));
    let stopped = SubscriberOverview { report: Some(report(SubscriptionState::Stopped)), ..gone };
    assert!(told(100, &stopped)[0].starts_with("Process 4711 on web-3 stopped it in good order"));
    let mut repair = leader(LeaderHold::Gone);
    repair.instance.label = Some(REPAIR_LABEL.to_owned());
    let said = told(100, &SubscriberOverview { leader: Some(repair), ..stopped });
    assert!(
        said[0].starts_with("Its checkpoint was put to 40 by hand") && said[0].contains("process 4711"),
        "{said:?}"
    );
}

#[test]
fn what_a_leader_says_is_passed_on() {
    let says = |state| SubscriberOverview { report: Some(report(state)), ..behind() };
    let retrying = SubscriptionState::Retrying {
        term: 7,
        global_sequence: 41,
        failures: 3,
        next_at: Utc::now(),
        error: "no room".into(),
    };
    let said = told(100, &says(retrying));
    assert!(
        said[0].starts_with("Event 41 has failed 3 times") && said[0].contains(": no room at all. Fix"),
        "{said:?}"
    );
    let said = told(100, &says(SubscriptionState::Halted { reason: "event 41 failed".into() }));
    assert!(said[0].starts_with("It is halted: event 41 failed. Fix the cause"), "{said:?}");
    assert!(
        told(100, &says(SubscriptionState::Disconnected { error: "no room".into() }))[0]
            .contains("cannot work with the store: no room")
    );
    let paused = SubscriberOverview { paused: true, ..behind() };
    assert_eq!(told(100, &paused), ["An operator paused it. Resume it, and it continues from where it is."]);
}

#[test]
fn what_else_is_to_be_done_comes_last() {
    let degraded = Report { push_degraded: Some("a pooler".to_owned()), ..report(SubscriptionState::Live { term: 7 }) };
    let others = SubscriberOverview { dead_letters: 1, parked_streams: 2, report: Some(degraded), ..subscriber() };
    let others = SubscriberOverview { open_requests: 3, ..others };
    let said = told(40, &others);
    assert_eq!(said.len(), 5);
    assert!(said[1].starts_with("2 streams wait behind an event") && said[2].starts_with("1 dead letter is open"));
    assert!(said[3].starts_with("3 requests (replay, discard, rebuild) wait for the leader."), "{said:?}");
    assert!(said[4].contains("polling alone: a pooler."), "{said:?}");
}
