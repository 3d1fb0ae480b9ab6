//! The contract of the fenced transaction: what must be atomic is.

use std::collections::BTreeMap;
use std::sync::Arc;

use highwater::Error;
use highwater::backend::{
    Backend, Begun, Closed, Closing, DeadLetterQuery, DeadLetters, Fence, Leadership, NewDeadLetter, Opening, Term,
    Transactional,
};
use tokio::time::timeout;
use uuid::Uuid;

use crate::checkpoints::{position, put, stored, take_over, to};
use crate::support::{QUIET, new_stream, within};
use crate::{Harness, Settings};

pub(crate) const OWN: &str = "a transaction of this store";

pub(crate) type Tx<H> = <<H as Harness>::Store as Transactional>::Tx;

pub(crate) async fn begin(store: &dyn Backend, fence: &Fence) -> Begun {
    within("beginning", store.begin(fence, Opening::Handler, None)).await.expect("a transaction can be begun")
}

/// Opens a transaction, adds to a count and closes it.
async fn tallied<H: Harness>(
    harness: &H,
    store: &H::Store,
    fence: &Fence,
    key: &str,
    closing: Closing<'_>,
) -> Result<Closed, Error> {
    let mut begun = begin(store, fence).await;
    harness.tally(store, begun.tx.get().expect(OWN), key).await.expect("a count can be kept");
    within("a commit", store.commit(begun.tx, fence, closing)).await
}

/// Closes a transaction in which nothing else happens.
pub(crate) async fn close(store: &dyn Backend, fence: &Fence, closing: Closing<'_>) -> Closed {
    let begun = begin(store, fence).await;
    within("a commit", store.commit(begun.tx, fence, closing)).await.expect("nothing speaks against this closing")
}

pub(crate) fn advance(from: u64, to: u64) -> Closing<'static> {
    Closing::Advance { from, to, event_id: None }
}

fn counts<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.map(|(key, count)| (key.to_owned(), count)).into()
}

/// A dead letter for an event at that place.
pub(crate) fn dead_letter(stream_id: Uuid, global_sequence: u64) -> NewDeadLetter {
    NewDeadLetter {
        event_id: Uuid::now_v7(),
        global_sequence,
        stream_id,
        event_type: "Deposited".to_owned(),
        error_message: Some("it would not go in".to_owned()),
        retry_count: 3,
        parks: false,
    }
}

pub(crate) async fn what_is_written_comes_with_the_checkpoint<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    let event_id = Uuid::now_v7();
    let mut begun = begin(&store, &fence).await;
    assert_eq!(begun.global_sequence, 0);
    assert!(begun.dead_letter_open, "no dead letter was asked about");
    harness.tally(&store, begun.tx.get().expect(OWN), "a").await.expect("a count can be kept");
    harness.tally(&store, begun.tx.get().expect(OWN), "a").await.expect("a count can be kept");
    assert_eq!(harness.tallies(&store).await, counts([]), "nothing shows before the commit");
    assert_eq!(position(&store, "projection:orders").await, Some(0), "nor does the checkpoint");
    let closing = Closing::Advance { from: 0, to: 12, event_id: Some(event_id) };
    let closed = within("a commit", store.commit(begun.tx, &fence, closing)).await.expect("it is committed");
    assert_eq!(closed, Closed { term: fence.term, parked_left: 0 });
    assert_eq!(harness.tallies(&store).await, counts([("a", 2)]));
    let checkpoint = stored(&store, "projection:orders").await.expect("it is stored");
    assert_eq!((checkpoint.global_sequence, checkpoint.event_id), (12, Some(event_id)));
    tallied(&*harness, &store, &fence, "a", advance(12, 13)).await.expect("it is committed");
    let again = harness.reopen(&store, Settings::default()).await;
    assert_eq!(harness.tallies(&again).await, counts([("a", 3)]));
    assert_eq!(position(&again, "projection:orders").await, Some(13));
}

pub(crate) async fn what_is_taken_back_leaves_nothing<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    for how in 0..3 {
        let mut begun = begin(&store, &fence).await;
        harness.tally(&store, begun.tx.get().expect(OWN), "a").await.expect("a count can be kept");
        match how {
            0 => within("a rollback", store.rollback(begun.tx, false)).await,
            1 => within("a rollback", store.rollback(begun.tx, true)).await,
            _ => drop(begun),
        }
        // The next one waits until the last is gone.
        let next = begin(&store, &fence).await;
        assert_eq!(next.global_sequence, 0);
        within("a rollback", store.rollback(next.tx, false)).await;
        assert_eq!(harness.tallies(&store).await, counts([]), "nothing is left");
        assert_eq!(position(&store, "projection:orders").await, Some(0));
    }
}

pub(crate) async fn transactions_of_one_subscriber_exclude_each_other<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    let (other, _) = take_over(&store, "projection:other", 0).await;
    let first = begin(&store, &fence).await;
    let mut second = {
        let (store, fence) = (store.clone(), fence.clone());
        tokio::spawn(async move {
            let begun = begin(&store, &fence).await;
            store.rollback(begun.tx, false).await;
            begun.global_sequence
        })
    };
    assert!(timeout(QUIET, &mut second).await.is_err(), "two transactions of one subscriber are open at once");
    // Another's comes through as well, at the latest then: a database may have one writer at a time.
    let free = {
        let store = store.clone();
        tokio::spawn(async move {
            let begun = begin(&store, &other).await;
            store.rollback(begun.tx, false).await;
        })
    };
    within("a commit", store.commit(first.tx, &fence, advance(0, 8))).await.expect("it is committed");
    let seen = within("the second", second).await.expect("it comes through");
    assert_eq!(seen, 8, "the next transaction sees what the one before committed");
    within("another subscriber's", free).await.expect("it comes through");
}

pub(crate) async fn nobody_takes_over_under_an_open_transaction<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    let mut open = begin(&store, &fence).await;
    harness.tally(&store, open.tx.get().expect(OWN), "a").await.expect("a count can be kept");
    let mut taking = {
        let store = store.clone();
        tokio::spawn(async move { take_over(&store, "projection:orders", 0).await.1 })
    };
    assert!(timeout(QUIET, &mut taking).await.is_err(), "a term is raised while a transaction of the last one is open");
    within("a commit", store.commit(open.tx, &fence, advance(0, 5))).await.expect("it is committed");
    let taken = within("taking over", taking).await.expect("it comes through");
    assert_eq!(taken.checkpoint.global_sequence, 5, "a new leader sees what was committed before");
    assert_eq!(harness.tallies(&store).await, counts([("a", 1)]));
}

pub(crate) async fn beginning_tells_what_is_true<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 3).await;
    let mut at = 3;
    for to_here in [4, 9, 10] {
        let begun = begin(&store, &fence).await;
        assert_eq!(begun.global_sequence, at);
        within("a commit", store.commit(begun.tx, &fence, advance(at, to_here))).await.expect("it is committed");
        at = to_here;
    }
    assert_eq!(put(&store, to(&fence, 15)).await, None);
    let begun = begin(&store, &fence).await;
    assert_eq!(begun.global_sequence, 15, "however the checkpoint got there");
    store.rollback(begun.tx, false).await;
}

pub(crate) async fn a_foreign_term_commits_nothing<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (old, _) = take_over(&store, "projection:orders", 0).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    let event = dead_letter(new_stream(), 4);
    let closings = [advance(0, 4), Closing::Bury { dead_letter: &event, from: 0 }];
    for foreign in [old.clone(), Fence { term: Term { nonce: Uuid::now_v7(), ..fence.term }, ..fence.clone() }] {
        for closing in closings {
            let mut begun = begin(&store, &fence).await;
            harness.tally(&store, begun.tx.get().expect(OWN), "a").await.expect("a count can be kept");
            match within("a commit", store.commit(begun.tx, &foreign, closing)).await {
                Err(Error::Fenced { term, .. }) => assert_eq!(term, Some(fence.term.number)),
                other => panic!("a term that does not hold commits nothing: {other:?}"),
            }
            assert_eq!(position(&store, "projection:orders").await, Some(0));
            assert_eq!(harness.tallies(&store).await, counts([]));
        }
    }
    assert_eq!(store.dead_letters(&DeadLetterQuery::default()).await.expect("dead letters can be read"), []);
}

pub(crate) async fn a_closing_that_starts_elsewhere_is_refused<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 6).await;
    let event = dead_letter(new_stream(), 9);
    for from in [5, 7] {
        for closing in [advance(from, 9), Closing::Bury { dead_letter: &event, from }] {
            match tallied(&*harness, &store, &fence, "a", closing).await {
                Err(Error::Fenced { .. }) => {}
                other => panic!("the checkpoint is at 6, so nothing resumes from {from}: {other:?}"),
            }
            assert_eq!(position(&store, "projection:orders").await, Some(6));
            assert_eq!(harness.tallies(&store).await, counts([]));
        }
    }
    assert_eq!(store.dead_letters(&DeadLetterQuery::default()).await.expect("dead letters can be read"), []);
    tallied(&*harness, &store, &fence, "a", advance(6, 9)).await.expect("it resumes from where it is");
}

pub(crate) async fn what_cannot_be_committed_is_said_and_leaves_nothing<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    let mut begun = begin(&store, &fence).await;
    harness.tally(&store, begun.tx.get().expect(OWN), "a").await.expect("a count can be kept");
    harness.spoil(&store, begun.tx.get().expect(OWN)).await;
    match within("a commit", store.commit(begun.tx, &fence, advance(0, 5))).await {
        Err(Error::Aborted { .. }) => {}
        other => panic!("what was done inside keeps it from committing: {other:?}"),
    }
    assert_eq!(position(&store, "projection:orders").await, Some(0));
    assert_eq!(harness.tallies(&store).await, counts([]));
    tallied(&*harness, &store, &fence, "a", advance(0, 5)).await.expect("the next one can");
}

pub(crate) async fn a_dead_letter_and_its_checkpoint_are_one<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    let event = dead_letter(new_stream(), 5);
    let burying = Closing::Bury { dead_letter: &event, from: 0 };
    tallied(&*harness, &store, &fence, "a", burying).await.expect("it is committed");
    let checkpoint = stored(&store, "projection:orders").await.expect("it is stored");
    assert_eq!((checkpoint.global_sequence, checkpoint.event_id), (5, Some(event.event_id)));
    let dead_letters = store.dead_letters(&DeadLetterQuery::default()).await.expect("dead letters can be read");
    assert_eq!(dead_letters.iter().map(|dead_letter| dead_letter.event_id).collect::<Vec<_>>(), [event.event_id]);
    assert_eq!(harness.tallies(&store).await, counts([("a", 1)]));
}

pub(crate) async fn a_reset_is_one_with_what_it_empties<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    let (other, _) = take_over(&store, "projection:other", 0).await;
    tallied(&*harness, &store, &fence, "a", advance(0, 3)).await.expect("it is committed");
    let (event, others) = (dead_letter(new_stream(), 5), dead_letter(new_stream(), 5));
    close(&store, &fence, Closing::Bury { dead_letter: &event, from: 3 }).await;
    close(&store, &other, Closing::Bury { dead_letter: &others, from: 0 }).await;

    let mut begun = begin(&store, &fence).await;
    harness.clear_tallies(&store, begun.tx.get().expect(OWN)).await.expect("counts can be forgotten");
    store.rollback(begun.tx, false).await;
    assert_eq!(harness.tallies(&store).await, counts([("a", 1)]), "nothing was forgotten");

    let nonce = Uuid::now_v7();
    let mut begun = begin(&store, &fence).await;
    harness.clear_tallies(&store, begun.tx.get().expect(OWN)).await.expect("counts can be forgotten");
    let closing = Closing::Reset { to: 1, by: "anna", nonce, setup_version: None };
    let closed = within("a commit", store.commit(begun.tx, &fence, closing)).await.expect("it is committed");
    assert!(closed.term.number > other.term.number, "a reset raises the term");
    assert_eq!(closed.term.nonce, nonce, "and is known again by its nonce");
    assert_eq!(harness.tallies(&store).await, counts([]));
    let checkpoint = stored(&store, "projection:orders").await.expect("it is stored");
    assert_eq!((checkpoint.global_sequence, checkpoint.event_id), (1, None));
    assert_eq!(checkpoint.term, closed.term);
    let leaders = store.leaders().await.expect("leaders can be listed").into_iter();
    let led: Vec<_> = leaders.filter(|leader| leader.subscriber_id == "projection:orders").collect();
    assert_eq!(
        led.iter().map(|leader| leader.term).collect::<Vec<_>>(),
        [closed.term.number],
        "the same one still leads"
    );
    let open = store.dead_letters(&DeadLetterQuery::default()).await.expect("dead letters can be read");
    let owners: Vec<&str> = open.iter().map(|dead_letter| dead_letter.subscriber_id.as_str()).collect();
    assert_eq!(owners, ["projection:other"], "its dead letters are archived, and nobody else's");

    assert!(put(&store, to(&fence, 9)).await.is_some(), "the old term writes nothing any more");
    let renewed = Fence { term: closed.term, ..fence };
    tallied(&*harness, &store, &renewed, "b", advance(1, 2)).await.expect("the new one does");
    assert_eq!(harness.tallies(&store).await, counts([("b", 1)]));
}

pub(crate) async fn a_reset_leaves_the_dead_letters_before_it<H: Harness>(harness: Arc<H>) {
    let store = harness.fresh(Settings::default()).await;
    let (fence, _) = take_over(&store, "projection:orders", 0).await;
    let stream = new_stream();
    let mut from = 0;
    for at in [2, 5, 6, 9] {
        close(&store, &fence, Closing::Bury { dead_letter: &dead_letter(stream, at), from }).await;
        from = at;
    }
    let open = async || {
        let dead_letters = store.dead_letters(&DeadLetterQuery::default()).await.expect("dead letters can be read");
        dead_letters.iter().map(|dead_letter| dead_letter.global_sequence).collect::<Vec<_>>()
    };
    let nonce = fence.term.nonce;
    let closed = close(&store, &fence, Closing::Reset { to: 5, by: "anna", nonce, setup_version: None }).await;
    assert_eq!(open().await, [2, 5], "what comes anew is archived, and nothing else");
    assert_eq!(closed.term.nonce, nonce, "the same nonce may be kept");
    assert!(put(&store, to(&fence, 9)).await.is_some(), "the old term writes nothing any more, for all that");
    let renewed = Fence { term: closed.term, ..fence };
    close(&store, &renewed, Closing::Reset { to: 20, by: "anna", nonce, setup_version: None }).await;
    assert_eq!(position(&store, "projection:orders").await, Some(20), "on, past what was never seen");
    assert_eq!(open().await, [2, 5], "nothing of that comes anew");
}
