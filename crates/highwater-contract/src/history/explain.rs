//! Looking for an order in which all answers make sense.

use std::collections::{HashMap, VecDeque};

use highwater::backend::{Log, Record};
use highwater::{Appended, Error, MemoryEventStore};
use uuid::Uuid;

use super::concurrent::Call;

/// Checks every answer against the log as it was in the end.
pub(super) async fn explain(calls: &[Call], log: &[Record]) {
    let by_id: HashMap<Uuid, &Record> = log.iter().map(|record| (record.id, record)).collect();
    assert_eq!(by_id.len(), log.len(), "an id occurs once");
    let mut stored: HashMap<Uuid, (&Call, &Appended)> = HashMap::new();
    for call in calls {
        match &call.answer {
            Ok(done) => {
                assert_stored(call, done, &by_id);
                let (first_id, known) = (call.draft.records[0].id, (call, done));
                if !done.repeated {
                    assert_not_before_its_time(call, done);
                    assert!(stored.insert(first_id, known).is_none(), "only one of the same appends was the first");
                }
            }
            Err(error) => assert_explicable(call, error, log),
        }
    }
    let events: usize = stored.values().map(|(call, _)| call.draft.records.len()).sum();
    assert_eq!(events, log.len(), "the log holds what was acknowledged and nothing else");
    replay(stored.into_values().collect()).await;
}

fn assert_stored(call: &Call, done: &Appended, by_id: &HashMap<Uuid, &Record>) {
    for (new, position) in call.draft.records.iter().zip(&done.positions) {
        let Some(record) = by_id.get(&new.id) else { panic!("{} was acknowledged but is not there", new.id) };
        let wanted = Record {
            id: new.id,
            stream_id: new.stream_id,
            // What it has is for the replay to say.
            stream_name: record.stream_name.clone(),
            stream_version: position.stream_version,
            global_sequence: position.global_sequence,
            event_type: new.event_type.clone(),
            schema_version: new.schema_version,
            data: new.data.clone(),
            metadata: new.metadata.clone(),
            created_at: new.created_at,
        };
        assert_eq!(**record, wanted, "what was acknowledged is there, as it was written and where it was said to be");
    }
}

/// What was acknowledged before a call was made comes before what the call stored.
fn assert_not_before_its_time(call: &Call, done: &Appended) {
    assert!(done.positions[0].global_sequence > call.global_sequence, "the order only ever grows");
    for (new, position) in call.draft.records.iter().zip(&done.positions) {
        let reached = call.versions.get(&new.stream_id).copied().unwrap_or(0);
        assert!(position.stream_version > reached, "version {reached} had been acknowledged before");
    }
}

fn assert_explicable(call: &Call, error: &Error, log: &[Record]) {
    let Error::Conflict { stream_id, expected, actual, .. } = error else {
        panic!("nothing but a conflict can come of this append: {error:?}");
    };
    assert!(call.draft.streams.contains(&(*stream_id, *expected)), "it did not expect that: {error}");
    assert!(!expected.accepts(*actual), "this is as expected: {error}");
    let reached = call.versions.get(stream_id).copied().unwrap_or(0);
    let last = log.iter().filter(|record| record.stream_id == *stream_id).count() as u64;
    assert!((reached..=last).contains(actual), "the stream went from {reached} to {last}: {error}");
}

/// Stores the same appends one after the other in memory, each when all its streams have come to where it found them.
async fn replay(stored: Vec<(&Call, &Appended)>) {
    let mut waiting: VecDeque<(&Call, &Appended)> = stored.into();
    waiting.make_contiguous().sort_by_key(|(_, done)| done.positions[0].global_sequence);
    let memory = MemoryEventStore::new();
    let mut versions: HashMap<Uuid, u64> = HashMap::new();
    let mut passed_over = 0;
    while let Some((call, done)) = waiting.pop_front() {
        let mut after = versions.clone();
        let fits = call.draft.records.iter().zip(&done.positions).all(|(new, position)| {
            let version = after.entry(new.stream_id).or_default();
            *version += 1;
            *version == position.stream_version
        });
        if !fits {
            waiting.push_back((call, done));
            passed_over += 1;
            assert!(passed_over <= waiting.len(), "there is no order in which each append finds its streams as it did");
            continue;
        }
        match memory.append(&call.append).await {
            Ok(again) => {
                let versions = |done: &Appended| -> Vec<u64> {
                    done.positions.iter().map(|position| position.stream_version).collect()
                };
                assert_eq!(versions(&again), versions(done), "one after the other the same comes of it");
            }
            Err(error) => panic!("it was stored, though its turn would never have come: {error}"),
        }
        (versions, passed_over) = (after, 0);
    }
}
