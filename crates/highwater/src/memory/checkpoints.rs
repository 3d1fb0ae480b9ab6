//! Checkpoints in memory.

use chrono::Utc;

use super::MemoryEventStore;
use super::delivery::Row;
use crate::checkpoints::start_is_gone;
use crate::{BoxFuture, Checkpoint, CheckpointWrite, Checkpoints, Claim, Error, Refused, Report, Taken, Term};

impl Checkpoints for MemoryEventStore {
    fn take_over<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Taken, Error>> {
        Box::pin(async move {
            let subscriber_id = &*claim.subscriber_id;
            let _held = self.delivery.lock(subscriber_id).await?;
            let mut state = self.delivery.state();
            self.filling.check()?;
            let term = Term { nonce: claim.nonce, ..state.new_term() };
            let updated_at = Utc::now();
            let fresh = !state.checkpoints.contains_key(subscriber_id);
            if fresh && claim.start_event.is_some_and(|event| self.log.record(event).is_none()) {
                return Err(start_is_gone(claim));
            }
            let life = self.log.life();
            let new = Row { global_sequence: claim.start, event_id: None, updated_at, term, setup_version: None, life };
            let row = state.checkpoints.entry(subscriber_id.to_owned()).or_insert(new);
            (row.term, row.updated_at) = (term, updated_at);
            self.leadership.took_over(claim);
            Ok(Taken { checkpoint: checkpoint(subscriber_id, row), fresh })
        })
    }

    fn store_checkpoints<'a>(
        &'a self,
        writes: &'a [CheckpointWrite],
    ) -> BoxFuture<'a, Result<Vec<Option<Refused>>, Error>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(writes.len());
            for write in writes {
                let _held = self.delivery.lock(&write.fence.subscriber_id).await?;
                let mut state = self.delivery.state();
                self.filling.check()?;
                answers.push(match state.fenced(&write.fence) {
                    Ok(row) if row.global_sequence > write.global_sequence => None,
                    Ok(row) => {
                        row.global_sequence = write.global_sequence;
                        row.event_id = write.event_id.or(row.event_id);
                        row.updated_at = Utc::now();
                        None
                    }
                    Err(refused) => Some(refused),
                });
            }
            Ok(answers)
        })
    }

    fn checkpoint<'a>(&'a self, subscriber_id: &'a str) -> BoxFuture<'a, Result<Option<Checkpoint>, Error>> {
        Box::pin(async move {
            let state = self.delivery.state();
            Ok(state.checkpoints.get(subscriber_id).map(|row| checkpoint(subscriber_id, row)))
        })
    }

    fn checkpoints(&self) -> BoxFuture<'_, Result<Vec<Checkpoint>, Error>> {
        Box::pin(async {
            let state = self.delivery.state();
            Ok(state.checkpoints.iter().map(|(subscriber_id, row)| checkpoint(subscriber_id, row)).collect())
        })
    }

    fn store_reports<'a>(&'a self, reports: &'a [Report]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let mut state = self.delivery.state();
            for report in reports {
                if state.reports.get(&report.subscriber_id).is_none_or(|known| known.term <= report.term) {
                    state.reports.insert(report.subscriber_id.clone(), report.clone());
                }
            }
            Ok(())
        })
    }

    fn reports(&self) -> BoxFuture<'_, Result<Vec<Report>, Error>> {
        Box::pin(async { Ok(self.delivery.state().reports.values().cloned().collect()) })
    }
}

fn checkpoint(subscriber_id: &str, row: &Row) -> Checkpoint {
    Checkpoint {
        subscriber_id: subscriber_id.to_owned(),
        global_sequence: row.global_sequence,
        event_id: row.event_id,
        updated_at: row.updated_at,
        term: row.term,
        incarnation: row.life,
        setup_version: row.setup_version,
    }
}
