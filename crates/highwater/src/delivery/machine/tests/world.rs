//! What a machine lives in: the log, what is stored, and what handlers have done.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::term::fenced;
use super::*;

/// What is durable, and what has been seen.
#[derive(Clone)]
pub(super) struct World {
    pub(super) log: Vec<Record>,
    pub(super) checkpoint: u64,
    pub(super) setup_version: Option<u32>,
    /// Tables that were made now would lack events: those that were handled before there was a version.
    pub(super) lacks_events: bool,
    /// Open dead letters by event, with whether they park their stream.
    pub(super) dead_letters: BTreeMap<u64, bool>,
    /// How often each event was handled, by a handler that is not transactional.
    pub(super) seen: BTreeMap<u64, u32>,
    /// What a transactional handler has committed.
    pub(super) model: BTreeSet<u64>,
    /// Since the process was last started: what was delivered and handled, in order.
    pub(super) order: Vec<u64>,
    /// Who leads; `None` where the checkpoint was deleted.
    pub(super) term: Option<Term>,
    /// Terms given so far.
    terms: u64,
    /// The life of the server.
    pub(super) incarnation: u64,
}

pub(super) fn interrupt(machine: &mut Machine, world: &mut World) {
    machine.on_interrupted();
    world.order.clear();
}

/// One transaction: begins by looking at what is stored, commits everything or nothing, and the answer may be lost.
pub(super) fn transact(
    machine: &mut Machine,
    world: &mut World,
    poison: &BTreeSet<u64>,
    count: usize,
    random: &mut fastrand::Rng,
) {
    if !machine.continues_from(world.checkpoint) {
        return interrupt(machine, world);
    }
    let (records, range) = machine.front(count);
    let records: Vec<Record> = records[range].to_vec();
    let to = machine.position_after(count);
    machine.on_took(count, Duration::from_millis(random.u64(..2_000)));
    let new: Vec<&Record> = records.iter().filter(|record| record.global_sequence > world.checkpoint).collect();
    if new.iter().any(|record| poison.contains(&record.global_sequence)) {
        machine.on_failed(count, random.u8(..4) == 0, "poison");
        return;
    }
    if new.is_empty() {
        return machine.on_found(count, world.checkpoint);
    }
    for record in new {
        assert!(world.model.insert(record.global_sequence), "an event is in the model twice");
        world.handle(record, machine);
    }
    world.checkpoint = to;
    // A lost answer: the same batch comes again.
    if random.u8(..6) > 0 {
        machine.on_committed(count);
    }
}

impl World {
    pub(super) fn new(log: Vec<Record>) -> Self {
        Self {
            log,
            checkpoint: 0,
            setup_version: None,
            lacks_events: false,
            dead_letters: BTreeMap::new(),
            seen: BTreeMap::new(),
            model: BTreeSet::new(),
            order: Vec::new(),
            term: None,
            terms: 0,
            incarnation: 1,
        }
    }

    /// A term is given. Its number is above every other.
    pub(super) fn raise(&mut self, nonce: Uuid) {
        self.terms += 1;
        self.term = Some(Term { number: self.terms, nonce });
    }

    /// As the store has it.
    pub(super) fn stored(&self) -> Option<Checkpoint> {
        let (global_sequence, setup_version) = (self.checkpoint, self.setup_version);
        self.term.map(|term| Checkpoint {
            global_sequence,
            setup_version,
            incarnation: self.incarnation,
            ..checkpoint(term)
        })
    }

    /// A write of the machine's, as every backend checks it.
    pub(super) fn check(&self, machine: &Machine) -> Result<(), Error> {
        let Fence { term, incarnation, .. } = machine.fence().expect("nothing is written without a term");
        assert_eq!(term.nonce, NONCE, "it writes in another instance's term");
        match self.term {
            Some(found) if found == term && self.incarnation == incarnation => Ok(()),
            Some(found) if found == term => Err(Error::Interrupted { reason: "another life".to_owned() }),
            found => Err(fenced(found.map(|found| found.number))),
        }
    }

    /// The checkpoint is deleted, with the read model: it is to start again.
    pub(super) fn delete(&mut self) {
        self.rebuild(None);
        self.term = None;
    }

    /// The database loses what was committed since. Terms and lives are not given twice.
    pub(super) fn go_back_to(&mut self, before: &Self) {
        let Self { log, checkpoint, dead_letters, model, .. } = before.clone();
        (self.log, self.checkpoint, self.dead_letters, self.model) = (log, checkpoint, dead_letters, model);
    }

    /// It has run before, without tables that have a version.
    pub(super) fn begun(&mut self, events: usize, makes_tables: bool) {
        for record in &self.log[..events] {
            self.checkpoint = record.global_sequence;
            self.seen.insert(record.global_sequence, 1);
            self.model.insert(record.global_sequence);
        }
        self.lacks_events = makes_tables && events > 0;
    }

    pub(super) fn parked(&self) -> HashMap<Uuid, u64> {
        let mut parked = HashMap::new();
        for (sequence, _) in self.dead_letters.iter().filter(|(_, parks)| **parks) {
            let record = self.log.iter().find(|record| record.global_sequence == *sequence);
            *parked.entry(record.map_or(Uuid::nil(), |record| record.stream_id)).or_default() += 1;
        }
        parked
    }

    pub(super) fn handle(&mut self, record: &Record, machine: &Machine) {
        assert!(
            !self.parked().contains_key(&record.stream_id),
            "an event overtook one that its stream is parked behind"
        );
        assert!(self.order.last().is_none_or(|last| *last < record.global_sequence), "out of order");
        assert!(record.global_sequence > machine.handled(), "handed over although it was done");
        self.order.push(record.global_sequence);
        *self.seen.entry(record.global_sequence).or_default() += 1;
    }

    pub(super) fn is_done(&self, record: &Record, policy: &Policy) -> bool {
        let handled = if policy.transactional {
            self.model.contains(&record.global_sequence)
        } else {
            self.seen.contains_key(&record.global_sequence)
        };
        handled || self.dead_letters.contains_key(&record.global_sequence)
    }

    /// Everything that waits in some streams has been dealt with, and nobody tells the machine.
    pub(super) fn resolve(&mut self, of: impl Fn(Uuid) -> bool) {
        let streams: HashMap<u64, Uuid> =
            self.log.iter().map(|record| (record.global_sequence, record.stream_id)).collect();
        for sequence in
            self.dead_letters.extract_if(.., |sequence, _| of(streams[sequence])).map(|(sequence, _)| sequence)
        {
            self.seen.insert(sequence, 1);
            self.model.insert(sequence);
        }
    }

    /// Everything that waits is handled now, in order.
    pub(super) fn replay(&mut self, machine: &mut Machine) {
        self.resolve(|_| true);
        for stream in self.log.iter().map(|record| record.stream_id).collect::<BTreeSet<_>>() {
            machine.on_parked_left(stream, 0);
        }
    }

    /// Writes a dead letter for the event in front, if it may. `refreshes`: it is time to look which streams are parked.
    pub(super) fn bury(&mut self, step: &Step, machine: &mut Machine, refreshes: bool) {
        let parks = *step != Step::Bury { park: false };
        if parks {
            if refreshes || machine.parking_limit().is_some() {
                machine.on_parked(self.parked());
            }
            let stream_id = machine.current().map_or(Uuid::nil(), |record| record.stream_id);
            if !machine.may_park() {
                assert!(self.parked().contains_key(&stream_id), "halted for what was dealt with by hand");
                return;
            }
            if *step == Step::Park && !machine.is_parked() {
                return;
            }
        }
        let Some(record) = machine.current().cloned() else { return };
        let waits = self.parked().contains_key(&record.stream_id);
        self.dead_letters.insert(record.global_sequence, parks);
        self.checkpoint = record.global_sequence;
        machine.on_buried(self.parked().get(&record.stream_id).copied().unwrap_or(0));
        assert_eq!(machine.stored(), self.checkpoint, "what is believed to be stored");
        if *step == Step::Park && !waits {
            // What it was to wait behind was deleted by hand.
            self.resolve(|stream| stream == record.stream_id);
            machine.on_parked_left(record.stream_id, 0);
        }
    }

    /// Back to the start, with an emptied read model and tables of the version of the code.
    pub(super) fn rebuild(&mut self, version: Option<u32>) {
        let Self { term, terms, incarnation, .. } = *self;
        *self = Self { setup_version: version, term, terms, incarnation, ..Self::new(std::mem::take(&mut self.log)) };
    }
}
