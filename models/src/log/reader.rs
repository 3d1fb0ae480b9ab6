//! A reader: one connection, one frontier, one statement after the other.

use super::{Keeping, Log, LogState, Numbers, Reading};

/// Which statement comes next. Where the frontier is beyond the position that is always the page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Between reads.
    #[default]
    Begin,
    /// There is a hole: the first of the two looks.
    Hole,
    /// The sequence stood here; the holders are next.
    LastValue(u8),
    /// The holders were seen; the sequence is next. Only where the order of the looks is reversed.
    Holders,
    /// Settled up to here; the highest committed event is next.
    Bound(u8),
}

/// What the looks are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// What follows the position.
    #[default]
    Page,
    /// A page that was found beyond the frontier: what follows it proves nothing, until the looks do.
    Proof,
    /// How far the order is settled, from the beginning of the log: `Log::frontier`.
    Frontier,
}

/// A reader and the caller it reads for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Reader {
    /// Whether it has a connection.
    pub connected: bool,
    /// The life of the server that its position comes from.
    pub life: u8,
    /// Where it is in a read.
    pub phase: Phase,
    /// `Frontier::settled`.
    pub settled: u8,
    /// `Frontier::previous`. The floors are with the writers.
    pub previous: Option<u8>,
    /// Up to where everything was delivered, as it was told: `complete_to`.
    pub position: u8,
    /// What was delivered, by the life in which it was written.
    pub delivered: [Numbers; 2],
    /// What was visible when the sequence was looked at. Only where pages are read as of then.
    pub snapshot: [Numbers; 2],
    /// What the looks are for.
    pub wanted: Wanted,
    /// Something was delivered after a later one.
    pub disordered: bool,
}

/// What the readers of a store share: how far one of them has proved the order to be settled, and in which life of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Known {
    /// The life of the server.
    pub life: u8,
    /// How far.
    pub to: u8,
}

impl Reader {
    /// After which number something is wanted.
    fn after(&self) -> u8 {
        match self.wanted {
            Wanted::Page => self.position,
            Wanted::Proof => self.settled,
            Wanted::Frontier => 0,
        }
    }
}

impl Log {
    /// `Readers::reader`: a new connection, and whose life that is.
    pub(super) fn connect(&self, state: &mut LogState, at: usize) {
        let (life, stored) = (state.server.identity, state.server.checkpoints[at]);
        let highest = state.server.checkpoints.into_iter().max().unwrap_or(0);
        let proved = if self.rules.only_proof_starts_a_frontier { state.server.settled_to } else { highest };
        let reader = &mut state.readers[at];
        reader.connected = true;
        if reader.life != life && self.size.keeping == Keeping::Checkpoint && self.rules.incarnation_voids_positions {
            reader.position = stored;
            reader.delivered = reader.delivered.map(|numbers| numbers.up_to(stored));
        }
        reader.life = life;
        if self.size.proofs {
            reader.settled = reader.settled.max(proved);
        }
    }

    /// `Readers::with_reader`: an error drops the reader.
    pub(super) fn lose_connection(&self, state: &mut LogState, at: usize) {
        let reader = &mut state.readers[at];
        (reader.connected, reader.phase, reader.wanted) = (false, Phase::Begin, Wanted::Page);
        reader.snapshot = Default::default();
        state.writers.iter_mut().for_each(|writer| writer.seen[at] = false);
        if self.rules.frontier_dies_with_connection {
            (reader.settled, reader.previous) = (0, None);
            state.writers.iter_mut().for_each(|writer| writer.floors[at] = None);
        }
    }

    /// `Reader::read`, one statement of it.
    pub(super) fn statement(&self, state: &mut LogState, at: usize) {
        if self.size.proofs && state.readers[at].phase == Phase::Begin {
            let known = self.known(state, at);
            state.readers[at].settled = state.readers[at].settled.max(known);
        }
        let reader = state.readers[at];
        match reader.phase {
            Phase::Begin if reader.settled > reader.position => self.read_settled(state, at),
            Phase::Begin if self.size.reading == Reading::All => self.read_contiguous(state, at),
            Phase::Begin | Phase::Hole if self.rules.look_at_sequence_first => self.look_at_sequence(state, at),
            Phase::Begin | Phase::Hole => {
                state.writers.iter_mut().for_each(|writer| writer.seen[at] = writer.holds);
                state.readers[at].phase = Phase::Holders;
            }
            Phase::LastValue(last_value) => {
                state.writers.iter_mut().for_each(|writer| writer.seen[at] = writer.holds);
                self.observe(state, at, last_value);
            }
            Phase::Holders => self.observe(state, at, state.server.sequence),
            Phase::Bound(bound) => self.settle(state, at, bound),
        }
        let reader = &mut state.readers[at];
        if reader.phase == Phase::Begin {
            reader.wanted = Wanted::Page;
            if self.size.proofs {
                let (life, to) = (reader.life, reader.settled.max(self.known(state, at)));
                state.known = Known { life, to };
            }
        }
    }

    /// `Settled::to`: what the readers of a store know of the life that one of them is in.
    pub(super) fn known(&self, state: &LogState, at: usize) -> u8 {
        let counts = state.known.life == state.readers[at].life || !self.rules.proof_counts_in_its_life;
        if counts { state.known.to } else { 0 }
    }

    /// The first statement of `Reader::settle`.
    fn look_at_sequence(&self, state: &mut LogState, at: usize) {
        let reader = &mut state.readers[at];
        let last_value = state.server.sequence;
        // Nothing beyond was ever drawn: not an observation.
        reader.phase = if last_value <= reader.after() { Phase::Begin } else { Phase::LastValue(last_value) };
        if !self.rules.page_read_after_holders {
            reader.snapshot = state.server.events;
        }
    }

    /// `Frontier::observe`.
    fn observe(&self, state: &mut LogState, at: usize, last_value: u8) {
        let reader = &mut state.readers[at];
        let newcomer = match reader.previous {
            _ if !self.rules.floor_from_observation_before => last_value,
            Some(previous) if self.rules.newcomers_get_floors => previous,
            _ => reader.settled,
        };
        let mut lowest = None;
        for writer in &mut state.writers {
            let seen = std::mem::take(&mut writer.seen[at]);
            let before = writer.floors[at].filter(|_| self.rules.holder_keeps_its_floor);
            writer.floors[at] = seen.then(|| before.unwrap_or(newcomer));
            lowest = lowest.into_iter().chain(writer.floors[at]).min();
        }
        reader.previous = Some(last_value);
        let bound = lowest.filter(|_| self.rules.wait_for_holders).unwrap_or(last_value);
        reader.phase = if bound > reader.after() { Phase::Bound(bound) } else { Phase::Begin };
    }

    /// The last statement of `Reader::settle`, and `Frontier::settle`.
    fn settle(&self, state: &mut LogState, at: usize, bound: u8) {
        let highest = state.server.visible().up_to(bound).highest();
        let reader = &mut state.readers[at];
        reader.settled = reader.settled.max(if self.rules.settle_only_committed { highest } else { bound });
        reader.phase = Phase::Begin;
    }

    /// `Reader::read_contiguous`.
    fn read_contiguous(&self, state: &mut LogState, at: usize) {
        let after = state.readers[at].position;
        let rows = state.server.visible().after(after);
        let is_contiguous = |(place, number): &(u8, u8)| *number == after + place + 1;
        let wanted = (0..self.size.page).zip(rows.iter());
        let wanted = wanted.take_while(|row| !self.rules.contiguous_ends_at_a_hole || is_contiguous(row));
        let page = wanted.fold(Numbers::NONE, |page, (_, number)| page.or(Numbers::of(number)));
        if page.is_empty() && !rows.is_empty() {
            state.readers[at].phase = Phase::Hole;
        } else {
            let complete_to = if self.rules.contiguous_page_moves_on { page.highest().max(after) } else { after };
            let reader = &mut state.readers[at];
            if after <= reader.settled || !self.rules.proof_continues_proof {
                reader.settled = reader.settled.max(page.highest());
            } else if self.size.proofs {
                (reader.phase, reader.wanted) = (Phase::Hole, Wanted::Proof);
            }
            deliver(state, at, state.server.events, page, complete_to);
        }
    }

    /// `Reader::read_settled`.
    fn read_settled(&self, state: &mut LogState, at: usize) {
        let reader = &state.readers[at];
        let events = if self.rules.page_read_after_holders { state.server.events } else { reader.snapshot };
        let (after, up_to) = (reader.position, reader.settled);
        let rows = events[0].or(events[1]).after(after).up_to(up_to);
        let page = rows.iter().take(self.size.page.into()).fold(Numbers::NONE, |page, row| page.or(Numbers::of(row)));
        let full = page.len() >= usize::from(self.size.page) && self.rules.full_page_ends_at_its_last;
        deliver(state, at, events, page, if full { page.highest() } else { up_to });
    }
}

/// A page, and `Page::complete_to`.
fn deliver(state: &mut LogState, at: usize, events: [Numbers; 2], page: Numbers, complete_to: u8) {
    let reader = &mut state.readers[at];
    for (delivered, written) in reader.delivered.iter_mut().zip(events) {
        let new = written.and(page);
        reader.disordered |= new.iter().any(|number| !delivered.after(number - 1).is_empty());
        *delivered = delivered.or(new);
    }
    reader.position = complete_to;
}
