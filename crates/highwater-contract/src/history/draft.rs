//! Appends while they are being made up.

use chrono::DateTime;
use highwater::backend::NewRecord;
use highwater::{Append, ExpectedVersion, StreamName};
use uuid::Uuid;

/// Types that occur in histories. The first is rare.
pub(super) const TYPES: [&str; 4] = ["Rare", "Deposited", "Noted", "Ключ"];

/// An append that can still be changed.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) streams: Vec<(Uuid, ExpectedVersion)>,
    pub(super) records: Vec<NewRecord>,
}

impl Draft {
    /// Events to one to three of these streams, with expectations that hold more often than not.
    pub(super) fn random(random: &mut fastrand::Rng, streams: &[Uuid], version: impl Fn(Uuid) -> u64) -> Self {
        let how_many = [1, 1, 1, 2, 3][random.usize(..5)];
        let chosen = random.choose_multiple(streams.iter().copied(), how_many);
        let mut named = |stream_id| (stream_id, expectation(random, version(stream_id)));
        let streams: Vec<_> = chosen.iter().map(|stream_id| named(*stream_id)).collect();
        let mut to = chosen.clone();
        to.extend((0..random.usize(..4)).map(|_| chosen[random.usize(..chosen.len())]));
        random.shuffle(&mut to);
        let records = to.into_iter().map(|stream_id| record(random, stream_id)).collect();
        Self { streams, records }
    }

    pub(super) fn append(&self) -> Append {
        let named = |append: Append, &(stream_id, expected): &(Uuid, ExpectedVersion)| {
            append.and_to(stream_id).expecting(expected)
        };
        let append = self.streams.iter().fold(Append::to(self.streams[0].0), named);
        self.records.iter().cloned().fold(append, Append::record)
    }

    /// Whether every stream is as expected.
    pub(super) fn is_accepted(&self, version: impl Fn(Uuid) -> u64) -> bool {
        self.streams.iter().all(|(stream_id, expected)| expected.accepts(version(*stream_id)))
    }
}

fn expectation(random: &mut fastrand::Rng, version: u64) -> ExpectedVersion {
    match random.u8(..20) {
        0..=7 => ExpectedVersion::Any,
        8..=14 => ExpectedVersion::Exact(version),
        15 => ExpectedVersion::Exact(version + 1),
        16 => ExpectedVersion::Exact(version.saturating_sub(1)),
        17 => ExpectedVersion::NoStream,
        _ => ExpectedVersion::StreamExists,
    }
}

pub(super) fn record(random: &mut fastrand::Rng, stream_id: Uuid) -> NewRecord {
    let number = random.i64(..);
    let data = match random.u8(..5) {
        0 => "null".to_owned(),
        1 => format!("{{\"z\":{number},\"a\":1.50}}"),
        2 => format!("[{number},\"é\",\"{}\"]", "x".repeat(random.usize(..300))),
        _ => format!("{{\"cents\":{number}}}"),
    };
    let metadata = if random.bool() { "{}".to_owned() } else { format!("{{\"trace\":\"{number}\"}}") };
    let event_type = if random.u8(..30) == 0 { TYPES[0] } else { TYPES[random.usize(1..TYPES.len())] };
    NewRecord {
        id: Uuid::from_u128(random.u128(..)),
        stream_id,
        stream_name: stream_name(random),
        event_type: event_type.to_owned(),
        schema_version: random.u32(1..4),
        data,
        metadata,
        created_at: DateTime::from_timestamp_micros(random.i64(0..4_000_000_000_000_000)).expect("this is in range"),
    }
}

/// Whatever a stream is called, now this way and now that: it keeps its first name.
fn stream_name(random: &mut fastrand::Rng) -> Option<StreamName> {
    let name = match random.u8(..8) {
        0..=4 => return None,
        5 => "order/17",
        6 => "order/ä",
        _ => "customer/17/billing",
    };
    Some(name.into())
}
