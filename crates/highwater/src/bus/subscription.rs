//! A subscriber's handle.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Bus, CaughtUp, Entry, life};
use crate::overview::ends;
use crate::{Backoff, BusError, Error, Progress, RequestKind, SubscriptionState};

/// How often to look how far another instance is.
const LOOK_AT_LEADER: Duration = Duration::from_millis(20);
/// How often to look, at last, whether a subscriber has noticed that the log is in another life. One that is paused does not.
const LOOK_AT_LIFE_MAX: Duration = Duration::from_secs(1);

/// A subscriber of a bus in this process. Dropping it stops nothing.
pub struct Subscription {
    bus: Bus,
    entry: Arc<Entry>,
}

impl Subscription {
    pub(super) fn new(bus: Bus, entry: Arc<Entry>) -> Self {
        Self { bus, entry }
    }

    /// Its durable name.
    #[must_use]
    pub fn subscriber_id(&self) -> &str {
        &self.entry.id
    }

    /// What it is doing.
    #[must_use]
    pub fn state(&self) -> SubscriptionState {
        self.bus.told(&self.entry.id, self.entry.state())
    }

    /// How far it is, compared with what is committed and with what of that is settled; also where another instance
    /// processes.
    ///
    /// # Errors
    /// When the log cannot be asked.
    pub async fn progress(&self) -> Result<Progress, Error> {
        let stored = self.bus.stored_elsewhere(&self.entry).await?.map(|found| found.global_sequence);
        let ends = ends(self.bus.backend()).await?;
        let progress = self.entry.progress(ends, stored);
        let state = self.bus.told(&self.entry.id, progress.state.clone());
        Ok(Progress { state, push_degraded: self.bus.backend().push_degraded(), ..progress })
    }

    /// Waits until everything that is committed now has been handled, here or by the instance that leads; then its tables are
    /// there as well. While it is paused, this waits on.
    ///
    /// An event that went to the dead letters counts as handled, and the answer says whether there is one:
    /// `caught_up().await?.without_dead_letters()?` where the read model has to show everything.
    ///
    /// # Errors
    /// [`BusError::NotRunning`](crate::BusError::NotRunning) when it is halted or stopped, also where another instance leads;
    /// [`BusError::OtherTables`](crate::BusError::OtherTables) when its tables are of a later version than its code here; [`BusError::WaitsForItself`](crate::BusError::WaitsForItself) inside its own handler, and when the log
    /// cannot be asked.
    pub async fn caught_up(&self) -> Result<CaughtUp, Error> {
        self.has_handled_all().await?;
        Ok(CaughtUp { dead_letter: self.bus.open_dead_letter_after(&self.entry.id, 0).await? })
    }

    async fn has_handled_all(&self) -> Result<(), Error> {
        let mut status = self.entry.status.clone();
        let (mut head, mut life) = life::head(self.bus.backend()).await?;
        let mut look_again = Backoff::new(LOOK_AT_LEADER, LOOK_AT_LIFE_MAX);
        loop {
            let other_life = {
                let now = status.borrow_and_update();
                let leads = !matches!(now.state, SubscriptionState::Starting | SubscriptionState::Standby { .. });
                let other_life = now.life.is_some_and(|handled_in| handled_in != life);
                if now.handled >= head && leads && now.is_set_up && now.life == Some(life) {
                    return Ok(());
                }
                let reason = match &now.state {
                    SubscriptionState::Halted { reason } => format!("halted: {reason}"),
                    SubscriptionState::Stopped => "stopped".to_owned(),
                    _ => String::new(),
                };
                if !reason.is_empty() {
                    return Err(Error::Bus(BusError::NotRunning { subscriber_id: self.entry.id.to_string(), reason }));
                }
                other_life
            };
            self.entry.not_within("caught_up()")?;
            if other_life {
                // What it has handled is of another life than what was committed: one of the two has not noticed yet.
                (head, life) = life::head(self.bus.backend()).await?;
            }
            let elsewhere = self.entry.state().is_standby();
            if elsewhere && let Some(found) = self.bus.stored_elsewhere(&self.entry).await? {
                if found.incarnation != life {
                    (head, life) = life::head(self.bus.backend()).await?;
                    continue;
                }
                match self.entry.other_tables(Some(&found)) {
                    None if found.global_sequence >= head => return Ok(()),
                    Some(tables) if tables.are_newer() => return Err(tables.into_error(&self.entry.id)),
                    _ => self.bus.not_halted(&found).await?,
                }
            }
            tokio::select! {
                changed = status.changed() => if changed.is_err() {
                    let reason = "its task has ended".to_owned();
                    return Err(Error::Bus(BusError::NotRunning { subscriber_id: self.entry.id.to_string(), reason }));
                },
                // Where another instance processes, only its checkpoint tells.
                () = tokio::time::sleep(LOOK_AT_LEADER), if elsewhere => {}
                () = tokio::time::sleep(look_again.next_delay()), if other_life => {}
            }
        }
    }

    /// Pauses it, durably and for all instances, and waits until it has finished its current event here. Requests wait until
    /// it is resumed as well. [`Bus::pause`](crate::Bus::pause) does not wait.
    ///
    /// # Errors
    /// [`BusError::WaitsForItself`](crate::BusError::WaitsForItself) inside its own handler, and when that cannot be stored.
    pub async fn pause(&self) -> Result<(), Error> {
        self.entry.not_within("pause() of a subscription")?;
        self.bus.pause(&self.entry.id).await?;
        let mut status = self.entry.status.clone();
        let resting =
            |state: &SubscriptionState| matches!(state, SubscriptionState::Paused | SubscriptionState::Stopped);
        // A subscriber that has ended is at rest as well.
        drop(status.wait_for(|status| resting(&status.state)).await);
        Ok(())
    }

    /// Resumes it, after a pause or after it was halted.
    ///
    /// # Errors
    /// When that cannot be stored.
    pub async fn resume(&self) -> Result<(), Error> {
        self.bus.resume(&self.entry.id).await
    }

    /// Starts again from the beginning: the projection's `reset` and the checkpoint in one transaction where it is
    /// transactional, one after the other where it is not. Its dead letters are archived. Returns when it has started again;
    /// [`caught_up`](Self::caught_up) waits for the end, and [`progress`](Self::progress) shows how far it is.
    ///
    /// # Errors
    /// What the projection's `reset` says, and when it does not come to it in time; [`BusError::WaitsForItself`](crate::BusError::WaitsForItself) inside its own
    /// handler.
    pub async fn rebuild(&self) -> Result<(), Error> {
        self.entry.not_within("rebuild()")?;
        self.bus.file(&self.entry.id, RequestKind::Rebuild, None).await?.done().await.map(drop)
    }

    /// Stops delivering to it: it finishes its current event and stores its checkpoint, from which it resumes when it is
    /// subscribed again.
    ///
    /// # Errors
    /// [`BusError::ShutdownTimedOut`](crate::BusError::ShutdownTimedOut) when it was not done in time and was aborted; [`BusError::WaitsForItself`](crate::BusError::WaitsForItself) inside its own
    /// handler.
    pub async fn unsubscribe(self) -> Result<(), Error> {
        self.entry.not_within("unsubscribe()")?;
        let stopped = self.bus.inner.stop(std::slice::from_ref(&self.entry)).await;
        self.bus.inner.last_words(std::slice::from_ref(&self.entry)).await;
        // Only now, so that no subscriber of the same name can start before it has ended.
        let mut state = self.bus.inner.state();
        if state.entries.get(&self.entry.id).is_some_and(|entry| Arc::ptr_eq(entry, &self.entry)) {
            state.entries.remove(&self.entry.id);
        }
        stopped
    }
}

impl Clone for Subscription {
    fn clone(&self) -> Self {
        Self { bus: self.bus.clone(), entry: self.entry.clone() }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.entry.status.borrow();
        f.debug_struct("Subscription")
            .field("id", &self.entry.id)
            .field("state", &status.state)
            .field("checkpoint", &status.stored)
            .finish_non_exhaustive()
    }
}
