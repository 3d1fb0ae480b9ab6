//! E: how long after its append is begun does an event reach a subscriber in another process.

use std::time::{Duration, Instant};

use driver::Ask;

use super::contest::{Case, Contest};
use super::entrants::Entrant;
use super::process::Process;
use super::results::{Row, Scenario};
use crate::Error;
use crate::rounds::quantile;

pub(super) const RATES: [f64; 2] = [100.0, 2_000.0];
/// Who sends less than this part of the rate is not at that rate.
const KEPT_UP: f64 = 0.9;
/// How long to wait for what was sent.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to look.
const LOOK: Duration = Duration::from_millis(20);
/// Where a distribution is looked at.
const PARTS: [f64; 11] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1.0];

const FIGURES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)];

pub(super) async fn run(contest: &mut Contest<'_>) -> Result<Scenario, Error> {
    let mut rows = Vec::new();
    let entrants = contest.field.entrants.clone();
    for rate in RATES {
        // For each entrant: the latencies of all rounds, and those of each.
        let mut found: Vec<Result<Vec<Vec<f64>>, String>> = vec![Ok(Vec::new()); entrants.len()];
        contest.settle().await?;
        for round in 1..=contest.sizes.live_rounds {
            for (entrant, found) in entrants.iter().zip(&mut found) {
                contest.progress.step(&format!("E · {rate} events/s · {} · round {round}", entrant.id));
                let Ok(rounds) = found else { continue };
                if let Some(reason) = &entrant.about.no_follower {
                    *found = Err(reason.clone());
                    continue;
                }
                match latencies(contest, entrant, rate).await {
                    Ok(latencies) => rounds.push(latencies),
                    Err(error) => *found = Err(format!("failed: {error}")),
                }
            }
        }
        for (name, part) in FIGURES {
            let case = format!("{name} at {rate} events/s");
            let case = Case { name: &case, unit: "ms", higher_is_better: false };
            rows.extend(entrants.iter().zip(&found).map(|(entrant, found)| row(&case, entrant, found, part)));
        }
    }
    let sizes = format!("{} rounds of {} s at each rate", contest.sizes.live_rounds, contest.sizes.live_seconds);
    let title = "From the call of append to a subscriber in another process".to_owned();
    Ok(Scenario { id: "E".to_owned(), title, sizes, rows })
}

fn row(case: &Case<'_>, entrant: &Entrant, found: &Result<Vec<Vec<f64>>, String>, part: f64) -> Row {
    let rounds = match found {
        Ok(rounds) => rounds,
        Err(reason) => return case.without(entrant, reason.clone()),
    };
    let all = rounds.concat();
    let distribution = match part == 0.5 {
        true => PARTS.iter().map(|part| (*part, quantile(&all, *part) * 1_000.0)).collect(),
        false => Vec::new(),
    };
    Row { samples: rounds.iter().map(|round| quantile(round, part)).collect(), distribution, ..case.row(entrant) }
}

/// In milliseconds, of every event that was acknowledged.
async fn latencies(contest: &Contest<'_>, entrant: &Entrant, rate: f64) -> Result<Vec<f64>, Error> {
    let database = format!("e_{}", entrant.id);
    let url = contest.database(&database).await?;
    let (mut sender, mut receiver) = (Process::start(entrant, &url)?, Process::start(entrant, &url)?);
    sender.ask(Ask::Prepare).await?;
    receiver.ask(Ask::Follow { id: "live".to_owned() }).await?;
    // Connections are open and statements known before anything counts.
    let warm = sender.ask(Ask::Send { rate: 100.0, seconds: 0.5 }).await?;
    received(&mut receiver, warm.events).await?;
    let sent = sender.ask(Ask::Send { rate, seconds: contest.sizes.live_seconds }).await?;
    let latencies = received(&mut receiver, sent.events).await?;
    receiver.ask(Ask::Unfollow).await?;
    sender.end().await?;
    receiver.end().await?;
    contest.drop_database(&database).await?;
    let asked = rate * contest.sizes.live_seconds;
    if (sent.events as f64) < asked * KEPT_UP {
        let per_second = sent.events as f64 / sent.seconds;
        return Err(format!("it does not reach that rate: {per_second:.0} events/s").into());
    }
    Ok(latencies)
}

/// Waits until so many were handed over.
async fn received(receiver: &mut Process, count: u64) -> Result<Vec<f64>, Error> {
    let (started, mut latencies) = (Instant::now(), Vec::new());
    loop {
        let events = receiver.delivered().await?.events;
        latencies.extend(events.iter().map(|(.., made, handed)| (handed - made) as f64 / 1_000.0));
        match latencies.len() as u64 {
            got if got >= count => return Ok(latencies),
            got if started.elapsed() > PATIENCE => {
                return Err(format!("{got} of {count} events were handed over within {} s", PATIENCE.as_secs()).into());
            }
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}
