//! Below which number nothing can appear any more.
//!
//! A transaction takes the sequence's lock before it draws a number and keeps it to its end. So a transaction that does not
//! hold the lock at some moment will only ever draw numbers above where the sequence stood by then. From a series of
//! observations, each of which first reads the sequence and then the holders of its lock, follows for every holder a
//! **floor**: a number that all of its own numbers lie above. The lowest floor is settled. When no transaction holds the
//! lock, everything drawn so far is.
//!
//! Pure: no clock, no connection. It begins with what is known to be settled; floors live and die with
//! the one connection its observations are made on, because after a crash or a failover numbers may be issued again.
//!
//! ```text
//! sequence     100          120             150
//! holders      {a}          {a, b}          {b}
//! floors       a: unknown   a: unknown      b: 100    (b did not hold the lock when the sequence stood at 100)
//! settled      0            0               100
//! ```

use std::collections::HashMap;

/// What a series of observations says about the numbers of the log.
#[derive(Debug, Default)]
pub(crate) struct Frontier {
    settled: u64,
    /// Where the sequence stood at the observation before.
    previous: Option<u64>,
    /// Per transaction that holds the lock, by its virtual transaction id.
    floors: HashMap<String, u64>,
}

impl Frontier {
    /// Begins where everything is known to be settled.
    pub(crate) fn starting_at(settled: u64) -> Self {
        Self { settled, ..Self::default() }
    }

    /// Records an observation: `last_value` must have been read before `holders`, in a separate statement. Returns the
    /// number up to which everything is settled for statements that begin from now on.
    pub(crate) fn observe(&mut self, last_value: u64, holders: Vec<String>) -> u64 {
        let newcomer = self.previous.unwrap_or(0).max(self.settled);
        let before = std::mem::take(&mut self.floors);
        self.floors = holders
            .into_iter()
            .map(|holder| {
                let floor = before.get(&holder).copied().unwrap_or(newcomer);
                (holder, floor)
            })
            .collect();
        self.previous = Some(last_value);
        self.floors.values().copied().min().unwrap_or(last_value)
    }

    /// Moves the frontier to a number that is settled *and* committed: numbers after the last committed event may be
    /// issued again after a crash, so it never passes that.
    pub(crate) fn settle(&mut self, number: u64) {
        self.settled = self.settled.max(number);
    }

    pub(crate) fn settled(&self) -> u64 {
        self.settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holders(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn without_holders_everything_drawn_is_settled() {
        assert_eq!(Frontier::default().observe(100, vec![]), 100);
    }

    #[test]
    fn what_was_settled_before_stays_so_whatever_is_open() {
        let mut frontier = Frontier::starting_at(80);
        assert_eq!(frontier.observe(100, holders(&["a"])), 80);
        assert_eq!(frontier.observe(100, vec![]), 100);
    }

    #[test]
    fn a_holder_of_unknown_age_may_have_drawn_anything() {
        let mut frontier = Frontier::default();
        assert_eq!(frontier.observe(100, holders(&["a"])), 0);
        assert_eq!(frontier.observe(120, holders(&["a"])), 0);
    }

    #[test]
    fn the_end_of_those_seen_settles_what_was_drawn_when_they_were_seen_though_others_came() {
        let mut frontier = Frontier::default();
        frontier.observe(100, holders(&["a"]));
        assert_eq!(frontier.observe(120, holders(&["a", "b"])), 0);
        assert_eq!(frontier.observe(150, holders(&["b"])), 100);
        assert_eq!(frontier.observe(160, holders(&["c"])), 150);
        assert_eq!(frontier.observe(160, vec![]), 160);
    }

    #[test]
    fn a_holder_keeps_its_floor_for_as_long_as_it_holds() {
        let mut frontier = Frontier::default();
        frontier.observe(10, vec![]);
        assert_eq!(frontier.observe(20, holders(&["a"])), 10);
        for last_value in [30, 40, 50] {
            assert_eq!(frontier.observe(last_value, holders(&["a", "b"])), 10);
        }
        assert_eq!(frontier.observe(60, holders(&["b"])), 20);
    }

    #[test]
    fn what_is_settled_stays_settled() {
        let mut frontier = Frontier::default();
        frontier.settle(50);
        frontier.settle(40);
        assert_eq!(frontier.settled(), 50);
    }

    /// Random histories of writers that lock, draw and end, and of observations in two steps with anything in between.
    /// Returns the first seed for which something open had a number at or below what was called settled.
    fn first_violation(holders_first: bool) -> Option<u64> {
        (0..2_000).find(|seed| {
            let mut random = fastrand::Rng::with_seed(*seed);
            let (mut sequence, mut name) = (0_u64, 0_u32);
            let mut open: Vec<(String, u64)> = Vec::new(); // its lowest number; u64::MAX: locked, not drawn
            let names = |open: &[(String, u64)]| open.iter().map(|o| o.0.clone()).collect::<Vec<_>>();
            let mut frontier = Frontier::default();
            let mut first_step: Option<(u64, Vec<String>)> = None;
            let mut violated = false;
            for _ in 0..60 {
                match random.u32(0..6) {
                    0 => {
                        name += 1;
                        open.push((name.to_string(), u64::MAX));
                    }
                    1 | 2 if !open.is_empty() => {
                        sequence += 1;
                        let at = random.usize(0..open.len());
                        open[at].1 = open[at].1.min(sequence);
                    }
                    3 if !open.is_empty() => {
                        let ended = random.usize(0..open.len());
                        open.swap_remove(ended);
                    }
                    4 => first_step = Some((sequence, names(&open))),
                    _ => {
                        if let Some((last_value, holders)) = first_step.take() {
                            let bound = match holders_first {
                                false => frontier.observe(last_value, names(&open)),
                                true => frontier.observe(sequence, holders),
                            };
                            violated |= open.iter().any(|(_, lowest)| *lowest <= bound);
                            frontier.settle(bound);
                        }
                    }
                }
            }
            violated
        })
    }

    #[test]
    fn no_open_transaction_ever_has_a_number_at_or_below_the_frontier() {
        assert_eq!(first_violation(false), None);
    }

    #[test]
    fn looking_at_the_holders_before_the_sequence_would_lose_events() {
        assert!(first_violation(true).is_some());
    }
}
