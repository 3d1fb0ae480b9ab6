//! `highwater events`

use clap::Args;
use highwater::backend::{Backend, missing_kinds};

use crate::arguments::Global;
use crate::failure::{Failure, note};
use crate::reading::{Reading, Which};
use crate::record::Listing;

const EXAMPLES: &str = "\
Examples:
  highwater events
  highwater events --since 1000 --type Placed --type Shipped
  highwater events --kind order
  highwater events --json | jq .data";

/// Show the events of all streams, in order
///
/// Ends with what was there when it began. Waits for transactions that may still bring an event before that, and says so.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Events {
    /// Only what comes after this position
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    since: u64,
    #[command(flatten)]
    which: Which,
    /// How many events to show at most
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

impl Events {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let store = global.open().await?;
        self.on(&*store, global).await
    }

    async fn on(&self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        let (mut out, mut listing) = (global.output(), Listing::new());
        let mut left = self.limit.unwrap_or(u64::MAX);
        let target = store.head().await?;
        let mut reading = Reading::new(store, self.since, self.which.filter());
        while left > 0
            && let Some(records) = reading.page_up_to(target).await?
        {
            for record in records.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
                listing.show(&mut out, record)?;
                left -= 1;
            }
            out.flush()?;
        }
        out.finish()?;
        if left == self.limit.unwrap_or(u64::MAX)
            && let Some(kinds) = self.which.filter().kinds
            && let Some(said) = missing_kinds(store, &kinds).await?
        {
            note(&said);
        }
        Ok(())
    }
}
