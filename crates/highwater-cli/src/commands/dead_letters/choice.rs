//! Which dead letters.

use chrono::{DateTime, Utc};
use clap::Args;
use highwater::backend::Backend;
use highwater::operations::{DeadLetter, DeadLetterQuery, DeadLetterState};
use uuid::Uuid;

use crate::failure::Failure;
use crate::requests::{must_exist, nothing};
use crate::stream::StreamName;
use crate::times;

/// Dead letters in a page.
const PAGE: usize = 100;

/// A choice of dead letters by what they are about. What is not given does not matter.
#[derive(Debug, Args)]
pub(crate) struct Choice {
    /// Of this subscriber
    #[arg(long, value_name = "SUBSCRIBER")]
    pub(super) subscriber: Option<String>,
    /// Of events of this stream
    #[arg(long, value_name = "STREAM")]
    pub(super) stream: Option<StreamName>,
    /// Of events of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) event_type: Option<String>,
    /// Written at this time or later: 2026-11-15, 2026-11-15T08:00:00Z, or how long ago: 30m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = times::parse)]
    pub(super) since: Option<DateTime<Utc>>,
    /// Written before this time
    #[arg(long, value_name = "TIME", value_parser = times::parse)]
    pub(super) until: Option<DateTime<Utc>>,
}

/// Dead letters for something to be done with: by their ids, or many at once.
#[derive(Debug, Args)]
pub(crate) struct Several {
    /// Dead letters by their ids, as `dead-letters list` shows them
    #[arg(value_name = "ID", conflicts_with_all = ["subscriber", "stream", "event_type", "since", "until", "all"])]
    pub(super) dead_letters: Vec<Uuid>,
    #[command(flatten)]
    pub(super) choice: Choice,
    /// All open dead letters of all subscribers
    #[arg(long, conflicts_with_all = ["subscriber", "stream", "event_type", "since", "until"])]
    pub(super) all: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(super) yes: bool,
}

impl Choice {
    fn is_empty(&self) -> bool {
        let Self { subscriber, stream, event_type, since, until } = self;
        subscriber.is_none() && stream.is_none() && event_type.is_none() && since.is_none() && until.is_none()
    }

    /// Whether dead letters have to be picked one by one.
    pub(super) fn picks(&self) -> bool {
        self.event_type.is_some() || self.since.is_some() || self.until.is_some()
    }

    pub(super) async fn query(
        &self,
        store: &dyn Backend,
        states: Vec<DeadLetterState>,
    ) -> Result<DeadLetterQuery, Failure> {
        let stream_id = match &self.stream {
            Some(stream) => Some(stream.find(store).await?.id()),
            None => None,
        };
        Ok(DeadLetterQuery {
            subscriber_id: self.subscriber.clone(),
            stream_id,
            event_type: self.event_type.clone(),
            since: self.since,
            until: self.until,
            states,
            limit: PAGE,
            ..DeadLetterQuery::default()
        })
    }

    /// Refuses a subscriber that is not there.
    pub(super) async fn check(&self, store: &dyn Backend) -> Result<(), Failure> {
        match &self.subscriber {
            Some(subscriber) => must_exist(store, subscriber).await,
            None => Ok(()),
        }
    }
}

impl Several {
    /// Refuses when nothing was chosen, or everything by mistake.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.dead_letters.is_empty() && !self.all && self.choice.is_empty() {
            let message =
                "say which dead letters: their ids, or --subscriber, --stream, --type, --since, --until, or --all";
            return Err(Failure::usage(message));
        }
        Ok(())
    }
}

/// Dead letters, page by page.
pub(super) struct Pages<'a> {
    store: &'a dyn Backend,
    query: DeadLetterQuery,
    end: bool,
}

impl<'a> Pages<'a> {
    pub(super) fn new(store: &'a dyn Backend, query: DeadLetterQuery) -> Self {
        Self { store, query, end: false }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Vec<DeadLetter>>, Failure> {
        if self.end {
            return Ok(None);
        }
        let dead_letters = self.store.dead_letters(&self.query).await?;
        self.end = dead_letters.len() < self.query.limit;
        match dead_letters.last() {
            Some(last) => self.query.after = Some(last.cursor()),
            None => return Ok(None),
        }
        Ok(Some(dead_letters))
    }
}

/// How many dead letters there are; none is a separate error.
pub(super) async fn count(store: &dyn Backend, query: &DeadLetterQuery) -> Result<u64, Failure> {
    match store.count_dead_letters(query).await? {
        0 => Err(nothing("open dead letter of this kind")),
        count => Ok(count),
    }
}

pub(super) const OPEN: [DeadLetterState; 2] = [DeadLetterState::Dead, DeadLetterState::Parked];
