//! Everything that a run leaves behind, as the checker gets it: read with plain SQL and from files, past the library.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::record::{How, Life, Outcome, Sent};

/// Everything that a run leaves behind. Times are microseconds of the machine's monotonic clock.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// The log, in the order of `global_sequence`.
    pub log: Vec<Logged>,
    /// What writers sent.
    pub appends: Vec<Sending>,
    /// Effects outside of transactions, by time.
    pub effects: Vec<Effect>,
    /// What transactional subscribers wrote, by `n`: the order in which they did.
    pub rows: Vec<Row>,
    /// Their tallies.
    pub tallies: Vec<Tally>,
    /// Writes of checkpoints, by `n`: the order in which they happened. Kept by a trigger.
    pub audit: Vec<Audited>,
    /// Where subscribers are at the end.
    pub checkpoints: Vec<(String, u64)>,
    /// Dead letters, whatever has become of them.
    pub dead_letters: Vec<DeadLetter>,
    /// Whether they were left as they were at the end, so that open ones show nothing.
    pub dead_letters_left: bool,
    /// What the nemesis did.
    pub faults: Vec<Done>,
    /// What was seen from outside, from time to time.
    pub samples: Vec<Sample>,
    /// When the last fault was over.
    pub last_fault_over: u64,
    /// When all subscribers had caught up; `None`: that did not happen in time.
    pub caught_up: Option<u64>,
    /// Why not, in words, a line for each subscriber that had not.
    pub behind: Vec<String>,
    /// Instances that ended although nobody had asked them to, and whatever else went wrong around them.
    pub troubles: Vec<String>,
}

/// An event in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logged {
    /// Its place.
    pub global_sequence: u64,
    /// Its id.
    pub id: Uuid,
    /// Its stream.
    pub stream_id: Uuid,
    /// Its place in the stream.
    pub stream_version: u64,
    /// Its type.
    pub event_type: String,
    /// For an answer: the event that was asked.
    pub answers: Option<Uuid>,
}

/// An append, from its writer's point of view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending {
    /// Who sent it.
    pub by: Life,
    /// Its number in that life.
    pub append: u64,
    /// How.
    pub how: How,
    /// The events, in order.
    pub events: Vec<Sent>,
    /// When it was sent first.
    pub at: u64,
    /// What came of it; `None`: its writer did not live to know.
    pub outcome: Option<Outcome>,
    /// When that was known.
    pub ended_at: Option<u64>,
}

/// An effect outside of any transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Whose: its place in [`ROLES`](crate::cast::ROLES).
    pub role: usize,
    /// Where it ran.
    pub by: Life,
    /// The event's place in the log.
    pub global_sequence: u64,
    /// The event.
    pub id: Uuid,
    /// When.
    pub at: u64,
}

/// A row that a transactional subscriber wrote for an event. A rebuild removes those before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The order of writing.
    pub n: u64,
    /// Whose.
    pub subscriber_id: String,
    /// The event's place in the log.
    pub global_sequence: u64,
    /// The term in the checkpoint's row, as the transaction saw it.
    pub term: u64,
    /// Who wrote it.
    pub by: Life,
}

/// What a transactional subscriber has made of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Whose.
    pub subscriber_id: String,
    /// The stream.
    pub stream_id: Uuid,
    /// How many events.
    pub events: u64,
    /// The sum of their versions.
    pub versions: u64,
    /// The version that was handled last.
    pub last_version: u64,
}

/// A write of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audited {
    /// The order of writing.
    pub n: u64,
    /// Whose.
    pub subscriber_id: String,
    /// The term that it was written with.
    pub term: u64,
    /// Where the checkpoint went.
    pub global_sequence: u64,
    /// Who wrote it; `None` where the backend cannot tell, and for what was done by hand.
    pub by: Option<Life>,
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Whose.
    pub subscriber_id: String,
    /// The event's place in the log.
    pub global_sequence: u64,
    /// The event.
    pub event_id: Uuid,
    /// Its stream.
    pub stream_id: Uuid,
    /// What has become of it: dead, parked, replayed, discarded, archived.
    pub state: String,
    /// Whether later events of the stream waited behind it.
    pub parks: bool,
}

/// A fault, as it was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Its place in the schedule.
    pub n: usize,
    /// What kind: a word or two, for counting.
    pub kind: String,
    /// What exactly, in words.
    pub what: String,
    /// The instance it concerned, if one.
    pub instance: Option<u32>,
    /// Whether the whole database was concerned: a crash may take back what only carried a checkpoint.
    pub server: bool,
    /// Whether the server may have had to recover: that may take back what did not wait for the disk.
    #[serde(default)]
    pub crash: bool,
    /// When it began.
    pub from: u64,
    /// When it was over.
    pub to: u64,
    /// What kept it from being done; `None`: it was.
    pub failed: Option<String>,
}

/// What was seen from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When.
    pub at: u64,
    /// The highest event; `None`: nobody answered.
    pub head: Option<u64>,
    /// Appends acknowledged so far, by all instances.
    pub acknowledged: u64,
    /// Each subscriber: name, checkpoint, the instance that leads.
    pub subscribers: Vec<(String, u64, Option<u32>)>,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The number of the guarantee in docs/guarantees.md: `G19`.
    pub guarantee: String,
    /// What is wrong, in one sentence.
    pub what: String,
    /// What shows it: the first few lines.
    pub evidence: Vec<String>,
}
