//! Faults of what is stored about the tables of read models.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use highwater::backend::{BoxFuture, Checkpoint, Checkpoints, Closed, Closing, Fence, Taken};
use highwater::{Claim, Error};

use crate::faulty::{Fault, FaultyTx, Sound};

type Committing<'a> = BoxFuture<'a, Result<Closed, Error>>;

/// Commits what was made, and not its version.
pub(crate) struct ForgetsVersions;

impl Fault for ForgetsVersions {
    fn commit<'a>(&'a self, sound: &'a Sound, tx: FaultyTx, fence: &'a Fence, closing: Closing<'a>) -> Committing<'a> {
        Box::pin(async move {
            let at = sound.position(fence).await?;
            let closing = match closing {
                Closing::SetUp { .. } => Closing::Advance { from: at, to: at, event_id: None },
                other => other,
            };
            sound.commit(tx, fence, closing).await
        })
    }
}

/// Commits the version, and not what was made.
pub(crate) struct StoresVersionsAlone;

impl Fault for StoresVersionsAlone {
    fn commit<'a>(&'a self, sound: &'a Sound, tx: FaultyTx, fence: &'a Fence, closing: Closing<'a>) -> Committing<'a> {
        Box::pin(async move {
            if matches!(closing, Closing::SetUp { .. }) {
                drop(tx);
                return sound.close(fence, closing).await;
            }
            sound.commit(tx, fence, closing).await
        })
    }
}

/// Sets the checkpoint back, and keeps the version that was there.
pub(crate) struct ResetsWithoutTheVersion;

impl Fault for ResetsWithoutTheVersion {
    fn commit<'a>(&'a self, sound: &'a Sound, tx: FaultyTx, fence: &'a Fence, closing: Closing<'a>) -> Committing<'a> {
        Box::pin(async move {
            let closing = match closing {
                Closing::Reset { to, by, nonce, .. } => Closing::Reset { to, by, nonce, setup_version: None },
                other => other,
            };
            sound.commit(tx, fence, closing).await
        })
    }
}

/// Tells a new leader of another version than what is stored.
pub(crate) struct TakesOverWith(pub(crate) fn(Option<u32>) -> Option<u32>);

impl Fault for TakesOverWith {
    fn take_over<'a>(&'a self, sound: &'a Sound, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        Box::pin(async move {
            let mut taken = sound.memory.take_over(claim).await?;
            taken.checkpoint.setup_version = (self.0)(taken.checkpoint.setup_version);
            Ok(taken)
        })
    }
}

/// Shows checkpoints without the version.
pub(crate) struct ShowsNoVersions;

impl Fault for ShowsNoVersions {
    fn checkpoint<'a>(&'a self, sound: &'a Sound, id: &'a str) -> BoxFuture<'a, Result<Option<Checkpoint>, Error>> {
        Box::pin(async move {
            let found = sound.memory.checkpoint(id).await?;
            Ok(found.map(|found| Checkpoint { setup_version: None, ..found }))
        })
    }
}

/// Remembers the version of a subscriber that was removed.
#[derive(Default)]
pub(crate) struct RemembersVersions(Mutex<HashMap<String, u32>>);

impl Fault for RemembersVersions {
    fn commit<'a>(&'a self, sound: &'a Sound, tx: FaultyTx, fence: &'a Fence, closing: Closing<'a>) -> Committing<'a> {
        Box::pin(async move {
            let closed = sound.commit(tx, fence, closing).await?;
            if let Closing::SetUp { version } = closing {
                let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(fence.subscriber_id.to_string(), version);
            }
            Ok(closed)
        })
    }

    fn take_over<'a>(&'a self, sound: &'a Sound, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        Box::pin(async move {
            let mut taken = sound.memory.take_over(claim).await?;
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let known = known.get(&*claim.subscriber_id).copied();
            taken.checkpoint.setup_version = taken.checkpoint.setup_version.or(known);
            Ok(taken)
        })
    }
}
