//! H: what a log costs as it grows, and what more processes do to each other.

use driver::{Ask, Placed};
use futures_util::future::try_join_all;
use tokio_postgres::types::Json;

use super::contest::{Case, Contest};
use super::entrants::Entrant;
use super::process::Process;
use super::results::{Row, Scenario};
use crate::Error;
use crate::server::connect;

const CALLERS: usize = 32;
pub(super) const PROCESSES: [usize; 4] = [1, 2, 4, 8];
/// How much is caught up with in every log alike.
const SAME: usize = 100_000;
const LIMIT: f64 = 120.0;
const SECONDS: f64 = 1.5;
const WARM_UP: f64 = 0.3;

const FILL: &str = include_str!("../../sql/fill_streams.sql");
const CUT: &str = include_str!("../../sql/cut_events.sql");
const WAL_BYTES: &str = include_str!("../../sql/wal_bytes.sql");
const TABLE_SIZES: &str = include_str!("../../sql/table_sizes.sql");

/// Cases that are measured again and again, in every log.
const RATES: [&str; 3] = ["append, 32 callers", "catch-up, everything", "catch-up, the first 100,000"];
/// Those that are looked up.
const SIZES: [(&str, &str); 3] =
    [("indexes", "bytes/event"), ("table and indexes", "bytes/event"), ("write-ahead log", "bytes/event")];

/// A log of one size, and a process that works on it.
struct Log {
    size: usize,
    url: String,
    process: Process,
    /// In the order of [`RATES`].
    rates: [Vec<f64>; 3],
    /// Of every round of appends.
    wal: Vec<f64>,
    bytes: [f64; 2],
}

pub(super) async fn run(contest: &mut Contest<'_>) -> Result<Scenario, Error> {
    let entrant = contest.field.entrants.first().ok_or("nobody takes part")?.clone();
    let mut logs = Vec::new();
    for size in contest.sizes.logs {
        contest.progress.step(&format!("H · filling a log of {size} events"));
        logs.push(filled(contest, &entrant, size).await?);
    }
    for round in 0..=contest.sizes.growth_rounds {
        for log in &mut logs {
            contest.progress.step(&format!("H · {} events · round {round}", log.size));
            measure(contest, log, round).await?;
        }
    }
    let mut rows = Vec::new();
    for (index, name) in RATES.iter().enumerate() {
        let case = Case { name, unit: "events/s", higher_is_better: true };
        rows.extend(logs.iter().map(|log| at(&case, &entrant, log.size, log.rates[index].clone())));
    }
    for (index, (name, unit)) in SIZES.iter().enumerate() {
        let case = Case { name, unit, higher_is_better: false };
        let figures = |log: &Log| log.bytes.get(index).map_or_else(|| log.wal.clone(), |bytes| vec![*bytes]);
        rows.extend(logs.iter().map(|log| at(&case, &entrant, log.size, figures(log))));
    }
    for log in logs {
        log.process.end().await?;
        contest.drop_database(&format!("h_{}", log.size)).await?;
    }
    rows.extend(processes(contest, &entrant).await?);
    let sizes = format!(
        "{} rounds by turns; appends of one event for {SECONDS} s, 32 callers in each process; filled by SQL, streams of ten",
        contest.sizes.growth_rounds
    );
    Ok(Scenario { id: "H".to_owned(), title: "Growth".to_owned(), sizes, rows })
}

fn at(case: &Case<'_>, entrant: &Entrant, at: usize, samples: Vec<f64>) -> Row {
    Row { at: Some(at as f64), samples, ..case.row(entrant) }
}

async fn filled(contest: &Contest<'_>, entrant: &Entrant, size: usize) -> Result<Log, Error> {
    let url = contest.database(&format!("h_{size}")).await?;
    let mut process = Process::start(entrant, &url)?;
    process.ask(Ask::Prepare).await?;
    let client = connect(&url).await?;
    client.execute(FILL, &[&i64::try_from(size)?, &"Placed", &Json(Placed::new(0, 0))]).await?;
    client.batch_execute("VACUUM (ANALYZE) highwater.events").await?;
    let sizes = client.query_one(TABLE_SIZES, &[]).await?;
    let bytes = [0, 1].map(|column| sizes.get::<_, i64>(column) as f64 / size as f64);
    Ok(Log { size, url, process, rates: Default::default(), wal: Vec::new(), bytes })
}

/// The first round warms up.
async fn measure(contest: &Contest<'_>, log: &mut Log, round: usize) -> Result<(), Error> {
    contest.settle().await?;
    let seconds = if round == 0 { WARM_UP } else { SECONDS };
    // Before anything is appended: the log has exactly its size.
    let everything = log.size;
    let mut rates = [0.0; 3];
    for (index, events) in [(1, everything), (2, SAME.min(everything))] {
        if round == 0 && index == 1 {
            continue;
        }
        let id = format!("{index}-{round}");
        let caught_up = log.process.ask(Ask::CatchUp { id, events, limit: LIMIT }).await?;
        if caught_up.events < events as u64 {
            return Err(format!("{} of {events} events within {LIMIT} s", caught_up.events).into());
        }
        rates[index] = events as f64 / caught_up.seconds;
    }
    let before = written(contest).await?;
    let appended = log.process.ask(Ask::Append { callers: CALLERS, events: 1, seconds }).await?;
    let bytes = written(contest).await? - before;
    rates[0] = appended.events as f64 / appended.seconds;
    if round > 0 {
        for (figures, rate) in log.rates.iter_mut().zip(rates) {
            figures.push(rate);
        }
        log.wal.push(bytes / appended.events as f64);
    }
    // What was appended goes again: the next round finds what this one did.
    let client = connect(&log.url).await?;
    client.execute(CUT, &[&i64::try_from(log.size)?]).await?;
    Ok(client.batch_execute("VACUUM highwater.events").await?)
}

/// Bytes of the write-ahead log, from its beginning.
async fn written(contest: &Contest<'_>) -> Result<f64, Error> {
    let row = contest.admin.query_one(WAL_BYTES, &[]).await?;
    Ok(row.get(0))
}

/// One database, more and more processes that append to it.
async fn processes(contest: &mut Contest<'_>, entrant: &Entrant) -> Result<Vec<Row>, Error> {
    let url = contest.database("h_processes").await?;
    let mut all = Vec::new();
    for _ in 0..PROCESSES.into_iter().max().unwrap_or(1) {
        all.push(Process::start(entrant, &url)?);
    }
    all[0].ask(Ask::Prepare).await?;
    let case = Case { name: "append, processes", unit: "events/s", higher_is_better: true };
    let mut rows: Vec<Row> = PROCESSES.iter().map(|count| at(&case, entrant, *count, Vec::new())).collect();
    contest.settle().await?;
    for round in 0..=contest.sizes.growth_rounds {
        for (count, row) in PROCESSES.into_iter().zip(&mut rows) {
            contest.progress.step(&format!("H · {count} processes · round {round}"));
            let seconds = if round == 0 { WARM_UP } else { SECONDS };
            let asked = all[..count].iter_mut();
            let asked = asked.map(|process| process.ask(Ask::Append { callers: CALLERS, events: 1, seconds }));
            let answers = try_join_all(asked).await?;
            if round > 0 {
                row.samples.push(answers.iter().map(|answer| answer.events as f64 / answer.seconds).sum());
            }
        }
    }
    for process in all {
        process.end().await?;
    }
    contest.drop_database("h_processes").await?;
    Ok(rows)
}
