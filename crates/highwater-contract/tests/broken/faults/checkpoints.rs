//! Faults of checkpoints.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use chrono::Utc;
use highwater::backend::{
    BoxFuture, Checkpoint, CheckpointWrite, Checkpoints, Closing, Fence, Log, Refused, Report, Requests, Taken, Term,
};
use highwater::{Claim, Error};
use uuid::Uuid;

use crate::faulty::{Fault, Sound};

type Answer<'a> = BoxFuture<'a, Result<Option<Refused>, Error>>;

/// Moves all subscribers when one moves.
pub(crate) struct SharesCheckpoints;

impl Fault for SharesCheckpoints {
    fn store_checkpoint<'a>(&'a self, sound: &'a Sound, write: &'a CheckpointWrite) -> Answer<'a> {
        Box::pin(async move {
            let answer = sound.store_checkpoint(write).await?;
            for other in sound.memory.checkpoints().await? {
                let fence = Fence { subscriber_id: other.subscriber_id.into(), term: other.term, incarnation: 0 };
                sound.store_checkpoint(&CheckpointWrite { fence, ..write.clone() }).await?;
            }
            Ok(answer)
        })
    }
}

/// Does not store where a subscriber starts.
pub(crate) struct StartsEverybodyAtZero;

impl Fault for StartsEverybodyAtZero {
    fn take_over<'a>(&'a self, sound: &'a Sound, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        Box::pin(async move { sound.memory.take_over(&Claim { start: 0, ..claim.clone() }).await })
    }
}

/// Does not look whether the event is there that a subscriber starts after.
pub(crate) struct StartsAtAnEndThatIsGone;

impl Fault for StartsAtAnEndThatIsGone {
    fn take_over<'a>(&'a self, sound: &'a Sound, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        Box::pin(async move { sound.memory.take_over(&Claim { start_event: None, ..claim.clone() }).await })
    }
}

/// Says 0 where there is nothing.
pub(crate) struct TakesAMissingCheckpointForZero;

impl Fault for TakesAMissingCheckpointForZero {
    fn checkpoint<'a>(&'a self, sound: &'a Sound, id: &'a str) -> BoxFuture<'a, Result<Option<Checkpoint>, Error>> {
        Box::pin(async move {
            let nothing = Checkpoint {
                subscriber_id: id.to_owned(),
                global_sequence: 0,
                event_id: None,
                updated_at: Utc::now(),
                term: Term { number: 0, nonce: Uuid::nil() },
                incarnation: 0,
                setup_version: None,
            };
            Ok(sound.memory.checkpoint(id).await?.or(Some(nothing)))
        })
    }
}

/// Stores what comes last, and not what is highest.
pub(crate) struct MovesCheckpointsBack;

impl Fault for MovesCheckpointsBack {
    fn store_checkpoint<'a>(&'a self, sound: &'a Sound, write: &'a CheckpointWrite) -> Answer<'a> {
        Box::pin(async move {
            let answer = sound.store_checkpoint(write).await?;
            let from = sound.position(&write.fence).await?;
            if answer.is_none() && from > write.global_sequence {
                let back = Closing::Advance { from, to: write.global_sequence, event_id: write.event_id };
                sound.close(&write.fence, back).await?;
            }
            Ok(answer)
        })
    }
}

/// Says that it has stored them.
pub(crate) struct LosesCheckpoints;

impl Fault for LosesCheckpoints {
    fn store_checkpoint<'a>(&'a self, _: &'a Sound, _: &'a CheckpointWrite) -> Answer<'a> {
        Box::pin(async { Ok(None) })
    }
}

/// Stores where the next event would be.
pub(crate) struct StoresCheckpointsTooFar;

impl Fault for StoresCheckpointsTooFar {
    fn store_checkpoint<'a>(&'a self, sound: &'a Sound, write: &'a CheckpointWrite) -> Answer<'a> {
        let further = CheckpointWrite { global_sequence: write.global_sequence + 1, ..write.clone() };
        Box::pin(async move { sound.store_checkpoint(&further).await })
    }
}

/// A new leader gets the term that is there.
pub(crate) struct GivesTheSameTermTwice;

impl Fault for GivesTheSameTermTwice {
    fn take_over<'a>(&'a self, sound: &'a Sound, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        Box::pin(async move {
            match sound.memory.checkpoint(&claim.subscriber_id).await? {
                None => sound.memory.take_over(claim).await,
                Some(checkpoint) => Ok(Taken { checkpoint, fresh: false }),
            }
        })
    }
}

/// Lets any instance store a checkpoint.
pub(crate) struct DoesNotFenceCheckpoints;

impl Fault for DoesNotFenceCheckpoints {
    fn store_checkpoint<'a>(&'a self, sound: &'a Sound, write: &'a CheckpointWrite) -> Answer<'a> {
        Box::pin(async move {
            let fence = sound.current(&write.fence).await?;
            sound.store_checkpoint(&CheckpointWrite { fence, ..write.clone() }).await
        })
    }
}

/// Inserts where there is nothing to update.
pub(crate) struct MakesAMissingCheckpointAnew;

impl Fault for MakesAMissingCheckpointAnew {
    fn store_checkpoint<'a>(&'a self, sound: &'a Sound, write: &'a CheckpointWrite) -> Answer<'a> {
        Box::pin(async move {
            let answer = sound.store_checkpoint(write).await?;
            if answer == Some(Refused::Missing) {
                sound
                    .memory
                    .take_over(&Claim { start: write.global_sequence, ..Claim::of(write.fence.subscriber_id.clone()) })
                    .await?;
                return Ok(None);
            }
            Ok(answer)
        })
    }
}

/// Stores positions from whatever life of the server.
pub(crate) struct IgnoresTheLifeOfTheServer;

impl Fault for IgnoresTheLifeOfTheServer {
    fn store_checkpoint<'a>(&'a self, sound: &'a Sound, write: &'a CheckpointWrite) -> Answer<'a> {
        Box::pin(async move {
            let fence = Fence { incarnation: 0, ..write.fence.clone() };
            sound.store_checkpoint(&CheckpointWrite { fence, ..write.clone() }).await
        })
    }
}

/// Says that it has.
pub(crate) struct PausesNobody;

impl Fault for PausesNobody {
    fn set_paused<'a>(&'a self, sound: &'a Sound, id: &'a str, _: bool) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move { Ok(sound.memory.checkpoint(id).await?.is_some()) })
    }
}

/// A new leader continues, though the subscriber was paused.
pub(crate) struct EndsAPauseWithTheTerm;

impl Fault for EndsAPauseWithTheTerm {
    fn take_over<'a>(&'a self, sound: &'a Sound, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        Box::pin(async move {
            sound.memory.set_paused(&claim.subscriber_id, false).await?;
            sound.memory.take_over(claim).await
        })
    }
}

/// Takes the end of the log for the checkpoint.
pub(crate) struct TellsOfCheckpointsThatAreNotStored;

impl Fault for TellsOfCheckpointsThatAreNotStored {
    fn checkpoint<'a>(&'a self, sound: &'a Sound, id: &'a str) -> BoxFuture<'a, Result<Option<Checkpoint>, Error>> {
        Box::pin(async move {
            let head = sound.memory.head().await?;
            let found = sound.memory.checkpoint(id).await?;
            Ok(found.map(|found| Checkpoint { global_sequence: found.global_sequence.max(head), ..found }))
        })
    }
}

/// Calls a position settled that nobody has written to yet.
pub(crate) struct SettlesTooMuch;

impl Fault for SettlesTooMuch {
    fn frontier<'a>(&'a self, sound: &'a Sound) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move { Ok(sound.memory.frontier().await? + 1) })
    }
}

/// Says that it has kept what leaders say.
pub(crate) struct LosesReports;

impl Fault for LosesReports {
    fn store_reports<'a>(&'a self, _: &'a Sound, _: &'a [Report]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }
}

/// Keeps what comes last, from any instance.
#[derive(Default)]
pub(crate) struct BelievesFormerLeaders(Mutex<BTreeMap<String, Report>>);

impl Fault for BelievesFormerLeaders {
    fn store_reports<'a>(&'a self, _: &'a Sound, reports: &'a [Report]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let named = reports.iter().map(|report| (report.subscriber_id.clone(), report.clone()));
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(named);
            Ok(())
        })
    }

    fn reports<'a>(&'a self, _: &'a Sound) -> BoxFuture<'a, Result<Vec<Report>, Error>> {
        let reports = self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        Box::pin(async { Ok(reports) })
    }
}

/// Leaves a whole batch out when one of it comes too late.
pub(crate) struct LeavesOutWhatComesWithALateReport;

impl Fault for LeavesOutWhatComesWithALateReport {
    fn store_reports<'a>(&'a self, sound: &'a Sound, reports: &'a [Report]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let known = sound.memory.reports().await?;
            let is_late = |new: &Report| {
                known.iter().any(|known| known.subscriber_id == new.subscriber_id && known.term > new.term)
            };
            if reports.iter().any(is_late) { Ok(()) } else { sound.memory.store_reports(reports).await }
        })
    }
}

/// Tells of leaders something else than they said.
pub(crate) struct Reports(pub(crate) fn(&mut Report));

impl Fault for Reports {
    fn reports<'a>(&'a self, sound: &'a Sound) -> BoxFuture<'a, Result<Vec<Report>, Error>> {
        Box::pin(async move {
            let mut reports = sound.memory.reports().await?;
            reports.iter_mut().for_each(self.0);
            Ok(reports)
        })
    }
}
