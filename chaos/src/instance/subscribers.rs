//! What is handed the events.

use std::time::Duration;

use highwater::{
    Append, BoxError, BusError, Error, Event, EventBus, EventTypes, Projection, StateIs, SubscriberOptions,
    TransactionalProjection, stream_id,
};

use super::shaky::Shaky;
use super::{Job, Journal, asynchronous_path, delivered, now};
use crate::base::Base;
use crate::broken::Flaw;
use crate::cast::{Fact, Kind, ROLES, Role};
use crate::record::Entry;

/// How long to wait before subscribing is retried.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// What subscribers are made of.
#[derive(Clone)]
pub(super) struct Cast<S: Base> {
    pub(super) bus: EventBus<S>,
    /// For those that only one instance has.
    pub(super) alone: Option<EventBus<S>>,
    pub(super) store: S,
    pub(super) journal: Journal,
    pub(super) job: Job,
}

impl<S: Base> Cast<S> {
    /// The bus for a role, unless it is another instance's.
    fn bus(&self, role: &Role) -> Option<&EventBus<S>> {
        if role.alone { self.alone.as_ref() } else { Some(&self.bus) }
    }

    /// Subscribes, and retries for as long as the database is away. One that is there already stays.
    pub(super) async fn join(&self, role: &'static Role) -> Result<(), BoxError> {
        let Some(bus) = self.bus(role) else { return Ok(()) };
        loop {
            let brittle = self.job.flaw == Some(Flaw::LooseDeadLetter);
            let shaky = role.shaky.then(|| Shaky::new(&self.job.folder, brittle));
            let taker = Taker { role, shaky, cast: self.clone() };
            let joined = match role.kind {
                Kind::Transactional => bus.subscribe(InTransaction(taker)).await,
                Kind::Effects | Kind::Saga => bus.subscribe(OutsideTransaction(taker)).await,
            };
            match joined {
                // An instance may be told to stop while it is still joining.
                Ok(_) | Err(Error::Bus(BusError::AlreadySubscribed(_)) | Error::ShutDown) => return Ok(()),
                Err(error) if error.is_retryable() => tokio::time::sleep(RETRY_DELAY).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(super) async fn leave(&self, role: &Role) -> Result<(), BoxError> {
        match self.bus(role).and_then(|bus| bus.subscription(role.id)) {
            Some(subscription) => Ok(subscription.unsubscribe().await?),
            None => Ok(()),
        }
    }
}

/// One subscriber.
struct Taker<S: Base> {
    role: &'static Role,
    shaky: Option<Shaky>,
    cast: Cast<S>,
}

impl<S: Base> Taker<S> {
    fn options(&self) -> SubscriberOptions {
        let options = delivered(SubscriberOptions::new().on_failure(self.role.policy), self.role);
        match self.role.wants {
            Some(wanted) => options.event_types(EventTypes::only([wanted])),
            None => options,
        }
    }

    async fn may_fail(&self, event: &Event<Fact>) -> Result<(), BoxError> {
        match &self.shaky {
            Some(shaky) => shaky.before(event.id).await,
            None => Ok(()),
        }
    }
}

/// In the transaction of its checkpoint.
struct InTransaction<S: Base>(Taker<S>);

impl<S: Base> TransactionalProjection<Fact, S::Tx> for InTransaction<S> {
    fn subscriber_id(&self) -> &str {
        self.0.role.id
    }

    fn options(&self) -> SubscriberOptions {
        self.0.options()
    }

    async fn apply(&self, tx: &mut S::Tx, event: &Event<Fact>) -> Result<(), BoxError> {
        self.apply_batch(tx, std::slice::from_ref(event)).await
    }

    async fn apply_batch(&self, tx: &mut S::Tx, events: &[Event<Fact>]) -> Result<(), BoxError> {
        for event in events {
            self.0.may_fail(event).await?;
        }
        if self.0.role.asynchronous || asynchronous_path(&self.0.cast.job.folder).exists() {
            S::make_asynchronous(tx).await?;
        }
        let places: Vec<_> =
            events.iter().map(|event| (event.global_sequence, event.stream_id, event.stream_version)).collect();
        let (id, places, life) = (self.0.role.id, serde_json::to_string(&places)?, self.0.cast.job.life.to_string());
        S::within(tx, S::SQL.rows, &[id, &places, &life]).await?;
        Ok(S::within(tx, S::SQL.tallies, &[id, &places]).await?)
    }

    async fn reset(&self, tx: &mut S::Tx) -> Result<(), BoxError> {
        for statement in S::SQL.forget {
            S::within(tx, statement, &[self.0.role.id]).await?;
        }
        Ok(())
    }
}

/// Outside of any transaction: a line in the journal, and an answer from the saga.
struct OutsideTransaction<S: Base>(Taker<S>);

impl<S: Base> Projection<Fact> for OutsideTransaction<S> {
    const STATE: StateIs = StateIs::Outside;

    fn subscriber_id(&self) -> &str {
        self.0.role.id
    }

    fn options(&self) -> SubscriberOptions {
        self.0.options()
    }

    async fn apply(&self, event: &Event<Fact>) -> Result<(), BoxError> {
        let Taker { role, cast, .. } = &self.0;
        self.0.may_fail(event).await?;
        let global_sequence = event.global_sequence.ok_or("an event without its place in the log")?;
        cast.store.before_effect(role.id, global_sequence).await;
        if role.kind == Kind::Saga && matches!(event.data, Fact::Asked { .. }) {
            let answers = stream_id("answers", &(event.id.as_u128() % 7).to_string());
            let answer = Append::to(answers).in_answer_to(event, "answer").event(Fact::Answered { to: event.id });
            cast.store.append(&answer).await?;
        }
        let place = ROLES.iter().position(|other| other.id == role.id).ok_or("a role that is none")?;
        cast.journal.write(&Entry::Effect { role: place, global_sequence, id: event.id, at: now() });
        Ok(())
    }
}
