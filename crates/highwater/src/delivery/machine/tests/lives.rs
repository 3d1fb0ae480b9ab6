//! Lives of the machine, at random, in a world in which everything goes wrong.

use std::collections::BTreeSet;

use super::term::fenced;
use super::world::{World, interrupt, transact};
use super::*;

/// By which another instance is known.
const OTHER: Uuid = Uuid::from_u128(8);

/// Runs a subscriber to the end of the log while handlers fail, dead letters cannot be written, checkpoints are lost,
/// answers are lost, servers are replaced, other instances take over, processes die, and operators pause, stop, delete and
/// request replays. Every write is checked against the term and the life of the server, as a store does.
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
    let exclusive = random.bool();
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
                refuse(&mut machine, &mut world, &error, exclusive, &mut storing, &mut fenced_off);
                continue;
            }
            2 => machine.on_intent(Intent::Pause),
            3..=6 => machine.on_intent(Intent::Run),
            7 => machine.on_asked_to_yield(random.u8(..4) > 0),
            8 => before = world.clone(),
            // The server has lost what was committed, and the machine has not been told. Where the life of the server is the
            // same, only a transaction tells, by where it begins.
            9 if storing.is_none() => {
                let resurrected = before.dead_letters.keys().any(|event| !world.dead_letters.contains_key(event));
                world.go_back_to(&before);
                world.incarnation += u64::from(resurrected || !policy.transactional);
                // What was handled within a transaction is lost with it.
                world.order.retain(|sequence| *sequence <= world.checkpoint);
            }
            10 => world.resolve(|_| true),
            11 => world.raise(OTHER),
            // An attempt of its own, whose answer was lost, takes effect late.
            12 if world.term.is_some() => world.raise(NONCE),
            13 => world.incarnation += 1,
            14 if random.u8(..8) == 0 => {
                world.delete();
                before = world.clone();
            }
            _ => {}
        }
        if let Some(to) = storing.filter(|_| random.bool()) {
            if let Err(error) = world.check(&machine) {
                machine.on_stored(false);
                refuse(&mut machine, &mut world, &error, exclusive, &mut storing, &mut fenced_off);
                continue;
            }
            let arrived = random.u8(..10) > 0;
            if arrived {
                world.checkpoint = world.checkpoint.max(to);
            }
            machine.on_stored(arrived);
            storing = None;
        }
        asked |= random.u8(..50) == 0;
        let now = Now { overdue: random.u8(..5) == 0, more: random.bool(), asked };
        let step = machine.step(now);
        let checked = match &step {
            Step::Lead => {
                assert!(machine.fence().is_err(), "seed {seed}: it has a term, and raises it");
                (fenced_off, storing) = (false, None);
                world.raise(NONCE);
                // Its answer is lost, or it is not.
                if random.u8(..20) > 0 {
                    machine.on_leading(&world.stored().expect("the term was just raised"));
                }
                continue;
            }
            Step::Reread => machine.on_reread(world.stored().as_ref()),
            Step::Read => machine.check_life(Some(world.incarnation)),
            Step::Handle { .. } if policy.transactional => world.check(&machine),
            Step::SetUp { .. } | Step::Store | Step::Bury { .. } | Step::Park | Step::Serve => world.check(&machine),
            _ => Ok(()),
        };
        if let Err(error) = checked {
            refuse(&mut machine, &mut world, &error, exclusive, &mut storing, &mut fenced_off);
            continue;
        }
        match step {
            Step::Reread => {
                machine.on_taken(Inherited {
                    global_sequence: world.checkpoint,
                    parked: world.parked(),
                    setup_version: world.setup_version,
                    begun: world.checkpoint > 0,
                });
                assert!(!matches!(machine.judge(), Verdict::Leaves { .. }), "seed {seed}: no program is newer");
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
                let fence = machine.fence().expect("nothing is read without a term");
                assert_eq!(fence.incarnation, world.incarnation, "seed {seed}: a page of another life of the server");
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
                    assert!(!fenced_off || next == Step::Lead, "seed {seed}: it remembers what another may have moved");
                }
            }
            Step::Yield => {
                let again = world.order.iter().filter(|sequence| **sequence > world.checkpoint).count();
                assert!(storing.is_none() && again == 0, "seed {seed}: a new leader does {again} events again");
                machine.on_not_leading();
                world.order.clear();
            }
            Step::Lead | Step::End => unreachable!("it leads already, and nothing asks for an end"),
        }
        let open = |record: &&Record| record.global_sequence <= world.checkpoint && !world.is_done(record, &policy);
        assert!(
            world.log.iter().find(open).is_none(),
            "seed {seed}: the checkpoint has passed an event that is not done"
        );
    }
    assert!(world.checkpoint >= end, "seed {seed}: it never gets to the end");
}

/// The store refuses something.
fn refuse(
    machine: &mut Machine,
    world: &mut World,
    error: &Error,
    exclusive: bool,
    storing: &mut Option<u64>,
    fenced_off: &mut bool,
) {
    let reaction = machine.on_error(error, exclusive);
    if reaction != Reaction::Retry {
        (*storing, world.order, *fenced_off) = (None, Vec::new(), reaction == Reaction::Halt);
    }
    let released = matches!(reaction, Reaction::StartAgain | Reaction::StandBack | Reaction::Halt);
    assert!(!released || machine.fence().is_err(), "what was released is not written with");
}

/// The read model is emptied, and the machine told.
fn rebuild(machine: &mut Machine, world: &mut World, policy: &Policy) {
    world.rebuild(policy.version);
    world.raise(NONCE);
    machine.on_new_term(world.term.expect("it was just raised"));
    machine.on_taken(Inherited { setup_version: policy.version, ..Inherited::default() });
}

#[test]
fn whatever_happens_nothing_is_passed_over_doubled_in_a_transaction_or_out_of_order() {
    for seed in 0..3_000 {
        survive(seed);
    }
}
