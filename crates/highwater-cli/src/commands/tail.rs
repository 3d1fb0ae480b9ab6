//! `highwater tail`

use std::collections::VecDeque;
use std::time::Duration;

use clap::Args;
use highwater::Error;
use highwater::backend::{Backend, Record, Wakeup, chain};

use crate::arguments::Global;
use crate::failure::{Failure, note};
use crate::output::Output;
use crate::reading::{self, Reading, Which};
use crate::record::Listing;

/// How often to look without being woken.
const POLL: Duration = Duration::from_millis(500);
/// How often to retry when the database cannot be reached.
const RETRY_DELAY: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  highwater tail
  highwater tail -f --type Placed
  highwater tail -f --kind order
  highwater tail -n 0 -f --json | while read -r event; do echo \"$event\"; done";

/// Show the last events, and with -f those that come
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Tail {
    /// How many of the last events to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    lines: u32,
    /// Continue with new events as they are appended, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    which: Which,
}

impl Tail {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let store = global.open().await?;
        self.on(&*store, global).await
    }

    async fn on(&self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        let (mut out, mut listing) = (global.output(), Listing::new());
        // Before looking: what is appended in between wakes us.
        let wakeup = store.wakeups();
        // What is not settled yet comes later, and a follower must see it.
        let target = if self.follow { reading::settled(store).await? } else { store.head().await? };
        for record in self.last(store, target).await? {
            listing.show(&mut out, &record)?;
        }
        out.flush()?;
        if self.follow {
            let reading = Reading::new(store, target, self.which.filter());
            return self.follow(store, reading, wakeup, &mut out, &mut listing).await;
        }
        out.finish()
    }

    /// The last events up to a position. Looks further and further back until there are enough.
    async fn last(&self, store: &dyn Backend, target: u64) -> Result<VecDeque<Record>, Failure> {
        let wanted = self.lines as usize;
        let mut back = u64::from(self.lines);
        let mut last = VecDeque::new();
        if wanted == 0 {
            return Ok(last);
        }
        loop {
            let after = target.saturating_sub(back);
            let mut reading = Reading::new(store, after, self.which.filter());
            last.clear();
            while let Some(records) = reading.page_up_to(target).await? {
                last.extend(records);
                let more = last.len().saturating_sub(wanted);
                last.drain(..more);
            }
            if last.len() >= wanted || after == 0 {
                return Ok(last);
            }
            back = back.saturating_mul(8);
        }
    }

    /// Until the user ends it. A lost connection does not end it.
    async fn follow(
        &self,
        store: &dyn Backend,
        mut reading: Reading<'_>,
        mut wakeup: Wakeup,
        out: &mut Output,
        listing: &mut Listing,
    ) -> Result<(), Failure> {
        let mut lost = false;
        loop {
            match next(store, &mut reading, &mut wakeup).await {
                Ok(records) => {
                    if lost {
                        note("the database is there again");
                    }
                    lost = false;
                    for record in &records {
                        listing.show(out, record)?;
                    }
                    out.flush()?;
                }
                Err(error) if error.is_retryable() || matches!(error, Error::Interrupted { .. }) => {
                    if !lost {
                        note(&format!("{}; retrying until it works", chain(&error)));
                    }
                    lost = true;
                    tokio::time::sleep(RETRY_DELAY).await;
                    if let Err(error) = reading.resume().await
                        && !error.is_retryable()
                    {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The next events; none when it only was worth looking.
async fn next(store: &dyn Backend, reading: &mut Reading<'_>, wakeup: &mut Wakeup) -> Result<Vec<Record>, Error> {
    if let Some(records) = reading.page().await? {
        return Ok(records);
    }
    if store.head().await? > reading.after {
        reading.wait_for_writers().await?;
        return Ok(Vec::new());
    }
    tokio::select! {
        Some(_) = wakeup.next() => {}
        () = tokio::time::sleep(POLL) => {}
    }
    Ok(Vec::new())
}
