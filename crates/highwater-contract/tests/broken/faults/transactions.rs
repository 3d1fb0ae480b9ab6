//! Faults of fenced transactions.

use std::collections::HashMap;
use std::sync::Mutex;

use highwater::backend::{
    Begun, BoxFuture, Checkpoints, Closed, Closing, DeadLetterQuery, DeadLetters, Fence, NewDeadLetter, OpenTx,
};
use highwater::{BoxError, Claim, Error};
use uuid::Uuid;

use crate::faulty::{Fault, FaultyTx, Sound};

type Beginning<'a> = BoxFuture<'a, Result<Begun, Error>>;
type Committing<'a> = BoxFuture<'a, Result<Closed, Error>>;

/// Checks no fence, neither at the beginning nor at the end.
pub(crate) struct FencesNoTransaction;

impl Fault for FencesNoTransaction {
    fn begin_fenced<'a>(&'a self, sound: &'a Sound, fence: &'a Fence, dead_letter: Option<Uuid>) -> Beginning<'a> {
        Box::pin(async move { sound.begin(&sound.current(fence).await?, dead_letter).await })
    }

    fn commit<'a>(&'a self, sound: &'a Sound, tx: FaultyTx, fence: &'a Fence, closing: Closing<'a>) -> Committing<'a> {
        Box::pin(async move { sound.commit(tx, &sound.current(fence).await?, closing).await })
    }
}

/// Says where the checkpoint was when the term was first used.
#[derive(Default)]
pub(crate) struct BeginsWithWhatItRemembers(Mutex<HashMap<Uuid, u64>>);

impl Fault for BeginsWithWhatItRemembers {
    fn begin_fenced<'a>(&'a self, sound: &'a Sound, fence: &'a Fence, dead_letter: Option<Uuid>) -> Beginning<'a> {
        Box::pin(async move {
            let mut begun = sound.begin(fence, dead_letter).await?;
            let mut remembered = self.0.lock().expect("nobody panics with it");
            begun.global_sequence = *remembered.entry(fence.term.nonce).or_insert(begun.global_sequence);
            Ok(begun)
        })
    }

    fn commit<'a>(&'a self, sound: &'a Sound, tx: FaultyTx, fence: &'a Fence, closing: Closing<'a>) -> Committing<'a> {
        Box::pin(async move {
            let from = sound.position(fence).await?;
            sound.commit(tx, fence, starting(closing, from)).await
        })
    }
}

fn starting(closing: Closing<'_>, from: u64) -> Closing<'_> {
    match closing {
        Closing::Advance { to, event_id, .. } => Closing::Advance { from, to, event_id },
        Closing::Bury { dead_letter, .. } => Closing::Bury { dead_letter, from },
        other => other,
    }
}

/// Reads the checkpoint, and opens a transaction only to commit it.
pub(crate) struct BeginsWithoutALock;

impl Fault for BeginsWithoutALock {
    fn begin_fenced<'a>(&'a self, sound: &'a Sound, fence: &'a Fence, dead_letter: Option<Uuid>) -> Beginning<'a> {
        Box::pin(async move {
            let Begun { tx, global_sequence, dead_letter_open } = sound.begin(fence, dead_letter).await?;
            drop(tx);
            let tx = OpenTx::new(FaultyTx { open: None, fence: fence.clone(), noted: Vec::new() });
            Ok(Begun { tx, global_sequence, dead_letter_open })
        })
    }
}

/// Commits something else than it is told.
pub(crate) struct Commits(pub(crate) for<'a> fn(Fence, u64, Fence, Closing<'a>) -> (Fence, Closing<'a>));

impl Fault for Commits {
    fn commit<'a>(&'a self, sound: &'a Sound, tx: FaultyTx, fence: &'a Fence, closing: Closing<'a>) -> Committing<'a> {
        Box::pin(async move {
            let (current, at) = (sound.current(fence).await?, sound.position(fence).await?);
            let (fence, closing) = (self.0)(fence.clone(), at, current, closing);
            sound.commit(tx, &fence, closing).await
        })
    }
}

fn stay(at: u64) -> Closing<'static> {
    Closing::Advance { from: at, to: at, event_id: None }
}

/// Checks no fence at the end.
pub(crate) fn for_anybody(_: Fence, _: u64, current: Fence, closing: Closing<'_>) -> (Fence, Closing<'_>) {
    (current, closing)
}

/// Forgets the checkpoint.
pub(crate) fn read_model_alone(fence: Fence, _: u64, _: Fence, closing: Closing<'_>) -> (Fence, Closing<'_>) {
    match closing {
        Closing::Advance { from, .. } => (fence, stay(from)),
        other => (fence, other),
    }
}

/// Moves on without a dead letter.
pub(crate) fn no_dead_letter(fence: Fence, _: u64, _: Fence, closing: Closing<'_>) -> (Fence, Closing<'_>) {
    match closing {
        Closing::Bury { dead_letter, from } => {
            (fence, Closing::Advance { from, to: dead_letter.global_sequence, event_id: Some(dead_letter.event_id) })
        }
        other => (fence, other),
    }
}

/// Writes nothing down about an attempt that failed.
pub(crate) fn no_failed_replay(fence: Fence, at: u64, _: Fence, closing: Closing<'_>) -> (Fence, Closing<'_>) {
    match closing {
        Closing::ReplayFailed { .. } => (fence, stay(at)),
        other => (fence, other),
    }
}

/// Writes down what was done, and not who wanted it.
pub(crate) fn nobody_asked(fence: Fence, _: u64, _: Fence, closing: Closing<'_>) -> (Fence, Closing<'_>) {
    let by = "somebody";
    let closing = match closing {
        Closing::Replayed { dead_letter, .. } => Closing::Replayed { dead_letter, by },
        Closing::ReplayFailed { dead_letter, error, .. } => Closing::ReplayFailed { dead_letter, by, error },
        Closing::Discarded { dead_letter, reason, .. } => Closing::Discarded { dead_letter, by, reason },
        Closing::Reset { to, nonce, setup_version, .. } => Closing::Reset { to, by, nonce, setup_version },
        other => other,
    };
    (fence, closing)
}

/// Leaves requests open.
pub(crate) fn nothing_finished(fence: Fence, at: u64, _: Fence, closing: Closing<'_>) -> (Fence, Closing<'_>) {
    match closing {
        Closing::Finished { .. } => (fence, stay(at)),
        other => (fence, other),
    }
}

/// Does not ask where a closing starts.
pub(crate) struct CommitsFromAnywhere;

impl Fault for CommitsFromAnywhere {
    fn commit<'a>(&'a self, sound: &'a Sound, tx: FaultyTx, fence: &'a Fence, closing: Closing<'a>) -> Committing<'a> {
        Box::pin(async move {
            let from = sound.position(fence).await?;
            sound.commit(tx, fence, starting(closing, from)).await
        })
    }
}

/// Writes through another connection, that commits everything at once.
pub(crate) struct CommitsAtOnce;

impl Fault for CommitsAtOnce {
    fn tally<'a>(&'a self, sound: &'a Sound, _: &'a mut FaultyTx, key: &'a str) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            // Used by no other instance: it must not raise any term.
            let subscriber_id = format!("aside:{}", Uuid::now_v7());
            let taken = sound.memory.take_over(&Claim::of(&*subscriber_id)).await?;
            let fence = Fence { subscriber_id: subscriber_id.into(), term: taken.checkpoint.term, incarnation: 0 };
            let mut begun = sound.begin(&fence, None).await?;
            sound.tally(begun.tx.get()?, key).await?;
            sound.commit(begun.tx.into_inner()?, &fence, stay(0)).await?;
            Ok(())
        })
    }
}

/// Commits the last statement of a transaction, and none before it.
pub(crate) struct CommitsTheCheckpointAlone;

impl Fault for CommitsTheCheckpointAlone {
    fn commit<'a>(&'a self, sound: &'a Sound, tx: FaultyTx, fence: &'a Fence, closing: Closing<'a>) -> Committing<'a> {
        drop(tx);
        Box::pin(sound.close(fence, closing))
    }
}

/// Commits what it should take back.
pub(crate) struct CommitsWhatIsRolledBack;

impl Fault for CommitsWhatIsRolledBack {
    fn roll_back<'a>(&'a self, sound: &'a Sound, tx: FaultyTx) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let fence = tx.fence.clone();
            if let Ok(at) = sound.position(&fence).await {
                drop(sound.commit(tx, &fence, stay(at)).await);
            }
        })
    }
}

/// Calls a transaction committed that could not be.
pub(crate) struct SaysThatItHasCommitted;

impl Fault for SaysThatItHasCommitted {
    fn commit<'a>(&'a self, sound: &'a Sound, tx: FaultyTx, fence: &'a Fence, closing: Closing<'a>) -> Committing<'a> {
        Box::pin(async move {
            match sound.commit(tx, fence, closing).await {
                Err(Error::Aborted { .. }) => Ok(Closed { term: fence.term, parked_left: 0 }),
                other => other,
            }
        })
    }
}

/// Writes the dead letter, and leaves the checkpoint where it was.
pub(crate) struct BuriesWithoutTheCheckpoint;

impl Fault for BuriesWithoutTheCheckpoint {
    fn commit<'a>(&'a self, sound: &'a Sound, tx: FaultyTx, fence: &'a Fence, closing: Closing<'a>) -> Committing<'a> {
        Box::pin(async move {
            let closed = sound.commit(tx, fence, closing).await?;
            if let Closing::Bury { dead_letter, from } = closing {
                let back = Closing::Advance { from: dead_letter.global_sequence, to: from, event_id: None };
                sound.close(fence, back).await?;
            }
            Ok(closed)
        })
    }
}

/// Sets the checkpoint back, and lets the old term continue.
pub(crate) struct ResetsWithoutANewTerm;

impl Fault for ResetsWithoutANewTerm {
    fn commit<'a>(&'a self, sound: &'a Sound, tx: FaultyTx, fence: &'a Fence, closing: Closing<'a>) -> Committing<'a> {
        Box::pin(async move {
            let Closing::Reset { to, by, setup_version, .. } = closing else {
                return sound.commit(tx, fence, closing).await;
            };
            sound.commit(tx, fence, Closing::Reset { to, by, nonce: fence.term.nonce, setup_version }).await?;
            // The memory backend has raised it, so the number is the only thing to be lied about.
            Ok(Closed { term: fence.term, parked_left: 0 })
        })
    }

    fn store_checkpoint<'a>(
        &'a self,
        sound: &'a Sound,
        write: &'a highwater::backend::CheckpointWrite,
    ) -> BoxFuture<'a, Result<Option<highwater::backend::Refused>, Error>> {
        Box::pin(async move {
            let fence = self.renewed(sound, &write.fence).await?;
            sound.store_checkpoint(&highwater::backend::CheckpointWrite { fence, ..write.clone() }).await
        })
    }

    fn begin_fenced<'a>(&'a self, sound: &'a Sound, fence: &'a Fence, dead_letter: Option<Uuid>) -> Beginning<'a> {
        Box::pin(async move { sound.begin(&self.renewed(sound, fence).await?, dead_letter).await })
    }
}

impl ResetsWithoutANewTerm {
    /// The fence of a term that was reset, which goes by the same nonce.
    async fn renewed(&self, sound: &Sound, fence: &Fence) -> Result<Fence, Error> {
        let current = sound.current(fence).await?;
        Ok(if current.term.nonce == fence.term.nonce { current } else { fence.clone() })
    }
}

/// Starts again, and leaves the dead letters open.
pub(crate) struct ResetsWithoutArchiving;

impl Fault for ResetsWithoutArchiving {
    fn commit<'a>(&'a self, sound: &'a Sound, tx: FaultyTx, fence: &'a Fence, closing: Closing<'a>) -> Committing<'a> {
        Box::pin(async move {
            let Closing::Reset { to, .. } = closing else { return sound.commit(tx, fence, closing).await };
            let query = DeadLetterQuery { limit: usize::MAX, ..DeadLetterQuery::of(&*fence.subscriber_id) };
            let dead_letters = sound.memory.dead_letters(&query).await?;
            let closed = sound.commit(tx, fence, closing).await?;
            let renewed = Fence { term: closed.term, ..fence.clone() };
            for dead_letter in dead_letters {
                let dead_letter = NewDeadLetter {
                    event_id: dead_letter.event_id,
                    global_sequence: dead_letter.global_sequence,
                    stream_id: dead_letter.stream_id,
                    event_type: dead_letter.event_type,
                    error_message: dead_letter.error_message,
                    retry_count: dead_letter.retry_count,
                    parks: dead_letter.parks,
                };
                let from = sound.position(&renewed).await?;
                sound.close(&renewed, Closing::Bury { dead_letter: &dead_letter, from }).await?;
            }
            let from = sound.position(&renewed).await?;
            sound.close(&renewed, Closing::Advance { from, to, event_id: None }).await?;
            Ok(closed)
        })
    }
}

/// Archives also the dead letters of what does not come anew.
pub(crate) struct ArchivesEverything;

impl Fault for ArchivesEverything {
    fn commit<'a>(
        &'a self,
        sound: &'a Sound,
        tx: FaultyTx,
        fence: &'a Fence,
        closing: Closing<'a>,
    ) -> BoxFuture<'a, Result<Closed, Error>> {
        Box::pin(async move {
            let Closing::Reset { by, nonce, .. } = closing else { return sound.commit(tx, fence, closing).await };
            let closed = sound.commit(tx, fence, Closing::Reset { to: 0, by, nonce, setup_version: None }).await?;
            sound.close(&Fence { term: closed.term, ..fence.clone() }, closing).await
        })
    }
}
