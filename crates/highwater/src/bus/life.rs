//! Which life of the log a number is of. A server that recovers may give the numbers of lost events again: a position that was
//! reached before says nothing about those.

use crate::{Backend, Error};

/// The highest committed number, and the life that it is of.
pub(super) async fn head(backend: &dyn Backend) -> Result<(u64, u64), Error> {
    let mut life = backend.life().await?;
    loop {
        let head = backend.head().await?;
        let after = backend.life().await?;
        if after == life {
            return Ok((head, life));
        }
        life = after;
    }
}
