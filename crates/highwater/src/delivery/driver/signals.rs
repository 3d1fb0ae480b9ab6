//! What may happen to a subscriber at any time: an operator or the bus wants something of it, or leadership changes.

use std::sync::Arc;

use tokio::sync::watch;
use uuid::Uuid;

use super::Control;
use crate::LeadershipGuard;

/// Everything that is not an event.
pub(crate) struct Signals {
    pub(in crate::delivery) control: watch::Receiver<Control>,
    leadership: Option<Leading>,
}

struct Leading {
    guard: LeadershipGuard,
    stays: bool,
    lost: Option<watch::Receiver<bool>>,
    /// Dropped before it is released: what is given back is not lost.
    wanted: Arc<()>,
    asked: Option<watch::Receiver<Option<Uuid>>>,
}

impl Signals {
    pub(super) fn new(mut control: watch::Receiver<Control>) -> Self {
        // What it says now counts as well.
        control.mark_changed();
        Self { control, leadership: None }
    }

    pub(super) fn leads(&mut self, guard: LeadershipGuard) {
        let (lost, asked) = (guard.losing(), guard.yielding());
        self.leadership = Some(Leading { guard, stays: false, lost, wanted: Arc::default(), asked });
    }

    /// Leadership was held, and is not any more.
    pub(in crate::delivery) fn has_lost(&self) -> bool {
        self.leadership.as_ref().is_some_and(|leading| !leading.guard.is_held())
    }

    /// Whether another instance is to lead, if that has changed.
    pub(super) fn asked_to_yield(&mut self) -> Option<bool> {
        let asked = self.leadership.as_mut()?.asked.as_mut()?;
        asked.has_changed().unwrap_or(false).then(|| asked.borrow_and_update().is_some())
    }

    /// Announces for the others' plans whether it would refuse to release. Sent when it changes.
    pub(super) fn stays(&mut self, stays: bool) {
        if let Some(leading) = self.leadership.as_mut().filter(|leading| leading.stays != stays) {
            leading.stays = stays;
            leading.guard.stays(stays);
        }
    }

    /// Lost leadership need not be released.
    pub(super) fn forget(&mut self) {
        self.leadership = None;
    }

    /// Gives leadership back, and returns when others can have it.
    pub(super) async fn release(&mut self) {
        if let Some(Leading { guard, wanted, .. }) = self.leadership.take() {
            drop(wanted);
            guard.release().await;
        }
    }

    /// Resolves when leadership is lost. Never, where there is none, or where it is released.
    pub(super) fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let leading = self.leadership.as_ref();
        let watched = leading.and_then(|leading| Some((leading.lost.clone()?, Arc::downgrade(&leading.wanted))));
        async {
            let Some((mut lost, wanted)) = watched else { return std::future::pending().await };
            // Without a sender it is gone as well.
            drop(lost.wait_for(|lost| *lost).await);
            if wanted.strong_count() == 0 {
                std::future::pending().await
            }
        }
    }

    /// Whether something is to be checked before the next event. Cheap.
    pub(in crate::delivery) fn is_pending(&self) -> bool {
        let asked =
            |leading: &Leading| leading.asked.as_ref().is_some_and(|asked| asked.has_changed().unwrap_or(false));
        self.control.has_changed().unwrap_or(true) || self.has_lost() || self.leadership.as_ref().is_some_and(asked)
    }

    /// Waits until something is to be checked, without consuming it.
    pub(super) async fn changed(&mut self) {
        let lost = self.lost();
        let asked = self.leadership.as_mut().and_then(|leading| leading.asked.as_mut());
        let control = &mut self.control;
        tokio::select! {
            () = changed(control) => {}
            () = lost => {}
            () = async { match asked { Some(asked) => changed(asked).await, None => std::future::pending().await } } => {}
        }
    }
}

/// Waits for the next signal. For ever, once there is no sender.
async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    match receiver.changed().await {
        Ok(()) => receiver.mark_changed(),
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::*;
    use crate::{BoxFuture, Checkpoint, HeldLock, Taken, Term};

    /// Says that it is gone before its release has ended, as a keeper's thread does.
    struct Told(watch::Sender<bool>);

    impl HeldLock for Told {
        fn session(&self) -> Option<Uuid> {
            None
        }

        fn is_held(&self) -> bool {
            !*self.0.borrow()
        }

        fn lost(&self) -> watch::Receiver<bool> {
            self.0.subscribe()
        }

        fn release(self: Box<Self>, _: Option<Uuid>) -> BoxFuture<'static, ()> {
            Box::pin(async move {
                self.0.send_replace(true);
                tokio::task::yield_now().await;
            })
        }
    }

    #[tokio::test]
    async fn what_is_released_is_not_lost_and_what_is_taken_away_is() {
        let leads = || {
            let (_, control) = watch::channel(Control::default());
            let mut signals = Signals::new(control);
            let told = watch::Sender::new(false);
            let checkpoint = Checkpoint {
                subscriber_id: "projection:orders".to_owned(),
                global_sequence: 0,
                event_id: None,
                updated_at: Utc::now(),
                term: Term { number: 1, nonce: Uuid::nil() },
                incarnation: 0,
                setup_version: None,
            };
            signals.leads(LeadershipGuard::new(Taken { checkpoint, fresh: true }, Box::new(Told(told.clone()))));
            (signals, told)
        };
        let (mut signals, _) = leads();
        let lost = signals.lost();
        let released = tokio::select! {
            biased;
            () = lost => false,
            () = signals.release() => true,
        };
        assert!(released, "its own release was taken for a loss");
        let (signals, told) = leads();
        let lost = signals.lost();
        told.send_replace(true);
        lost.await;
        assert!(signals.has_lost());
    }
}
