//! Random histories: operations that are run against a store, and answers that can be judged.
//!
//! - One after the other: [`sequential`] makes operations from a seed and [`run`] turns them into a [`Transcript`] in
//!   which nothing depends on the numbers a backend happens to draw, so that two backends can be compared.
//! - At once: [`concurrent`] has many tasks at work on the same streams and then looks for an order in which every
//!   answer they got makes sense.

mod concurrent;
mod draft;
mod explain;
mod generate;
mod run;

use highwater::backend::{Direction, ReadLimit, Record};
use highwater::{Append, Appended, EventTypes, Filter};
use uuid::Uuid;

pub use concurrent::concurrent;
pub use generate::sequential;
pub use run::run;

/// One call.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Stores something new, something known, something half known or something bad.
    Append(Append),
    /// Reads a stream in pages.
    ReadStream {
        /// The stream.
        stream_id: Uuid,
        /// The first version to read.
        from: u64,
        /// Which way.
        direction: Direction,
        /// How many events of the log to leave out.
        skip: usize,
        /// Which types.
        types: EventTypes,
        /// How much a page may hold.
        limit: ReadLimit,
    },
    /// Reads everything in pages.
    ReadAll {
        /// How many events of the log to leave out.
        skip: usize,
        /// How many events to read at most.
        take: usize,
        /// Which of them.
        filter: Filter,
        /// How much a page may hold.
        limit: ReadLimit,
    },
    /// Asks for the head.
    Head,
}

/// What came of a call. Every `global_sequence` in it is a rank: 1 for the first event of the log, 2 for the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was stored there.
    Appended(Appended),
    /// It was refused, for this reason. A conflict that tells the truth is just that: with several streams in conflict
    /// it is up to the backend which of them it names.
    Refused(String),
    /// These were read, wherever the pages ended.
    Records(Vec<Record>),
    /// The head.
    Head(u64),
}

/// The answers to a list of operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript(pub Vec<Answer>);

impl Transcript {
    /// Where two transcripts first differ.
    #[must_use]
    pub fn first_difference(&self, other: &Self) -> Option<usize> {
        let common = self.0.iter().zip(&other.0).position(|(a, b)| a != b);
        common.or_else(|| (self.0.len() != other.0.len()).then(|| self.0.len().min(other.0.len())))
    }
}

#[cfg(test)]
mod tests {
    use highwater::MemoryEventStore;

    use super::*;

    async fn transcript(seed: u64, operations: usize) -> Transcript {
        run(&MemoryEventStore::new(), &sequential(seed, operations)).await
    }

    #[tokio::test]
    async fn a_seed_gives_the_same_history_every_time() {
        assert_eq!(transcript(7, 300).await, transcript(7, 300).await);
        assert_ne!(transcript(7, 300).await, transcript(8, 300).await);
    }

    #[tokio::test]
    async fn a_history_holds_everything_that_can_happen() {
        let answers = transcript(1, 1_000).await.0;
        let count = |kind: &dyn Fn(&Answer) -> bool| answers.iter().filter(|answer| kind(answer)).count();
        let refused =
            |text: &'static str| count(&|answer| matches!(answer, Answer::Refused(reason) if reason.contains(text)));
        let repeated =
            |wanted: bool| count(&|answer| matches!(answer, Answer::Appended(done) if done.repeated == wanted));
        assert!(repeated(false) > 300, "{}", repeated(false));
        assert!(repeated(true) > 30, "{}", repeated(true));
        assert!(refused("a conflict, as it is") > 100, "{}", refused("a conflict, as it is"));
        for reason in ["another stream", "another event type", "another payload", "of the append's", "invalid input"] {
            assert!(refused(reason) > 3, "{reason}: {}", refused(reason));
        }
        assert!(count(&|answer| matches!(answer, Answer::Records(records) if records.len() > 5)) > 50);
        assert!(count(&|answer| matches!(answer, Answer::Head(head) if *head > 0)) > 10);
    }

    #[test]
    fn the_first_difference_is_found_also_at_the_end() {
        let (short, long) = (vec![Answer::Head(1)], vec![Answer::Head(1), Answer::Head(2)]);
        let other = Transcript(vec![Answer::Head(3)]);
        let (short, long) = (Transcript(short), Transcript(long));
        assert_eq!(short.first_difference(&short.clone()), None);
        assert_eq!(short.first_difference(&long), Some(1));
        assert_eq!(long.first_difference(&other), Some(0));
    }
}
