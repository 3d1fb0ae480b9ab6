//! The machine against a world in which everything goes wrong at random.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::*;

/// What is durable, and what has been seen.
#[derive(Clone)]
struct World {
    log: Vec<Record>,
    checkpoint: u64,
    setup_version: Option<u32>,
    /// Open dead letters by event, with whether they park their stream.
    dead_letters: BTreeMap<u64, bool>,
    /// How often each event was handled, by a handler that is not transactional.
    seen: BTreeMap<u64, u32>,
    /// What a transactional handler has committed.
    model: BTreeSet<u64>,
    /// Since the process was last started: what was delivered and handled, in order.
    order: Vec<u64>,
}

/// Runs a subscriber to the end of the log while handlers fail, dead letters cannot be written, checkpoints are lost,
/// answers are lost, servers are replaced, processes die, and operators pause, stop and request replays.
fn survive(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let on_failure = [FailurePolicy::DeadLetter, FailurePolicy::ParkStream][random.usize(..2)];
    let policy = Policy {
        on_failure,
        max_retries: random.u32(..3),
        batch: [1, 2, 5, 50][random.usize(..4)],
        transactional: random.bool(),
        ..policy()
    };
    let policy = Policy { version: (policy.transactional && random.bool()).then_some(1), ..policy };
    let mut at = 0;
    let log = (0..random.usize(1..120)).map(|_| {
        at += random.u64(1..4);
        record(at, random.u128(..5))
    });
    let log: Vec<Record> = log.collect();
    // What lies between the events, and after the last, is of types that nobody asked for.
    let end = at + random.u64(..3);
    let mut world = World {
        log,
        checkpoint: 0,
        setup_version: None,
        dead_letters: BTreeMap::new(),
        seen: BTreeMap::new(),
        model: BTreeSet::new(),
        order: Vec::new(),
    };
    let poison: BTreeSet<u64> =
        world.log.iter().filter(|_| random.u8(..12) == 0).map(|record| record.global_sequence).collect();
    let mut machine = Machine::new(policy.clone());
    let mut storing: Option<u64> = None;
    // As it was a while ago: what a server that recovers may go back to.
    let mut before = world.clone();
    for _ in 0..20_000 {
        if world.checkpoint >= end && storing.is_none() {
            break;
        }
        match random.u32(..400) {
            0 => {
                // The process dies. At most a batch that was handled is not in the checkpoint.
                let again = world.order.iter().filter(|sequence| **sequence > world.checkpoint).count();
                assert!(again <= policy.batch, "seed {seed}: {again} events again, batch {}", policy.batch);
                machine = Machine::new(policy.clone());
                storing = None;
                world.order.clear();
                continue;
            }
            1 => {
                // Whatever the store returns. Leading or not, it continues from what is stored.
                let error = match random.u8(..6) {
                    0 => fenced(Some(7)),
                    1 => fenced(None),
                    2 => Error::UnknownOutcome { source: "lost".into() },
                    3 => Error::Interrupted { reason: "another life".to_owned() },
                    4 => Error::Damaged { action: "read", source: "half a row".into() },
                    _ => Error::Unavailable { action: "answer", source: "away".into() },
                };
                match machine.on_error(&error, random.bool()) {
                    Reaction::Retry => {}
                    Reaction::Halt => {
                        // Resuming means claiming leadership again.
                        machine.on_interrupted();
                        (storing, world.order) = (None, Vec::new());
                    }
                    Reaction::Reread | Reaction::StartAgain | Reaction::StandBack => {
                        (storing, world.order) = (None, Vec::new());
                    }
                }
                continue;
            }
            2 => machine.on_intent(Intent::Pause),
            3..=6 => machine.on_intent(Intent::Run),
            7 => machine.on_asked_to_yield(random.u8(..4) > 0),
            8 => before = world.clone(),
            // The server has lost what was committed, and the machine has not been told. (What is written without a
            // transaction names the life of the server; that is the driver's to find out.)
            9 if policy.transactional && storing.is_none() => {
                let World { seen, order, setup_version, .. } = world;
                world = World { seen, order, setup_version, ..before.clone() };
                // What was handled within a transaction is lost with it.
                world.order.retain(|sequence| *sequence <= world.checkpoint);
            }
            _ => {}
        }
        if let Some(to) = storing.filter(|_| random.bool()) {
            let arrived = random.u8(..10) > 0;
            if arrived {
                world.checkpoint = world.checkpoint.max(to);
            }
            machine.on_stored(arrived);
            storing = None;
        }
        let asked = random.u8(..50) == 0;
        let now = Now { overdue: random.u8(..5) == 0, more: random.bool(), asked };
        match machine.step(now) {
            Step::Take => machine.on_taken(Inherited {
                global_sequence: world.checkpoint,
                parked: world.parked(),
                setup_version: world.setup_version,
                begun: world.checkpoint > 0,
            }),
            Step::SetUp { anew } => {
                assert!(!anew, "seed {seed}: nothing else has set it up");
                // It fails, or its answer is lost, or it is done.
                match random.u8(..4) {
                    0 => {}
                    1 => {
                        world.setup_version = policy.version;
                        machine.on_interrupted();
                        (storing, world.order) = (None, Vec::new());
                    }
                    _ => {
                        world.setup_version = policy.version;
                        machine.on_set_up();
                    }
                }
            }
            Step::Read => {
                let after = machine.handled();
                let size = random.usize(1..10);
                let mut left = world.log.iter().filter(|record| record.global_sequence > after);
                let records: Vec<Record> = left.by_ref().take(size).cloned().collect();
                let next = left.next().map_or(end, |next| next.global_sequence - 1);
                let last = records.last().map_or(after, |last| last.global_sequence);
                machine.on_page(Arc::new(records), random.u64(last..=next));
            }
            Step::Handle { count } if policy.transactional => {
                assert!(world.setup_version == policy.version, "seed {seed}: an event before the tables are there");
                transact(&mut machine, &mut world, &poison, count, &mut random);
            }
            Step::Handle { count } => {
                let (records, range) = machine.front(count);
                let records = &records[range];
                let fails = |record: &&Record| poison.contains(&record.global_sequence);
                let done = records.iter().position(|record| fails(&record)).unwrap_or(records.len());
                for record in &records[..done] {
                    world.handle(record, &machine);
                }
                machine.on_handled(done);
                if done < records.len() {
                    machine.on_failed(1, random.u8(..4) == 0, "poison");
                }
            }
            Step::Store if !machine.continues_from(world.checkpoint) => interrupt(&mut machine, &mut world),
            Step::Store => storing = Some(machine.on_storing().0),
            Step::AwaitStore => {}
            Step::Bury { .. } | Step::Park if random.u8(..5) == 0 => machine.on_bury_failed(),
            Step::Bury { .. } | Step::Park | Step::Serve if !machine.continues_from(world.checkpoint) => {
                interrupt(&mut machine, &mut world);
            }
            step @ (Step::Bury { .. } | Step::Park) => {
                assert!(storing.is_none(), "seed {seed}: a checkpoint in flight could overtake the dead letter's");
                let (records, range) = machine.front(1);
                let record = &records[range.start];
                let parks = step != Step::Bury { park: false };
                world.dead_letters.insert(record.global_sequence, parks);
                world.checkpoint = record.global_sequence;
                machine.on_buried(world.parked().get(&record.stream_id).copied().unwrap_or(0));
                assert_eq!(machine.stored(), world.checkpoint, "seed {seed}: what is believed to be stored");
            }
            Step::Sleep => machine.on_due(),
            Step::Serve => {
                assert!(storing.is_none(), "seed {seed}: a checkpoint in flight could overtake a replay's");
                world.replay(&mut machine);
            }
            Step::Rest => machine.on_intent(Intent::Run),
            Step::Yield => {
                let again = world.order.iter().filter(|sequence| **sequence > world.checkpoint).count();
                assert!(storing.is_none() && again == 0, "seed {seed}: a new leader does {again} events again");
                machine.on_not_leading();
                world.order.clear();
            }
            Step::End => unreachable!("nobody wished for it"),
        }
        let open = |record: &&Record| record.global_sequence <= world.checkpoint && !world.is_done(record, &policy);
        assert!(
            world.log.iter().find(open).is_none(),
            "seed {seed}: the checkpoint has passed an event that is not done"
        );
    }
    assert!(world.checkpoint >= end, "seed {seed}: it never gets to the end");
}

fn interrupt(machine: &mut Machine, world: &mut World) {
    machine.on_interrupted();
    world.order.clear();
}

/// One transaction: begins by looking at what is stored, commits everything or nothing, and the answer may be lost.
fn transact(
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
    if !new.is_empty() {
        for record in new {
            assert!(world.model.insert(record.global_sequence), "an event is in the model twice");
            world.handle(record, machine);
        }
        world.checkpoint = to;
    }
    // A lost answer: the same batch comes again.
    if random.u8(..6) > 0 {
        machine.on_committed(count);
    }
}

impl World {
    fn parked(&self) -> HashMap<Uuid, u64> {
        let mut parked = HashMap::new();
        for (sequence, _) in self.dead_letters.iter().filter(|(_, parks)| **parks) {
            let record = self.log.iter().find(|record| record.global_sequence == *sequence);
            *parked.entry(record.map_or(Uuid::nil(), |record| record.stream_id)).or_default() += 1;
        }
        parked
    }

    fn handle(&mut self, record: &Record, machine: &Machine) {
        assert!(
            !self.parked().contains_key(&record.stream_id),
            "an event overtook one that its stream is parked behind"
        );
        assert!(self.order.last().is_none_or(|last| *last < record.global_sequence), "out of order");
        assert!(record.global_sequence > machine.handled(), "handed over although it was done");
        self.order.push(record.global_sequence);
        *self.seen.entry(record.global_sequence).or_default() += 1;
    }

    fn is_done(&self, record: &Record, policy: &Policy) -> bool {
        let handled = if policy.transactional {
            self.model.contains(&record.global_sequence)
        } else {
            self.seen.contains_key(&record.global_sequence)
        };
        handled || self.dead_letters.contains_key(&record.global_sequence)
    }

    /// Everything that waits is handled now, in order.
    fn replay(&mut self, machine: &mut Machine) {
        for (sequence, _) in std::mem::take(&mut self.dead_letters) {
            self.seen.insert(sequence, 1);
            self.model.insert(sequence);
        }
        for stream in self.log.iter().map(|record| record.stream_id).collect::<BTreeSet<_>>() {
            machine.on_parked_left(stream, 0);
        }
    }
}

#[test]
fn whatever_happens_nothing_is_passed_over_doubled_in_a_transaction_or_out_of_order() {
    for seed in 0..3_000 {
        survive(seed);
    }
}
