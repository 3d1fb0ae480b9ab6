//! A, B and C: appending one event, appending a hundred, loading a stream.
//!
//! There is not time for everybody at everything in 45 minutes. Cases come in the order of [`STEPS`]; each is for as many as
//! there is time for: Highwater, the raw drivers, then the peers that were fastest at the first case.

use driver::Ask;

use super::contest::{Case, Contest, rotated};
use super::entrants::Entrant;
use super::process::Process;
use super::results::{Kind, Row, Scenario};
use crate::Error;

/// Events of an append in B.
const EVENTS: usize = 100;
/// Events of the stream in C.
const STREAM: usize = 1_000;
/// How many callers the pool sizes are tried with.
const SWEPT: usize = 32;
/// Peers that are asked at caller counts that matter less.
const FEW: usize = 4;

/// What is done in a case.
#[derive(Debug, Clone, Copy)]
enum Work {
    Append { callers: usize, events: usize },
    Load,
}

/// A column: its scenario, name, how many processes at once, and what each does.
type Column = (char, &'static str, usize, Work);

const COLUMNS: [Column; 8] = [
    ('A', "1 caller", 1, Work::Append { callers: 1, events: 1 }),
    ('A', "8 callers", 1, Work::Append { callers: 8, events: 1 }),
    ('A', "32 callers", 1, Work::Append { callers: 32, events: 1 }),
    ('A', "256 callers", 1, Work::Append { callers: 256, events: 1 }),
    ('A', "8 processes × 4 callers", 8, Work::Append { callers: 4, events: 1 }),
    ('B', "1 caller", 1, Work::Append { callers: 1, events: EVENTS }),
    ('B', "8 callers", 1, Work::Append { callers: 8, events: EVENTS }),
    ('C', "1 caller", 1, Work::Load),
];

/// Who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// Both ways, with subscribers and without, and Highwater once more.
    All,
    /// Each in its fastest way; Highwater by `execute` too.
    Fastest,
    /// Of those the ones that were the fastest.
    Few,
}

/// Columns in the order of what is asked first.
const STEPS: [(usize, Who); 14] = [
    (2, Who::All),
    (4, Who::Fastest),
    (0, Who::Fastest),
    (6, Who::Few),
    (3, Who::Few),
    (1, Who::Few),
    (7, Who::Few),
    (5, Who::Few),
    (6, Who::All),
    (7, Who::All),
    (0, Who::All),
    (4, Who::All),
    (3, Who::All),
    (1, Who::All),
];

pub(super) async fn run(contest: &mut Contest<'_>) -> Result<Vec<Scenario>, Error> {
    let wanted = contest.sizes.scenarios.clone();
    sweep(contest).await?;
    let mut rows: Vec<Vec<Row>> = vec![Vec::new(); COLUMNS.len()];
    for (at, who) in STEPS {
        let (letter, name, ..) = COLUMNS[at];
        if !wanted.contains(letter) {
            continue;
        }
        let ranked = ranked(&rows[2]);
        let asked = chosen(contest, who, &ranked, letter);
        let asked = asked.into_iter().filter(|entrant| rows[at].iter().all(|row| row.contestant != entrant.id));
        let asked: Vec<Entrant> = asked.take(affordable(contest)).collect();
        if asked.len() > usize::from(who == Who::All) {
            step(contest, at, &asked, &mut rows).await?;
        }
        contest.progress.note(&format!("{letter} · {name}: {} in all", rows[at].len()));
    }
    Ok(scenarios(contest, &rows))
}

/// How many turns of all rounds there is still time for.
fn affordable(contest: &Contest<'_>) -> usize {
    let each = contest.sizes.turn() * contest.sizes.rounds as f64;
    (contest.left().as_secs_f64() / each) as usize
}

/// Peers by how fast they were, the fastest first.
fn ranked(rows: &[Row]) -> Vec<String> {
    let mut known: Vec<(f64, String)> =
        rows.iter().filter_map(|row| Some((row.median()?, row.contestant.clone()))).collect();
    known.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    known.into_iter().map(|(_, id)| id).collect()
}

/// In the order of who is asked first.
fn chosen(contest: &Contest<'_>, who: Who, ranked: &[String], letter: char) -> Vec<Entrant> {
    let field = &contest.field;
    let (peers, mut all): (Vec<_>, Vec<_>) =
        field.entrants.iter().cloned().partition(|entrant| entrant.kind == Kind::Peer);
    all.insert(1, field.execute.clone());
    if who == Who::All || letter == 'B' {
        all.push(field.again.clone());
    }
    if who == Who::Few {
        all.retain(|entrant| entrant.id != super::stores::RAW_SQLX);
    }
    let mut fastest: Vec<Entrant> =
        peers.iter().filter(|peer| peer.is_fastest() || peer.about.fastest.is_none()).cloned().collect();
    let place = |entrant: &Entrant| ranked.iter().position(|id| *id == entrant.id).unwrap_or(usize::MAX);
    fastest.sort_by_key(place);
    if who == Who::Few {
        fastest.truncate(FEW);
    }
    all.extend(fastest);
    if who == Who::All {
        all.extend(field.with_subscribers());
        all.extend(peers.into_iter().filter(|peer| !peer.is_fastest() && peer.about.fastest.is_some()));
    }
    all
}

/// Which pool size is the fastest for those who have one.
async fn sweep(contest: &mut Contest<'_>) -> Result<(), Error> {
    for at in 0..contest.field.entrants.len() {
        let entrant = contest.field.entrants[at].clone();
        if !entrant.is_fastest() || entrant.about.pools.is_empty() {
            continue;
        }
        let mut best: Option<(f64, u32)> = None;
        for size in entrant.about.pools.clone() {
            let mut tried = entrant.clone();
            tried.settings.connections = Some(size);
            let rate = tried_pool(contest, &tried).await.unwrap_or(0.0);
            if best.is_none_or(|(known, _)| rate > known) {
                best = Some((rate, size));
            }
        }
        let Some((_, size)) = best else { continue };
        let entrant = &mut contest.field.entrants[at];
        entrant.settings.connections = Some(size);
        let told = entrant.about.fastest.get_or_insert_default();
        *told = format!("{told}; here {size} of {:?}", entrant.about.pools);
    }
    Ok(())
}

async fn tried_pool(contest: &mut Contest<'_>, entrant: &Entrant) -> Result<f64, Error> {
    let url = contest.stall(entrant).await?;
    contest.progress.step(&format!("pools · {} · {:?}", entrant.id, entrant.settings.connections));
    let mut process = Process::start(entrant, &url)?;
    let (warm_up, seconds) = (contest.sizes.sweep_seconds / 2.0, contest.sizes.sweep_seconds);
    let answer = process.ask(Ask::Append { callers: SWEPT, events: 1, warm_up, seconds }).await?;
    process.end().await?;
    Ok(answer.events as f64 / answer.seconds)
}

/// One column, for some.
async fn step(contest: &mut Contest<'_>, at: usize, entrants: &[Entrant], rows: &mut [Vec<Row>]) -> Result<(), Error> {
    let (letter, name, count, work) = COLUMNS[at];
    let case = Case { name, unit: "events/s", higher_is_better: true };
    let (warm_up, seconds) = (contest.sizes.warm_up, contest.sizes.seconds);
    let ask = match work {
        Work::Append { callers, events } => Ask::Append { callers, events, warm_up, seconds },
        Work::Load => Ask::Load { events: STREAM, warm_up, seconds },
    };
    let known = rows[at].len();
    let mut processes = Vec::new();
    for entrant in entrants {
        let mut row = case.row(entrant);
        let started = async {
            let url = contest.stall(entrant).await?;
            (0..count).map(|_| Process::start(entrant, &url)).collect::<Result<Vec<_>, Error>>()
        };
        processes.push(started.await.unwrap_or_else(|error| {
            row.note = Some(format!("failed: {error}"));
            Vec::new()
        }));
        rows[at].push(row);
    }
    contest.settle().await?;
    for round in 0..contest.sizes.rounds {
        for number in rotated(entrants.len(), round) {
            let (entrant, row) = (&entrants[number], &mut rows[at][known + number]);
            if row.note.is_none() {
                contest.progress.step(&format!("{letter} · {name} · {} · round {}", entrant.id, round + 1));
                contest.turn(entrant, &mut processes[number], &ask, row).await;
            }
        }
        contest.keep(&scenarios(contest, rows))?;
    }
    for process in processes.into_iter().flatten() {
        process.end().await?;
    }
    Ok(())
}

fn scenarios(contest: &Contest<'_>, rows: &[Vec<Row>]) -> Vec<Scenario> {
    let sizes = format!(
        "{} rounds of {} s for each after {} s of warming up in each turn, by turns, another one first each time; {} events are \
         there before; who is not in a column had no time in {} minutes (--minutes gives more)",
        contest.sizes.rounds,
        contest.sizes.seconds,
        contest.sizes.warm_up,
        super::figures::number((contest.sizes.streams * super::sizes::EVENTS_PER_STREAM) as f64),
        contest.sizes.budget.as_secs().div_ceil(60),
    );
    let titles = [
        ('A', "Append one event to a new stream"),
        ('B', "Append 100 events to a new stream in one call"),
        ('C', "Load a stream of 1,000 events"),
    ];
    let scenario = |(letter, title): (char, &str)| Scenario {
        id: letter.to_string(),
        title: title.to_owned(),
        sizes: sizes.clone(),
        rows: COLUMNS
            .iter()
            .zip(rows)
            .filter(|((of, ..), _)| *of == letter)
            .flat_map(|(_, rows)| rows.iter().cloned())
            .collect(),
    };
    let asked = titles.into_iter().filter(|(letter, _)| contest.sizes.scenarios.contains(*letter));
    asked.map(scenario).collect()
}
