//! H: what a log costs as it grows, and what more processes do to each other.
//!
//! One log grows: it is filled up by SQL to each size, by two connections at once, and measured there. Nobody forces a checkpoint
//! of the server; it makes its own every five minutes, as it does by default.

use driver::{Ask, Delivery, Placed};
use futures_util::future::{try_join, try_join_all};
use tokio_postgres::types::Json;

use super::contest::{Case, Contest};
use super::entrants::Entrant;
use super::process::Process;
use super::results::{Row, Scenario};
use crate::Error;
use crate::server::connect;

const CALLERS: usize = 32;
const PROCESSES: [usize; 4] = [1, 2, 4, 8];
/// How much is caught up with in every log alike.
const SAME: usize = 1_000_000;
/// The time of a point has so many parts, whose figures show how much they vary.
const PARTS: usize = 5;
/// Events of a statement that fills.
const FILLED_AT_ONCE: usize = 250_000;

const FILL: &str = include_str!("../../sql/fill_streams.sql");
const WAL_BYTES: &str = include_str!("../../sql/wal_bytes.sql");
const TABLE_SIZES: &str = include_str!("../../sql/table_sizes.sql");

const APPEND: Case<'_> = Case { name: "append, 32 callers", unit: "events/s", higher_is_better: true };
const EVERYTHING: Case<'_> = Case { name: "catch-up, everything", unit: "events/s", higher_is_better: true };
const FIRST: Case<'_> = Case { name: "catch-up, the first 1,000,000", unit: "events/s", higher_is_better: true };
const INDEXES: Case<'_> = Case { name: "indexes", unit: "bytes/event", higher_is_better: false };
const TABLE: Case<'_> = Case { name: "table and indexes", unit: "bytes/event", higher_is_better: false };
const WAL: Case<'_> = Case { name: "write-ahead log", unit: "bytes/event", higher_is_better: false };
const COMPRESSED: Case<'_> =
    Case { name: "write-ahead log, wal_compression", unit: "bytes/event", higher_is_better: false };
const TOGETHER: Case<'_> = Case { name: "append, processes", unit: "events/s", higher_is_better: true };

pub(super) async fn run(contest: &mut Contest<'_>) -> Result<Scenario, Error> {
    let entrant = contest.field.entrants.first().ok_or("nobody takes part")?.clone();
    contest.progress.step("H · an empty log");
    set(contest, "checkpoint_timeout", "'5min'").await?;
    let measured = grown(contest, &entrant).await;
    let together = processes(contest, &entrant).await;
    set(contest, "wal_compression", "DEFAULT").await?;
    set(contest, "checkpoint_timeout", "DEFAULT").await?;
    let mut rows = measured?;
    rows.extend(together?);
    // All of a case stand together.
    let mut order: Vec<String> = Vec::new();
    for row in &rows {
        if !order.contains(&row.case) {
            order.push(row.case.clone());
        }
    }
    rows.sort_by_key(|row| order.iter().position(|case| *case == row.case));
    let sizes = format!(
        "{} s a point after {} s of warming up, in {PARTS} parts; appends of one event, 32 callers in each process; one log, filled up by \
         SQL to each size, streams of ten; checkpoints of the server every 5 minutes, none forced",
        contest.sizes.growth_seconds, contest.sizes.warm_up
    );
    Ok(Scenario { id: "H".to_owned(), title: "Growth".to_owned(), sizes, rows })
}

async fn set(contest: &Contest<'_>, name: &str, value: &str) -> Result<(), Error> {
    contest.admin.batch_execute(&format!("ALTER SYSTEM SET {name} = {value}")).await?;
    Ok(contest.admin.batch_execute("SELECT pg_reload_conf()").await?)
}

fn at(case: &Case<'_>, entrant: &Entrant, at: usize, samples: Vec<f64>) -> Row {
    Row { at: Some(at as f64), samples, ..case.row(entrant) }
}

async fn grown(contest: &mut Contest<'_>, entrant: &Entrant) -> Result<Vec<Row>, Error> {
    let place = contest.place(entrant, "h_log").await?;
    let mut process = Process::start(entrant, &place.url)?;
    process.ask(Ask::Prepare).await?;
    let (mut rows, mut filled) = (Vec::new(), 0);
    for size in contest.sizes.logs {
        contest.progress.step(&format!("H · filling up to {size} events"));
        fill(&place.url, filled, size).await?;
        filled = size;
        let client = connect(&place.url).await?;
        client.batch_execute("VACUUM (ANALYZE) highwater.events").await?;
        let sizes = client.query_one(TABLE_SIZES, &[]).await?;
        let bytes = |column| vec![sizes.get::<_, i64>(column) as f64 / size as f64];
        for (case, events) in [(&EVERYTHING, size), (&FIRST, SAME.min(size))] {
            contest.progress.step(&format!("H · {size} events · {}", case.name));
            rows.push(at(case, entrant, size, caught_up(contest, &mut process, size, events).await?));
        }
        contest.progress.step(&format!("H · {size} events · appends"));
        set(contest, "wal_compression", "off").await?;
        let (rates, wal) = appended(contest, &mut process).await?;
        rows.push(at(&APPEND, entrant, size, rates));
        contest.progress.step(&format!("H · {size} events · appends, wal_compression"));
        set(contest, "wal_compression", "on").await?;
        let (_, compressed) = appended(contest, &mut process).await?;
        let found = [(&INDEXES, bytes(0)), (&TABLE, bytes(1)), (&WAL, wal), (&COMPRESSED, compressed)];
        rows.extend(found.into_iter().map(|(case, samples)| at(case, entrant, size, samples)));
        let scenario =
            Scenario { id: "H".to_owned(), title: "Growth".to_owned(), sizes: String::new(), rows: rows.clone() };
        contest.keep(&[scenario])?;
    }
    process.end().await?;
    contest.leave(place).await?;
    Ok(rows)
}

/// By two at once: two cores sort and write.
async fn fill(url: &str, from: usize, to: usize) -> Result<(), Error> {
    let part = async |parity: usize| {
        let client = connect(url).await?;
        for (number, first) in (from..to).step_by(FILLED_AT_ONCE).enumerate() {
            if number % 2 == parity {
                let last = (first + FILLED_AT_ONCE).min(to);
                let bounds = [first, last].map(|bound| bound as i64);
                client.execute(FILL, &[&bounds[0], &bounds[1], &"Placed", &Json(Placed::new(0, 0))]).await?;
            }
        }
        Ok::<_, Error>(())
    };
    try_join(part(0), part(1)).await.map(drop)
}

async fn caught_up(
    contest: &Contest<'_>,
    process: &mut Process,
    size: usize,
    events: usize,
) -> Result<Vec<f64>, Error> {
    let mut rates = Vec::new();
    for part in 0..PARTS {
        let ask = Ask::CatchUp {
            id: format!("h-{size}-{events}-{part}"),
            delivery: Delivery::Batched,
            events,
            warm_up: if part == 0 { contest.sizes.warm_up } else { 0.0 },
            seconds: contest.sizes.growth_seconds / PARTS as f64,
        };
        let answer = process.ask(ask).await?;
        rates.push(answer.events as f64 / answer.seconds);
    }
    Ok(rates)
}

/// Events in a second, and bytes of the write-ahead log for each.
async fn appended(contest: &Contest<'_>, process: &mut Process) -> Result<(Vec<f64>, Vec<f64>), Error> {
    let seconds = contest.sizes.growth_seconds / PARTS as f64;
    let append = |seconds| Ask::Append { callers: CALLERS, events: 1, warm_up: 0.0, seconds };
    process.ask(append(contest.sizes.warm_up)).await?;
    let (mut rates, mut wal) = (Vec::new(), Vec::new());
    for _ in 0..PARTS {
        let before = written(contest).await?;
        let answer = process.ask(append(seconds)).await?;
        rates.push(answer.events as f64 / answer.seconds);
        wal.push((written(contest).await? - before) / answer.events as f64);
    }
    Ok((rates, wal))
}

/// Bytes of the write-ahead log, from its beginning.
async fn written(contest: &Contest<'_>) -> Result<f64, Error> {
    let row = contest.admin.query_one(WAL_BYTES, &[]).await?;
    Ok(row.get(0))
}

/// One database, more and more processes that append to it.
async fn processes(contest: &mut Contest<'_>, entrant: &Entrant) -> Result<Vec<Row>, Error> {
    let place = contest.place(entrant, "h_processes").await?;
    let mut all = Vec::new();
    for _ in 0..PROCESSES.into_iter().max().unwrap_or(1) {
        all.push(Process::start(entrant, &place.url)?);
    }
    all[0].ask(Ask::Prepare).await?;
    let mut rows: Vec<Row> = PROCESSES.iter().map(|count| at(&TOGETHER, entrant, *count, Vec::new())).collect();
    let (warm_up, seconds) = (contest.sizes.warm_up / 2.0, contest.sizes.growth_seconds / PARTS as f64);
    for part in 1..=PARTS {
        for (count, row) in PROCESSES.into_iter().zip(&mut rows) {
            contest.progress.step(&format!("H · {count} processes · part {part}"));
            let asked = all[..count].iter_mut();
            let asked = asked.map(|process| process.ask(Ask::Append { callers: CALLERS, events: 1, warm_up, seconds }));
            let answers = try_join_all(asked).await?;
            row.samples.push(answers.iter().map(|answer| answer.events as f64 / answer.seconds).sum());
        }
    }
    for process in all {
        process.end().await?;
    }
    contest.leave(place).await?;
    Ok(rows)
}
