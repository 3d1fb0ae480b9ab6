//! E: how long after its append is begun does an event reach a subscriber in another process.

use std::time::{Duration, Instant};

use driver::{Ask, Delivery};

use super::contest::{Case, Contest, rotated};
use super::entrants::Entrant;
use super::process::Process;
use super::results::{Row, Scenario};
use crate::Error;
use crate::rounds::quantile;

const RATES: [f64; 2] = [100.0, 2_000.0];
/// Who sends less than this part of the rate is not at that rate.
const KEPT_UP: f64 = 0.9;
/// How long to wait for what was sent after the last one has arrived.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often to look.
const LOOK: Duration = Duration::from_millis(20);
/// Where a distribution is looked at.
const PARTS: [f64; 11] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1.0];

const FIGURES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)];

/// What a round found.
#[derive(Debug, Clone, Default)]
struct Round {
    /// Of what arrived, in milliseconds.
    latencies: Vec<f64>,
    missing: f64,
}

/// What an entrant is at.
struct Pair {
    sender: Process,
    receiver: Process,
}

pub(super) async fn run(contest: &mut Contest<'_>) -> Result<Scenario, Error> {
    let mut rows = Vec::new();
    for rate in RATES {
        let entrants = taking_part(contest, rate);
        let mut found: Vec<Result<Vec<Round>, String>> = vec![Ok(Vec::new()); entrants.len()];
        let mut pairs = Vec::new();
        for (entrant, found) in entrants.iter().zip(&mut found) {
            pairs.push(match pair(contest, entrant).await {
                Ok(pair) => Some(pair),
                Err(error) => {
                    *found = Err(format!("failed: {error}"));
                    None
                }
            });
        }
        contest.settle().await?;
        for round in 0..contest.sizes.rounds {
            for number in rotated(entrants.len(), round) {
                let Ok(rounds) = &mut found[number] else { continue };
                let Some(pair) = &mut pairs[number] else { continue };
                let entrant = &entrants[number];
                contest.progress.step(&format!("E · {rate} events/s · {} · round {}", entrant.id, round + 1));
                match turn(contest, pair, entrant, rate, round).await {
                    Ok(figures) => rounds.push(figures),
                    Err(error) => found[number] = Err(format!("failed: {error}")),
                }
            }
        }
        for Pair { sender, receiver } in pairs.into_iter().flatten() {
            sender.end().await?;
            receiver.end().await?;
        }
        for (name, part) in FIGURES {
            let case = format!("{name} at {rate} events/s");
            let case = Case { name: &case, unit: "ms", higher_is_better: false };
            rows.extend(entrants.iter().zip(&found).map(|(entrant, found)| row(&case, entrant, found, part)));
        }
        let case = format!("not arrived at {rate} events/s");
        let case = Case { name: &case, unit: "events", higher_is_better: false };
        rows.extend(entrants.iter().zip(&found).map(|(entrant, found)| match found {
            Ok(rounds) => Row { samples: rounds.iter().map(|round| round.missing).collect(), ..case.row(entrant) },
            Err(reason) => case.without(entrant, reason.clone()),
        }));
        contest.keep(&[scenario(contest, rows.clone())])?;
    }
    Ok(scenario(contest, rows))
}

fn scenario(contest: &Contest<'_>, rows: Vec<Row>) -> Scenario {
    let sizes = format!(
        "{} rounds of {} s at each rate after {} s of warming up in each turn, by turns; in the fastest way all that poll look every \
         {} ms. Latencies are of what arrived within {} s",
        contest.sizes.rounds,
        contest.sizes.seconds,
        contest.sizes.warm_up,
        driver::POLL.as_millis(),
        PATIENCE.as_secs(),
    );
    let title = "From the call of append to a subscriber in another process".to_owned();
    Scenario { id: "E".to_owned(), title, sizes, rows }
}

/// As documented only at the lower rate: the higher one is for those who look often.
fn taking_part(contest: &Contest<'_>, rate: f64) -> Vec<Entrant> {
    let follow = |entrant: &&Entrant| !entrant.about.deliveries.is_empty();
    let all = contest.field.entrants.iter().filter(follow);
    let all = all.filter(|entrant| rate == RATES[0] || entrant.is_fastest() || entrant.about.fastest.is_none());
    let mut all: Vec<Entrant> = all.map(Entrant::with_subscriber).collect();
    all.insert(1, contest.field.again.with_subscriber());
    all
}

fn row(case: &Case<'_>, entrant: &Entrant, found: &Result<Vec<Round>, String>, part: f64) -> Row {
    let rounds = match found {
        Ok(rounds) => rounds,
        Err(reason) => return case.without(entrant, reason.clone()),
    };
    let all: Vec<f64> = rounds.iter().flat_map(|round| round.latencies.iter().copied()).collect();
    if all.is_empty() {
        return case.without(entrant, "nothing arrived");
    }
    let distribution = match part == 0.5 {
        true => PARTS.iter().map(|part| (*part, quantile(&all, *part) * 1_000.0)).collect(),
        false => Vec::new(),
    };
    let arrived = rounds.iter().filter(|round| !round.latencies.is_empty());
    Row { samples: arrived.map(|round| quantile(&round.latencies, part)).collect(), distribution, ..case.row(entrant) }
}

async fn pair(contest: &mut Contest<'_>, entrant: &Entrant) -> Result<Pair, Error> {
    let url = contest.stall(entrant).await?;
    Ok(Pair { sender: Process::start(entrant, &url)?, receiver: Process::start(entrant, &url)? })
}

/// The weakest promise that it has.
pub(super) fn weakest(entrant: &Entrant) -> Delivery {
    entrant.about.deliveries.keys().next().copied().unwrap_or(Delivery::Batched)
}

async fn turn(
    contest: &Contest<'_>,
    pair: &mut Pair,
    entrant: &Entrant,
    rate: f64,
    round: usize,
) -> Result<Round, Error> {
    // The same subscriber in every round: it has seen what was there before.
    let (id, delivery) = (format!("live-{}-{rate}", entrant.id), weakest(entrant));
    if round == 0 {
        pair.receiver.ask(Ask::Follow { id, delivery }).await?;
        // It catches up with what was there before.
        let mut last = Instant::now();
        while last.elapsed() < PATIENCE {
            if !pair.receiver.delivered().await?.events.is_empty() {
                last = Instant::now();
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    // Connections are open and statements known before anything counts.
    let warm = pair.sender.ask(Ask::Send { rate, seconds: contest.sizes.warm_up }).await?;
    received(&mut pair.receiver, warm.events).await?;
    let sent = pair.sender.ask(Ask::Send { rate, seconds: contest.sizes.seconds }).await?;
    let latencies = received(&mut pair.receiver, sent.events).await?;
    let asked = rate * contest.sizes.seconds;
    if (sent.events as f64) < asked * KEPT_UP {
        let per_second = sent.events as f64 / sent.seconds;
        return Err(format!("it does not reach that rate: {per_second:.0} events/s").into());
    }
    Ok(Round { missing: sent.events as f64 - latencies.len() as f64, latencies })
}

/// Until so many were handed over, or nothing more comes.
async fn received(receiver: &mut Process, count: u64) -> Result<Vec<f64>, Error> {
    let (mut last, mut latencies) = (Instant::now(), Vec::new());
    loop {
        let events = receiver.delivered().await?.events;
        if !events.is_empty() {
            last = Instant::now();
        }
        latencies.extend(events.iter().map(|(.., made, handed)| (handed - made) as f64 / 1_000.0));
        if latencies.len() as u64 >= count || last.elapsed() > PATIENCE {
            return Ok(latencies);
        }
        tokio::time::sleep(LOOK).await;
    }
}
