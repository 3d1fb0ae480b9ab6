//! Who takes part: the events, and the subscribers with what each promises.

use highwater::FailurePolicy;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What is appended. Most are `Noted`; a few are for subscribers that want only those.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// Nothing special.
    Noted {
        /// Which append of its writer it belongs to.
        append: u64,
    },
    /// What the filtered subscriber wants.
    Marked {
        /// As above.
        append: u64,
    },
    /// What the saga answers, once.
    Asked {
        /// As above.
        append: u64,
    },
    /// The saga's answer.
    Answered {
        /// The event that was asked.
        to: Uuid,
    },
}

impl Fact {
    /// Its type and its data, as the library stores them, for those who write by plain SQL.
    #[must_use]
    pub fn row(&self) -> (&'static str, serde_json::Value) {
        match self {
            Self::Noted { append } => ("Noted", serde_json::json!({ "append": append })),
            Self::Marked { append } => ("Marked", serde_json::json!({ "append": append })),
            Self::Asked { append } => ("Asked", serde_json::json!({ "append": append })),
            Self::Answered { to } => ("Answered", serde_json::json!({ "to": to })),
        }
    }
}

/// How a subscriber handles events, and so what can be proved of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// In the transaction of its checkpoint: a row in `chaos_rows` for each event, and the tally of its stream.
    Transactional,
    /// Outside of it: a line in the effect log of whichever instance it runs in.
    Effects,
    /// Outside of it: an [`Fact::Answered`] for each [`Fact::Asked`], and a line in the effect log for each event.
    Saga,
}

/// One subscriber of the experiment.
#[derive(Debug, Clone, Copy)]
pub struct Role {
    /// Its durable name.
    pub id: &'static str,
    /// How it handles events.
    pub kind: Kind,
    /// The only event type it wants; `None`: all.
    pub wants: Option<&'static str>,
    /// What becomes of an event that it cannot handle.
    pub policy: FailurePolicy,
    /// Whether it fails, panics or hangs at times; some events it does not handle until they are replayed.
    pub shaky: bool,
    /// Events that share a checkpoint or a transaction: what may come twice after a takeover, where anything may.
    pub batch: usize,
    /// Whether it is subscribed only when the run is half over.
    pub late: bool,
    /// Whether only the first instance has it, without coordination: nothing but the store tells it of another life of the
    /// server, because no leadership is lost with a connection.
    pub alone: bool,
    /// Whether its transactions never wait for the disk; those of others do not at times.
    pub asynchronous: bool,
}

const PLAIN: Role = Role {
    id: "",
    kind: Kind::Effects,
    wants: None,
    policy: FailurePolicy::DeadLetter,
    shaky: false,
    batch: 50,
    late: false,
    alone: false,
    asynchronous: false,
};

/// All subscribers.
pub const ROLES: [Role; 11] = [
    Role { id: "projection:tally", kind: Kind::Transactional, ..PLAIN },
    Role { id: "projection:rebuilt", kind: Kind::Transactional, batch: 200, ..PLAIN },
    Role { id: "projection:shaky", kind: Kind::Transactional, shaky: true, ..PLAIN },
    Role {
        id: "projection:parked",
        kind: Kind::Transactional,
        policy: FailurePolicy::ParkStream,
        shaky: true,
        ..PLAIN
    },
    Role { id: "projection:effects", ..PLAIN },
    Role { id: "projection:shaky-effects", shaky: true, batch: 1, ..PLAIN },
    Role { id: "projection:marked", wants: Some("Marked"), ..PLAIN },
    Role { id: "projection:late", late: true, ..PLAIN },
    Role { id: "saga:answers", kind: Kind::Saga, batch: 20, ..PLAIN },
    Role { id: "projection:alone", kind: Kind::Transactional, alone: true, asynchronous: true, ..PLAIN },
    Role { id: "projection:alone-effects", alone: true, ..PLAIN },
];

/// Who has those roles that are alone.
pub const ALONE_IN: u32 = 1;

/// The role of that name.
#[must_use]
pub fn role(id: &str) -> Option<&'static Role> {
    ROLES.iter().find(|role| role.id == id)
}

impl Role {
    /// Whether it wants an event of that type.
    #[must_use]
    pub fn wants(&self, event_type: &str) -> bool {
        self.wants.is_none_or(|wanted| wanted == event_type)
    }
}
