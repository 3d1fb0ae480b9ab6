//! Faults of appending: parts stored, expectations not held, numbers out of order.

use highwater::backend::{BoxFuture, Log, Position, Record};
use highwater::{Append, Appended, Error, ExpectedVersion};

use crate::faulty::{Fault, Sound};

/// Stores event by event and looks at a stream when its turn comes: what came before a conflict stays.
pub(crate) struct StoresEventByEvent;

impl Fault for StoresEventByEvent {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let mut expected = append.streams().to_vec();
            let (mut positions, mut repeated) = (Vec::new(), true);
            for record in sound.records(append)? {
                let named = expected.iter().position(|(stream_id, _)| *stream_id == record.stream_id);
                let first = named.map_or(ExpectedVersion::Any, |at| expected.swap_remove(at).1);
                let done = sound.memory.append(&Append::to(record.stream_id).expecting(first).record(record)).await?;
                positions.extend(done.positions);
                repeated &= done.repeated;
            }
            Ok(Appended::new(positions, repeated).expect("it has events"))
        })
    }
}

/// Stores the first hundred events of an append and answers for all of them.
pub(crate) struct StoresTheFirstHundredEvents;

impl Fault for StoresTheFirstHundredEvents {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let records = sound.records(append)?;
            let short = sound.changed(append, |expected| expected, |records| records.truncate(100))?;
            let done = sound.memory.append(&short).await?;
            let mut positions = done.positions;
            while positions.len() < records.len() {
                let Position { stream_version, global_sequence } = positions[positions.len() - 1];
                positions.push(Position { stream_version: stream_version + 1, global_sequence: global_sequence + 1 });
            }
            Ok(Appended::new(positions, done.repeated).expect("it has events"))
        })
    }
}

/// Replaces what is expected of every stream.
pub(crate) struct Expects(pub(crate) fn(ExpectedVersion) -> ExpectedVersion);

impl Fault for Expects {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move { sound.memory.append(&sound.changed(append, self.0, |_| {})?).await })
    }
}

/// Expects of every stream what is expected of the last.
pub(crate) struct ExpectsTheSameOfAllStreams;

impl Fault for ExpectsTheSameOfAllStreams {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let last = append.streams().last().map_or(ExpectedVersion::Any, |(_, expected)| *expected);
            sound.memory.append(&sound.changed(append, |_| last, |_| {})?).await
        })
    }
}

/// Accepts a version that the stream has passed already.
pub(crate) struct AcceptsVersionsThatHavePassed;

impl Fault for AcceptsVersionsThatHavePassed {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            match sound.memory.append(append).await {
                Err(Error::Conflict { expected: ExpectedVersion::Exact(version), actual, .. })
                    if 0 < version && version < actual =>
                {
                    sound.memory.append(&sound.changed(append, |_| ExpectedVersion::Any, |_| {})?).await
                }
                answer => answer,
            }
        })
    }
}

/// Says of every conflict that the stream does not exist.
pub(crate) struct DoesNotSayWhereTheStreamIs;

impl Fault for DoesNotSayWhereTheStreamIs {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            sound.memory.append(append).await.map_err(|error| match error {
                Error::Conflict { stream_id, stream_name, expected, .. } => {
                    Error::Conflict { stream_id, stream_name, expected, actual: 0 }
                }
                other => other,
            })
        })
    }
}

/// Looks, and then leaps: another writer may have come between.
pub(crate) struct ChecksAndThenActs;

impl Fault for ChecksAndThenActs {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let checked = sound.changed(append, |_| ExpectedVersion::Any, |_| {})?;
            let ids: Vec<_> = append.event_ids().collect();
            if !sound.everything().await?.iter().any(|record| ids.contains(&record.id)) {
                sound.check_expectations(append).await?;
                tokio::task::yield_now().await;
            }
            sound.memory.append(&checked).await
        })
    }
}

/// Leaves out every ninth version of a stream.
pub(crate) struct LeavesHolesInVersions;

fn with_holes(stream_version: u64) -> u64 {
    stream_version + (stream_version - 1) / 8
}

impl Fault for LeavesHolesInVersions {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let mut done = sound.memory.append(append).await?;
            for position in &mut done.positions {
                position.stream_version = with_holes(position.stream_version);
            }
            Ok(Appended::new(done.positions, done.repeated).expect("it has events"))
        })
    }

    fn seen(&self, record: &mut Record) {
        record.stream_version = with_holes(record.stream_version);
    }
}

/// Numbers the events of an append from its last to its first, when there are many.
pub(crate) struct NumbersBackwards;

impl Fault for NumbersBackwards {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let turned = sound.changed(append, |expected| expected, |records| records.reverse())?;
            if turned.event_ids().count() <= 5 {
                return sound.memory.append(append).await;
            }
            let mut done = sound.memory.append(&turned).await?;
            done.positions.reverse();
            Ok(Appended::new(done.positions, done.repeated).expect("it has events"))
        })
    }
}

/// Groups the events of an append by stream before it numbers them.
pub(crate) struct NumbersStreamByStream;

impl Fault for NumbersStreamByStream {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let records = sound.records(append)?;
            let mut order: Vec<usize> = (0..records.len()).collect();
            order.sort_by_key(|at| records[*at].stream_id);
            let sorted = sound.changed(
                append,
                |expected| expected,
                |records| {
                    records.sort_by_key(|record| record.stream_id);
                },
            )?;
            let done = sound.memory.append(&sorted).await?;
            let mut positions = done.positions.clone();
            for (from, to) in order.into_iter().enumerate() {
                positions[to] = done.positions[from];
            }
            Ok(Appended::new(positions, done.repeated).expect("it has events"))
        })
    }
}
