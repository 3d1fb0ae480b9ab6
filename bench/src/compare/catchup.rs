//! D: what is there is handed to a new subscriber that counts and stores its checkpoints.

use std::collections::BTreeSet;

use driver::Ask;

use super::contest::{Case, Contest};
use super::results::{Row, Scenario};
use super::sizes::EVENTS_PER_STREAM;
use crate::Error;
use crate::server::connect;

/// Callers that fill a log.
const FILLERS: usize = 8;
/// Who needs longer than this for all of it is asked once only, in seconds.
const SLOW: f64 = 15.0;

pub(super) async fn run(contest: &mut Contest<'_>) -> Result<Scenario, Error> {
    let events = contest.sizes.streams * EVENTS_PER_STREAM;
    let case = Case { name: "catch-up", unit: "events/s", higher_is_better: true };
    let (can, cannot): (Vec<_>, Vec<_>) =
        contest.field.entrants.iter().cloned().partition(|entrant| entrant.about.no_follower.is_none());
    let without = |row: &super::entrants::Entrant| case.without(row, row.about.no_follower.clone().unwrap_or_default());
    let mut stalls = contest.stalls("d", &can, true).await?;
    let mut filled = BTreeSet::new();
    for entrant in &can {
        if filled.insert(entrant.base.clone()) {
            contest.progress.step(&format!("D · filling {}", entrant.base));
            let fill = Ask::Fill { streams: contest.sizes.streams, events: EVENTS_PER_STREAM, callers: FILLERS };
            // A failure is noted, and told in its row.
            if let Err(reason) = stalls.ask(entrant, fill).await {
                stalls.failed.insert(format!("{}-best", entrant.base), reason);
            }
        }
    }
    vacuum(contest, &stalls.urls.values().cloned().collect()).await?;
    contest.settle().await?;
    let mut rows: Vec<Row> = can.iter().map(|entrant| case.row(entrant)).collect();
    for round in 0..=contest.sizes.catch_ups {
        for (entrant, row) in can.iter().zip(&mut rows) {
            contest.progress.step(&format!("D · {} · round {round}", entrant.id));
            let is_slow = row.samples.first().is_some_and(|rate| events as f64 / rate > SLOW);
            if is_slow || row.note.is_some() {
                continue;
            }
            let id = format!("{}-{round}", entrant.id);
            match stalls.ask(entrant, Ask::CatchUp { id, events, limit: contest.sizes.catch_up_limit }).await {
                // The first warms caches and connections up; who is slow has no second.
                Ok(answer) if round > 0 || answer.seconds > SLOW || answer.events < events as u64 => {
                    row.samples.push(answer.events as f64 / answer.seconds);
                    if answer.events < events as u64 {
                        row.note = Some(format!("stopped after {:.0} s, {} events", answer.seconds, answer.events));
                    }
                }
                Ok(_) => {}
                Err(reason) => row.note = Some(reason),
            }
        }
    }
    rows.extend(cannot.iter().map(without));
    contest.clear(stalls).await?;
    let sizes = format!(
        "{events} events in {} streams; {} rounds by turns, a new subscriber each time",
        contest.sizes.streams, contest.sizes.catch_ups
    );
    let title = "Catch up into a counting subscriber with durable checkpoints".to_owned();
    Ok(Scenario { id: "D".to_owned(), title, sizes, rows })
}

/// As autovacuum would leave it sooner or later, and better now than while something is measured.
async fn vacuum(contest: &Contest<'_>, urls: &BTreeSet<String>) -> Result<(), Error> {
    for url in urls {
        connect(url).await?.batch_execute("VACUUM (ANALYZE)").await?;
    }
    contest.settle().await
}
