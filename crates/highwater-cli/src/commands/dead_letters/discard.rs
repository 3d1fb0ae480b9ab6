//! `highwater dead-letters discard`

use clap::Args;
use highwater::backend::Backend;

use super::choice::{OPEN, Pages, Several, count};
use crate::arguments::Global;
use crate::failure::Failure;
use crate::requests::{RequestOptions, bus};
use crate::{terminal, words};

const EXAMPLES: &str = "\
Examples:
  highwater dead-letters discard 0198b0a4-7f5e-7c3c-9d2e-3f1f6a0c1b2d --reason 'test order'
  highwater dead-letters discard --subscriber saga:mail --until 2026-11-01 --reason 'too late' --yes";

/// Discard events that a subscriber failed to handle
///
/// The events stay in the log; this subscriber will not be handed them again. The reason is kept with each dead letter.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Discard {
    #[command(flatten)]
    several: Several,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    options: RequestOptions,
}

impl Discard {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        self.several.check()?;
        let store = global.open().await?;
        self.on(&*store, global).await
    }

    async fn on(&self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        let dead_letters = if self.several.dead_letters.is_empty() {
            self.many(store).await?
        } else {
            self.several.dead_letters.clone()
        };
        let bus = bus(store)?;
        let queue = bus.dead_letters().by(&self.options.by);
        // All of them are checked before any request is filed.
        for dead_letter in &self.several.dead_letters {
            queue.show(*dead_letter).await?;
        }
        let mut filed = Vec::new();
        for dead_letter in dead_letters {
            filed.push(queue.discard(dead_letter, &self.reason).await?.id());
        }
        let mut out = global.output();
        self.options
            .finish(store, &filed, |done| format!("{} discarded", words::count(done, "dead letter")), &mut out)
            .await?;
        out.finish()
    }

    async fn many(&self, store: &dyn Backend) -> Result<Vec<uuid::Uuid>, Failure> {
        let choice = &self.several.choice;
        choice.check(store).await?;
        let query = choice.query(store, OPEN.to_vec()).await?;
        let count = count(store, &query).await?;
        terminal::confirm(&format!("Discard {}?", words::count(count, "dead letter")), self.several.yes)?;
        let mut dead_letters = Vec::new();
        let mut pages = Pages::new(store, query);
        while let Some(page) = pages.next().await? {
            dead_letters.extend(page.into_iter().map(|dead_letter| dead_letter.id));
        }
        Ok(dead_letters)
    }
}
