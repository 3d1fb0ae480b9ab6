//! Which life of the log a number is of. A server that recovers may give the numbers of lost events again: a position that was
//! reached before says nothing about those.

use crate::{Backend, Error, Filter, ReadLimit};

/// The life that the log is in now. `at`: any position; one that the log is known to be settled to is the cheapest.
pub(super) async fn now(backend: &dyn Backend, at: u64) -> Result<u64, Error> {
    Ok(backend.read_all(at, &Filter::ALL, ReadLimit::events(1)).await?.incarnation)
}

/// The highest committed number, and the life that it is of.
pub(super) async fn head(backend: &dyn Backend, at: u64) -> Result<(u64, u64), Error> {
    let mut life = now(backend, at).await?;
    loop {
        let head = backend.head().await?;
        let after = now(backend, at).await?;
        if after == life {
            return Ok((head, life));
        }
        life = after;
    }
}
