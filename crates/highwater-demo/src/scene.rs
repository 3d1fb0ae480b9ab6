//! What there is to see.

use std::io;
use std::time::Duration;

use crate::Book;

/// Who looks on.
pub trait Audience {
    /// How things are: several times a second.
    ///
    /// # Errors
    /// When it cannot be shown; the demo ends then.
    fn scene(&mut self, scene: &Scene) -> io::Result<()>;

    /// Something has happened.
    ///
    /// # Errors
    /// As [`scene`](Self::scene).
    fn happened(&mut self, at: Duration, what: &Happening) -> io::Result<()>;
}

/// How things are.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// Since the first order.
    pub elapsed: Duration,
    /// For how long orders come in.
    pub total: Duration,
    /// What happens at present.
    pub phase: Phase,
    /// Orders that were accepted.
    pub orders: u64,
    /// The end of the log.
    pub head: u64,
    /// Events stored per second, lately.
    pub throughput: f64,
    /// How far the slowest subscriber is behind, in events.
    pub lag: u64,
    /// Dead letters that are open.
    pub dead_letters: u64,
    /// Whether orders are held back because the shop cannot keep up.
    pub held_back: bool,
    /// The instances.
    pub instances: Vec<InstanceView>,
    /// The subscribers.
    pub subscribers: Vec<SubscriberView>,
}

impl Scene {
    /// Whether everything has been handled, by all.
    #[must_use]
    pub fn is_caught_up(&self) -> bool {
        self.subscribers.iter().all(|subscriber| subscriber.checkpoint.is_some_and(|reached| reached >= self.head))
    }

    /// Who is not, and how far behind.
    pub(crate) fn behind(&self) -> Vec<String> {
        let dead_letters = (self.dead_letters > 0).then(|| format!("{} dead letters are open", self.dead_letters));
        let behind = self.subscribers.iter().filter(|subscriber| subscriber.lag > 0);
        behind
            .map(|subscriber| format!("{} is {} events behind", subscriber.id, subscriber.lag))
            .chain(dead_letters)
            .collect()
    }
}

/// What happens at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Orders come in.
    Orders,
    /// No more orders: what is there is worked off.
    CatchingUp,
}

/// An instance, as it is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceView {
    /// Its number.
    pub number: u32,
    /// Its process.
    pub pid: u32,
    /// What has become of it.
    pub fate: Fate,
    /// The subscribers it leads.
    pub leads: Vec<&'static str>,
}

/// What has become of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It runs.
    Running,
    /// It was killed.
    Killed,
}

/// A subscriber, as it is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriberView {
    /// Its name.
    pub id: &'static str,
    /// What it does, in a word or two.
    pub state: &'static str,
    /// Which instance leads.
    pub leader: Option<u32>,
    /// Where it has got to; none before it was first led.
    pub checkpoint: Option<u64>,
    /// How far it is behind, in events.
    pub lag: u64,
    /// Dead letters that are open.
    pub dead_letters: u64,
}

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// The shop opens.
    Opened {
        /// Where it is.
        place: String,
        /// Its instances, by number and process.
        instances: Vec<(u32, u32)>,
    },
    /// An instance was killed.
    Killed(Killed),
    /// Another instance resumes for a subscriber.
    TakenOver(Takeover),
    /// Bad addresses were repaired.
    Repaired {
        /// How many.
        addresses: u64,
        /// Dead letters that were open then.
        dead_letters: u64,
    },
    /// Dead letters were handed over again.
    Replayed {
        /// And handled.
        done: u64,
        /// And failed again.
        failed: u64,
    },
    /// No more orders.
    Closed {
        /// How many there were.
        orders: u64,
    },
    /// Everything has been handled.
    CaughtUp {
        /// How long that took after the last order.
        after: Duration,
    },
    /// A row was damaged on purpose.
    Corrupted,
}

/// An instance that was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Killed {
    /// Its number.
    pub number: u32,
    /// Its process.
    pub pid: u32,
    /// The subscribers that it led.
    pub led: Vec<&'static str>,
    /// When, in microseconds since 1970: before the signal was sent.
    pub at: i64,
}

/// Another instance took over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Takeover {
    /// For whom.
    pub subscriber_id: &'static str,
    /// Who.
    pub by: u32,
    /// How long it took: from the kill to the time that the next instance wrote down when it was handed its first event.
    pub after: Duration,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Orders that were accepted.
    pub orders: u64,
    /// Events in the log.
    pub events: u64,
    /// From the first order until everything was handled.
    pub took: Duration,
    /// Whether orders were held back because the shop could not keep up with the rate.
    pub held_back: bool,
    /// Who was killed.
    pub killed: Killed,
    /// How others took over.
    pub takeovers: Vec<Takeover>,
    /// Dead letters that were replayed.
    pub replayed: u64,
    /// E-mails that were asked for once more, after the kill. They were sent once.
    pub asked_again: u64,
    /// How many events each instance handled.
    pub shares: Vec<(u32, u64)>,
    /// The books.
    pub books: Vec<Book>,
    /// What finds the shop again, if it was kept.
    pub kept: Option<String>,
    /// Why something of it is left that was to be removed, if so.
    pub left: Option<String>,
}

impl Report {
    /// Whether the books balance.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.books.iter().all(Book::balances)
    }
}
