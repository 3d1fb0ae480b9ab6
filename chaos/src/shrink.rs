//! From a schedule that breaks a promise to a shorter one that still does.

use std::future::Future;
use std::time::{Duration, Instant};

use highwater::BoxError;

use crate::schedule::{Schedule, Step};

/// Real processes do not do the same thing twice: a schedule counts as harmless after so many runs without a violation.
pub const TRIES: u32 = 2;

/// Leaves out whatever can be left out, until nothing can or the time is over. `breaks` runs a schedule and says whether it
/// still breaks the promise in question.
///
/// # Errors
/// When a run could not be made.
pub async fn shrink<F>(
    schedule: &Schedule,
    limit: Duration,
    mut breaks: impl FnMut(Schedule) -> F,
) -> Result<Schedule, BoxError>
where
    F: Future<Output = Result<bool, BoxError>>,
{
    let started = Instant::now();
    let mut shortest = schedule.clone();
    let mut size = shortest.steps.len().div_ceil(2);
    while size > 0 {
        let mut from = 0;
        while from < shortest.steps.len() {
            let mut shorter = shortest.clone();
            shorter.steps.drain(from..(from + size).min(shortest.steps.len()));
            if started.elapsed() > limit {
                return Ok(shortest);
            }
            if !shorter.steps.is_empty() && still_breaks(&shorter, &mut breaks).await? {
                shortest = shorter;
            } else {
                from += size;
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    for n in 0..shortest.steps.len() {
        let Step { rest_millis, faults } = shortest.steps[n].clone();
        for fault in faults.iter().filter(|_| faults.len() > 1) {
            let mut shorter = shortest.clone();
            shorter.steps[n] = Step { rest_millis, faults: vec![fault.clone()] };
            if started.elapsed() <= limit && still_breaks(&shorter, &mut breaks).await? {
                shortest = shorter;
                break;
            }
        }
    }
    Ok(shortest)
}

async fn still_breaks<F>(schedule: &Schedule, breaks: &mut impl FnMut(Schedule) -> F) -> Result<bool, BoxError>
where
    F: Future<Output = Result<bool, BoxError>>,
{
    for _ in 0..TRIES {
        if breaks(schedule.clone()).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Fault, Store};

    /// A promise that is broken by a kill of instance 2 after a promotion, whatever else is done.
    fn is_broken(schedule: &Schedule) -> bool {
        let faults: Vec<&Fault> = schedule.steps.iter().flat_map(|step| &step.faults).collect();
        let promoted = faults.iter().position(|fault| matches!(fault, Fault::Promote));
        let killed = faults.iter().rposition(|fault| matches!(fault, Fault::Kill { instance: 2, .. }));
        promoted.zip(killed).is_some_and(|(promoted, killed)| promoted < killed)
    }

    #[tokio::test]
    async fn what_is_left_is_what_it_takes() {
        let schedule = Schedule::draw(11, Store::Postgres, 30.0, &[]);
        assert!(is_broken(&schedule) && schedule.faults() > 300, "{}", schedule.faults());
        let run = |schedule: Schedule| async move { Ok(is_broken(&schedule)) };
        let shrunk = shrink(&schedule, Duration::from_secs(60), run).await.unwrap();
        assert!(is_broken(&shrunk));
        assert_eq!(shrunk.faults(), 2, "{shrunk}");
    }

    #[tokio::test]
    async fn without_time_it_stays_as_it_is() {
        let schedule = Schedule::draw(11, Store::Postgres, 1.0, &[]);
        let run = |_| async { panic!("there is no time for that") };
        assert_eq!(shrink(&schedule, Duration::ZERO, run).await.unwrap(), schedule);
    }
}
