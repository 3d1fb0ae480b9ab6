//! `highwater dead-letters replay`

use std::collections::BTreeSet;

use clap::Args;
use highwater::backend::Backend;
use highwater::operations::{DeadLetterQuery, DeadLetterState};
use uuid::Uuid;

use super::choice::{OPEN, Pages, Several, count};
use crate::arguments::Global;
use crate::failure::Failure;
use crate::requests::{RequestOptions, bus};
use crate::{terminal, words};

const EXAMPLES: &str = "\
Examples:
  highwater dead-letters replay 0198b0a4-7f5e-7c3c-9d2e-3f1f6a0c1b2d
  highwater dead-letters replay --subscriber projection:revenue --type Placed --since 2h
  highwater dead-letters replay --all --yes --wait 60";

/// Replay dead letters, in order
///
/// The subscriber's leader does it, between two events. A dead letter that fails again stays, with the new error.
/// The first dead letter of a parked stream takes those behind it along.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    #[command(flatten)]
    several: Several,
    #[command(flatten)]
    options: RequestOptions,
}

impl Replay {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        self.several.check()?;
        let store = global.open().await?;
        self.on(&*store, global).await
    }

    async fn on(&self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        let filed =
            if self.several.dead_letters.is_empty() { self.many(store).await? } else { self.these(store).await? };
        let mut out = global.output();
        self.options
            .finish(store, &filed, |done| format!("{} replayed", words::count(done, "dead letter")), &mut out)
            .await?;
        out.finish()
    }

    async fn these(&self, store: &dyn Backend) -> Result<Vec<Uuid>, Failure> {
        let bus = bus(store)?;
        let queue = bus.dead_letters().by(&self.options.by);
        // All of them are checked before any request is filed.
        for dead_letter in &self.several.dead_letters {
            queue.show(*dead_letter).await?;
        }
        let mut filed = Vec::new();
        for dead_letter in &self.several.dead_letters {
            filed.push(queue.replay(*dead_letter).await?.id());
        }
        Ok(filed)
    }

    async fn many(&self, store: &dyn Backend) -> Result<Vec<Uuid>, Failure> {
        let choice = &self.several.choice;
        choice.check(store).await?;
        let query = choice.query(store, OPEN.to_vec()).await?;
        let count = count(store, &query).await?;
        terminal::confirm(&format!("Replay {}?", words::count(count, "dead letter")), self.several.yes)?;
        match choice.picks() {
            true => self.picked(store).await,
            false => self.whole(store, query).await,
        }
    }

    /// All dead letters of a subscriber, or of a stream of it, are one request.
    async fn whole(&self, store: &dyn Backend, query: DeadLetterQuery) -> Result<Vec<Uuid>, Failure> {
        let stream = query.stream_id;
        let mut subscribers: BTreeSet<String> = self.several.choice.subscriber.iter().cloned().collect();
        if subscribers.is_empty() {
            let mut pages = Pages::new(store, query);
            while let Some(dead_letters) = pages.next().await? {
                subscribers.extend(dead_letters.into_iter().map(|dead_letter| dead_letter.subscriber_id));
            }
        }
        let bus = bus(store)?;
        let queue = bus.dead_letters().by(&self.options.by);
        let mut filed = Vec::new();
        for subscriber in &subscribers {
            let request = match stream {
                Some(stream) => queue.replay_stream(subscriber, stream).await?,
                None => queue.replay_all(subscriber).await?,
            };
            filed.push(request.id());
        }
        Ok(filed)
    }

    /// One request for each dead letter. Those that wait behind another go with it.
    async fn picked(&self, store: &dyn Backend) -> Result<Vec<Uuid>, Failure> {
        let bus = bus(store)?;
        let queue = bus.dead_letters().by(&self.options.by);
        let mut pages = Pages::new(store, self.several.choice.query(store, vec![DeadLetterState::Dead]).await?);
        let mut filed = Vec::new();
        while let Some(dead_letters) = pages.next().await? {
            for dead_letter in dead_letters {
                filed.push(queue.replay(dead_letter.id).await?.id());
            }
        }
        Ok(filed)
    }
}
