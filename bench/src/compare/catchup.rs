//! D: what is there is handed to new subscribers that count: one table for each promise.

use driver::{Ask, Delivery};

use super::contest::{Case, Contest, rotated};
use super::entrants::Entrant;
use super::process::Process;
use super::results::{Row, Scenario};
use super::sizes::EVENTS_PER_STREAM;
use crate::Error;

const TABLES: [(&str, Delivery, &str); 3] = [
    ("D1", Delivery::Batched, "Catch up, at least once, checkpoints for many events together"),
    ("D2", Delivery::Each, "Catch up, at least once, a checkpoint for each event"),
    ("D3", Delivery::Once, "Catch up, exactly once: the checkpoint is committed with what a handler writes"),
];

pub(super) async fn run(contest: &mut Contest<'_>) -> Result<Vec<Scenario>, Error> {
    let mut scenarios = Vec::new();
    for (id, delivery, title) in TABLES {
        let mut entrants: Vec<Entrant> = contest.field.entrants.iter().map(Entrant::with_subscriber).collect();
        if delivery == Delivery::Batched {
            entrants.insert(1, contest.field.again.with_subscriber());
        }
        entrants.retain(|entrant| entrant.delivers(delivery));
        let rows = table(contest, id, delivery, &entrants).await?;
        let events = contest.sizes.streams * EVENTS_PER_STREAM;
        let sizes = format!(
            "{} rounds of {} s for each after {} s of warming up in each turn, by turns; new subscribers one after the other, {} \
             events each; the handler writes nothing. Notes say what a crash of the server can undo",
            contest.sizes.rounds,
            contest.sizes.seconds,
            contest.sizes.warm_up,
            super::figures::number(events as f64),
        );
        scenarios.push(Scenario { id: id.to_owned(), title: title.to_owned(), sizes, rows });
        contest.keep(&scenarios)?;
    }
    Ok(scenarios)
}

async fn table(
    contest: &mut Contest<'_>,
    id: &str,
    delivery: Delivery,
    entrants: &[Entrant],
) -> Result<Vec<Row>, Error> {
    let case = Case { name: "catch-up", unit: "events/s", higher_is_better: true };
    let mut rows: Vec<Row> = entrants.iter().map(|entrant| case.row(entrant)).collect();
    let mut processes = Vec::new();
    for (entrant, row) in entrants.iter().zip(&mut rows) {
        let started = async {
            let url = contest.stall(entrant).await?;
            Ok::<_, Error>(vec![Process::start(entrant, &url)?])
        };
        processes.push(started.await.unwrap_or_else(|error| {
            row.note = Some(format!("failed: {error}"));
            Vec::new()
        }));
    }
    contest.settle().await?;
    let (warm_up, seconds) = (contest.sizes.warm_up, contest.sizes.seconds);
    let events = contest.sizes.streams * EVENTS_PER_STREAM;
    for round in 0..contest.sizes.rounds {
        for number in rotated(entrants.len(), round) {
            let (entrant, row) = (&entrants[number], &mut rows[number]);
            if row.note.is_some() {
                continue;
            }
            contest.progress.step(&format!("{id} · {} · round {}", entrant.id, round + 1));
            let name = format!("{id}-{}-{round}", entrant.id).to_lowercase();
            let ask = Ask::CatchUp { id: name, delivery, events, warm_up, seconds };
            contest.turn(entrant, &mut processes[number], &ask, row).await;
        }
    }
    for process in processes.into_iter().flatten() {
        process.end().await?;
    }
    for (entrant, row) in entrants.iter().zip(&mut rows) {
        // Each subscriber has connections of its own: they are no reconnecting.
        row.calls = Default::default();
        if row.note.is_none() {
            row.note = entrant.about.deliveries.get(&delivery).cloned();
        }
    }
    Ok(rows)
}
