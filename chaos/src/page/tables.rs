//! The figures of a run, and everything that was done to it.

use highwater_pages::{number, text_table};

use super::axis::Axis;
use crate::evidence::Evidence;
use crate::summary::{Summary, span};

/// What to know when nothing else is read.
pub(super) fn cards(summary: &Summary) -> String {
    let caught_up = summary.caught_up_seconds.map_or("never".to_owned(), |seconds| format!("{seconds:.1} s"));
    let slowest = summary.takeovers.values().map(|times| times.max).max_by(f64::total_cmp);
    let slowest = slowest.map_or("–".to_owned(), |seconds| format!("{seconds:.1} s"));
    let dead_letters: Vec<String> =
        summary.dead_letters.iter().map(|(state, count)| format!("{} {state}", number(count))).collect();
    let dead_letters = if dead_letters.is_empty() {
        "dead letters".to_owned()
    } else {
        format!("dead letters: {}", dead_letters.join(", "))
    };
    let all: u64 = summary.dead_letters.values().sum();
    let cards = [
        (number(summary.events), "events in the log".to_owned()),
        (
            number(summary.acknowledged),
            format!(
                "appends acknowledged of {}; {:.0} a second, in {:.0} % of all seconds",
                number(summary.appends),
                summary.appends_per_second,
                summary.load_held * 100.0
            ),
        ),
        (caught_up, "after the last fault until all had caught up; 15 s are allowed".to_owned()),
        (slowest, "the slowest takeover".to_owned()),
        (number(summary.delivered_twice), "effects that came again, which is allowed after a takeover".to_owned()),
        (number(all), dead_letters),
        (number(summary.rebuilds), "rebuilds under load".to_owned()),
    ];
    highwater_pages::cards(&cards.map(|(figure, text)| ("", figure, text)))
}

/// Faults by kind, and how long takeovers took after them.
pub(super) fn faults(summary: &Summary) -> String {
    let rows: Vec<Vec<String>> = summary
        .faults
        .iter()
        .map(|(kind, faults)| {
            let mut row = vec![kind.clone(), number(faults.count), number(faults.failed)];
            match summary.takeovers.get(kind) {
                Some(times) => {
                    row.push(number(times.count));
                    row.extend([times.median, times.p99, times.max].map(|seconds| format!("{seconds:.2} s")));
                }
                None => row.extend(["–"; 4].map(str::to_owned)),
            }
            row
        })
        .collect();
    let head = ["fault", "#count", "#not done", "#takeovers", "#median", "#p99", "#max"];
    let note = "<p class=\"soft\">A takeover counts from the beginning of the fault to the first effect by another instance.</p>\n";
    text_table("Faults by kind", &head, &rows) + note
}

/// Every fault, in the order of the schedule.
pub(super) fn schedule(evidence: &Evidence) -> String {
    let axis = Axis::new(span(evidence));
    let rows: Vec<Vec<String>> = evidence
        .faults
        .iter()
        .map(|fault| {
            let seconds = fault.to.saturating_sub(fault.from) as f64 / 1e6;
            let what = match &fault.failed {
                Some(why) => format!("{} (not done: {why})", fault.what),
                None => fault.what.clone(),
            };
            vec![fault.n.to_string(), axis.time(fault.from), format!("{seconds:.1} s"), fault.kind.clone(), what]
        })
        .collect();
    let head = ["#", "#at", "#for", "fault", "what"];
    format!("<details><summary>{} faults</summary>\n{}</details>\n", rows.len(), text_table("Schedule", &head, &rows))
}
