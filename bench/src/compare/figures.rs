//! How figures are written: the same in the terminal, on the page and in the documentation.

use super::results::{Calls, Goal, Ratio, Row};

/// Where nothing was measured.
pub(crate) const NOTHING: &str = "—";

/// `12,345`, `12.3`, `0.123`: about as many digits as say something.
pub(crate) fn number(figure: f64) -> String {
    let decimals = match figure.abs() {
        _ if figure.fract() == 0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{:.decimals$}", figure.abs());
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(whole, part)| (whole, Some(part)));
    let grouped = format!("{}{}", if figure < 0.0 { "-" } else { "" }, highwater_pages::number(whole));
    fraction.map_or(grouped.clone(), |part| format!("{grouped}.{part}"))
}

/// `100k`, `1M`: for axes and headings, where there is little room.
pub(crate) fn short(figure: f64) -> String {
    let (part, letter) = match figure.abs() {
        size if size >= 1e9 => (1e9, "G"),
        size if size >= 1e6 => (1e6, "M"),
        size if size >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let text = number(figure / part);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{letter}")
}

/// The median and how far a round was from it at most: `12,345 ±4%`. Events are counted, so there it is all that was
/// found, `0` or `3 (0–7)`: a percentage of nothing says nothing, and one lost event in one round is one too many.
pub(crate) fn with_spread(row: &Row) -> Option<String> {
    let (median, (lowest, highest)) = (row.median()?, row.spread()?);
    if lowest == highest {
        return Some(number(median));
    }
    if counted(row) || median == 0.0 {
        return Some(format!("{} ({}–{})", number(median), number(lowest), number(highest)));
    }
    let percent = (highest - median).max(median - lowest) / median.abs() * 100.0;
    Some(format!("{} ±{}%", number(median), if percent < 1.0 { "<1".to_owned() } else { format!("{percent:.0}") }))
}

fn counted(row: &Row) -> bool {
    row.unit == "events"
}

/// `11,900–12,800`: where the rounds were.
pub(crate) fn range(row: &Row) -> Option<String> {
    let (lowest, highest) = row.spread()?;
    if lowest == highest { Some(number(lowest)) } else { Some(format!("{}–{}", number(lowest), number(highest))) }
}

/// What a row took, if it was anything but one attempt for each append.
pub(crate) fn calls(row: &Row) -> Option<String> {
    let Calls { attempts, failed, failure, reconnects } = &row.calls;
    let mut told = Vec::new();
    if *failed > 0 {
        let first = failure.as_deref().unwrap_or_default();
        told.push(format!(
            "{} of {} attempts failed, the first with: {first}",
            number(*failed as f64),
            number(*attempts as f64)
        ));
    }
    if *reconnects > 0 {
        told.push(format!("{} connections opened after its first turn", number(*reconnects as f64)));
    }
    (!told.is_empty()).then(|| told.join("; "))
}

/// `1.04 (0.98–1.10)`
pub(crate) fn ratio(ratio: &Ratio) -> String {
    match (ratio.value, ratio.lowest, ratio.highest) {
        (None, ..) => "not measured".to_owned(),
        (Some(value), Some(lowest), Some(highest)) if lowest != highest => {
            format!("{} ({}–{})", two(value), two(lowest), two(highest))
        }
        (Some(value), ..) => two(value),
    }
}

fn two(figure: f64) -> String {
    if figure.abs() >= 100.0 { number(figure) } else { format!("{figure:.2}") }
}

/// `≥ 1`, or nothing.
pub(crate) fn goal(ratio: &Ratio) -> String {
    match ratio.goal {
        Some(Goal::AtLeast(bound)) => format!("≥ {bound}"),
        Some(Goal::AtMost(bound)) => format!("≤ {bound}"),
        None => String::new(),
    }
}

/// What came of its goal: `None` where there is none.
pub(crate) fn verdict(ratio: &Ratio) -> Option<Verdict> {
    let goal = ratio.goal?;
    let Some(value) = ratio.value else { return Some(Verdict::NotMeasured) };
    let noise = 1.0 + ratio.noise.unwrap_or(0.0);
    // As much worse, and as much better, as two equals can be apart.
    Some(match (goal.reached(value / noise), goal.reached(value * noise)) {
        (true, true) => Verdict::Reached,
        (false, false) => Verdict::Missed,
        _ => Verdict::WithinNoise,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Reached,
    Missed,
    /// Two equals are as far apart as this is from its goal.
    WithinNoise,
    NotMeasured,
}

impl Verdict {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Missed => "missed",
            Self::WithinNoise => "within the noise",
            Self::NotMeasured => "not measured",
        }
    }
}

/// `42 s`, `12 min 3 s`, `2 h 5 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(unit: &str, samples: &[f64]) -> Row {
        Row {
            case: "case".to_owned(),
            contestant: "someone".to_owned(),
            unit: unit.to_owned(),
            higher_is_better: true,
            samples: samples.to_vec(),
            note: None,
            distribution: Vec::new(),
            at: None,
            calls: Calls::default(),
        }
    }

    #[test]
    fn nothing_is_reached_or_missed_within_the_noise() {
        let ratio = |value, noise| Ratio {
            name: "a".to_owned(),
            value: Some(value),
            lowest: None,
            highest: None,
            against: String::new(),
            goal: Some(Goal::AtLeast(1.0)),
            noise,
        };
        assert_eq!(verdict(&ratio(1.05, None)), Some(Verdict::Reached));
        assert_eq!(verdict(&ratio(1.05, Some(0.1))), Some(Verdict::WithinNoise));
        assert_eq!(verdict(&ratio(0.95, Some(0.1))), Some(Verdict::WithinNoise));
        assert_eq!(verdict(&ratio(1.2, Some(0.1))), Some(Verdict::Reached));
        assert_eq!(verdict(&ratio(0.8, Some(0.1))), Some(Verdict::Missed));
    }

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        let cases = [(0.0, "0"), (7.0, "7"), (0.1234, "0.123"), (2.345_6, "2.35"), (12.34, "12.3")];
        for (figure, text) in &cases {
            assert_eq!(number(*figure), *text);
        }
        assert_eq!(number(999.6), "1,000");
        assert_eq!([12_345.6, 1_234_567.0, -4_000.0].map(number), ["12,346", "1,234,567", "-4,000"]);
        assert_eq!(
            [100_000.0, 1_000_000.0, 2_500_000.0, 8.0, 1_000.0].map(short),
            ["100k", "1M", "2.5M", "8", "1,000"]
        );
    }

    #[test]
    fn the_spread_is_the_furthest_round_from_the_median() {
        assert_eq!(with_spread(&row("events/s", &[95.0, 100.0, 110.0])).as_deref(), Some("100 ±10%"));
        assert_eq!(with_spread(&row("ms", &[1000.0, 1000.0, 1001.0])).as_deref(), Some("1,000 ±<1%"));
        assert_eq!(with_spread(&row("ms", &[])), None);
    }

    #[test]
    fn an_event_that_one_round_lost_is_seen_though_the_median_is_zero() {
        assert_eq!(with_spread(&row("events", &[0.0, 0.0, 7.0])).as_deref(), Some("0 (0–7)"));
        assert_eq!(with_spread(&row("events", &[0.0, 0.0])).as_deref(), Some("0"));
    }

    #[test]
    fn durations_are_for_people() {
        assert_eq!([4.4, 63.0, 7_500.0].map(duration), ["4 s", "1 min 3 s", "2 h 5 min"]);
    }
}
