//! What was seen lately, for the plots.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use highwater::operations::Overview;

/// Looks that are kept.
const LOOKS_MAX: usize = 120;
/// From nothing to the highest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The last looks.
#[derive(Default)]
pub(super) struct History {
    /// Events appended a second.
    pub(super) appended: Series,
    subscribers: HashMap<String, Pair>,
    before: Option<(Instant, u64)>,
}

/// Of one subscriber.
#[derive(Default)]
pub(super) struct Pair {
    pub(super) rate: Series,
    pub(super) lag: Series,
}

/// Numbers, the newest last.
#[derive(Default)]
pub(crate) struct Series(VecDeque<f64>);

impl History {
    pub(super) fn add(&mut self, overview: &Overview) {
        let now = Instant::now();
        if let Some((then, head)) = self.before.replace((now, overview.head)) {
            let seconds = (now - then).as_secs_f64().max(0.001);
            self.appended.add(overview.head.saturating_sub(head) as f64 / seconds);
        }
        self.subscribers.retain(|id, _| overview.subscribers.iter().any(|known| known.subscriber_id == *id));
        for subscriber in &overview.subscribers {
            let pair = self.subscribers.entry(subscriber.subscriber_id.clone()).or_default();
            pair.rate.add(subscriber.rate);
            pair.lag.add(subscriber.lag_events as f64);
        }
    }

    pub(super) fn of(&self, subscriber_id: &str) -> Option<&Pair> {
        self.subscribers.get(subscriber_id)
    }
}

impl Series {
    pub(crate) fn add(&mut self, number: f64) {
        if self.0.len() == LOOKS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(number);
    }

    pub(super) fn last(&self) -> f64 {
        self.0.back().copied().unwrap_or_default()
    }

    /// The newest numbers as bars, against the highest of them.
    pub(crate) fn plot(&self, width: usize) -> String {
        let shown = self.0.iter().skip(self.0.len().saturating_sub(width));
        let highest = shown.clone().copied().fold(0.0, f64::max);
        let bar = |number: &f64| {
            let height = if highest > 0.0 { number / highest * (BARS.len() - 1) as f64 } else { 0.0 };
            // What is there at all is seen.
            BARS[(height.ceil() as usize).min(BARS.len() - 1)]
        };
        let plot: String = shown.map(bar).collect();
        format!("{plot:>width$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_are_against_the_highest_and_end_with_the_newest() {
        let mut series = Series::default();
        assert_eq!(series.plot(3), "   ");
        for number in [0.0, 1.0, 500.0, 1000.0] {
            series.add(number);
        }
        assert_eq!(series.plot(6), "  ▁▂▅█");
        assert_eq!(series.plot(2), "▅█");
        (0..2 * LOOKS_MAX).for_each(|_| series.add(0.0));
        assert_eq!((series.0.len(), series.plot(2)), (LOOKS_MAX, "▁▁".to_owned()));
    }
}
