//! Callers are independent: what befalls one of them concerns that one alone.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use highwater::ExpectedVersion::{Any, Exact, NoStream};
use highwater::backend::Log;
use highwater::{Append, Appended, Error, ExpectedVersion, Invalid, Limits};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use uuid::Uuid;

use crate::support::{
    Ledger, assert_conflict, assert_holds, deposits, eventually, everything, new_stream, seed, soak, store,
    store_in_the_end, stream, within,
};
use crate::{Harness, Settings};

type Answer = Result<Appended, Error>;

fn send<L: Log + Clone + 'static>(log: &L, append: &Append) -> JoinHandle<Answer> {
    let (log, append) = (log.clone(), append.clone());
    tokio::spawn(async move { log.append(&append).await })
}

async fn answered(call: JoinHandle<Answer>) -> Answer {
    within("an append", call).await.expect("an append does not panic")
}

pub(crate) async fn a_mistake_concerns_its_caller_alone<H: Harness>(harness: Arc<H>) {
    let limits = Limits { event_bytes_max: 10_000, ..Limits::default() };
    let log = harness.fresh(limits.into()).await;
    let (stream_id, id) = (new_stream(), Uuid::now_v7());
    let known = Append::to(stream_id).event_with_id(id, Ledger::deposited(1));
    let mut done = vec![(known.clone(), store(&log, &known).await)];
    for _ in 0..soak(6) {
        let mistakes = [
            deposits(stream_id, 2).expecting(Exact(1_000_000)),
            deposits(stream_id, 1).event(Ledger::Noted("\0".into())),
            Append::to(stream_id).event(Ledger::Noted("x".repeat(10_000))),
            Append::to(stream_id).event_with_id(id, Ledger::deposited(2)),
            known.clone().event(Ledger::Closed),
        ];
        let fine = [0, 1, 2, 3].map(|nth| deposits(if nth % 2 == 0 { stream_id } else { new_stream() }, 2));
        // All at once, the mistakes between the others.
        let early = [0, 1].map(|nth| send(&log, &fine[nth]));
        let mistakes = mistakes.map(|append| send(&log, &append));
        let repeated = send(&log, &known);
        let late = [2, 3].map(|nth| send(&log, &fine[nth]));
        for (append, call) in fine.into_iter().zip(early.into_iter().chain(late)) {
            let answer = answered(call).await.expect("nothing speaks against this append");
            done.push((append, answer));
        }
        assert_each_has_its_own_error(mistakes, id).await;
        let again = answered(repeated).await.expect("it is known");
        assert_eq!((&again.positions, again.repeated), (&done[0].1.positions, true));
    }
    assert_holds(&everything(&log).await, done.iter().map(|(append, done)| (append, done)));
}

async fn assert_each_has_its_own_error(mistakes: [JoinHandle<Answer>; 5], id: Uuid) {
    let [conflict, nul, too_large, taken, mixed] = mistakes;
    let error = answered(conflict).await.expect_err("the expectation does not hold");
    assert!(matches!(error, Error::Conflict { expected: Exact(1_000_000), .. }), "{error:?}");
    let error = answered(nul).await.expect_err("it holds a NUL");
    assert!(matches!(error, Error::Invalid(Invalid::NulCharacter(_))), "{error:?}");
    let error = answered(too_large).await.expect_err("it is too large");
    assert!(matches!(error, Error::Invalid(Invalid::EventTooLarge { .. })), "{error:?}");
    let error = answered(taken).await.expect_err("the id is taken");
    assert!(matches!(error, Error::IdTaken { event_id, .. } if event_id == id), "{error:?}");
    let error = answered(mixed).await.expect_err("one id of two is known");
    assert!(matches!(error, Error::PartlyStored { stored: 1, total: 2 }), "{error:?}");
}

/// Callers that have nothing to do with a stream that is being held.
async fn others_continue<L: Log + Clone + 'static>(log: &L) -> Vec<(Append, Appended)> {
    let mut tasks = JoinSet::new();
    for nth in 0..6 {
        let log = log.clone();
        tasks.spawn(async move {
            let (own, mut done) = (new_stream(), Vec::new());
            for _ in 0..5 {
                let append = deposits(own, 1 + nth % 3).and_to(new_stream()).event(Ledger::Closed);
                let answer = store(&log, &append).await;
                let last = stream(&log, own).await.pop().expect("what was stored is there");
                assert_eq!(last.stream_version, answer.positions[nth % 3].stream_version);
                done.push((append, answer));
            }
            done
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

/// Holds a stream in an open transaction and has other writers continue meanwhile, among them one that wants the same
/// stream.
async fn hold<H: Harness>(harness: &H, log: &H::Store, stream_id: Uuid, expected: ExpectedVersion, commit: bool) {
    let before = everything(log).await.len();
    let held = deposits(stream_id, 2).expecting(expected);
    let waiting = deposits(stream_id, 1).expecting(expected);
    let open = harness.begin(log, held.clone()).await.expect("an append can be begun");
    let call = send(log, &waiting);
    let mut done = within("callers who want other streams", others_continue(log)).await;
    let outcome = if commit { open.commit().await.map(Some) } else { open.rollback().await.map(|()| None) };
    // Who wanted the held stream waited, or was told that it is held; then it is free now.
    let answer = match answered(call).await {
        Err(Error::StreamHeld { .. }) => within("an append", log.append(&waiting)).await,
        answer => answer,
    };
    match (outcome, answer) {
        (Ok(held_done), Ok(answer)) => {
            assert!(expected == Any || held_done.is_none(), "only one of two finds a new stream");
            done.extend(held_done.map(|held_done| (held, held_done)));
            done.push((waiting, answer));
        }
        (Ok(Some(held_done)), Err(error)) => {
            assert_conflict(&error, stream_id, NoStream, 2);
            done.push((held, held_done));
        }
        (Err(error), Ok(answer)) => {
            assert_conflict(&error, stream_id, NoStream, 1);
            done.push((waiting, answer));
        }
        (held_done, answer) => panic!("one of them finds the stream as expected: {held_done:?}, {answer:?}"),
    }
    let new = everything(log).await.split_off(before);
    assert_holds(&new, done.iter().map(|(append, done)| (append, done)));
    stream(log, stream_id).await;
}

pub(crate) async fn a_stream_held_open_delays_nobody_else<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    store(&log, &deposits(stream_id, 3)).await;
    for round in 0..soak(4) {
        hold(&*harness, &log, stream_id, Any, round % 2 == 0).await;
    }
}

pub(crate) async fn a_new_stream_held_open_delays_nobody_else<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    for round in 0..soak(2) {
        for expected in [Any, NoStream] {
            hold(&*harness, &log, new_stream(), expected, round % 2 == 0).await;
        }
    }
}

pub(crate) async fn the_same_append_held_open_is_stored_once<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    for round in 0..soak(4) {
        let stream_id = new_stream();
        let append = deposits(stream_id, 2);
        let open = harness.begin(&log, append.clone()).await.expect("an append can be begun");
        let call = send(&log, &append);
        within("callers who want other streams", others_continue(&log)).await;
        let committed = round % 2 == 0;
        if committed {
            open.commit().await.expect("an open append can be committed");
        } else {
            open.rollback().await.expect("an open append can be rolled back");
        }
        if let Err(error) = answered(call).await {
            assert!(error.is_retryable(), "it was held for too long at worst: {error:?}");
        }
        let again = store(&log, &append).await;
        let ids: Vec<Uuid> = stream(&log, stream_id).await.iter().map(|record| record.id).collect();
        assert_eq!(ids, append.event_ids().collect::<Vec<_>>(), "stored once");
        assert_eq!(again.stream_version, 2);
    }
}

/// Lets a call run for so many steps, or for so long, and gives it up.
async fn give_up<L: Log>(log: &L, append: &Append, steps: u32, patience: Duration) {
    let mut call = log.append(append);
    let mut left = steps;
    let some_steps = poll_fn(|context| {
        let over = left == 0 || call.as_mut().poll(context).is_ready();
        left = left.saturating_sub(1);
        if over || left == 0 { Poll::Ready(()) } else { Poll::Pending }
    });
    // Either will do.
    timeout(patience, some_steps).await.ok();
}

pub(crate) async fn a_call_that_is_given_up_is_stored_whole_or_not_at_all<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let (a, b) = (new_stream(), new_stream());
    let mut random = fastrand::Rng::with_seed(seed());
    let (mut given_up, mut others) = (Vec::new(), Vec::new());
    for round in 0..soak(30) {
        let append = deposits(a, 2).and_to(b).event(Ledger::Closed).and_to(new_stream()).event(Ledger::opened());
        let other = deposits([a, b, new_stream()][round as usize % 3], 1);
        others.push((send(&log, &other), other));
        // At any point: before it has begun, at each place where it waits, and at any time.
        let (steps, patience) = match round % 2 {
            0 => (round / 2 % 6, Duration::from_millis(5)),
            _ => (u32::MAX, Duration::from_micros(random.u64(..2_000))),
        };
        give_up(&log, &append, steps, patience).await;
        given_up.push(append);
    }
    let mut done = Vec::new();
    for (call, other) in others {
        let answer = answered(call).await.expect("others do not notice");
        done.push((other, answer));
    }
    // What is given up here may still be on its way there.
    eventually("each of them is stored whole or not at all", || async {
        let all = everything(&log).await;
        given_up.iter().all(|append| {
            let stored = append.event_ids().filter(|id| all.iter().any(|record| record.id == *id)).count();
            stored == 0 || stored == append.event_ids().count()
        })
    })
    .await;
    for append in given_up {
        let answer = store_in_the_end(&log, &append).await;
        done.push((append, answer));
    }
    assert_holds(&everything(&log).await, done.iter().map(|(append, done)| (append, done)));
    stream(&log, a).await;
    stream(&log, b).await;
}

pub(crate) async fn many_calls_given_up_leave_the_store_usable<H: Harness>(harness: Arc<H>) {
    let log = harness.fresh(Settings::default()).await;
    let stream_id = new_stream();
    for _ in 0..soak(3) {
        let mut calls = JoinSet::new();
        for nth in 0..40 {
            let log = log.clone();
            calls.spawn(async move {
                give_up(&log, &deposits(stream_id, 1), 1 + nth % 3, Duration::from_millis(5)).await;
            });
        }
        within("giving up", calls.join_all()).await;
        store(&log, &deposits(stream_id, 1)).await;
        store(&log, &deposits(new_stream(), 1)).await;
    }
    stream(&log, stream_id).await;
}
