//! G: what a live subscriber does not see, sees late or sees twice while transactions are slow and some are rolled back.
//!
//! A deferred trigger on the table of events makes every transaction take up to 20 ms more after its last statement, when
//! its numbers are drawn, and fails one in seven: no library has to be changed for it.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use driver::{Ask, Handed};

use super::contest::{Case, Contest};
use super::entrants::Entrant;
use super::live::weakest;
use super::process::Process;
use super::results::{Row, Scenario};
use crate::Error;
use crate::server::connect;

const WRITERS: usize = 16;
/// How long nothing may have come before it is over, and how long if something is still missing.
const QUIET: Duration = Duration::from_millis(1_000);
const QUIET_MISSING: Duration = Duration::from_secs(4);
const LOOK: Duration = Duration::from_millis(50);

const FUNCTION: &str = include_str!("../../sql/slow_commits.sql");
const TRIGGER: &str = include_str!("../../sql/slow_commits_on.sql");

/// Of those whose events are in no table.
const UNSLOWED: &str = "its commits cannot be slowed down, and none is rolled back: the task is an easier one";

/// What came of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Verdict {
    acknowledged: usize,
    lost: usize,
    out_of_order: usize,
    doubled: usize,
}

type Figure = fn(&Verdict) -> usize;
const FIGURES: [(&str, Figure); 4] = [
    ("lost", |verdict| verdict.lost),
    ("out of order", |verdict| verdict.out_of_order),
    ("doubled", |verdict| verdict.doubled),
    ("acknowledged", |verdict| verdict.acknowledged),
];

pub(super) async fn run(contest: &mut Contest<'_>) -> Result<Scenario, Error> {
    let mut entrants: Vec<Entrant> = contest.field.entrants.iter().map(Entrant::with_subscriber).collect();
    entrants.insert(1, contest.field.transactions.with_subscriber());
    // Who has nothing of the kind is told of once.
    entrants.retain(|entrant| entrant.about.no_follower.is_none() || !entrant.is_fastest());
    let mut found: Vec<(Vec<Verdict>, Option<String>)> = vec![(Vec::new(), None); entrants.len()];
    for run in 1..=contest.sizes.safety_runs {
        for (entrant, (verdicts, note)) in entrants.iter().zip(&mut found) {
            if note.is_some() || (run > 1 && !entrant.is_ours()) {
                continue;
            }
            if let Some(reason) = &entrant.about.no_follower {
                *note = Some(reason.clone());
                continue;
            }
            contest.progress.step(&format!("G · {} · run {run}", entrant.id));
            match once(contest, entrant).await {
                Ok(verdict) => verdicts.push(verdict),
                Err(error) => *note = Some(format!("failed: {error}")),
            }
        }
    }
    let mut rows = Vec::new();
    for (name, figure) in FIGURES {
        let case = Case { name, unit: "events", higher_is_better: name == "acknowledged" };
        rows.extend(entrants.iter().zip(&found).map(|(entrant, (verdicts, note))| Row {
            samples: verdicts.iter().map(|verdict| figure(verdict) as f64).collect(),
            note: note.clone().or(entrant.about.server.then(|| UNSLOWED.to_owned())),
            ..case.row(entrant)
        }));
    }
    let sizes = format!(
        "until {} events were acknowledged, {} s at most; {} runs of Highwater, one of everybody else; {WRITERS} writers, a transaction \
         takes up to 20 ms, one in seven is rolled back",
        super::figures::number(contest.sizes.safety_events as f64),
        contest.sizes.safety_limit,
        contest.sizes.safety_runs,
    );
    let title = "Events that a live subscriber lost, saw out of order, or saw twice".to_owned();
    Ok(Scenario { id: "G".to_owned(), title, sizes, rows })
}

async fn once(contest: &Contest<'_>, entrant: &Entrant) -> Result<Verdict, Error> {
    let place = contest.place(entrant, &format!("g_{}", entrant.id)).await?;
    let (mut writer, mut reader) = (Process::start(entrant, &place.url)?, Process::start(entrant, &place.url)?);
    writer.ask(Ask::Prepare).await?;
    if !entrant.about.tables.is_empty() {
        let client = connect(&place.url).await?;
        client.batch_execute(FUNCTION).await?;
        for table in &entrant.about.tables {
            client.batch_execute(&TRIGGER.replace("{table}", table)).await?;
        }
    }
    reader.ask(Ask::Follow { id: "safety".to_owned(), delivery: weakest(entrant) }).await?;
    let (events, seconds) = (contest.sizes.safety_events, contest.sizes.safety_limit);
    let written = writer.ask(Ask::Write { writers: WRITERS, events, seconds }).await?;
    if written.acknowledged.is_empty() {
        return Err(format!("nothing was written: {}", written.failure.unwrap_or_default()).into());
    }
    let seen = seen(&mut reader, &written.acknowledged).await?;
    reader.ask(Ask::Unfollow).await?;
    writer.end().await?;
    reader.end().await?;
    contest.leave(place).await?;
    Ok(verdict(&written.acknowledged, &seen))
}

/// Everything that was handed over, until all that was acknowledged is there and nothing more comes.
async fn seen(reader: &mut Process, acknowledged: &[(u64, u64)]) -> Result<Vec<Handed>, Error> {
    let mut missing: HashSet<(u64, u64)> = acknowledged.iter().copied().collect();
    let (mut seen, mut last) = (Vec::new(), Instant::now());
    loop {
        let events = reader.delivered().await?.events;
        if !events.is_empty() {
            last = Instant::now();
        }
        for event in &events {
            missing.remove(&(event.0, event.1));
        }
        seen.extend(events);
        if last.elapsed() > if missing.is_empty() { QUIET } else { QUIET_MISSING } {
            return Ok(seen);
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn verdict(acknowledged: &[(u64, u64)], seen: &[Handed]) -> Verdict {
    let mut verdict = Verdict { acknowledged: acknowledged.len(), ..Verdict::default() };
    let (mut known, mut last_position, mut last_number) = (HashSet::new(), 0, HashMap::new());
    for (writer, number, position, ..) in seen {
        if !known.insert((*writer, *number)) {
            verdict.doubled += 1;
            continue;
        }
        let last = last_number.entry(*writer).or_insert(*number);
        if (*position > 0 && *position < last_position) || number < last {
            verdict.out_of_order += 1;
        }
        last_position = last_position.max(*position);
        *last = (*last).max(*number);
    }
    verdict.lost = acknowledged.iter().filter(|event| !known.contains(event)).count();
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(writer: u64, number: u64, position: u64) -> Handed {
        (writer, number, position, 0, 0)
    }

    #[test]
    fn all_in_order_is_nothing_to_speak_of() {
        let seen = [event(1, 0, 5), event(2, 0, 6), event(1, 2, 9)];
        let verdict = verdict(&[(1, 0), (2, 0), (1, 2)], &seen);
        assert_eq!(verdict, Verdict { acknowledged: 3, ..Verdict::default() });
    }

    #[test]
    fn what_was_rolled_back_is_not_missed_and_what_was_acknowledged_is() {
        let verdict = verdict(&[(1, 0), (1, 2)], &[event(1, 0, 5)]);
        assert_eq!(verdict, Verdict { acknowledged: 2, lost: 1, ..Verdict::default() });
    }

    #[test]
    fn a_later_number_before_an_earlier_one_is_out_of_order() {
        let all = [(1, 0), (1, 1), (2, 0)];
        let by_position = verdict(&all, &[event(1, 0, 5), event(2, 0, 7), event(1, 1, 6)]);
        assert_eq!((by_position.out_of_order, by_position.lost), (1, 0));
        let by_writer = verdict(&all, &[event(1, 1, 0), event(2, 0, 0), event(1, 0, 0)]);
        assert_eq!((by_writer.out_of_order, by_writer.lost), (1, 0));
    }

    #[test]
    fn twice_is_doubled_and_not_out_of_order_besides() {
        let verdict = verdict(&[(1, 0), (1, 1)], &[event(1, 0, 5), event(1, 1, 6), event(1, 0, 5)]);
        assert_eq!(verdict, Verdict { acknowledged: 2, doubled: 1, ..Verdict::default() });
    }
}
