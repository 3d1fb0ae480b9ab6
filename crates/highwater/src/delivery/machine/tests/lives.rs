//! Lives of the machine, at random, in a world in which everything goes wrong.

use std::collections::BTreeSet;

use super::world::{World, interrupt, transact};
use super::*;

/// Runs a subscriber to the end of the log while handlers fail, dead letters cannot be written, checkpoints are lost,
/// answers are lost, servers are replaced, processes die, and operators pause, stop and request replays.
fn survive(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let on_failure = [FailurePolicy::DeadLetter, FailurePolicy::ParkStream, FailurePolicy::Halt][random.usize(..3)];
    let policy = Policy {
        on_failure,
        max_retries: random.u32(..3),
        batch: [1, 2, 5, 50][random.usize(..4)],
        transactional: random.bool(),
        parked_per_stream_max: [1, 2, 100][random.usize(..3)],
        rebuilds: random.bool(),
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
    let mut world = World::new(log);
    if policy.version.is_some() && random.bool() {
        world.begun(random.usize(..world.log.len()), random.bool());
    }
    let mut poison: BTreeSet<u64> =
        world.log.iter().filter(|_| random.u8(..12) == 0).map(|record| record.global_sequence).collect();
    let mut machine = Machine::new(policy.clone());
    let mut storing: Option<u64> = None;
    // An operator has filed a request that is not served yet; another process has taken over.
    let (mut asked, mut fenced_off) = (false, false);
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
                (storing, fenced_off) = (None, false);
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
                let reaction = machine.on_error(&error, random.bool());
                if reaction != Reaction::Retry {
                    (storing, world.order, fenced_off) = (None, Vec::new(), reaction == Reaction::Halt);
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
                let resurrected = before.dead_letters.keys().any(|event| !world.dead_letters.contains_key(event));
                let World { seen, order, setup_version, lacks_events, .. } = world;
                world = World { seen, order, setup_version, lacks_events, ..before.clone() };
                // That dead letters are back which were dealt with is told by the life of the server as well.
                if resurrected {
                    interrupt(&mut machine, &mut world);
                }
                // What was handled within a transaction is lost with it.
                world.order.retain(|sequence| *sequence <= world.checkpoint);
            }
            10 => world.resolve(|_| true),
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
        asked |= random.u8(..50) == 0;
        let now = Now { overdue: random.u8(..5) == 0, more: random.bool(), asked };
        match machine.step(now) {
            // Another process takes over, again and again.
            Step::Take if random.u8(..20) == 0 => {
                fenced_off = machine.on_error(&fenced(Some(7)), random.bool()) == Reaction::Halt;
            }
            Step::Take => {
                fenced_off = false;
                machine.on_taken(Inherited {
                    global_sequence: world.checkpoint,
                    parked: world.parked(),
                    setup_version: world.setup_version,
                    begun: world.checkpoint > 0,
                });
            }
            Step::SetUp { anew: true } => {
                assert!(policy.rebuilds && world.lacks_events, "seed {seed}: nothing asks for a rebuild");
                // It fails, or its answer is lost, or it is done.
                match random.u8(..4) {
                    0 => {}
                    lost => {
                        rebuild(&mut machine, &mut world, &policy);
                        before = world.clone();
                        if lost == 1 {
                            interrupt(&mut machine, &mut world);
                        }
                    }
                }
            }
            Step::SetUp { anew: false } if machine.would_lack_events() && world.lacks_events => {
                machine.on_lacking_events();
            }
            Step::SetUp { anew: false } => {
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
                assert!(!world.lacks_events, "seed {seed}: an event for tables that lack those before it");
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
                world.bury(&step, &mut machine, random.u8(..4) == 0);
            }
            Step::Sleep => machine.on_due(),
            Step::Serve => {
                assert!(storing.is_none(), "seed {seed}: a checkpoint in flight could overtake a replay's");
                assert!(!fenced_off, "seed {seed}: requests are for the new leader");
                asked = false;
                if machine.unfit().is_some() {
                    rebuild(&mut machine, &mut world, &policy);
                    before = world.clone();
                } else {
                    world.replay(&mut machine);
                }
            }
            Step::Rest => {
                let why = machine.halted().is_some() || machine.intent() == Intent::Pause;
                assert!(why, "seed {seed}: it rests, and nobody is told to do anything about it");
                machine.on_intent(Intent::Run);
                if machine.halted().is_none() {
                    continue;
                }
                // An operator looks at it, and does what helps, or not.
                asked |= random.bool();
                if let Some(front) = machine.current().filter(|_| random.bool()) {
                    poison.remove(&front.global_sequence);
                }
                if random.bool() {
                    machine.on_resumed();
                    let next = machine.step(NOW);
                    assert!(!fenced_off || next == Step::Take, "seed {seed}: it remembers what another may have moved");
                }
            }
            Step::Yield => {
                let again = world.order.iter().filter(|sequence| **sequence > world.checkpoint).count();
                assert!(storing.is_none() && again == 0, "seed {seed}: a new leader does {again} events again");
                machine.on_not_leading();
                world.order.clear();
            }
            Step::End => unreachable!("nothing asks for an end"),
        }
        let open = |record: &&Record| record.global_sequence <= world.checkpoint && !world.is_done(record, &policy);
        assert!(
            world.log.iter().find(open).is_none(),
            "seed {seed}: the checkpoint has passed an event that is not done"
        );
    }
    assert!(world.checkpoint >= end, "seed {seed}: it never gets to the end");
}

/// The read model is emptied, and the machine told.
fn rebuild(machine: &mut Machine, world: &mut World, policy: &Policy) {
    world.rebuild(policy.version);
    machine.on_taken(Inherited { setup_version: policy.version, ..Inherited::default() });
}

#[test]
fn whatever_happens_nothing_is_passed_over_doubled_in_a_transaction_or_out_of_order() {
    for seed in 0..3_000 {
        survive(seed);
    }
}
