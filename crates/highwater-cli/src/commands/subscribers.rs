//! `highwater subscribers`

use clap::{Args, Subcommand};
use highwater::EventStore;
use highwater::backend::Backend;
use highwater::operations::Removed;
use serde_json::json;

use crate::arguments::Global;
use crate::failure::Failure;
use crate::requests::{default_name, must_exist};
use crate::{terminal, words};

/// Remove subscribers that are gone for good
#[derive(Debug, Subcommand)]
pub(crate) enum Subscribers {
    Remove(Remove),
}

/// Remove a subscriber that no application subscribes any more, or a lease that none acquires
///
/// Its checkpoint, pause, report and requests are gone, and its open dead letters are archived, in one step. Read models stay
/// as they are. When an application subscribes the name again, it starts anew, as its options say.
///
/// Refused while an instance leads. With --force it is done all the same: what the leader is about to store counts no more,
/// and it starts the subscriber anew with the next event. So stop it before.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  highwater subscribers remove projection:revenue-2024")]
pub(crate) struct Remove {
    /// The subscriber
    subscriber: String,
    /// Also while an instance leads
    #[arg(long)]
    force: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Who asks, for the record
    #[arg(long, value_name = "NAME", default_value_t = default_name())]
    by: String,
}

impl Subscribers {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let store = global.open().await?;
        match self {
            Self::Remove(command) => command.on(&*store, global).await,
        }
    }
}

impl Remove {
    async fn on(&self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        let subscriber = &self.subscriber;
        must_exist(store, subscriber).await?;
        let question = format!("Remove {subscriber} with its checkpoint, and archive its open dead letters?");
        terminal::confirm(&question, self.yes || self.force)?;
        let repair = store.repair().by(&self.by);
        let repair = if self.force { repair.force() } else { repair };
        let Removed { checkpoint, dead_letters, fenced, .. } = repair.remove(subscriber).await?;
        let mut out = global.output();
        if global.json {
            let fenced = fenced.map(|leader| json!({ "host": leader.instance.host, "pid": leader.instance.pid }));
            out.value(&json!({
                "subscriber": subscriber,
                "checkpoint": checkpoint,
                "archived": dead_letters,
                "fenced": fenced,
            }))?;
            return out.finish();
        }
        let archived = match dead_letters {
            0 => String::new(),
            some => format!("; {} archived", words::count(some, "dead letter")),
        };
        out.line(&format!("{subscriber} is removed; it was at {}{archived}", words::number(checkpoint)))?;
        if let Some(leader) = fenced {
            let instance = &leader.instance;
            let who = format!("pid {} on {}", instance.pid, instance.host);
            out.line(&format!("{who} led; if it still runs, it starts {subscriber} anew with the next event"))?;
        }
        out.finish()
    }
}
