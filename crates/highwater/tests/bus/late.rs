//! Commits and attempts that take effect late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::FutureExt;
use highwater::backend::{Backend, Checkpoints, Opening};
use highwater::prelude::*;
use highwater::{Claim, GlobalSequence};
use highwater_contract::{Call, Flaky, Verdict};

use super::is_halted;
use super::support::{Note, quick, say};

struct Counting;

impl highwater::TransactionalProjection<Note, highwater::MemoryTx> for Counting {
    fn subscriber_id(&self) -> &str {
        "projection:counting"
    }

    async fn apply(&self, tx: &mut highwater::MemoryTx, _: &Event<Note>) -> Result<(), BoxError> {
        count(tx);
        Ok(())
    }
}

fn count(tx: &mut highwater::MemoryTx) {
    let before = tx.get("count").and_then(|count| count.as_i64()).unwrap_or(0);
    tx.put("count", before + 1);
}

/// The answer to a commit is lost, what is stored is read again and shows nothing of it, and only then does the commit take
/// effect: as with a server that was still at it. The next one to begin has to look at what it finds.
#[tokio::test]
async fn a_commit_that_takes_effect_late_counts_nothing_twice() {
    let store = MemoryEventStore::new();
    let (begun, late) = (AtomicUsize::new(0), AtomicBool::new(false));
    let slow = {
        let store = store.clone();
        Flaky::new(store.clone(), move |call| match call {
            Call::Commit(..) if !late.swap(true, Ordering::SeqCst) => Verdict::Fail,
            Call::Begin(fence) if begun.fetch_add(1, Ordering::SeqCst) == 1 => {
                let mut tx = Backend::begin(&store, fence, Opening::Handler, None).now_or_never().unwrap().unwrap().tx;
                count(tx.get().unwrap());
                let closing = highwater::backend::Closing::Advance { from: 0, to: 1, event_id: None };
                store.commit(tx, fence, closing).now_or_never().unwrap().unwrap();
                Verdict::Through
            }
            _ => Verdict::Through,
        })
    };
    let bus = EventBus::with_config(slow, quick());
    say(&store, "a").await;
    bus.subscribe(Counting).await.unwrap();
    let last = say(&store, "b").await;
    bus.wait_for("projection:counting", GlobalSequence(last)).await.unwrap();
    assert_eq!(store.document("count"), Some(2.into()), "two events, each counted once");
    bus.shutdown().await.unwrap();
}

/// Taking over was tried twice, because the first answer was lost; and the first takes effect after the second.
#[tokio::test]
async fn who_is_fenced_by_its_own_late_attempt_continues() {
    let store = MemoryEventStore::new();
    let late = AtomicBool::new(false);
    let slow = {
        let store = store.clone();
        Flaky::new(store.clone(), move |call| {
            if let Call::StoreCheckpoints([write, ..]) = call
                && !late.swap(true, Ordering::SeqCst)
            {
                let nonce = write.fence.term.nonce;
                let claim = Claim { nonce, ..Claim::of(write.fence.subscriber_id.clone()) };
                store.take_over(&claim).now_or_never().unwrap().unwrap();
            }
            Verdict::Through
        })
    };
    let bus = EventBus::with_config(slow, quick());
    let subscription = bus.subscribe(observer_fn("projection:x", |_: Event<Note>| async { Ok(()) })).await.unwrap();
    say(&store, "a").await;
    let at = say(&store, "b").await;
    bus.wait_for("projection:x", GlobalSequence(at)).await.unwrap();
    assert!(!is_halted(&subscription));
    bus.shutdown().await.unwrap();
}

/// What the server that is there now has stored counts, and not what is remembered of the one before.
#[tokio::test]
async fn a_checkpoint_that_meets_another_server_is_read_again() {
    let store = MemoryEventStore::new();
    let (replaced, taken) = (AtomicBool::new(false), Arc::new(AtomicUsize::new(0)));
    let other = Flaky::new(store.clone(), move |call| match call {
        Call::StoreCheckpoints(_) if !replaced.swap(true, Ordering::SeqCst) => Verdict::Interrupt,
        _ => Verdict::Through,
    });
    let bus = EventBus::with_config(other, quick());
    let counted = taken.clone();
    let observer = observer_fn("projection:x", move |_: Event<Note>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(()) }
    });
    bus.subscribe(observer).await.unwrap();
    let at = say(&store, "a").await;
    bus.wait_for("projection:x", GlobalSequence(at)).await.unwrap();
    assert_eq!(taken.load(Ordering::SeqCst), 2, "it resumes from what is stored, which does not cover the event");
    bus.shutdown().await.unwrap();
}
