//! Numbers, times and texts as people read them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use highwater::transfer::Counts;

/// `1,234,567`.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 event`, `1,200 events`.
pub(crate) fn count(many: u64, what: &str) -> String {
    let plural = if many == 1 { "" } else { "s" };
    format!("{} {what}{plural}", number(many))
}

/// What a store holds.
pub(crate) fn contents(counts: &Counts) -> String {
    let mut parts = vec![count(counts.events, "event"), count(counts.checkpoints, "checkpoint")];
    for (many, what) in [(counts.dead_letters, "dead letter"), (counts.requests, "open request")] {
        if many > 0 {
            parts.push(count(many, what));
        }
    }
    let last = parts.pop().unwrap_or_default();
    format!("{} and {last}", parts.join(", "))
}

/// What is to be done where a store with subscribers was filled.
pub(crate) fn read_models(counts: &Counts) -> Option<&'static str> {
    let said = "read models are no part of it: rebuild each projection's by `highwater rebuild NAME`";
    (counts.checkpoints > 0).then_some(said)
}

/// The two largest units, and no more than can be read at a glance.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{seconds} s"),
        60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds / 60 % 60, "min"),
        _ => two(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

fn two(large: u64, unit: &str, small: u64, smaller: &str) -> String {
    if small == 0 { format!("{large} {unit}") } else { format!("{large} {unit} {small} {smaller}") }
}

/// A time in UTC, to the second.
pub(crate) fn time(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// A time as programs read it.
pub(crate) fn exact(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true)
}

/// How long ago something was; times in the future, by another machine's clock, are now.
pub(crate) fn since(at: DateTime<Utc>) -> Duration {
    (Utc::now() - at).to_std().unwrap_or_default()
}

/// Events a second.
pub(crate) fn rate(rate: f64) -> String {
    if rate == 0.0 {
        "0/s".to_owned()
    } else if rate < 10.0 {
        format!("{rate:.1}/s")
    } else {
        format!("{}/s", number(rate.round() as u64))
    }
}

/// A text without anything that could move the cursor or break a line: it may come from any source.
pub(crate) fn one_line(text: &str) -> String {
    // Text that reverses the order of what is shown can change its meaning.
    let bad = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(bad) {
        return text.to_owned();
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if bad(c) {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// The library's errors for programs, reworded for users at a shell.
pub(crate) fn for_the_shell(text: &str) -> String {
    text.replace("call initialize()", "run `highwater init`")
        .replace("remove() it", "remove it (`highwater subscribers remove`)")
        .replace("set allow_network_file_system", "say --force-network-file-system")
}

/// A word as a shell takes it, to be pasted.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let numbers = [0, 999, 1_000, 1_234_567].map(number);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!((count(1, "event"), count(2_000, "event")), ("1 event".to_owned(), "2,000 events".to_owned()));
    }

    #[test]
    fn words_are_quoted_for_a_shell_where_they_need_it() {
        let words = ["projection:a", "a b", "it's", "$(x)", ""].map(quoted);
        assert_eq!(words, ["projection:a", "'a b'", r"'it'\''s'", "'$(x)'", "''"]);
    }

    #[test]
    fn durations_have_two_units_at_most() {
        let durations = [0, 340, 1_999, 60_000, 61_000, 3_600_000, 90_061_000].map(Duration::from_millis).map(duration);
        assert_eq!(durations, ["0 ms", "340 ms", "1 s", "1 min", "1 min 1 s", "1 h", "1 d 1 h"]);
    }

    #[test]
    fn what_anybody_may_have_written_cannot_steer_the_terminal() {
        assert_eq!(one_line("\u{1b}[2Jgone\n\u{202e}x ü"), "\\u{1b}[2Jgone\\n\\u{202e}x ü");
    }
}
