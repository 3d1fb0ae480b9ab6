//! Filling it: the records go to the log, and everything to the store beside it, which also keeps the lock.

use std::sync::Arc;

use highwater::backend::{BoxFuture, FilledCheckpoint, Filling, Record, Request};
use highwater::{DeadLetterDetail, Error};

use super::Shared;

pub(super) struct DrawnFilling {
    shared: Arc<Shared>,
    beside: Box<dyn Filling>,
}

impl DrawnFilling {
    pub(super) fn new(shared: Arc<Shared>, beside: Box<dyn Filling>) -> Self {
        Self { shared, beside }
    }
}

impl Filling for DrawnFilling {
    fn filled_to(&self) -> u64 {
        self.beside.filled_to()
    }

    fn records<'a>(&'a mut self, records: &'a [Record]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.beside.records(records).await?;
            let mut state = self.shared.state();
            records.iter().for_each(|record| state.put(record.clone()));
            Ok(())
        })
    }

    fn checkpoints<'a>(&'a mut self, checkpoints: &'a [FilledCheckpoint]) -> BoxFuture<'a, Result<(), Error>> {
        self.beside.checkpoints(checkpoints)
    }

    fn letters<'a>(&'a mut self, letters: &'a [DeadLetterDetail]) -> BoxFuture<'a, Result<(), Error>> {
        self.beside.letters(letters)
    }

    fn requests<'a>(&'a mut self, requests: &'a [Request]) -> BoxFuture<'a, Result<(), Error>> {
        self.beside.requests(requests)
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
