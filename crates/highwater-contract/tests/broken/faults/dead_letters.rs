//! Faults of dead letters.

use highwater::Error;
use highwater::backend::{
    BoxFuture, Closed, Closing, DeadLetterDetail, DeadLetterQuery, DeadLetterState, DeadLetters, Fence, Request,
};
use uuid::Uuid;

use crate::faulty::{Fault, FaultyTx, Sound};

/// Looks for something else than it is asked for.
pub(crate) struct Queries(pub(crate) fn(DeadLetterQuery) -> DeadLetterQuery);

impl Fault for Queries {
    fn query(&self, query: &DeadLetterQuery) -> DeadLetterQuery {
        (self.0)(query.clone())
    }
}

pub(crate) fn of_all_streams(query: DeadLetterQuery) -> DeadLetterQuery {
    DeadLetterQuery { stream_id: None, ..query }
}

pub(crate) fn of_everybody(query: DeadLetterQuery) -> DeadLetterQuery {
    DeadLetterQuery { subscriber_id: None, ..query }
}

pub(crate) fn of_all_types(query: DeadLetterQuery) -> DeadLetterQuery {
    DeadLetterQuery { event_type: None, ..query }
}

pub(crate) fn first_page(query: DeadLetterQuery) -> DeadLetterQuery {
    DeadLetterQuery { after: None, ..query }
}

pub(crate) fn in_any_state(query: DeadLetterQuery) -> DeadLetterQuery {
    DeadLetterQuery { states: DeadLetterState::ALL.to_vec(), ..query }
}

/// Shows a dead letter otherwise than it is.
pub(crate) struct Shows(pub(crate) fn(&mut DeadLetterDetail));

impl Fault for Shows {
    fn shown(&self, detail: &mut DeadLetterDetail) {
        (self.0)(detail);
    }
}

/// Writes no dead letter for an event that has one.
pub(crate) struct OpensNoDeadLetterAgain;

impl Fault for OpensNoDeadLetterAgain {
    fn commit<'a>(
        &'a self,
        sound: &'a Sound,
        tx: FaultyTx,
        fence: &'a Fence,
        closing: Closing<'a>,
    ) -> BoxFuture<'a, Result<Closed, Error>> {
        Box::pin(async move {
            let Closing::Bury { dead_letter, from } = closing else { return sound.commit(tx, fence, closing).await };
            let states = DeadLetterState::ALL.to_vec();
            let all = DeadLetterQuery { limit: usize::MAX, states, ..DeadLetterQuery::of(&*fence.subscriber_id) };
            if sound.memory.dead_letters(&all).await?.iter().any(|known| known.event_id == dead_letter.event_id) {
                let advance =
                    Closing::Advance { from, to: dead_letter.global_sequence, event_id: Some(dead_letter.event_id) };
                return sound.commit(tx, fence, advance).await;
            }
            sound.commit(tx, fence, closing).await
        })
    }
}

/// Says that it has filed them.
pub(crate) struct LosesRequests;

impl Fault for LosesRequests {
    fn file_request<'a>(&'a self, _: &'a Sound, _: &'a Request) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }
}

/// Remembers no parked stream.
pub(crate) struct KnowsNoParkedStreams;

impl Fault for KnowsNoParkedStreams {
    fn parked<'a>(&'a self, _: &'a Sound, _: &'a str) -> BoxFuture<'a, Result<Vec<(Uuid, u64)>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// Says that no dead letter of a stream is left.
pub(crate) struct CountsNothingAsParked;

impl Fault for CountsNothingAsParked {
    fn commit<'a>(
        &'a self,
        sound: &'a Sound,
        tx: FaultyTx,
        fence: &'a Fence,
        closing: Closing<'a>,
    ) -> BoxFuture<'a, Result<Closed, Error>> {
        Box::pin(async move { Ok(Closed { parked_left: 0, ..sound.commit(tx, fence, closing).await? }) })
    }
}
