//! Faults of removing subscribers, and of telling leases from them.

use highwater::backend::{BoxFuture, CheckpointWrite, Checkpoints, Closed, Closing, Fence, Refused, Requests, Taken};
use highwater::{Claim, Error};
use uuid::Uuid;

use crate::faulty::{Fault, FaultyTx, Sound};

/// Sets the checkpoint back, and says that the subscriber is gone.
pub(crate) struct SetsBackWhatIsRemoved;

impl Fault for SetsBackWhatIsRemoved {
    fn commit<'a>(
        &'a self,
        sound: &'a Sound,
        tx: FaultyTx,
        fence: &'a Fence,
        closing: Closing<'a>,
    ) -> BoxFuture<'a, Result<Closed, Error>> {
        Box::pin(async move {
            let closing = match closing {
                Closing::Remove { by } => Closing::Reset { to: 0, by, nonce: Uuid::now_v7(), setup_version: None },
                other => other,
            };
            sound.commit(tx, fence, closing).await
        })
    }
}

/// Removes the subscriber, and leaves what was asked of it.
pub(crate) struct LeavesRequests;

impl Fault for LeavesRequests {
    fn commit<'a>(
        &'a self,
        sound: &'a Sound,
        tx: FaultyTx,
        fence: &'a Fence,
        closing: Closing<'a>,
    ) -> BoxFuture<'a, Result<Closed, Error>> {
        Box::pin(async move {
            let left = sound.memory.open_requests(&[fence.subscriber_id.to_string()]).await?;
            let closed = sound.commit(tx, fence, closing).await?;
            if matches!(closing, Closing::Remove { .. }) {
                for request in left {
                    sound.memory.file_request(&request).await?;
                }
            }
            Ok(closed)
        })
    }
}

/// Does not keep the nonce that a claim brings.
pub(crate) struct NamesTermsByItself;

impl Fault for NamesTermsByItself {
    fn take_over<'a>(&'a self, sound: &'a Sound, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        Box::pin(async move { sound.memory.take_over(&Claim { nonce: Uuid::now_v7(), ..claim.clone() }).await })
    }
}

/// Takes what was acquired by hand for a lock, and says that it has stored its position.
pub(crate) struct StoresNoPositionOfALease;

impl Fault for StoresNoPositionOfALease {
    fn store_checkpoint<'a>(
        &'a self,
        sound: &'a Sound,
        write: &'a CheckpointWrite,
    ) -> BoxFuture<'a, Result<Option<Refused>, Error>> {
        Box::pin(async move {
            let found = sound.memory.checkpoint(&write.fence.subscriber_id).await?;
            if found.is_some_and(|found| found.is_lease()) {
                return Ok(None);
            }
            sound.store_checkpoint(write).await
        })
    }
}
