//! F: the process that handles is killed; for how long is nothing handled?

use std::time::{Duration, Instant};

use driver::{Ask, Handed};

use super::contest::{Case, Contest};
use super::entrants::Entrant;
use super::live::weakest;
use super::process::Process;
use super::results::{Row, Scenario};
use crate::Error;

/// Events in a second, meanwhile.
const RATE: f64 = 200.0;
/// How long another may take.
const LONGEST: Duration = Duration::from_secs(20);
/// How long both are looked at first, and how long the other is after it has begun.
const LOOKED_AT: Duration = Duration::from_millis(1_500);
const LOOK: Duration = Duration::from_millis(10);

pub(super) async fn run(contest: &mut Contest<'_>) -> Result<Scenario, Error> {
    let case = Case { name: "longest gap", unit: "ms", higher_is_better: false };
    let peers = contest.field.entrants.iter().filter(|entrant| !entrant.is_ours());
    let entrants: Vec<Entrant> =
        std::iter::once(&contest.field.coordinated).chain(peers).map(Entrant::with_subscriber).collect();
    let mut rows: Vec<Row> = entrants.iter().map(|entrant| case.row(entrant)).collect();
    for kill in 1..=contest.sizes.kills {
        for (entrant, row) in entrants.iter().zip(&mut rows) {
            if row.note.is_some() {
                continue;
            }
            let cannot = entrant.about.no_follower.as_ref().or(entrant.about.no_failover.as_ref());
            if let Some(reason) = cannot {
                row.note = Some(reason.clone());
                continue;
            }
            contest.progress.step(&format!("F · {} · kill {kill}", entrant.id));
            match takeover(contest, entrant).await {
                Ok(millis) => row.samples.push(millis),
                Err(error) => row.note = Some(format!("failed: {error}")),
            }
        }
    }
    // Who cannot is told of once.
    rows.retain(|row| !row.samples.is_empty() || !row.contestant.ends_with("-fastest"));
    let sizes = format!(
        "{} kills each, {RATE} events/s meanwhile; the one of two that has handled the last event is killed; given up after {} s",
        contest.sizes.kills,
        LONGEST.as_secs()
    );
    let title = "kill -9 of a process that handles: the longest time in which no other handles anything".to_owned();
    Ok(Scenario { id: "F".to_owned(), title, sizes, rows })
}

async fn takeover(contest: &Contest<'_>, entrant: &Entrant) -> Result<f64, Error> {
    let place = contest.place(entrant, &format!("f_{}", entrant.id)).await?;
    let mut sender = Process::start(entrant, &place.url)?;
    sender.ask(Ask::Prepare).await?;
    let seconds = (LOOKED_AT * 3 + LONGEST).as_secs_f64();
    // Ends with the process at the latest; it is not waited for.
    let sending = tokio::spawn(async move { sender.ask(Ask::Send { rate: RATE, seconds }).await.map(drop) });
    let found = killed(entrant, &place.url).await;
    sending.abort();
    contest.leave(place).await?;
    found
}

async fn killed(entrant: &Entrant, url: &str) -> Result<f64, Error> {
    let follow = || Ask::Follow { id: "failover".to_owned(), delivery: weakest(entrant) };
    let mut first = Process::start(entrant, url)?;
    first.ask(follow()).await?;
    next(&mut first, LONGEST).await?.ok_or("nothing is handed over")?;
    let mut second = Process::start(entrant, url)?;
    second.ask(follow()).await?;
    let (mut last, started) = ([0, 0], Instant::now());
    while started.elapsed() < LOOKED_AT || last == [0, 0] {
        for (process, last) in [&mut first, &mut second].into_iter().zip(&mut last) {
            *last = handled(&process.delivered().await?.events).max(*last);
        }
        if started.elapsed() > LONGEST {
            return Err("with two processes nothing is handled any more".into());
        }
        tokio::time::sleep(LOOK).await;
    }
    let (victim, mut other) = if last[0] >= last[1] { (first, second) } else { (second, first) };
    let before = last[0].max(last[1]);
    victim.kill().await?;
    // The other may have handled something before the kill, which is no part of a gap after it.
    let (mut times, killed, mut resumed) = (vec![before], Instant::now(), None);
    while resumed.is_none_or(|resumed: Instant| resumed.elapsed() < LOOKED_AT) {
        let events = other.delivered().await?.events;
        if !events.is_empty() && resumed.is_none() {
            resumed = Some(Instant::now());
        }
        times.extend(events.iter().map(|(.., handed)| *handed));
        if resumed.is_none() && killed.elapsed() > LONGEST {
            return Err(format!("no other resumes within {} s", LONGEST.as_secs()).into());
        }
        tokio::time::sleep(LOOK).await;
    }
    other.end().await?;
    Ok(longest_gap(times))
}

/// When the last of them was handled.
fn handled(events: &[Handed]) -> i64 {
    events.iter().map(|(.., handed)| *handed).max().unwrap_or(0)
}

/// In milliseconds.
fn longest_gap(mut micros: Vec<i64>) -> f64 {
    micros.sort_unstable();
    micros.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0) as f64 / 1_000.0
}

/// The next event that is handed over, if there is one in that time.
async fn next(process: &mut Process, longest: Duration) -> Result<Option<Handed>, Error> {
    let started = Instant::now();
    while started.elapsed() < longest {
        if let Some(first) = process.delivered().await?.events.first() {
            return Ok(Some(*first));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_is_between_neighbours_in_time() {
        assert_eq!(longest_gap(vec![5_000, 1_000, 2_000, 12_500]), 7.5);
        assert_eq!(longest_gap(vec![1]), 0.0);
    }
}
