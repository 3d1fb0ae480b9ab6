//! What the scenarios share: the server, databases, and taking turns.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use driver::{Answer, Ask};
use tokio_postgres::Client;

use super::entrants::{Entrant, Field};
use super::place::Place;
use super::process::Process;
use super::progress::Progress;
use super::results::{Calls, Row, Scenario};
use super::sizes::{EVENTS_PER_STREAM, Sizes};
use crate::Error;
use crate::server::{Server, connect};

/// Callers that fill a log.
const FILLERS: usize = 8;

/// What was measured so far goes there, so that a run that is interrupted has not been for nothing.
pub(super) type Keep<'a> = Box<dyn FnMut(&[Scenario]) -> Result<(), Error> + Send + 'a>;

/// One run.
pub(super) struct Contest<'a> {
    server: &'a Server,
    pub(super) field: Field,
    pub(super) sizes: Sizes,
    pub(super) progress: Progress,
    /// To the server's own database.
    pub(super) admin: Client,
    began: Instant,
    /// Where entrants are that were filled, by [`Entrant::stall`].
    stalls: BTreeMap<String, Place>,
    /// What is finished.
    pub(super) done: Vec<Scenario>,
    keep: Keep<'a>,
}

/// What is measured in a case.
pub(super) struct Case<'a> {
    pub(super) name: &'a str,
    pub(super) unit: &'a str,
    pub(super) higher_is_better: bool,
}

impl Case<'_> {
    pub(super) fn row(&self, entrant: &Entrant) -> Row {
        Row {
            case: self.name.to_owned(),
            contestant: entrant.id.clone(),
            unit: self.unit.to_owned(),
            higher_is_better: self.higher_is_better,
            samples: Vec::new(),
            note: None,
            distribution: Vec::new(),
            at: None,
            calls: Calls::default(),
        }
    }

    /// A row that says why there is nothing in it.
    pub(super) fn without(&self, entrant: &Entrant, reason: impl Into<String>) -> Row {
        Row { note: Some(reason.into()), ..self.row(entrant) }
    }
}

/// Those of a round, beginning with another one each time: nobody always comes after the same one.
pub(super) fn rotated(count: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |at| (at + round * count.div_ceil(5).max(1)) % count.max(1))
}

impl<'a> Contest<'a> {
    pub(super) async fn new(server: &'a Server, field: Field, sizes: Sizes, keep: Keep<'a>) -> Result<Self, Error> {
        let (progress, admin) = (Progress::new(sizes.budget), connect(server.url()).await?);
        let (stalls, done) = (BTreeMap::new(), Vec::new());
        Ok(Self { server, field, sizes, progress, admin, began: Instant::now(), stalls, done, keep })
    }

    /// How much of the time is left.
    pub(super) fn left(&self) -> Duration {
        self.sizes.budget.saturating_sub(self.began.elapsed())
    }

    /// Keeps what is finished, and what is about to be.
    pub(super) fn keep(&mut self, more: &[Scenario]) -> Result<(), Error> {
        let all: Vec<Scenario> = self.done.iter().chain(more).cloned().collect();
        (self.keep)(&all)
    }

    /// The URL of a database of that name.
    fn url(&self, database: &str) -> Result<String, Error> {
        let url = self.server.url();
        let (head, query) = url.split_once('?').unwrap_or((url, ""));
        let (authority, _) = head.rsplit_once('/').ok_or("a URL without a database")?;
        let mark = if query.is_empty() { "" } else { "?" };
        Ok(format!("{authority}/{database}{mark}{query}"))
    }

    /// An empty place for an entrant: a database, or a server of its own. One that is left from an earlier try goes.
    pub(super) async fn place(&self, entrant: &Entrant, name: &str) -> Result<Place, Error> {
        if entrant.about.server {
            return Place::with_server(entrant, name).await;
        }
        let name: String =
            name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
        self.drop_database(&name).await?;
        self.admin.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        Ok(Place::database(self.url(&name)?, name))
    }

    /// Nobody needs it any more.
    pub(super) async fn leave(&self, place: Place) -> Result<(), Error> {
        match place.end().await? {
            Some(database) => self.drop_database(&database).await,
            None => Ok(()),
        }
    }

    async fn drop_database(&self, name: &str) -> Result<(), Error> {
        Ok(self.admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?)
    }

    /// Writes out what earlier measurements left, so that it falls into none.
    pub(super) async fn settle(&self) -> Result<(), Error> {
        Ok(self.admin.batch_execute("CHECKPOINT").await?)
    }

    /// Where an entrant is measured: 100,000 events are there, and analysed.
    pub(super) async fn stall(&mut self, entrant: &Entrant) -> Result<String, Error> {
        let name = entrant.stall();
        if let Some(place) = self.stalls.get(&name) {
            return Ok(place.url.clone());
        }
        self.progress.step(&format!("filling {name}"));
        let place = self.place(entrant, &format!("bench_{name}")).await?;
        let mut process = Process::start(entrant, &place.url)?;
        process.ask(Ask::Prepare).await?;
        let (streams, events) = (self.sizes.streams, EVENTS_PER_STREAM);
        process.ask(Ask::Fill { streams, events, callers: FILLERS }).await?;
        process.end().await?;
        if !entrant.about.server {
            connect(&place.url).await?.batch_execute("VACUUM (ANALYZE)").await?;
        }
        let url = place.url.clone();
        self.stalls.insert(name, place);
        Ok(url)
    }

    /// Those that were filled are not needed any more.
    pub(super) async fn clear(&mut self) -> Result<(), Error> {
        for place in std::mem::take(&mut self.stalls).into_values() {
            self.leave(place).await?;
        }
        Ok(())
    }

    /// The connections that an entrant has, as the server sees them.
    async fn connections(&self, entrant: &Entrant) -> Result<BTreeSet<i32>, Error> {
        let database = self.stalls.get(&entrant.stall()).and_then(Place::name).unwrap_or_default();
        let rows = self.admin.query(include_str!("../../sql/connections_of.sql"), &[&database]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// A turn: what it comes to in a second, and in the row what it took.
    pub(super) async fn turn(&self, entrant: &Entrant, processes: &mut [Process], ask: &Ask, row: &mut Row) {
        match self.asked(entrant, processes, ask, row).await {
            Ok(()) => {}
            Err(error) => {
                row.samples.clear();
                row.note = Some(format!("failed: {error}"));
            }
        }
    }

    async fn asked(&self, entrant: &Entrant, processes: &mut [Process], ask: &Ask, row: &mut Row) -> Result<(), Error> {
        let before = self.connections(entrant).await?;
        let asked = processes.iter_mut().map(|process| process.ask(ask.clone()));
        let answers: Vec<Answer> = futures_util::future::try_join_all(asked).await?;
        let opened = self.connections(entrant).await?.difference(&before).count() as u64;
        if let Some(answer) = answers.iter().find(|answer| answer.events == 0) {
            return Err(answer.failure.clone().unwrap_or("nothing was done".to_owned()).into());
        }
        for answer in &answers {
            row.calls.attempts += answer.attempts;
            row.calls.failed += answer.failed;
            row.calls.failure = row.calls.failure.take().or(answer.failure.clone());
        }
        // A pool opens its connections in the first turn: that is no reconnecting.
        row.calls.reconnects += if row.samples.is_empty() { 0 } else { opened };
        row.samples.push(answers.iter().map(|answer| answer.events as f64 / answer.seconds).sum());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn_in_every_round_and_others_go_first() {
        let rounds: Vec<Vec<usize>> = (0..5).map(|round| rotated(7, round).collect()).collect();
        for round in &rounds {
            assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 7, "{round:?}");
        }
        let first: BTreeSet<usize> = rounds.iter().map(|round| round[0]).collect();
        assert!(first.len() >= 4, "{rounds:?}");
        assert_eq!(rotated(0, 3).count(), 0);
    }
}
