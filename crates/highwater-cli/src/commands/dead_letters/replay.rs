//! `highwater dead-letters replay`

use std::collections::BTreeSet;

use clap::Args;
use highwater::backend::Backend;
use highwater::{DeadLetterQuery, DeadLetterState};
use uuid::Uuid;

use super::choice::{OPEN, Pages, Several, count};
use crate::arguments::Global;
use crate::failure::Failure;
use crate::requests::{Asking, bus};
use crate::{terminal, words};

const EXAMPLES: &str = "\
Examples:
  highwater dead-letters replay 0198b0a4-7f5e-7c3c-9d2e-3f1f6a0c1b2d
  highwater dead-letters replay --subscriber projection:revenue --type Placed --since 2h
  highwater dead-letters replay --all --yes --wait 60";

/// Hand dead letters over again, in order
///
/// It is done by whoever leads for the subscriber, between two events. A letter that fails again stays, with the new error.
/// The first letter of a parked stream takes those behind it along.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    #[command(flatten)]
    several: Several,
    #[command(flatten)]
    asking: Asking,
}

impl Replay {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        self.several.check()?;
        let store = global.open().await?;
        self.on(&*store, global).await
    }

    async fn on(&self, store: &dyn Backend, global: &Global) -> Result<(), Failure> {
        let filed = if self.several.letters.is_empty() { self.many(store).await? } else { self.these(store).await? };
        let mut out = global.output();
        self.asking
            .finish(store, &filed, |done| format!("{} replayed", words::count(done, "letter")), &mut out)
            .await?;
        out.finish()
    }

    async fn these(&self, store: &dyn Backend) -> Result<Vec<Uuid>, Failure> {
        let bus = bus(store);
        let desk = bus.dead_letters().by(&self.asking.by);
        // All of them are checked before any request is filed.
        for letter in &self.several.letters {
            desk.show(*letter).await?;
        }
        let mut filed = Vec::new();
        for letter in &self.several.letters {
            filed.push(desk.replay(*letter).await?.id());
        }
        Ok(filed)
    }

    async fn many(&self, store: &dyn Backend) -> Result<Vec<Uuid>, Failure> {
        let choice = &self.several.choice;
        choice.check(store).await?;
        let query = choice.query(OPEN.to_vec());
        let count = count(store, &query).await?;
        terminal::confirm(&format!("Replay {}?", words::count(count, "dead letter")), self.several.yes)?;
        match choice.picks() {
            true => self.picked(store).await,
            false => self.whole(store, query).await,
        }
    }

    /// All letters of a subscriber, or of a stream of it, are one request.
    async fn whole(&self, store: &dyn Backend, query: DeadLetterQuery) -> Result<Vec<Uuid>, Failure> {
        let stream = query.stream_id;
        let mut subscribers: BTreeSet<String> = self.several.choice.subscriber.iter().cloned().collect();
        if subscribers.is_empty() {
            let mut pages = Pages::new(store, query);
            while let Some(letters) = pages.next().await? {
                subscribers.extend(letters.into_iter().map(|letter| letter.subscriber_id));
            }
        }
        let bus = bus(store);
        let desk = bus.dead_letters().by(&self.asking.by);
        let mut filed = Vec::new();
        for subscriber in &subscribers {
            let request = match stream {
                Some(stream) => desk.replay_stream(subscriber, stream).await?,
                None => desk.replay_all(subscriber).await?,
            };
            filed.push(request.id());
        }
        Ok(filed)
    }

    /// One request for each dead letter. Those that wait behind another go with it.
    async fn picked(&self, store: &dyn Backend) -> Result<Vec<Uuid>, Failure> {
        let bus = bus(store);
        let desk = bus.dead_letters().by(&self.asking.by);
        let mut pages = Pages::new(store, self.several.choice.query(vec![DeadLetterState::Dead]));
        let mut filed = Vec::new();
        while let Some(letters) = pages.next().await? {
            for letter in letters {
                filed.push(desk.replay(letter.id).await?.id());
            }
        }
        Ok(filed)
    }
}
