//! Filling it: the records go to the log, and everything to the store beside it, which also keeps the lock.

use std::sync::Arc;

use highwater::Error;
use highwater::backend::{Batch, BoxFuture, Filling};

use super::SharedDrawn;

pub(super) struct DrawnFilling {
    shared: Arc<SharedDrawn>,
    beside: Box<dyn Filling>,
}

impl DrawnFilling {
    pub(super) fn new(shared: Arc<SharedDrawn>, beside: Box<dyn Filling>) -> Self {
        Self { shared, beside }
    }
}

impl Filling for DrawnFilling {
    fn filled_to(&self) -> u64 {
        self.beside.filled_to()
    }

    fn put<'a>(&'a mut self, batch: Batch<'a>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.beside.put(batch).await?;
            if let Batch::Records(records) = batch {
                let mut state = self.shared.state();
                records.iter().for_each(|record| state.put(record.clone()));
            }
            Ok(())
        })
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            let filled_to = self.filled_to();
            self.beside.finish().await?;
            self.shared.announce(filled_to);
            Ok(())
        })
    }

    fn abandon(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            self.shared.state().clear();
            self.beside.abandon().await
        })
    }
}
