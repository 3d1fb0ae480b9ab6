//! F: the process that handles is killed; how soon does another go on?

use std::time::{Duration, Instant};

use driver::{Ask, Handed};

use super::contest::{Case, Contest};
use super::entrants::Entrant;
use super::process::Process;
use super::results::{Row, Scenario};
use crate::Error;

/// Events in a second, meanwhile.
const RATE: f64 = 200.0;
/// How long another may take.
const LONGEST: Duration = Duration::from_secs(20);
/// How long one that is to stand by is looked at first.
const STANDS_BY: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(10);

pub(super) async fn run(contest: &mut Contest<'_>) -> Result<Scenario, Error> {
    let case = Case { name: "takeover", unit: "ms", higher_is_better: false };
    let peers = contest.field.entrants.iter().filter(|entrant| !entrant.is_best() && !entrant.is_ours());
    let entrants: Vec<Entrant> = std::iter::once(&contest.field.coordinated).chain(peers).cloned().collect();
    let mut rows: Vec<Row> = entrants.iter().map(|entrant| case.row(entrant)).collect();
    for kill in 1..=contest.sizes.kills {
        for (entrant, row) in entrants.iter().zip(&mut rows) {
            contest.progress.step(&format!("F · {} · kill {kill}", entrant.id));
            if row.note.is_some() {
                continue;
            }
            let cannot = entrant.about.no_follower.as_ref().or(entrant.about.no_failover.as_ref());
            match cannot {
                Some(reason) => row.note = Some(reason.clone()),
                None => match takeover(contest, entrant).await {
                    Ok(millis) => row.samples.push(millis),
                    Err(error) => row.note = Some(format!("failed: {error}")),
                },
            }
        }
    }
    let sizes = format!(
        "{} kills each, {RATE} events/s meanwhile; given up after {} s",
        contest.sizes.kills,
        LONGEST.as_secs()
    );
    let title = "From kill -9 of the process that handles to the first event that another handles".to_owned();
    Ok(Scenario { id: "F".to_owned(), title, sizes, rows })
}

async fn takeover(contest: &Contest<'_>, entrant: &Entrant) -> Result<f64, Error> {
    let database = format!("f_{}", entrant.id);
    let url = contest.database(&database).await?;
    let mut sender = Process::start(entrant, &url)?;
    sender.ask(Ask::Prepare).await?;
    let seconds = STANDS_BY.as_secs_f64() * 2.0 + LONGEST.as_secs_f64();
    // Ends with the process at the latest; it is not waited for.
    let sending = tokio::spawn(async move { sender.ask(Ask::Send { rate: RATE, seconds }).await.map(drop) });
    let found = killed(entrant, &url).await;
    sending.abort();
    contest.drop_database(&database).await?;
    found
}

async fn killed(entrant: &Entrant, url: &str) -> Result<f64, Error> {
    let follow = || Ask::Follow { id: "failover".to_owned() };
    let mut first = Process::start(entrant, url)?;
    first.ask(follow()).await?;
    next(&mut first, LONGEST).await?.ok_or("nothing is handed over")?;
    let mut second = Process::start(entrant, url)?;
    second.ask(follow()).await?;
    if next(&mut second, STANDS_BY).await?.is_some() {
        return Err("both processes handle events at the same time, so nobody takes over".into());
    }
    // It is still the first that is at work.
    first.delivered().await?;
    next(&mut first, STANDS_BY).await?.ok_or("the first process has stopped handling")?;
    let at = first.kill().await?;
    let (.., handed) =
        next(&mut second, LONGEST).await?.ok_or_else(|| format!("nobody goes on within {} s", LONGEST.as_secs()))?;
    second.end().await?;
    Ok((handed - at) as f64 / 1_000.0)
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
