//! A, B and C: appending one event, appending a hundred, loading a stream.

use driver::{Answer, Ask};

use super::contest::{Case, Contest};
use super::results::{Row, Scenario};
use crate::Error;

pub(super) const ONE: [usize; 4] = [1, 8, 32, 256];
pub(super) const MANY: [usize; 2] = [1, 8];
/// Events of an append in B.
const EVENTS: usize = 100;
/// Events of the stream in C.
const STREAM: usize = 1_000;
/// How long each runs before it is measured, in seconds.
const WARM_UP: f64 = 0.3;

pub(super) async fn one(contest: &mut Contest<'_>) -> Result<Scenario, Error> {
    let cases = ONE.map(|callers| (plural(callers), append(callers, 1)));
    scenario(contest, "A", "Append one event to a new stream", &cases).await
}

pub(super) async fn many(contest: &mut Contest<'_>) -> Result<Scenario, Error> {
    let cases = MANY.map(|callers| (plural(callers), append(callers, EVENTS)));
    scenario(contest, "B", "Append 100 events to a new stream in one call", &cases).await
}

pub(super) async fn load(contest: &mut Contest<'_>) -> Result<Scenario, Error> {
    let load: Question = Box::new(|seconds| Ask::Load { events: STREAM, seconds });
    scenario(contest, "C", "Load a stream of 1,000 events", &[("1 caller".to_owned(), load)]).await
}

fn plural(callers: usize) -> String {
    format!("{callers} caller{}", if callers == 1 { "" } else { "s" })
}

/// A question that takes so many seconds.
type Question = Box<dyn Fn(f64) -> Ask + Send + Sync>;

fn append(callers: usize, events: usize) -> Question {
    Box::new(move |seconds| Ask::Append { callers, events, seconds })
}

async fn scenario(
    contest: &mut Contest<'_>,
    id: &str,
    title: &str,
    cases: &[(String, Question)],
) -> Result<Scenario, Error> {
    let entrants = contest.field.entrants.clone();
    let entrants: Vec<_> = entrants.into_iter().filter(|one| !one.is_raw_at_its_best()).collect();
    let mut stalls = contest.stalls(&id.to_lowercase(), &entrants, false).await?;
    let (rounds, seconds) = (contest.sizes.rounds, contest.sizes.seconds);
    let mut rows = Vec::new();
    for (name, question) in cases {
        let case = Case { name, unit: "events/s", higher_is_better: true };
        let mut measured: Vec<Row> = entrants.iter().map(|entrant| case.row(entrant)).collect();
        contest.settle().await?;
        for round in 0..=rounds {
            for (entrant, row) in entrants.iter().zip(&mut measured) {
                if round > 0 {
                    contest.progress.step(&format!("{id} · {name} · {} · round {round}", entrant.id));
                }
                let answer = stalls.ask(entrant, question(if round == 0 { WARM_UP } else { seconds })).await;
                note(row, answer, round);
            }
        }
        rows.extend(measured);
    }
    contest.clear(stalls).await?;
    let sizes = format!("{rounds} rounds of {seconds} s for each, by turns, after {WARM_UP} s of warming up");
    Ok(Scenario { id: id.to_owned(), title: title.to_owned(), sizes, rows })
}

/// The first round is the warm-up.
fn note(row: &mut Row, answer: Result<Answer, String>, round: usize) {
    match answer {
        Ok(answer) if answer.events == 0 => {
            row.samples.clear();
            row.note = Some(format!("failed: {}", answer.failure.unwrap_or("nothing was done".to_owned())));
        }
        Ok(answer) if round > 0 => {
            row.samples.push(answer.events as f64 / answer.seconds);
            if answer.failed > 0 {
                let failure = answer.failure.unwrap_or_default();
                row.note = Some(format!("{} calls failed in a round: {failure}", answer.failed));
            }
        }
        Ok(_) => {}
        Err(reason) => {
            row.samples.clear();
            row.note = Some(reason);
        }
    }
}
