use super::*;
use crate::Instance;

fn member(session: u128, label: Option<&str>, wants: &[(&str, Option<&str>)], leads: &[&str]) -> Member {
    let want = |(id, prefers): &(&str, Option<&str>)| Want {
        subscriber_id: (*id).to_owned(),
        prefers: prefers.map(str::to_owned),
    };
    Member {
        session: Uuid::from_u128(session),
        instance: Instance {
            id: Uuid::from_u128(session),
            host: String::new(),
            pid: 0,
            label: label.map(str::to_owned),
        },
        wants: wants.iter().map(want).collect(),
        leads: leads.iter().map(|id| (*id).to_owned()).collect(),
    }
}

/// The whole plan. It must have an end.
fn whole_plan(members: &[Member]) -> Vec<Move> {
    let moves = plan(members, 1_000);
    assert!(moves.len() < 1_000, "a plan without an end");
    moves
}

/// What the members lead once a plan is carried out.
fn carried_out(members: &[Member]) -> Vec<Member> {
    let mut members = members.to_vec();
    for Move { subscriber_id, from, to } in whole_plan(&members) {
        for member in &mut members {
            if member.session == from {
                assert!(member.leads.contains(&subscriber_id), "nobody releases what it does not have");
                member.leads.retain(|id| *id != subscriber_id);
            } else if member.session == to {
                assert!(member.wants.iter().any(|want| want.subscriber_id == subscriber_id), "nobody gets unasked");
                member.leads.push(subscriber_id.clone());
            }
        }
    }
    members
}

fn counts(members: &[Member]) -> Vec<usize> {
    members.iter().map(|member| member.leads.len()).collect()
}

const TWELVE: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

fn twelve() -> Vec<(&'static str, Option<&'static str>)> {
    TWELVE.map(|id| (id, None)).to_vec()
}

#[test]
fn twelve_subscribers_on_three_instances_are_four_each() {
    let wants = twelve();
    let all = [member(1, None, &wants, &TWELVE), member(2, None, &wants, &[]), member(3, None, &wants, &[])];
    assert_eq!(counts(&carried_out(&all)), [4, 4, 4]);
    let two = [member(1, None, &wants, &TWELVE[..8]), member(2, None, &wants, &TWELVE[8..])];
    assert_eq!(counts(&carried_out(&two)), [6, 6]);
}

#[test]
fn what_is_level_stays() {
    let wants = twelve();
    let all = [
        member(1, None, &wants, &TWELVE[..4]),
        member(2, None, &wants, &TWELVE[4..7]),
        member(3, None, &wants, &TWELVE[7..]),
    ];
    assert_eq!(counts(&all), [4, 3, 5]);
    let after = carried_out(&all);
    assert_eq!(counts(&after), [4, 4, 4]);
    assert_eq!(whole_plan(&after), [], "a plan that was carried out leaves nothing to do");
    let odd = [member(1, None, &wants, &["a", "b"]), member(2, None, &wants, &["c"])];
    assert_eq!(whole_plan(&odd), [], "a difference of one is none");
}

#[test]
fn only_what_another_instance_wants_is_released() {
    let all = [member(1, None, &twelve(), &TWELVE), member(2, None, &[("a", None), ("x", None)], &["x"])];
    assert_eq!(counts(&carried_out(&all)), [11, 2]);
    assert_eq!(whole_plan(&[member(1, None, &twelve(), &TWELVE), member(2, None, &[], &[])]), []);
    assert_eq!(whole_plan(&[member(1, None, &twelve(), &TWELVE)]), [], "alone one leads everything");
}

#[test]
fn a_label_that_is_preferred_counts_more_than_a_level_board() {
    let wants = [("a", Some("eu")), ("b", Some("eu")), ("c", Some("eu")), ("d", None)];
    let all = [member(1, Some("us"), &wants, &["a", "b", "c", "d"]), member(2, Some("eu"), &wants, &[])];
    let after = carried_out(&all);
    assert_eq!(after[0].leads, ["d"]);
    assert_eq!(whole_plan(&after), [], "what is where it should be is not levelled away");
    // No instance there is preferred: then it is spread like any other.
    let none = [member(1, Some("us"), &wants, &["a", "b", "c", "d"]), member(2, None, &wants, &[])];
    assert_eq!(counts(&carried_out(&none)), [2, 2]);
}

#[test]
fn any_plan_comes_to_an_end_and_levels_what_can_be_levelled() {
    fastrand::seed(7);
    for _ in 0..2_000 {
        let labels = [None, Some("x"), Some("y")];
        let mut members: Vec<Member> = (0..fastrand::u128(1..6))
            .map(|session| {
                let wanted = |id: &&str| fastrand::u8(..4) > 0 || *id == "a";
                let wants: Vec<_> = TWELVE.into_iter().filter(wanted).map(|id| (id, labels[id.len() % 3])).collect();
                member(session, labels[fastrand::usize(..3)], &wants, &[])
            })
            .collect();
        for id in TWELVE {
            let at = fastrand::usize(..members.len());
            members[at].leads.push(id.to_owned());
        }
        let after = carried_out(&members);
        assert_eq!(counts(&after).iter().sum::<usize>(), 12, "everything is still led, once");
        assert_eq!(whole_plan(&after), [], "from {members:?}");
    }
}

#[test]
fn a_part_of_a_plan_is_its_beginning() {
    let wants = twelve();
    let members = [member(1, None, &wants, &TWELVE), member(2, None, &wants, &[])];
    assert_eq!(plan(&members, 2), whole_plan(&members)[..2]);
    assert_eq!(plan(&members, 0), []);
}
