//! Whether a subscriber has a leader: one answer, for everything that observes it through the store.

use crate::{Backend, Error, Leader, LeaderHold, Report, SubscriptionState};

/// Whether the present or last leader still leads, by its lock and by the last report on the subscriber.
///
/// A lock is believed, whatever was reported. Without coordination there is none, and only the leader's own report can tell that it
/// has stopped. Should that be wrong, the next term fences it: what reaches the store does not depend on this.
pub(crate) fn hold_of(leader: Option<&Leader>, report: Option<&Report>) -> LeaderHold {
    let Some(leader) = leader else { return LeaderHold::Gone };
    let stopped = |report: &Report| report.term == leader.term && matches!(report.state, SubscriptionState::Stopped);
    match leader.hold {
        LeaderHold::Unknown if report.is_some_and(stopped) => LeaderHold::Gone,
        hold => hold,
    }
}

/// The leader of a subscriber, or the instance that may be it: one that runs without coordination and has not reported that it
/// stopped.
///
/// # Errors
/// When the store cannot be asked.
pub async fn leader_of(store: &dyn Backend, subscriber_id: &str) -> Result<Option<Leader>, Error> {
    let leader = store.leaders().await?.into_iter().find(|leader| leader.subscriber_id == subscriber_id);
    let report = store.reports().await?.into_iter().find(|report| report.subscriber_id == subscriber_id);
    Ok(leader.filter(|leader| hold_of(Some(leader), report.as_ref()) != LeaderHold::Gone))
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::*;
    use crate::Instance;

    #[test]
    fn a_lock_tells_and_where_there_is_none_the_last_report_of_the_term_does() {
        use LeaderHold::{Gone, Held, Unknown};
        let subscriber_id = "projection:orders".to_owned();
        let leader = |hold| Leader {
            subscriber_id: subscriber_id.clone(),
            instance: Instance::here(None),
            since: Utc::now(),
            term: 7,
            hold,
        };
        let report = |(term, state)| Report {
            subscriber_id: subscriber_id.clone(),
            term,
            state,
            position: 40,
            rate: 0.0,
            last_error: None,
            push_degraded: None,
            reads: None,
            reported_at: Utc::now(),
        };
        let (stopped, live) = (SubscriptionState::Stopped, SubscriptionState::Live { term: 7 });
        let halted = SubscriptionState::Halted { reason: "no room".into() };
        for (hold, reported, expected) in [
            (None, None, Gone),
            (None, Some((7, live.clone())), Gone),
            (Some(Gone), None, Gone),
            (Some(Gone), Some((7, live.clone())), Gone),
            (Some(Gone), Some((7, stopped.clone())), Gone),
            (Some(Held), None, Held),
            (Some(Held), Some((7, live.clone())), Held),
            (Some(Held), Some((7, stopped.clone())), Held),
            (Some(Unknown), None, Unknown),
            (Some(Unknown), Some((7, live)), Unknown),
            (Some(Unknown), Some((7, halted)), Unknown),
            (Some(Unknown), Some((7, stopped.clone())), Gone),
            (Some(Unknown), Some((6, stopped.clone())), Unknown),
            (Some(Unknown), Some((8, stopped)), Unknown),
        ] {
            let told = format!("{hold:?}, {reported:?}");
            assert_eq!(hold_of(hold.map(leader).as_ref(), reported.map(report).as_ref()), expected, "{told}");
        }
    }
}
