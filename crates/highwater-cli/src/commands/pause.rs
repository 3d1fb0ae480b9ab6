//! `highwater pause`, `highwater resume`

use std::time::Duration;

use clap::Args;
use highwater::SubscriptionState;
use highwater::backend::{Backend, Report};
use highwater::operations::{Leader, leader_of};
use serde_json::json;
use tokio::time::Instant;

use crate::arguments::Global;
use crate::failure::Failure;
use crate::requests::{bus, must_exist};
use crate::{times, words};

/// How often to check whether the leader has noticed it.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Pause a subscriber, wherever it runs
///
/// It finishes what it has in hand and goes no further, in all instances and also after a restart, until it is resumed.
/// Waits until the leader confirms it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  highwater pause projection:revenue")]
pub(crate) struct Pause {
    /// The subscriber
    subscriber: String,
    #[command(flatten)]
    waiting: Waiting,
}

/// Resume a subscriber that was paused
///
/// Waits until the leader confirms it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  highwater resume projection:revenue")]
pub(crate) struct Resume {
    /// The subscriber
    subscriber: String,
    #[command(flatten)]
    waiting: Waiting,
}

#[derive(Debug, Args)]
struct Waiting {
    /// How long to wait for the leader to confirm it; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = times::seconds())]
    wait: u64,
}

/// The instance that carries it out.
enum LeaderAnswer {
    /// There is no leader: the next one finds it.
    Nobody,
    /// The leader has confirmed it.
    Confirmed(SubscriptionState),
    /// The leader has not confirmed it yet.
    NotYet(Leader),
}

impl Pause {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let store = global.open().await?;
        self.on(&*store, global).await
    }

    async fn on(&self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        let subscriber = &self.subscriber;
        bus(store)?.pause(subscriber).await?;
        let answer = self.waiting.wait_for_leader(store, subscriber, is_still).await?;
        let resume = format!("`highwater resume {}` resumes it", words::quoted(subscriber));
        let said = match &answer {
            LeaderAnswer::Nobody => format!("{subscriber} is paused, and no instance leads for it; {resume}"),
            LeaderAnswer::Confirmed(..) => format!("{subscriber} is paused; {resume}"),
            LeaderAnswer::NotYet(_) => format!("it is recorded that {subscriber} is paused; {resume}"),
        };
        self.waiting.say(subscriber, true, &answer, &said, global)
    }
}

impl Resume {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let store = global.open().await?;
        self.on(&*store, global).await
    }

    async fn on(&self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        let subscriber = &self.subscriber;
        must_exist(store, subscriber).await?;
        let was_paused = !store.paused(std::slice::from_ref(subscriber)).await?.is_empty();
        bus(store)?.resume(subscriber).await?;
        let answer =
            self.waiting.wait_for_leader(store, subscriber, |state| *state != SubscriptionState::Paused).await?;
        let said = match &answer {
            LeaderAnswer::Confirmed(SubscriptionState::Halted { reason }) => {
                format!("{subscriber} is not paused; it is halted, and its own process resumes it: {reason}")
            }
            _ if !was_paused => format!("{subscriber} was not paused"),
            LeaderAnswer::Nobody => {
                format!("{subscriber} is not paused any more; it continues once an instance leads for it")
            }
            LeaderAnswer::Confirmed(..) => format!("{subscriber} continues"),
            LeaderAnswer::NotYet(_) => format!("it is recorded that {subscriber} continues"),
        };
        self.waiting.say(subscriber, false, &answer, &said, global)
    }
}

/// Whether it hands nothing over in this state.
fn is_still(state: &SubscriptionState) -> bool {
    matches!(state, SubscriptionState::Paused | SubscriptionState::Halted { .. })
}

impl Waiting {
    /// Waits for the leader's confirmation.
    async fn wait_for_leader(
        &self,
        store: &dyn Backend,
        subscriber: &str,
        wanted: impl Fn(&SubscriptionState) -> bool,
    ) -> Result<LeaderAnswer, Failure> {
        let deadline = Instant::now() + Duration::from_secs(self.wait);
        loop {
            let Some(leader) = leader_of(store, subscriber).await? else { return Ok(LeaderAnswer::Nobody) };
            let of_its_term = |report: &Report| report.subscriber_id == subscriber && report.term == leader.term;
            let said = store.reports().await?.into_iter().find(of_its_term);
            match said.filter(|said| wanted(&said.state)) {
                Some(said) => return Ok(LeaderAnswer::Confirmed(said.state)),
                None if Instant::now() >= deadline => return Ok(LeaderAnswer::NotYet(leader)),
                None => tokio::time::sleep_until(deadline.min(Instant::now() + LOOK_AGAIN)).await,
            }
        }
    }

    fn say(
        &self,
        subscriber: &str,
        paused: bool,
        answer: &LeaderAnswer,
        said: &str,
        global: &Global,
    ) -> Result<(), Failure> {
        let mut out = global.output();
        match global.json {
            true => out.value(&json!({
                "subscriber": subscriber,
                "paused": paused,
                "led": !matches!(answer, LeaderAnswer::Nobody),
                "confirmed": !matches!(answer, LeaderAnswer::NotYet(_)),
            }))?,
            false => out.line(said)?,
        }
        out.finish()?;
        match answer {
            LeaderAnswer::NotYet(leader) if self.wait > 0 => Err(Failure::refused(format!(
                "pid {} on {} leads for it and has not confirmed that within {} s",
                leader.instance.pid, leader.instance.host, self.wait
            ))),
            _ => Ok(()),
        }
    }
}
