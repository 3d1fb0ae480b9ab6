//! Which of the waiting appends go together.

use std::collections::{HashSet, VecDeque};

use uuid::Uuid;

use crate::{ExpectedVersion, QueuedAppend};

/// Takes the next group from the front of the backlog; what cannot go with it stays, in order.
///
/// Within a group only the first append to a stream may expect anything of it: whether a later one's expectation holds
/// depends on whether the first is stored. An append that stays behind makes later appends to its streams stay as well, so
/// that no caller is overtaken for ever. Appends to streams that are `in_flight` stay too: they would wait for the group
/// under way. Callers that have gone are left out.
pub(super) fn take_group(
    backlog: &mut VecDeque<QueuedAppend>,
    in_flight: &HashSet<Uuid>,
    events_max: usize,
    bytes_max: usize,
) -> Vec<QueuedAppend> {
    let mut group: Vec<QueuedAppend> = Vec::new();
    let mut stays: VecDeque<QueuedAppend> = VecDeque::new();
    let mut taken = HashSet::new();
    let mut blocked = HashSet::new();
    let (mut events, mut bytes) = (0, 0);
    while let Some(request) = backlog.pop_front() {
        if request.answer.is_closed() {
            continue;
        }
        let append = &request.append;
        let full =
            !group.is_empty() && (events + append.records.len() > events_max || bytes + append.bytes > bytes_max);
        if full {
            backlog.push_front(request);
            break;
        }
        let fits = append.streams.iter().all(|(stream, expected)| {
            !blocked.contains(stream)
                && !in_flight.contains(stream)
                && (*expected == ExpectedVersion::Any || !taken.contains(stream))
        });
        if fits {
            taken.extend(request.streams());
            events += append.records.len();
            bytes += append.bytes;
            group.push(request);
        } else {
            blocked.extend(request.streams());
            stays.push_back(request);
        }
    }
    while let Some(request) = stays.pop_back() {
        backlog.push_front(request);
    }
    group
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Append, KindsWritten, Limits, Prepared, Upcasters};
    use tokio::sync::oneshot;

    #[derive(serde::Serialize)]
    enum Noted {
        Noted(String),
    }

    type Answer = oneshot::Receiver<Result<crate::Appended, crate::Error>>;

    fn request(streams: &[(u128, ExpectedVersion)]) -> (QueuedAppend, Answer) {
        let mut append = Append::to(Uuid::from_u128(streams[0].0));
        for (stream, expected) in streams {
            append = append.and_to(Uuid::from_u128(*stream)).expecting(*expected).event(Noted::Noted("x".repeat(98)));
        }
        let append = Prepared::new(&append, &Limits::default(), &Upcasters::new(), &KindsWritten::default()).unwrap();
        let (answer, answered) = oneshot::channel();
        (QueuedAppend { append, answer }, answered)
    }

    fn backlog(requests: &[&[(u128, ExpectedVersion)]]) -> (VecDeque<QueuedAppend>, Vec<Answer>) {
        requests.iter().map(|streams| request(streams)).unzip()
    }

    fn streams(requests: impl IntoIterator<Item = QueuedAppend>) -> Vec<u128> {
        requests.into_iter().map(|request| request.append.streams[0].0.as_u128()).collect()
    }

    use ExpectedVersion::{Any, Exact, NoStream};

    #[test]
    fn different_streams_go_together() {
        let (mut backlog, _answers) = backlog(&[&[(1, NoStream)], &[(2, Any)], &[(3, Exact(4))]]);
        assert_eq!(streams(take_group(&mut backlog, &HashSet::new(), 100, 10_000)), [1, 2, 3]);
        assert!(backlog.is_empty());
    }

    #[test]
    fn a_second_append_to_a_stream_goes_along_only_if_it_expects_nothing() {
        let (mut backlog, _answers) =
            backlog(&[&[(1, Exact(4))], &[(1, Any)], &[(1, Exact(5))], &[(1, Any)], &[(2, Any)]]);
        assert_eq!(streams(take_group(&mut backlog, &HashSet::new(), 100, 10_000)), [1, 1, 2]);
        // The last append to 1 did not overtake the one that had to stay.
        assert_eq!(streams(take_group(&mut backlog, &HashSet::new(), 100, 10_000)), [1, 1]);
    }

    #[test]
    fn streams_that_are_in_flight_are_waited_for() {
        let (mut backlog, _answers) = backlog(&[&[(1, Any)], &[(2, Any), (3, Any)], &[(3, Any)], &[(4, Any)]]);
        let in_flight = HashSet::from([Uuid::from_u128(2)]);
        assert_eq!(streams(take_group(&mut backlog, &in_flight, 100, 10_000)), [1, 4]);
        assert_eq!(streams(take_group(&mut backlog, &HashSet::new(), 100, 10_000)), [2, 3]);
    }

    #[test]
    fn a_group_has_limits_but_is_never_empty() {
        let (mut backlog, _answers) = backlog(&[&[(1, Any), (2, Any)], &[(3, Any)], &[(4, Any)]]);
        assert_eq!(streams(take_group(&mut backlog, &HashSet::new(), 1, 10_000)), [1]);
        assert_eq!(streams(take_group(&mut backlog, &HashSet::new(), 100, 150)), [3]);
        assert_eq!(streams(take_group(&mut backlog, &HashSet::new(), 100, 150)), [4]);
    }

    #[test]
    fn callers_who_have_gone_are_left_out() {
        let (mut backlog, mut answers) = backlog(&[&[(1, Any)], &[(2, Any)]]);
        drop(answers.remove(0));
        assert_eq!(streams(take_group(&mut backlog, &HashSet::new(), 100, 10_000)), [2]);
    }
}
