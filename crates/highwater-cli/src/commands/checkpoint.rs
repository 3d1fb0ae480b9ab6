//! `highwater checkpoint`

use clap::{Args, Subcommand};
use highwater::backend::{Backend, Checkpoint as Stored};
use highwater::operations::Moved;
use highwater::{BusError, Error, EventStore};
use serde_json::json;

use crate::arguments::Global;
use crate::failure::Failure;
use crate::requests::default_name;
use crate::table::Table;
use crate::words;

/// Look at checkpoints, and move them
#[derive(Debug, Subcommand)]
pub(crate) enum Checkpoint {
    Show(Show),
    Set(Set),
    Reset(Reset),
}

/// Show from where subscribers resume
///
/// The column "tables" has the version of the read model's tables, where the projection sets them up.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  highwater checkpoint show\n  highwater checkpoint show projection:revenue --json")]
pub(crate) struct Show {
    /// Only this one
    subscriber: Option<String>,
}

/// Have a subscriber resume after a position
///
/// Only the checkpoint is moved: moved back, a subscriber is handed events that it has seen before; moved on, it never sees
/// those in between. Open dead letters beyond the new place are archived, because their events come anew.
///
/// Refused while an instance leads. With --force it is done all the same: what the leader is about to store counts no more,
/// and it resumes from the new place by itself.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  highwater checkpoint set projection:revenue 1200")]
pub(crate) struct Set {
    /// The subscriber
    subscriber: String,
    /// It resumes with the event after this one
    position: u64,
    #[command(flatten)]
    moving: Moving,
}

/// Have a subscriber resume from the beginning of the log
///
/// The same as setting its checkpoint to 0. What a projection has written stays: `highwater rebuild` empties it as well.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  highwater checkpoint reset saga:mail --force")]
pub(crate) struct Reset {
    /// The subscriber
    subscriber: String,
    #[command(flatten)]
    moving: Moving,
}

#[derive(Debug, Args)]
struct Moving {
    /// Also while an instance leads
    #[arg(long)]
    force: bool,
    /// Who asks, for the record
    #[arg(long, value_name = "NAME", default_value_t = default_name())]
    by: String,
}

impl Checkpoint {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let store = global.open().await?;
        match self {
            Self::Show(command) => command.on(&*store, global).await,
            Self::Set(command) => command.moving.on(&*store, &command.subscriber, command.position, global).await,
            Self::Reset(command) => command.moving.on(&*store, &command.subscriber, 0, global).await,
        }
    }
}

impl Show {
    async fn on(&self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        let checkpoints = match &self.subscriber {
            Some(subscriber) => {
                let found = store.checkpoint(subscriber).await?;
                vec![found.ok_or_else(|| Error::Bus(BusError::UnknownSubscriber(subscriber.clone())))?]
            }
            None => {
                let mut all = store.checkpoints().await?;
                all.retain(|checkpoint| !checkpoint.is_lease());
                all
            }
        };
        let mut out = global.output();
        if global.json {
            for checkpoint in &checkpoints {
                out.value(&json(checkpoint))?;
            }
            return out.finish();
        }
        if checkpoints.is_empty() {
            out.line("no subscribers yet")?;
            return out.finish();
        }
        let mut table = Table::new(&["subscriber", ">checkpoint", "written", ">term", ">tables", "last event"]);
        for checkpoint in checkpoints {
            table.row([
                checkpoint.subscriber_id.into(),
                words::number(checkpoint.global_sequence).into(),
                words::time(checkpoint.updated_at).into(),
                checkpoint.term.number.into(),
                checkpoint.setup_version.map(|version| format!("v{version}")).unwrap_or_default().into(),
                checkpoint.event_id.map(|id| id.to_string()).unwrap_or_default().into(),
            ]);
        }
        out.table(&table)?;
        out.finish()
    }
}

fn json(checkpoint: &Stored) -> serde_json::Value {
    json!({
        "subscriber": checkpoint.subscriber_id,
        "checkpoint": checkpoint.global_sequence,
        "event": checkpoint.event_id.map(|id| id.to_string()),
        "updated_at": words::exact(checkpoint.updated_at),
        "term": checkpoint.term.number,
        "setup_version": checkpoint.setup_version,
    })
}

impl Moving {
    async fn on(&self, store: &dyn Backend, subscriber: &str, to: u64, global: &Global) -> Result<(), Failure> {
        let repair = store.repair().by(&self.by);
        let repair = if self.force { repair.force() } else { repair };
        let Moved { from, to, term, fenced, .. } = repair.set_checkpoint(subscriber, to).await?;
        let mut out = global.output();
        if global.json {
            let fenced = fenced.map(|leader| json!({ "host": leader.instance.host, "pid": leader.instance.pid }));
            let subscriber =
                json!({ "subscriber": subscriber, "from": from, "to": to, "term": term, "fenced": fenced });
            out.value(&subscriber)?;
            return out.finish();
        }
        out.line(&format!("{subscriber} resumes after {}; it was at {}", words::number(to), words::number(from)))?;
        if let Some(leader) = fenced {
            let instance = &leader.instance;
            out.line(&format!("pid {} on {} led, and resumes from the new place", instance.pid, instance.host))?;
        }
        out.finish()
    }
}
