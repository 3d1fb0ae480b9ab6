//! Rows that nothing of ours has written: what every backend says of them alike.

use super::{Finding, Severity};

const TOPIC: &str = "rows";

/// For backends: what is to be done about rows that were damaged, or changed by hand. Each is its kind ("event", "stream",
/// "checkpoint", "term", "dead letter", "request", "report"), which one it is, and what is wrong with it.
#[must_use]
pub fn diagnose_rows(damaged: Vec<(String, String, String)>) -> Vec<Finding> {
    if damaged.is_empty() {
        return vec![Finding::good(TOPIC, "every one that was looked at is as it was written")];
    }
    damaged.into_iter().map(|(kind, which, wrong)| finding(&kind, &which, &wrong)).collect()
}

fn finding(kind: &str, which: &str, wrong: &str) -> Finding {
    let (severity, advice) = match kind {
        "event" | "stream" => (
            Severity::Bad,
            "restore a backup, or fix the row by hand while nothing writes; no operator may change events by hand",
        ),
        "checkpoint" => (Severity::Bad, "stop its leader, and set its checkpoint, or delete the row"),
        "term" => (Severity::Bad, "while no instance processes, set it to the highest term of any checkpoint"),
        "dead letter" => (Severity::Warning, "it cannot be replayed: discard it, or restore what is missing"),
        "request" => (Severity::Warning, "no instance can carry it out: delete the row, and request it again"),
        _ => (Severity::Note, "it counts as not said; the leader says it anew, or delete the row"),
    };
    Finding::advised(severity, TOPIC, format!("{kind} {which}: {wrong}"), advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_decide_something_weigh_more_than_those_that_inform() {
        assert_eq!(diagnose_rows(Vec::new())[0].severity, Severity::Good);
        let severity = |kind: &str| finding(kind, "7", "it is torn").severity;
        assert_eq!(["event", "stream", "checkpoint", "term"].map(severity), [Severity::Bad; 4]);
        assert_eq!(["dead letter", "request"].map(severity), [Severity::Warning; 2]);
        assert_eq!(severity("report"), Severity::Note);
        assert_eq!(finding("event", "7", "it is torn").found, "event 7: it is torn");
    }
}
