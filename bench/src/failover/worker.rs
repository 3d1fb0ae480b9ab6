//! The process that is an instance.

use std::time::Duration;

use highwater::{CoordinatorConfig, Event, InstanceMode, ReliableDeliveryConfig, SubscriptionState, observer_fn};
use highwater_postgres::{PgConfig, PgEventBus, PgEventStore};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::{ROLE, Way};
use crate::child::{self, Child};
use crate::clock::now;
use crate::payload::Order;
use crate::server::Server;
use crate::{Error, failover};

/// What an instance can be asked. It answers with a [`Handling`]: when it leads and has handled so many events more, the
/// last one; the very first, when there is one; the last one, when it has shut down.
pub(super) const MORE: &str = "more";
pub(super) const FIRST: &str = "first";
pub(super) const STOP: &str = "stop";

/// How many events are enough to see that a leader is at work.
const ENOUGH: usize = 20;
/// How often to look whether something has begun.
const LOOK: Duration = Duration::from_millis(2);

/// What an instance is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Job {
    /// Its name on the server, which those of its connections begin with.
    pub(super) name: String,
    pub(super) schema: String,
    /// As whom it connects, if that matters.
    pub(super) user: Option<String>,
    pub(super) watch_instances: bool,
    pub(super) subscribers: usize,
    pub(super) spread: bool,
    /// Whether another leads already.
    pub(super) stands_by: bool,
}

impl Job {
    pub(super) fn new(way: Way, name: String, schema: &str, stands_by: bool) -> Self {
        let CoordinatorConfig { spread, .. } = CoordinatorConfig::default();
        let (schema, watch_instances) = (schema.to_owned(), way == Way::Watched);
        Self { name, schema, user: None, watch_instances, subscribers: 1, spread, stands_by }
    }

    /// Starts an instance, and returns when it leads or stands by.
    pub(super) async fn start(&self, server: &Server) -> Result<Child, Error> {
        Child::start(server, ROLE, &[serde_json::to_string(self)?]).await
    }

    async fn store(&self, url: &str) -> Result<PgEventStore, Error> {
        let options = child::options(url)?.application_name(&self.name);
        let options = self.user.iter().fold(options, |options, user| options.username(user));
        let (schema, watch_instances) = (self.schema.clone(), self.watch_instances);
        Ok(PgEventStore::connect_to_with(options, PgConfig { schema, watch_instances, ..PgConfig::default() }).await?)
    }
}

/// An event that was handled: when, and its place in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Handling {
    pub(super) at: i64,
    pub(super) global_sequence: u64,
}

impl Handling {
    pub(super) fn parse(answer: &str) -> Result<Self, Error> {
        let (at, global_sequence) = answer.split_once(' ').ok_or("an answer without a place in the log")?;
        Ok(Self { at: at.parse()?, global_sequence: global_sequence.parse()? })
    }
}

impl std::fmt::Display for Handling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.at, self.global_sequence)
    }
}

/// All that was handled.
#[derive(Debug, Clone, Copy, Default)]
struct Handled {
    count: usize,
    first: Handling,
    last: Handling,
}

impl Handled {
    fn note(&mut self, event: &Event<Order>) {
        self.last = Handling { at: now(), global_sequence: event.global_sequence.unwrap_or_default() };
        if self.count == 0 {
            self.first = self.last;
        }
        self.count += 1;
    }
}

/// The child.
pub(crate) async fn work(url: &str, args: &[String]) -> Result<(), Error> {
    let [job] = args else { return Err("what is to be done?".into()) };
    let job: Job = serde_json::from_str(job)?;
    let config = ReliableDeliveryConfig {
        instance_mode: InstanceMode::Coordinated,
        coordination: CoordinatorConfig { spread: job.spread, ..CoordinatorConfig::default() },
        ..ReliableDeliveryConfig::default()
    };
    let bus = PgEventBus::with_config(job.store(url).await?, config);
    let handled = watch::Sender::new(Handled::default());
    for n in 0..job.subscribers {
        let noting = handled.clone();
        bus.subscribe(observer_fn(format!("projection:{}-{n}", failover::ROLE), move |event: Event<Order>| {
            noting.send_modify(|handled| handled.note(&event));
            async { Ok(()) }
        }))
        .await?;
    }
    if job.stands_by {
        until(&bus, |state| matches!(state, SubscriptionState::Standby { .. })).await;
    } else {
        until(&bus, |state| matches!(state, SubscriptionState::Live { .. })).await;
    }
    let handled = handled.subscribe();
    child::serve(|question| answer(bus.clone(), handled.clone(), question)).await
}

/// Returns when all subscribers are like that.
async fn until(bus: &PgEventBus, fits: impl Fn(&SubscriptionState) -> bool) {
    while !bus.subscriptions().iter().all(|subscription| fits(&subscription.state())) {
        tokio::time::sleep(LOOK).await;
    }
}

async fn answer(bus: PgEventBus, mut handled: watch::Receiver<Handled>, question: String) -> Result<String, Error> {
    let handling = match question.as_str() {
        MORE => {
            until(&bus, |state| matches!(state, SubscriptionState::Live { .. })).await;
            let enough = handled.borrow().count + ENOUGH;
            handled.wait_for(|handled| handled.count >= enough).await?.last
        }
        FIRST => handled.wait_for(|handled| handled.count > 0).await?.first,
        STOP => {
            bus.shutdown().await?;
            handled.borrow().last
        }
        _ => return Err(format!("what is {question:?}?").into()),
    };
    Ok(handling.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_understood() {
        let handling = Handling { at: 1_700_000_000_000_000_000, global_sequence: 7 };
        assert_eq!(Handling::parse(&handling.to_string()).unwrap(), handling);
        assert!(Handling::parse("7").is_err());
    }
}
