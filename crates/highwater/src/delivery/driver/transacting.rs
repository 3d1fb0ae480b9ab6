//! The fenced transaction: work in it, what closes it, and whose failure it is when it comes to nothing.

use uuid::Uuid;

use super::Driver;
use crate::delivery::after_commit::noting;
use crate::delivery::handling::Failure;
use crate::{Begun, Closed, Closing, Error, Fence, Opening};

impl Driver {
    /// Works in a fenced transaction, and commits it with the closing that the work returns; without one it is rolled back.
    /// The inner error is the handler's, and nothing has changed then.
    pub(in crate::delivery) async fn in_transaction<'a>(
        &self,
        opening: Opening,
        dead_letter: Option<Uuid>,
        work: impl AsyncFnOnce(&mut Begun) -> Result<Option<Closing<'a>>, Failure>,
    ) -> Result<Result<Option<Closed>, Failure>, Error> {
        let backend = &self.shared.backend;
        let (fence, mut begun) = self.begin(opening, dead_letter).await?;
        let (worked, appended) = noting(work(&mut begun)).await;
        let closing = match worked {
            Ok(Some(closing)) => closing,
            Ok(None) => {
                backend.rollback(begun.tx, false).await;
                return Ok(Ok(None));
            }
            Err(failure) => {
                backend.rollback(begun.tx, failure.unsure).await;
                return failure.of_handler().map(Err);
            }
        };
        match backend.commit(begun.tx, &fence, closing).await {
            Ok(closed) => {
                if let Some(appended) = appended {
                    backend.announce(appended);
                }
                Ok(Ok(Some(closed)))
            }
            Err(error) => Failure::of_commit(error, opening).map(Err),
        }
    }

    /// Opens and closes a fenced transaction in which nothing else happens.
    pub(in crate::delivery) async fn fenced<'a>(
        &self,
        closing: impl FnOnce(u64) -> Closing<'a>,
    ) -> Result<Closed, Error> {
        let (fence, begun) = self.begin(Opening::Closing, None).await?;
        self.shared.backend.commit(begun.tx, &fence, closing(begun.global_sequence)).await
    }

    /// Begins a fenced transaction, unless that would be below what was stored.
    async fn begin(&self, opening: Opening, dead_letter: Option<Uuid>) -> Result<(Fence, Begun), Error> {
        let fence = self.machine.fence()?;
        let begun = self.shared.backend.begin(&fence, opening, dead_letter).await?;
        match self.machine.check_begun(begun.global_sequence) {
            Ok(()) => Ok((fence, begun)),
            Err(error) => {
                self.shared.backend.rollback(begun.tx, false).await;
                Err(error)
            }
        }
    }
}
