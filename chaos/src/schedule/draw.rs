//! Which faults there are, how often each is drawn, and which go together.

use super::{Fault, Purpose, Store};
use crate::cast::{ALONE_IN, Kind, ROLES};

/// Every kind that there is for a store, and how often it is drawn.
#[must_use]
pub fn kinds(store: Store) -> Vec<(&'static str, u32)> {
    let everywhere = [
        ("kill", 14),
        ("freeze", 8),
        ("restart", 6),
        ("clock", 4),
        ("leave", 4),
        ("pause", 2),
        ("replay", 6),
        ("rebuild", 2),
        ("disk-full", 3),
    ];
    let postgres = [
        ("terminate", 16),
        ("server-restart", 4),
        ("server-crash", 5),
        ("kill-backend", 6),
        ("promote", 4),
        ("lose-replica", 3),
        ("cut", 8),
        ("lose-answers", 4),
        ("lose-requests", 4),
        ("delay", 3),
        ("throttle", 3),
        ("forged-hints", 2),
    ];
    let more = if store == Store::Postgres { postgres.as_slice() } else { &[] };
    everywhere.iter().chain(more).copied().collect()
}

pub(super) fn draw(random: &mut fastrand::Rng, store: Store, instances: u32, only: &[String]) -> Fault {
    let mut kinds = kinds(store);
    if !only.is_empty() {
        kinds.retain(|(kind, _)| only.iter().any(|only| only == kind));
    }
    let mut ticket = random.u32(0..kinds.iter().map(|(_, weight)| weight).sum::<u32>().max(1));
    let drawn = kinds.iter().find(|(_, weight)| match ticket.checked_sub(*weight) {
        Some(rest) => {
            ticket = rest;
            false
        }
        None => true,
    });
    let instance = random.u32(1..=instances);
    let (short, long) = (random.u64(200..2_500), random.u64(500..9_000));
    let seldom = random.u32(0..4) == 0;
    // Links of odd instances go through a proxy, which alone can delay.
    let odd = (instance - 1) / 2 * 2 + 1;
    // Not the shaky ones: they take as long as they take, and are waited for at the end.
    let rebuildable = |role: &usize| ROLES[*role].kind == Kind::Transactional && !ROLES[*role].shaky;
    let transactional: Vec<usize> = (0..ROLES.len()).filter(rebuildable).collect();
    match drawn.map_or("kill", |(kind, _)| kind) {
        "freeze" => Fault::Freeze { instance, millis: long },
        "restart" => Fault::Restart { instance },
        "clock" => {
            let seconds = if seldom { random.i64(-90_000..90_000) } else { random.i64(-90..90) };
            Fault::Clock { instance, seconds, millis: long }
        }
        "leave" => {
            let role = random.usize(0..ROLES.len());
            Fault::Leave { instance: if ROLES[role].alone { ALONE_IN } else { instance }, role, millis: short }
        }
        "pause" => Fault::Pause { role: random.usize(0..ROLES.len()), millis: short },
        "replay" => Fault::Replay,
        "rebuild" => Fault::Rebuild { role: transactional[random.usize(0..transactional.len())] },
        "disk-full" => Fault::DiskFull { millis: short },
        "terminate" => {
            let purpose = Purpose::ALL[random.usize(0..Purpose::ALL.len())];
            Fault::Terminate { instance: if seldom { 0 } else { instance }, purpose }
        }
        "server-restart" => Fault::ServerRestart,
        "server-crash" => Fault::ServerCrash { millis: short },
        "kill-backend" => {
            Fault::KillBackend { purpose: Purpose::ALL[random.usize(0..Purpose::ALL.len())], millis: short }
        }
        "promote" => Fault::Promote,
        "lose-replica" => {
            let (restart, waits) = (random.bool(), random.u64(500..3_000));
            Fault::LoseReplica { restart, waits, millis: random.u64(1_000..4_000) }
        }
        "cut" => Fault::Cut { instance, millis: long },
        "lose-answers" => Fault::LoseAnswers { instance, millis: long },
        "lose-requests" => Fault::LoseRequests { instance, millis: long },
        "delay" => Fault::Delay { instance: odd, by: random.u64(20..400), millis: long },
        "forged-hints" => Fault::ForgedHints { millis: random.u64(13_000..17_000) },
        "throttle" => Fault::Throttle { instance, kbit: random.u64(64..2_000), millis: long },
        _ => Fault::Kill { instance, millis: short },
    }
}

/// Two faults of the server, of one link or of one process at once would only wait for each other. And terminating a
/// connection makes it give up waiting for the replica: what it has committed can be seen before it is safe, and a
/// promotion at that moment takes it back. That is PostgreSQL's own promise, not ours.
pub(super) fn goes_with(one: &Fault, other: &Fault) -> bool {
    let terminates = |fault: &Fault| matches!(fault, Fault::Terminate { .. });
    let both_servers = one.is_the_servers() && other.is_the_servers();
    let same = one.kind() == other.kind() || (one.instance().is_some() && one.instance() == other.instance());
    let takes_back = (terminates(one) && other.is_the_servers()) || (terminates(other) && one.is_the_servers());
    !both_servers && !same && !takes_back
}
