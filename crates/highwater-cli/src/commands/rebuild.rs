//! `highwater rebuild`

use clap::Args;
use highwater::{Backend, Repair};

use crate::arguments::Global;
use crate::database::with;
use crate::failure::Failure;
use crate::requests::{Asking, must_exist};
use crate::terminal;

/// Empty a projection's read model and let it start again from the beginning
///
/// It is done by whoever leads for the subscriber, in one step: the read model is emptied, the checkpoint set back, and the
/// dead letters are archived. One that cannot be reset is left as it is. Where nobody leads it is done when somebody begins
/// to.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  highwater rebuild projection:revenue --force")]
pub(crate) struct Rebuild {
    /// The subscriber
    subscriber: String,
    /// Also while somebody leads: what that one has in hand is given up, and it starts again
    #[arg(long)]
    force: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    asking: Asking,
}

impl Rebuild {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let database = global.open().await?;
        with!(database, store => self.on(&store, global).await)
    }

    async fn on<B: Backend>(&self, store: &B, global: &Global) -> Result<(), Failure> {
        must_exist(store, &self.subscriber).await?;
        let question = format!("Empty the read model of {} and start it again from the beginning?", self.subscriber);
        terminal::confirm(&question, self.yes || self.force)?;
        let repair = Repair::of(store).by(&self.asking.by);
        let repair = if self.force { repair.force() } else { repair };
        let filed = repair.rebuild(&self.subscriber).await?;
        let mut out = global.output();
        let done = format!("{} starts again from the beginning", self.subscriber);
        self.asking.finish(store, &[filed], |_| done.clone(), &mut out).await?;
        out.finish()
    }
}
