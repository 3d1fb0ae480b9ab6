//! How people give a time.

use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeDelta, Utc};

/// A time: `2026-11-15`, `2026-11-15T08:00:00Z`, or how long ago: `90s`, `30m`, `2h`, `7d`.
pub(crate) fn parse(text: &str) -> Result<DateTime<Utc>, String> {
    parse_at(text, Utc::now())
}

fn parse_at(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, String> {
    let ago = || {
        let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let number: i64 = number.parse().ok().filter(|number| *number >= 0)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return None,
        };
        now.checked_sub_signed(TimeDelta::try_seconds(number.checked_mul(seconds)?)?)
    };
    let date = || Some(text.parse::<NaiveDate>().ok()?.and_hms_opt(0, 0, 0)?.and_utc());
    let exact = || Some(DateTime::parse_from_rfc3339(text).ok()?.to_utc());
    let bare = || {
        let forms = ["%Y-%m-%d %H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"];
        forms.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok()).map(|time| time.and_utc())
    };
    ago().or_else(date).or_else(exact).or_else(bare).ok_or_else(|| {
        "a time is a date (2026-11-15), a time in UTC (2026-11-15T08:00:00Z), or how long ago (30m, 2h, 7d)".to_owned()
    })
}

/// A number of seconds, up to a day.
pub(crate) fn seconds() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(..=86_400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_moments_or_how_long_ago() {
        let now: DateTime<Utc> = "2026-11-15T12:00:00Z".parse().unwrap();
        for (text, wanted) in [
            ("2h", "2026-11-15T10:00:00Z"),
            ("7d", "2026-11-08T12:00:00Z"),
            ("2026-11-01", "2026-11-01T00:00:00Z"),
            ("2026-11-01T08:00:00+02:00", "2026-11-01T06:00:00Z"),
            ("2026-11-01 08:00:30Z", "2026-11-01T08:00:30Z"),
        ] {
            assert_eq!(parse_at(text, now), Ok(wanted.parse().unwrap()), "{text}");
        }
        for bad in ["", "h", "-2h", "yesterday", "9223372036854775807d", "ü"] {
            assert!(parse_at(bad, now).is_err(), "{bad:?} is no time");
        }
    }
}
