//! `highwater init`

use clap::Args;
use highwater::Backend;

use crate::arguments::Global;
use crate::database::{Missing, with};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  highwater init
  highwater init --check --database postgres://app@db/shop";

/// Create an event store, or bring it up to date
///
/// May be run any number of times, also while applications run. On PostgreSQL the role must own the schema, or be allowed
/// to create it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Init {
    /// Only say what would be done
    #[arg(long)]
    check: bool,
}

impl Init {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let database = global.target()?.open(Missing::Made).await?;
        with!(database, store => self.on(&store, global).await)
    }

    async fn on<B: Backend>(&self, store: &B, global: &Global) -> Result<(), Failure> {
        let out = global.output();
        store.initialize().await?;
        out.finish()
    }
}
