//! Whether anything was happening at a time, without looking at everything that ever was.

/// Spans of time.
#[derive(Debug)]
pub(super) struct Spans {
    /// By their beginning: with the latest end of all up to here.
    spans: Vec<(u64, u64)>,
}

impl Spans {
    pub(super) fn new(spans: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut spans: Vec<_> = spans.collect();
        spans.sort_unstable();
        let mut latest = 0;
        for (_, to) in &mut spans {
            latest = latest.max(*to);
            *to = latest;
        }
        Self { spans }
    }

    /// Whether one of them has a moment in common with this one.
    pub(super) fn touch(&self, from: u64, to: u64) -> bool {
        let begun = self.spans.partition_point(|span| span.0 <= to);
        begun.checked_sub(1).is_some_and(|last| self.spans[last].1 >= from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_span_is_found_behind_short_ones() {
        let spans = Spans::new([(50, 60), (10, 100), (20, 30)].into_iter());
        assert!(spans.touch(90, 95) && spans.touch(100, 200) && spans.touch(0, 10) && spans.touch(40, 41));
        assert!(!spans.touch(0, 9) && !spans.touch(101, 200));
        assert!(!Spans::new(std::iter::empty()).touch(0, u64::MAX));
    }
}
