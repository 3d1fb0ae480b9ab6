//! A transaction: holds its streams and its numbers from the beginning to the end.

use std::sync::Arc;
use std::time::Duration;

use highwater::backend::{BoxFuture, KindsWritten, NewRecord, Prepared, Transfer};
use highwater::{Append, Appended, Error};
use highwater_contract::{OpenAppend, Settings};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::{Flaw, SharedDrawn};

/// How long to wait for a stream that is held.
const HELD_MAX: Duration = Duration::from_secs(1);

pub(super) struct Transaction {
    shared: Arc<SharedDrawn>,
    id: u64,
    appended: Option<Appended>,
    over: bool,
}

impl Transaction {
    pub(super) async fn begin(shared: &Arc<SharedDrawn>, settings: &Settings, append: &Append) -> Result<Self, Error> {
        let new = Prepared::new(append, &settings.limits, &settings.upcasters, &KindsWritten::default())?;
        let new: Vec<NewRecord> = new.complete().collect();
        if let Some(unfinished) = shared.beside.filling().await? {
            return Err(unfinished.into_error());
        }
        let id = shared.state().next_transaction();
        let mut transaction = Self { shared: Arc::clone(shared), id, appended: None, over: false };
        if shared.has(Flaw::LocksStreamsInTurn) {
            for (stream_id, _) in append.streams() {
                transaction.lock(*stream_id).await;
            }
        }
        if shared.has(Flaw::DrawsTooEarly) {
            shared.state().draw(id, new.len());
        }
        transaction.appended = Some(transaction.enter(append, new).await?);
        Ok(transaction)
    }

    /// Waits until nobody else is at work on the same streams or ids, and goes in.
    async fn enter(&self, append: &Append, new: Vec<NewRecord>) -> Result<Appended, Error> {
        let deadline = Instant::now() + HELD_MAX;
        loop {
            let ended = self.shared.ended.notified();
            let entered = {
                let mut state = self.shared.state();
                let alone = !self.shared.has(Flaw::LocksEverything) || !state.is_anything_open();
                if alone { state.begin(self.id, append, &new)? } else { None }
            };
            if let Some(appended) = entered {
                return Ok(appended);
            }
            if timeout_at(deadline, ended).await.is_err() {
                return Err(Error::StreamHeld { streams: Vec::new(), waited: HELD_MAX });
            }
        }
    }

    async fn lock(&self, stream_id: Uuid) {
        loop {
            let ended = self.shared.ended.notified();
            if self.shared.state().hold(self.id, stream_id) {
                break;
            }
            ended.await;
        }
        tokio::task::yield_now().await;
    }

    /// Commits.
    pub(super) fn end(mut self) -> Appended {
        let appended = self.appended.take().expect("a transaction that has begun has an answer");
        self.shared.state().commit(self.id);
        self.over = true;
        self.shared.ended.notify_waiters();
        if !appended.repeated {
            self.shared.announce(appended.global_sequence);
        }
        appended
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.over && !self.shared.has(Flaw::ForgetsToRollBack) {
            self.shared.state().roll_back(self.id, self.shared.flaw);
            self.shared.ended.notify_waiters();
        }
    }
}

impl OpenAppend for Transaction {
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<Appended, Error>> {
        Box::pin(async move { Ok(self.end()) })
    }

    fn rollback(mut self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            self.shared.state().roll_back(self.id, self.shared.flaw);
            self.over = true;
            self.shared.ended.notify_waiters();
            Ok(())
        })
    }
}
