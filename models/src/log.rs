//! The log: writers draw numbers and commit in any order, readers must not pass a number that may still come to light.
//!
//! What anything may come between is a separate step: to take the sequence's lock, to draw a number, to become visible,
//! to give the lock back; and each statement of a reader. The server may crash: transactions that are open are gone, what
//! was not flushed is gone, and the sequence continues where its last flushed record says, so numbers are left out or
//! issued again. A bare insert is a writer like any other: it takes the lock because `nextval` does.

mod numbers;
mod progress;
mod reader;
mod server;

use stateright::{Model, Property};

pub use numbers::Numbers;
pub use reader::{Known, Phase, Reader, Wanted};
pub use server::{Durable, Server, Stage, Writer};

use crate::rules::rules;

/// Writers in a state, used or not.
pub const WRITERS_MAX: usize = 3;
/// Readers in a state, used or not.
pub const READERS_MAX: usize = 2;

/// No number at or below a reader's position comes to light later, or is there and was not delivered.
pub const NO_EVENT_SKIPPED: &str = "no event is skipped";
/// What is delivered has a higher number than everything delivered before it.
pub const ORDER_STRICT: &str = "the order is strict";
/// Once all open transactions have ended, each reader gets to the end by itself, however they end.
pub const GETS_TO_THE_END: &str = "a reader gets to the end once the writers it waits for have ended";
/// Once those have ended that held the lock at a look, all that was drawn by then is delivered, whichever other writers
/// came.
pub const PROGRESS_AMONG_OTHERS: &str = "a reader makes progress though other writers come";

rules! {
    /// What the order rests on.
    pub struct Rules {
        /// PostgreSQL: `nextval` takes the sequence's lock before it draws.
        pub lock_before_draw,
        /// PostgreSQL: a transaction is visible before its locks are free.
        pub visible_before_unlock,
        /// `Reader::settle`: the sequence is read before the holders of its lock.
        pub look_at_sequence_first,
        /// `Frontier::observe`: nothing is settled that a holder may have drawn.
        pub wait_for_holders,
        /// `Frontier::observe`: a new holder's floor is where the sequence stood at the observation before, not at this one.
        pub floor_from_observation_before,
        /// `Frontier::observe`: a holder keeps the floor it got first.
        pub holder_keeps_its_floor,
        /// `Frontier::observe`: a new holder's floor is not lower than it has to be.
        pub newcomers_get_floors,
        /// `Frontier::settle`: the frontier does not pass the last committed event.
        pub settle_only_committed,
        /// `Reader::read_contiguous`: reading past the frontier ends at the first hole.
        pub contiguous_ends_at_a_hole,
        /// `Reader::read`: a contiguous page is complete up to its last event.
        pub contiguous_page_moves_on,
        /// `Reader::read_settled`: the page is a statement that begins after the holders were seen.
        pub page_read_after_holders,
        /// `Reader::read_settled`: a page that is full is complete up to its last event, and no further.
        pub full_page_ends_at_its_last,
        /// `Readers::with_reader`: what was learnt on a connection goes with it.
        pub frontier_dies_with_connection,
        /// `Driver::read`: positions from another life of the server are void; what is stored counts.
        pub incarnation_voids_positions,
        /// `server_life`: a server that has recovered is another one, also under the same postmaster.
        pub identity_changes_with_every_recovery,
        /// `settled_to.sql`: a new frontier starts at what was proved, and not at a checkpoint: where one was moved by hand proves
        /// nothing.
        pub only_proof_starts_a_frontier,
        /// `Settled::to`: what the readers of a store have proved counts for the life of the server it was proved in.
        pub proof_counts_in_its_life,
        /// `Reader::read_contiguous`: a page proves something only if it begins at or below what is proved.
        pub proof_continues_proof,
    }
}

/// How a reader reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// All events: `read_contiguous` first, and the frontier at a hole.
    All,
    /// As filtered reads do it: by the frontier alone.
    Settled,
}

/// Where a reader's position is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// As a checkpoint in the same database, by who goes back to it in another life of the server. Commits may be
    /// asynchronous, or a replica that was behind takes over: a crash may take back what was visible.
    Checkpoint,
    /// Elsewhere, by who does not look at the incarnation. A crash takes nothing back that was visible.
    Elsewhere,
}

/// How much there is.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Transactions; those that a crash ends are retried after it.
    pub writers: usize,
    /// Numbers that each draws, at most.
    pub numbers: u8,
    /// Readers. They do not touch each other.
    pub readers: usize,
    /// Crashes of the server: 0 or 1.
    pub crashes: u8,
    /// Events in a page.
    pub page: u8,
    /// How they read.
    pub reading: Reading,
    /// Where positions are kept.
    pub keeping: Keeping,
    /// Whether another caller uses the readers' connections as well, at any time: `Log::frontier`.
    pub shared: bool,
    /// Whether proofs are shared: by the readers of a store, and with their checkpoints, so that the frontier of a new
    /// connection begins where another one was. The first reader's checkpoint may be moved by hand then.
    pub proofs: bool,
}

/// The model.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    /// What holds.
    pub rules: Rules,
    /// How much there is.
    pub size: Size,
    /// Whether histories that differ only in which of the writers is which are one. Not where people are to read them:
    /// writers change their places then.
    pub alike: bool,
}

/// Everything there is at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogState {
    /// What clients see of the server.
    pub server: Server,
    /// What would be left of it after a crash.
    pub durable: Durable,
    /// The transactions.
    pub writers: [Writer; WRITERS_MAX],
    /// The readers.
    pub readers: [Reader; READERS_MAX],
    /// What they share. Only where that counts.
    pub known: Known,
}

/// What may happen next. Writers and readers by their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A writer takes the sequence's lock.
    Lock(usize),
    /// It draws a number.
    Draw(usize),
    /// It commits, and is visible.
    Commit(usize),
    /// Its locks are free.
    Unlock(usize),
    /// It rolls back.
    RollBack(usize),
    /// The server's write-ahead log reaches the disk.
    Flush,
    /// The server crashes and is started again.
    Crash,
    /// One of the server's processes is killed, and it recovers by itself.
    Recover,
    /// An operator moves the first reader's checkpoint to where the sequence is, by hand.
    StoreByHand,
    /// A reader opens its connection.
    Connect(usize),
    /// A reader's connection is lost, or a caller stops waiting.
    LoseConnection(usize),
    /// A caller asks on a reader's connection how far the order is settled, and that goes first.
    QueryFrontier(usize),
    /// A reader carries out its next statement.
    Statement(usize),
    /// A reader's position is stored as its checkpoint.
    StoreCheckpoint(usize),
}

impl Model for Log {
    type State = LogState;
    type Action = Action;

    fn init_states(&self) -> Vec<LogState> {
        let mut writers = [Writer::GONE; WRITERS_MAX];
        writers[..self.size.writers].fill(Writer::IDLE);
        vec![LogState {
            server: Server::default(),
            durable: Durable::default(),
            writers,
            readers: [Reader::default(); READERS_MAX],
            known: Known::default(),
        }]
    }

    fn actions(&self, state: &LogState, actions: &mut Vec<Action>) {
        self.server_actions(state, actions);
        for (at, reader) in state.readers.iter().enumerate().take(self.size.readers) {
            if !reader.connected {
                actions.push(Action::Connect(at));
                continue;
            }
            actions.extend([Action::LoseConnection(at), Action::Statement(at)]);
            if self.size.shared && reader.phase == Phase::Begin {
                actions.push(Action::QueryFrontier(at));
            }
            if self.size.keeping == Keeping::Checkpoint && state.server.checkpoints[at] < reader.position {
                actions.push(Action::StoreCheckpoint(at));
            }
        }
    }

    fn next_state(&self, state: &LogState, action: Action) -> Option<LogState> {
        let mut next = *state;
        match action {
            Action::Connect(at) => self.connect(&mut next, at),
            Action::LoseConnection(at) => self.lose_connection(&mut next, at),
            Action::QueryFrontier(at) => {
                (next.readers[at].wanted, next.readers[at].phase) = (Wanted::Frontier, Phase::Hole);
            }
            Action::Statement(at) => self.statement(&mut next, at),
            Action::StoreCheckpoint(at) => {
                next.server.checkpoints[at] = next.readers[at].position;
                next.server.settled_to = next.server.settled_to.max(self.known(&next, at));
            }
            action => self.on_server(&mut next, action),
        }
        if self.alike {
            next.writers.sort_unstable();
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(NO_EVENT_SKIPPED, Self::no_event_is_skipped),
            Property::always(ORDER_STRICT, |_, state: &LogState| state.readers.iter().all(|reader| !reader.disordered)),
            Property::always(GETS_TO_THE_END, Self::gets_to_the_end),
            Property::always(PROGRESS_AMONG_OTHERS, Self::progresses_among_others),
            Property::sometimes("a reader waits for a number that is drawn and not committed", Self::waits),
            Property::sometimes("everything is committed and delivered", Self::is_through),
        ];
        if self.size.crashes > 0 && self.size.keeping == Keeping::Checkpoint {
            properties
                .push(Property::sometimes("a number that was delivered is issued again", |_, state: &LogState| {
                    state.readers[0].delivered[0].and(state.server.events[1]) != Numbers::NONE
                }));
        }
        properties
    }
}

impl Log {
    /// Three transactions with two numbers each, one reader of everything, one crash.
    pub const SIZE: Size = Size {
        writers: 3,
        numbers: 2,
        readers: 1,
        crashes: 1,
        page: 2,
        reading: Reading::All,
        keeping: Keeping::Checkpoint,
        shared: false,
        proofs: false,
    };

    /// Two readers that share what they prove.
    pub const PROOFS: Size =
        Size { proofs: true, writers: 2, numbers: 1, readers: 2, reading: Reading::Settled, ..Self::SIZE };

    /// The model without a rule, and what is violated then; `None` when there is no such rule.
    #[must_use]
    pub fn without(rule: &str) -> Option<(Self, &'static str)> {
        let rules = Rules::default().without(rule)?;
        // By the frontier alone it goes wrong sooner: nobody has to make a hole first.
        let settled = Size { reading: Reading::Settled, ..Self::SIZE };
        let (size, property) = match rule {
            "newcomers_get_floors" => (Self::SIZE, PROGRESS_AMONG_OTHERS),
            "contiguous_page_moves_on" => (Self::SIZE, ORDER_STRICT),
            "contiguous_ends_at_a_hole" => (Self::SIZE, NO_EVENT_SKIPPED),
            "only_proof_starts_a_frontier" | "proof_counts_in_its_life" => (Self::PROOFS, NO_EVENT_SKIPPED),
            "proof_continues_proof" => (Size { reading: Reading::All, ..Self::PROOFS }, NO_EVENT_SKIPPED),
            // Who keeps positions in the database goes back to what is stored there, and does not need it.
            "settle_only_committed" => (Size { keeping: Keeping::Elsewhere, ..settled }, NO_EVENT_SKIPPED),
            _ => (settled, NO_EVENT_SKIPPED),
        };
        Some((Self { rules, size, alike: true }, property))
    }
}

impl Log {
    /// Readers that have to get everything: not one that an operator has told to skip something.
    fn judged(&self, state: &LogState) -> std::ops::Range<usize> {
        usize::from(state.server.by_hand)..self.size.readers
    }

    fn no_event_is_skipped(&self, state: &LogState) -> bool {
        self.judged(state).all(|at| {
            let reader = &state.readers[at];
            let counts = self.size.keeping == Keeping::Elsewhere || reader.life == state.server.identity;
            let stored = state.server.checkpoints[at];
            (!counts || state.is_complete_to(reader, reader.position)) && state.is_complete_to(reader, stored)
        })
    }

    fn waits(&self, state: &LogState) -> bool {
        state.readers.iter().any(|reader| {
            let next = Numbers::of(reader.position + 1);
            let later = state.server.visible().after(reader.position) != Numbers::NONE;
            later && state.writers.iter().any(|writer| writer.numbers.and(next) != Numbers::NONE && writer.is_open())
        })
    }

    fn is_through(&self, state: &LogState) -> bool {
        let all = state.server.visible().len() == self.size.writers * usize::from(self.size.numbers);
        all && state.readers[..self.size.readers].iter().all(|reader| state.server.are_delivered(reader, u8::MAX))
    }
}

impl LogState {
    /// Nothing up to a number can appear any more, and what is there was delivered.
    fn is_complete_to(&self, reader: &Reader, number: u8) -> bool {
        let open = self.writers.iter().filter(|writer| writer.is_open());
        let nothing_open = open.fold(Numbers::NONE, |all, writer| all.or(writer.numbers)).up_to(number);
        number <= self.server.sequence && nothing_open == Numbers::NONE && self.server.are_delivered(reader, number)
    }
}
