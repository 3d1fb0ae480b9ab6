//! `highwater rebuild`

use clap::Args;
use highwater::EventStore;
use highwater::backend::{Backend, Request, RequestKind};

use crate::arguments::Global;
use crate::failure::{Failure, note};
use crate::requests::{RequestOptions, must_exist, what_it_waits_for};
use crate::terminal;

/// Empty a projection's read model and let it start again from the beginning
///
/// The subscriber's leader does it, in one step: the read model is emptied, the checkpoint set back, and the
/// dead letters are archived. One that cannot be reset is left as it is. Where no instance leads, it is done when one
/// begins to; this command does not wait for that.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  highwater rebuild projection:revenue --force")]
pub(crate) struct Rebuild {
    /// The subscriber
    subscriber: String,
    /// Also while an instance leads: it gives up what it has in hand, and starts again
    #[arg(long)]
    force: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    options: RequestOptions,
}

impl Rebuild {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let store = global.open().await?;
        self.on(&*store, global).await
    }

    /// The same, asked for before.
    async fn open(&self, store: &dyn Backend) -> Result<Option<Request>, Failure> {
        let open = store.open_requests(std::slice::from_ref(&self.subscriber)).await?;
        Ok(open.into_iter().find(|request| request.kind == RequestKind::Rebuild))
    }

    async fn on(mut self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        must_exist(store, &self.subscriber).await?;
        let question = format!("Empty the read model of {} and start it again from the beginning?", self.subscriber);
        terminal::confirm(&question, self.yes || self.force)?;
        let repair = store.repair().by(&self.options.by);
        let repair = if self.force { repair.force() } else { repair };
        let filed = match self.open(store).await? {
            // Done twice it would be no better.
            Some(open) => {
                let (by, id) = (&open.requested_by, open.id);
                note(&format!("{by} has asked for that already, and it is not done yet: request {id}"));
                open.id
            }
            None => repair.rebuild(&self.subscriber).await?,
        };
        // A request that waits for a leader is filed, and that is all that was to be done here.
        if what_it_waits_for(store, &self.subscriber).await?.is_some() {
            self.options.wait = 0;
        }
        let mut out = global.output();
        let done = format!("{} starts again from the beginning", self.subscriber);
        self.options.finish(store, &[filed], |_| done.clone(), &mut out).await?;
        out.finish()
    }
}
