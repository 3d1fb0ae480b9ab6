//! What differs from run to run is shown as what it is: ids, times, durations, processes.

/// Replaces ids, times, durations and process ids.
pub fn redact(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        // A number in the middle of a word is a part of it.
        let found =
            if before.is_alphanumeric() { None } else { uuid(rest).or_else(|| time(rest)).or_else(|| quantity(rest)) };
        match found {
            Some((length, name)) => {
                plain.push_str(name);
                rest = &rest[length..];
                before = ']';
            }
            None => {
                plain.push(c);
                rest = &rest[c.len_utf8()..];
                before = c;
            }
        }
    }
    plain
}

fn uuid(text: &str) -> Option<(usize, &'static str)> {
    let fits = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    let id = text.as_bytes().get(..36)?;
    id.iter().copied().enumerate().all(fits).then_some((36, "[uuid]"))
}

/// `2026-11-15 13:43:12Z`, `2026-11-15T13:43:12.051503Z`, `2026-11-15 13:43:12 UTC`.
fn time(text: &str) -> Option<(usize, &'static str)> {
    let form = "0000-00-00_00:00:00";
    let fits = |(wanted, byte): (u8, u8)| match wanted {
        b'0' => byte.is_ascii_digit(),
        b'_' => byte == b' ' || byte == b'T',
        wanted => byte == wanted,
    };
    let start = text.as_bytes().get(..form.len())?;
    if !form.bytes().zip(start.iter().copied()).all(fits) {
        return None;
    }
    let rest = &text[form.len()..];
    let fraction = rest.len() - rest.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit()).len();
    let zone = ["Z", " UTC", "+00:00"].iter().find(|zone| rest[fraction..].starts_with(**zone))?;
    Some((form.len() + fraction + zone.len(), "[time]"))
}

/// `340 ms`, `1 min 5 s`, `1.2s`, `pid 4242`.
fn quantity(text: &str) -> Option<(usize, &'static str)> {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    for (name, redacted) in [
        ("pid ", "pid [pid]"),
        ("pid\":", "pid\":[pid]"),
        ("process ", "process [pid]"),
        ("Process ", "Process [pid]"),
        ("term\":", "term\":[term]"),
    ] {
        let number = text.strip_prefix(name).map_or(0, digits);
        if number > 0 {
            return Some((name.len() + number, redacted));
        }
    }
    let length = digits(text);
    let rest = text[length..].strip_prefix(' ').filter(|_| length > 0)?;
    let units = ["ms", "min", "s", "h", "d", "seconds", "second", "minutes", "minute"];
    let ends =
        |unit: &&&str| rest.starts_with(**unit) && !rest[unit.len()..].starts_with(|c: char| c.is_alphanumeric());
    let unit = units.iter().find(ends)?;
    let whole = length + 1 + unit.len();
    // Two units are one duration.
    let second = text[whole..].strip_prefix(' ').and_then(quantity).filter(|(_, name)| *name == "[duration]");
    Some((whole + second.map_or(0, |(length, _)| length + 1), "[duration]"))
}

#[test]
fn what_differs_is_redacted_and_nothing_else() {
    let text = "a 0198b0a4-7f5e-7c3c-9d2e-3f1f6a0c1b2d at 2026-11-15 13:43:12Z (2026-11-15T13:43:12.051503Z) for 1 min 5 s, \
        340 ms, pid 42, 17 events, v1 s";
    let redacted = "a [uuid] at [time] ([time]) for [duration], [duration], pid [pid], 17 events, v1 s";
    assert_eq!(redact(text), redacted);
}
