//! Dead letters in memory.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::MemoryEventStore;
use crate::{BoxFuture, DeadLetter, DeadLetterDetail, DeadLetterQuery, DeadLetters, Error};

impl DeadLetters for MemoryEventStore {
    fn parked<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Vec<(Uuid, u64)>, Error>> {
        Box::pin(async move {
            let mut streams = std::collections::BTreeMap::new();
            for dead_letter in self.delivery.state().dead_letters.values() {
                if dead_letter.subscriber_id == subscriber_id && dead_letter.parks && dead_letter.state.is_open() {
                    *streams.entry(dead_letter.stream_id).or_default() += 1;
                }
            }
            Ok(streams.into_iter().collect())
        })
    }

    fn dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<Vec<DeadLetter>, Error>> {
        Box::pin(async move {
            let after = query.after.map(|after| (after.global_sequence, after.id));
            let mut dead_letters: Vec<DeadLetter> = (self.delivery.state().dead_letters.values())
                .filter(|dead_letter| matches(query, dead_letter))
                .filter(|dead_letter| after.is_none_or(|after| (dead_letter.global_sequence, dead_letter.id) > after))
                .cloned()
                .collect();
            dead_letters.sort_by_key(|dead_letter| (dead_letter.global_sequence, dead_letter.id));
            dead_letters.truncate(query.limit);
            for dead_letter in &mut dead_letters {
                dead_letter.stream_name = self.log.record(dead_letter.event_id).and_then(|record| record.stream_name);
            }
            Ok(dead_letters)
        })
    }

    fn count_dead_letters<'a>(&'a self, query: &'a DeadLetterQuery) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            let state = self.delivery.state();
            Ok(state.dead_letters.values().filter(|dead_letter| matches(query, dead_letter)).count() as u64)
        })
    }

    fn dead_letter(&self, id: Uuid) -> BoxFuture<'_, Result<Option<DeadLetterDetail>, Error>> {
        Box::pin(async move {
            let state = self.delivery.state();
            let Some(mut dead_letter) = state.dead_letters.get(&id).cloned() else { return Ok(None) };
            let attempts = state.attempts.get(&id).cloned().unwrap_or_default();
            drop(state);
            let record = self.log.record(dead_letter.event_id);
            dead_letter.stream_name = record.as_ref().and_then(|record| record.stream_name.clone());
            Ok(Some(DeadLetterDetail { dead_letter, record, attempts }))
        })
    }

    fn purge_dead_letters<'a>(
        &'a self,
        subscriber_id: &'a str,
        before: DateTime<Utc>,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            let mut state = self.delivery.state();
            self.filling.check()?;
            let count = state.dead_letters.len();
            state.dead_letters.retain(|_, dead_letter| {
                dead_letter.subscriber_id != subscriber_id
                    || dead_letter.resolved_at.is_none_or(|resolved| resolved >= before)
            });
            let purged = count - state.dead_letters.len();
            state.requests.retain(|request| {
                let finished = request.outcome.as_ref().and_then(|outcome| outcome.finished_at);
                request.subscriber_id != subscriber_id || finished.is_none_or(|finished| finished >= before)
            });
            let state = &mut *state;
            state.attempts.retain(|dead_letter, _| state.dead_letters.contains_key(dead_letter));
            Ok(purged as u64)
        })
    }
}

fn matches(query: &DeadLetterQuery, dead_letter: &DeadLetter) -> bool {
    query.subscriber_id.as_ref().is_none_or(|id| *id == dead_letter.subscriber_id)
        && query.stream_id.is_none_or(|id| id == dead_letter.stream_id)
        && query.event_type.as_ref().is_none_or(|name| *name == dead_letter.event_type)
        && query.since.is_none_or(|since| dead_letter.created_at >= since)
        && query.until.is_none_or(|until| dead_letter.created_at < until)
        && query.states.contains(&dead_letter.state)
}
