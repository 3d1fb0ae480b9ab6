//! What the delivery engine rests on: terms, fenced transactions, dead letters, and their layout.

mod checkpoints;
mod dead_letters;
mod layout;
mod transactions;

use highwater::backend::{Backend, CheckpointWrite, Checkpoints, Closed, Closing, DeadLetters, Fence, Opening};
use highwater::backend::{NewDeadLetter, OpenTx, Term};
use highwater::operations::DeadLetter;
use highwater::operations::{DeadLetterQuery, DeadLetterState};
use highwater::{Claim, Error};
use highwater_postgres::{PgEventStore, PgTx};
use uuid::Uuid;

use crate::support::*;

/// Takes over for a subscriber that starts at the beginning, if it is new.
async fn take_over(store: &PgEventStore, subscriber_id: &str) -> Fence {
    store.take_over(&Claim::of(subscriber_id)).await.unwrap().checkpoint.fence()
}

fn write(fence: &Fence, global_sequence: u64) -> CheckpointWrite {
    CheckpointWrite { fence: fence.clone(), global_sequence, event_id: None }
}

/// The stored checkpoint.
async fn at(store: &PgEventStore, subscriber_id: &str) -> Option<u64> {
    store.checkpoint(subscriber_id).await.unwrap().map(|checkpoint| checkpoint.global_sequence)
}

/// Fences that do not hold: another term's number, another nonce, and none at all for the subscriber.
fn other_number(fence: &Fence) -> Fence {
    Fence { term: Term { number: fence.term.number - 1, ..fence.term }, ..fence.clone() }
}

fn other_nonce(fence: &Fence) -> Fence {
    Fence { term: Term { nonce: Uuid::now_v7(), ..fence.term }, ..fence.clone() }
}

/// What a handler is handed.
fn inside(tx: &mut OpenTx) -> &mut PgTx {
    tx.get().unwrap()
}

async fn begin(store: &PgEventStore, fence: &Fence) -> OpenTx {
    Backend::begin(store, fence, Opening::Handler, None).await.unwrap().tx
}

/// A transaction of nothing but its closing.
async fn close(store: &PgEventStore, fence: &Fence, closing: Closing<'_>) -> Result<Closed, Error> {
    store.commit(begin(store, fence).await, fence, closing).await
}

fn failure(stream_id: Uuid, global_sequence: u64, error: &str) -> NewDeadLetter {
    NewDeadLetter {
        event_id: Uuid::from_u128(u128::from(global_sequence)),
        global_sequence,
        stream_id,
        event_type: "Noted".to_owned(),
        error_message: Some(error.to_owned()),
        retry_count: 3,
        parks: false,
    }
}

/// Buries an event, wherever the checkpoint is.
async fn bury(store: &PgEventStore, fence: &Fence, dead_letter: &NewDeadLetter) -> (DeadLetter, Closed) {
    let from = at(store, &fence.subscriber_id).await.unwrap();
    let closed = close(store, fence, Closing::Bury { dead_letter, from }).await.unwrap();
    let query =
        DeadLetterQuery { stream_id: Some(dead_letter.stream_id), ..DeadLetterQuery::of(&*fence.subscriber_id) };
    let found = store.dead_letters(&query).await.unwrap();
    (found.into_iter().find(|found| found.event_id == dead_letter.event_id).unwrap(), closed)
}

/// Dead letters in any state.
fn all_of(subscriber_id: &str) -> DeadLetterQuery {
    DeadLetterQuery { states: DeadLetterState::ALL.to_vec(), ..DeadLetterQuery::of(subscriber_id) }
}
