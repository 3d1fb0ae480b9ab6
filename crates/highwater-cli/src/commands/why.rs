//! `highwater why`

use std::time::Duration;

use clap::Args;
use highwater::backend::{Backend, LeaderHold, explain_with_patience};
use highwater::operations::{Cause, Explanation};
use serde_json::json;

use crate::arguments::Global;
use crate::failure::Failure;
use crate::terminal::Paint;
use crate::{times, words};

/// Say why a subscriber is where it is
///
/// In sentences, the most important first, each with what to do. Of a lease, which an application acquires by hand, who holds
/// it and since when.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  highwater why projection:revenue")]
pub(crate) struct Why {
    /// The subscriber
    subscriber: String,
    /// For how long a leader may be behind without moving before that is said
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = times::seconds())]
    patience: u64,
}

impl Why {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let store = global.open().await?;
        let explanation = self.on(&*store).await?;
        let mut out = global.output();
        if global.json {
            out.value(&self::json(&explanation))?;
        } else {
            let subscriber = &explanation.subscriber;
            let (id, state, at) = (&subscriber.subscriber_id, subscriber.state(), subscriber.checkpoint);
            let head = words::number(explanation.head);
            let line = match subscriber.lease {
                true => format!("{id}: a lease, {state}."),
                false => format!("{id}: {state}, at {} of {head}.", words::number(at)),
            };
            out.line(&words::one_line(&line))?;
            for cause in &explanation.causes {
                out.line(&words::one_line(&cause.to_string()))?;
                if let Some(command) = command(cause, id) {
                    out.line(&out.paint(&words::one_line(&format!("    {command}")), Paint::Bold))?;
                }
            }
        }
        out.finish()
    }

    async fn on(&self, store: &dyn Backend) -> Result<Explanation, Failure> {
        Ok(explain_with_patience(store, &self.subscriber, Duration::from_secs(self.patience)).await?)
    }
}

fn json(explanation: &Explanation) -> serde_json::Value {
    let subscriber = &explanation.subscriber;
    let causes: Vec<_> =
        explanation.causes.iter().map(|cause| json!({ "cause": name(cause), "text": cause.to_string() })).collect();
    json!({
        "subscriber": subscriber.subscriber_id,
        "lease": subscriber.lease,
        "state": subscriber.state(),
        "checkpoint": subscriber.checkpoint,
        "frontier": explanation.frontier,
        "head": explanation.head,
        "causes": causes,
    })
}

/// What does it, where a command does.
fn command(cause: &Cause, subscriber_id: &str) -> Option<String> {
    let subscriber_id = words::quoted(subscriber_id);
    match cause {
        Cause::Paused => Some(format!("highwater resume {subscriber_id}")),
        Cause::ParkedStreams { first: Some(stream), .. } => {
            let stream = words::quoted(&stream.to_string());
            Some(format!("highwater dead-letters replay --subscriber {subscriber_id} --stream {stream}"))
        }
        Cause::Lease { holder, .. } if holder.as_ref().is_none_or(|holder| holder.hold == LeaderHold::Gone) => {
            Some(format!("highwater subscribers remove {subscriber_id}"))
        }
        Cause::DeadLetters { .. } => Some(format!("highwater dead-letters list --subscriber {subscriber_id}")),
        _ => None,
    }
}

/// For programs, which should not have to read sentences.
fn name(cause: &Cause) -> &'static str {
    match cause {
        Cause::CaughtUp { .. } => "caught_up",
        Cause::CatchingUp { .. } => "catching_up",
        Cause::WaitingForWriters { .. } => "waiting_for_writers",
        Cause::Lease { .. } => "lease",
        Cause::NobodyLeads { .. } => "nobody_leads",
        Cause::LockHeld { .. } => "lock_held",
        Cause::MovedByHand { .. } => "moved_by_hand",
        Cause::Stopped { .. } => "stopped",
        Cause::Uncoordinated { .. } => "uncoordinated",
        Cause::NotMoving { .. } => "not_moving",
        Cause::Retrying { .. } => "retrying",
        Cause::Halted { .. } => "halted",
        Cause::Paused => "paused",
        Cause::Disconnected { .. } => "disconnected",
        Cause::ParkedStreams { .. } => "parked_streams",
        Cause::DeadLetters { .. } => "dead_letters",
        Cause::OpenRequests { .. } => "open_requests",
        Cause::PushDegraded { .. } => "push_degraded",
        _ => "other",
    }
}
