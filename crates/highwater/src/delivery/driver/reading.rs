//! Where the next events come from.

use std::sync::Arc;
use std::time::Instant;

use super::storing::arrived;
use super::{Driver, Source};
use crate::delivery::catch_up::CatchUp;
use crate::delivery::tail::{TURNED_AWAY, TailRead};
use crate::{Error, Filter, ReadLimit, Record};

impl Driver {
    pub(super) fn limit(&self) -> ReadLimit {
        ReadLimit { events: self.config.catch_up_batch_size, bytes: self.config.catch_up_batch_bytes_max }
    }

    /// Waits for the next page. Whatever else happens first is for the next step to look at.
    pub(super) async fn read(&mut self) -> Result<(), Error> {
        let position = self.machine.handled();
        let due = self.due();
        if self.is_at_rest() {
            self.calm();
        }
        match &mut self.source {
            Source::None => {
                let reader = CatchUp::start(&self.shared.backend, position, self.filter.clone(), self.limit());
                self.source = Source::CatchUp(reader);
                self.journal.catching_up(position);
            }
            Source::Near => match self.shared.tail.join(position, self.machine.fence()?.incarnation) {
                Some(slot) => {
                    self.source = Source::Tail(slot);
                    self.journal.live(position);
                }
                None => {
                    self.source = Source::None;
                    // Without progress in between: the tail has not noticed yet that the server was replaced.
                    if self.turned_away_at.replace(position) == Some(position) {
                        tokio::time::sleep(TURNED_AWAY).await;
                    }
                }
            },
            Source::CatchUp(reader) => {
                let overdue = overdue(due);
                let read = tokio::select! {
                    read = reader.next() => read,
                    () = self.signals.changed() => return Ok(()),
                    outcome = arrived(&mut self.storing) => return self.stored(outcome),
                    () = overdue, if !self.machine.is_storing() => return Ok(()),
                };
                match read {
                    None => self.source = Source::Near,
                    Some(Ok(read)) => {
                        self.calm();
                        self.machine.check_life(Some(read.page.incarnation))?;
                        let near = read.near;
                        self.on_page(Arc::new(read.page.records), read.page.complete_to);
                        if near {
                            self.source = Source::Near;
                        }
                    }
                    Some(Err(error)) => {
                        self.source = Source::None;
                        return Err(error);
                    }
                }
            }
            Source::Tail(slot) => match slot.find(position) {
                TailRead::Page(page) => {
                    let (records, complete_to) = (page.records.clone(), page.complete_to);
                    self.calm();
                    self.hand_page(records, complete_to);
                }
                TailRead::Behind => self.source = Source::None,
                TailRead::Void => return self.machine.check_life(None),
                TailRead::Nothing => {
                    let overdue = overdue(due);
                    tokio::select! {
                        () = slot.changed() => {}
                        () = self.signals.changed() => {}
                        outcome = arrived(&mut self.storing) => return self.stored(outcome),
                        () = overdue, if !self.machine.is_storing() => {}
                    }
                }
            },
        }
        Ok(())
    }

    /// Hands a shared page to the machine, without the events this subscriber does not want.
    pub(super) fn hand_page(&mut self, records: Arc<Vec<Record>>, complete_to: u64) {
        let wanted = |record: &Record| self.filter.accepts(record);
        let records = match &*self.filter {
            &Filter::ALL => records,
            _ if records.iter().all(wanted) => records,
            _ => Arc::new(records.iter().filter(|record| wanted(record)).cloned().collect()),
        };
        self.on_page(records, complete_to);
    }

    fn on_page(&mut self, records: Arc<Vec<Record>>, complete_to: u64) {
        self.kinds.check_read(&self.subscriber.id, &self.filter, records.iter());
        self.machine.on_page(records, complete_to);
        self.moved(0);
    }

    /// At the end of the log, with everything stored: whatever was wrong has passed.
    fn is_at_rest(&self) -> bool {
        matches!(self.source, Source::Tail(_))
            && self.trouble.is_some()
            && self.machine.handled() == self.machine.stored()
            && self.shared.tail.error().is_none()
    }

    pub(super) fn has_more(&mut self) -> bool {
        match &mut self.source {
            Source::CatchUp(reader) => reader.is_ready(),
            Source::Tail(slot) => matches!(slot.find(self.machine.handled()), TailRead::Page(_)),
            Source::None | Source::Near => false,
        }
    }

    /// The position has moved: from now on the checkpoint lags behind.
    pub(super) fn moved(&mut self, events: usize) {
        self.rate.add(events);
        if self.machine.handled() > self.machine.stored() {
            self.behind_since.get_or_insert_with(Instant::now);
        }
    }
}

/// Waits until the checkpoint has lagged behind for as long as it may. Never, when it does not.
async fn overdue(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
