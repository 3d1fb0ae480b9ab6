//! Numbers as people read them.

/// A size.
pub(super) fn bytes(count: i64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if count < 1_000 {
        return format!("{count} bytes");
    }
    let mut size = count as f64 / 1e3;
    let mut unit = 0;
    while size >= 1e3 && unit + 1 < UNITS.len() {
        size /= 1e3;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// A time.
pub(super) fn seconds(count: f64) -> String {
    match count {
        short if short < 120.0 => format!("{short:.0} s"),
        middling if middling < 7_200.0 => format!("{:.0} min", middling / 60.0),
        long if long < 172_800.0 => format!("{:.0} h", long / 3_600.0),
        longer => format!("{:.0} days", longer / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units_that_fit() {
        assert_eq!([bytes(999), bytes(1_500), bytes(2_000_000_000)], ["999 bytes", "1.5 kB", "2.0 GB"]);
        assert_eq!([seconds(6.2), seconds(600.0), seconds(1e4), seconds(1e6)], ["6 s", "10 min", "3 h", "12 days"]);
    }
}
