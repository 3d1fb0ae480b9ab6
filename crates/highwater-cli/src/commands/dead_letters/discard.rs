//! `highwater dead-letters discard`

use clap::Args;
use highwater::backend::Backend;

use super::choice::{OPEN, Pages, Several, count};
use crate::arguments::Global;
use crate::failure::Failure;
use crate::requests::{Asking, bus};
use crate::{terminal, words};

const EXAMPLES: &str = "\
Examples:
  highwater dead-letters discard 0198b0a4-7f5e-7c3c-9d2e-3f1f6a0c1b2d --reason 'test order'
  highwater dead-letters discard --subscriber saga:mail --until 2026-11-01 --reason 'too late' --yes";

/// Do without events that a subscriber could not take in
///
/// The events stay in the log; this subscriber will not be handed them again. The reason is kept with each letter.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Discard {
    #[command(flatten)]
    several: Several,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    asking: Asking,
}

impl Discard {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        self.several.check()?;
        let store = global.open().await?;
        self.on(&*store, global).await
    }

    async fn on(&self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        let letters =
            if self.several.letters.is_empty() { self.many(store).await? } else { self.several.letters.clone() };
        let bus = bus(store);
        let desk = bus.dead_letters().by(&self.asking.by);
        // All of them are checked before any request is filed.
        for letter in &self.several.letters {
            desk.show(*letter).await?;
        }
        let mut filed = Vec::new();
        for letter in letters {
            filed.push(desk.discard(letter, &self.reason).await?.id());
        }
        let mut out = global.output();
        self.asking
            .finish(store, &filed, |done| format!("{} discarded", words::count(done, "letter")), &mut out)
            .await?;
        out.finish()
    }

    async fn many(&self, store: &dyn Backend) -> Result<Vec<uuid::Uuid>, Failure> {
        let choice = &self.several.choice;
        choice.check(store).await?;
        let query = choice.query(OPEN.to_vec());
        let count = count(store, &query).await?;
        terminal::confirm(&format!("Do without {}?", words::count(count, "dead letter")), self.several.yes)?;
        let mut letters = Vec::new();
        let mut pages = Pages::new(store, query);
        while let Some(page) = pages.next().await? {
            letters.extend(page.into_iter().map(|letter| letter.id));
        }
        Ok(letters)
    }
}
