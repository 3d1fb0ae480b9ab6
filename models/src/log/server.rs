//! The server and its writers.

use super::{Action, Keeping, Log, LogState, Numbers, READERS_MAX, Reader};

/// How far ahead of what it has drawn the sequence writes itself down: PostgreSQL takes 32.
const AHEAD: u8 = 1;

/// What clients see of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Server {
    /// Which life it is in: grows with a crash.
    pub life: u8,
    /// Which life its clients take it to be in.
    pub identity: u8,
    /// The last number that was drawn.
    pub sequence: u8,
    /// What the sequence has written down: it is never drawn beyond without another record.
    pub logged: u8,
    /// Events that are committed, by the life in which they were written: a number that is issued again is another event.
    pub events: [Numbers; 2],
    /// The stored positions of the readers.
    pub checkpoints: [u8; READERS_MAX],
    /// `settled_to`, the highest of all checkpoints: how far the order was proved to be settled. Only where that counts.
    pub settled_to: u8,
    /// The first reader's checkpoint was moved by hand. Only where that counts.
    pub by_hand: bool,
}

/// What has reached the disk. The write-ahead log is flushed in order, so this is what the server was like at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Durable {
    /// As in [`Server`].
    pub logged: u8,
    /// As in [`Server`].
    pub events: [Numbers; 2],
    /// As in [`Server`].
    pub checkpoints: [u8; READERS_MAX],
    /// As in [`Server`].
    pub settled_to: u8,
}

/// How far a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// It has not begun.
    Idle,
    /// It is open.
    Open,
    /// It is committing: half way between being visible and having given its locks back.
    Ending,
    /// It has ended.
    Gone,
}

/// A transaction, and what readers have learnt of it: both move together when writers change places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Writer {
    /// How far it is.
    pub stage: Stage,
    /// Whether it holds the sequence's lock.
    pub holds: bool,
    /// What it has drawn.
    pub numbers: Numbers,
    /// Its floor, as each reader has it.
    pub floors: [Option<u8>; READERS_MAX],
    /// Whether a reader saw it hold the lock, where that looks at the holders first.
    pub seen: [bool; READERS_MAX],
}

impl Writer {
    /// Before its transaction.
    pub const IDLE: Self = Self {
        stage: Stage::Idle,
        holds: false,
        numbers: Numbers::NONE,
        floors: [None; READERS_MAX],
        seen: [false; READERS_MAX],
    };
    /// After its transaction.
    pub const GONE: Self = Self { stage: Stage::Gone, ..Self::IDLE };

    /// Whether what it has drawn may still come to light.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open || (self.stage == Stage::Ending && !self.holds)
    }

    /// After its transaction: what readers have learnt of it stays with them.
    fn end(&mut self) {
        *self = Self { floors: self.floors, seen: self.seen, ..Self::GONE };
    }
}

impl Server {
    /// What a statement that begins now sees.
    #[must_use]
    pub fn visible(&self) -> Numbers {
        self.events[0].or(self.events[1])
    }

    /// Whether a reader got everything that is there, up to a number.
    #[must_use]
    pub fn are_delivered(&self, reader: &Reader, number: u8) -> bool {
        (0..2).all(|life| self.events[life].up_to(number).without(reader.delivered[life]).is_empty())
    }
}

impl Log {
    pub(super) fn server_actions(&self, state: &LogState, actions: &mut Vec<Action>) {
        for (at, writer) in state.writers.iter().enumerate() {
            // One at the same point as the one before would do the same.
            if at > 0 && state.writers[at - 1] == *writer {
                continue;
            }
            let may_draw = writer.numbers.len() < usize::from(self.size.numbers);
            match writer.stage {
                Stage::Idle if self.rules.lock_before_draw => actions.push(Action::Lock(at)),
                Stage::Idle => actions.push(Action::Draw(at)),
                Stage::Open if !writer.holds => actions.push(Action::Lock(at)),
                Stage::Open => {
                    if may_draw {
                        actions.push(Action::Draw(at));
                    }
                    if !writer.numbers.is_empty() {
                        actions.push(Action::Commit(at));
                    }
                    actions.push(Action::RollBack(at));
                }
                Stage::Ending => actions.push(Action::Unlock(at)),
                Stage::Gone => {}
            }
        }
        if state.server.life < self.size.crashes {
            actions.extend([Action::Flush, Action::Crash]);
            // Otherwise that is a crash like any other.
            if !self.rules.identity_changes_with_every_recovery {
                actions.push(Action::Recover);
            }
        }
        if self.size.proofs && !state.server.by_hand {
            actions.push(Action::StoreByHand);
        }
    }

    pub(super) fn on_server(&self, state: &mut LogState, action: Action) {
        match action {
            Action::Lock(at) => (state.writers[at].stage, state.writers[at].holds) = (Stage::Open, true),
            Action::Draw(at) => draw(state, at),
            Action::Commit(at) if self.rules.visible_before_unlock => {
                self.show(state, at);
                state.writers[at].stage = Stage::Ending;
            }
            Action::Commit(at) => (state.writers[at].stage, state.writers[at].holds) = (Stage::Ending, false),
            Action::Unlock(at) => {
                if !self.rules.visible_before_unlock {
                    self.show(state, at);
                }
                state.writers[at].end();
            }
            Action::RollBack(at) => state.writers[at].end(),
            Action::Flush => flush(state),
            Action::Crash => self.crash(state, state.server.identity + 1),
            Action::Recover => self.crash(state, state.server.identity),
            Action::StoreByHand => self.store_by_hand(state),
            _ => {}
        }
    }

    fn show(&self, state: &mut LogState, at: usize) {
        let events = &mut state.server.events[usize::from(state.server.life)];
        *events = events.or(state.writers[at].numbers);
        // Once there are no crashes any more nobody asks what is on the disk.
        if self.size.keeping == Keeping::Elsewhere && state.server.life < self.size.crashes {
            flush(state);
        }
    }

    /// An operator moves the first reader's checkpoint to where the sequence is, past whatever is still open.
    fn store_by_hand(&self, state: &mut LogState) {
        let to = state.server.sequence;
        (state.server.by_hand, state.server.checkpoints[0], state.readers[0].position) = (true, to, to);
        self.lose_connection(state, 0);
    }

    /// Everything that was not flushed is gone; the sequence continues after what it had written down.
    fn crash(&self, state: &mut LogState, identity: u8) {
        let Durable { logged, events, checkpoints, settled_to } = state.durable;
        let Server { life, by_hand, .. } = state.server;
        let (life, sequence) = (life + 1, logged);
        state.server = Server { life, identity, sequence, logged, events, checkpoints, settled_to, by_hand };
        state.durable = Durable::default();
        for writer in &mut state.writers {
            let retried = matches!(writer.stage, Stage::Open | Stage::Idle) || writer.is_open();
            let stage = if retried { Stage::Idle } else { Stage::Gone };
            *writer = Writer { floors: writer.floors, seen: writer.seen, stage, ..Writer::IDLE };
        }
        for at in 0..self.size.readers {
            self.lose_connection(state, at);
        }
    }
}

/// `nextval`.
fn draw(state: &mut LogState, at: usize) {
    let server = &mut state.server;
    server.sequence += 1;
    if server.sequence > server.logged {
        server.logged = server.sequence + AHEAD;
    }
    let writer = &mut state.writers[at];
    writer.stage = Stage::Open;
    writer.numbers = writer.numbers.or(Numbers::of(server.sequence));
}

fn flush(state: &mut LogState) {
    let Server { logged, events, checkpoints, settled_to, .. } = state.server;
    state.durable = Durable { logged, events, checkpoints, settled_to };
}
