//! Whether the tables of a read model are those that the subscriber's code is written for. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use super::{Machine, Phase};
use crate::{Fence, Request, RequestKind};

/// What a new leader finds.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    /// How far the subscriber is.
    pub(crate) global_sequence: u64,
    /// Streams that are parked.
    pub(crate) parked: HashMap<Uuid, u64>,
    /// The version of the tables that were set up; none when none ever were.
    pub(crate) setup_version: Option<u32>,
    /// It has handled events, so that tables may hold something.
    pub(crate) begun: bool,
}

/// What follows from the tables that a new leader finds.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Events may be handed over, or the tables can be made.
    Fit,
    /// It halts, and keeps leadership: only the leader can carry out the rebuild, which may be requested already.
    Waits { reason: Arc<str> },
    /// It halts, and leaves the subscriber to instances of a newer program. Of the term that it had it reports why.
    Leaves { reason: Arc<str>, fence: Option<Fence> },
}

/// How the tables that are there compare with those that the code is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tables {
    /// They are the same, or the subscriber has none.
    Ready,
    /// There are none: `setup` makes them.
    Missing,
    /// None were ever set up here, and events were handled. Where `setup` makes any, those lack these events.
    Unknown,
    /// They are of an earlier version, or lack events that were handled before (`None`): to be built again.
    Older { found: Option<u32> },
    /// They are of a later version: the code is that of an instance that has not been upgraded yet.
    Newer { found: u32 },
}

impl Tables {
    /// `wanted`: the version that the code is written for; none where there is nothing to set up.
    pub(super) fn of(found: &Inherited, wanted: Option<u32>) -> Self {
        let Some(wanted) = wanted else { return Self::Ready };
        match found.setup_version {
            Some(version) if version == wanted => Self::Ready,
            Some(found) if found > wanted => Self::Newer { found },
            Some(version) => Self::Older { found: Some(version) },
            None if found.begun => Self::Unknown,
            None => Self::Missing,
        }
    }

    /// Why it must not process, with what to do about it.
    pub(super) fn reason(self, subscriber_id: &str, wanted: u32) -> Option<String> {
        match self {
            Self::Ready | Self::Missing | Self::Unknown => None,
            Self::Older { found } => {
                let found = match found {
                    Some(found) => format!("are of version {found}"),
                    None => "were never set up in this store, where it has handled events: those are not in them,"
                        .to_owned(),
                };
                Some(format!(
                    "its tables {found} and its code is of version {wanted}: rebuild it by `highwater rebuild {subscriber_id} \
                     --force`, or have it rebuild itself by SubscriberOptions::rebuild_on_new_version"
                ))
            }
            Self::Newer { found } => Some(format!(
                "its tables are of version {found} and its code here is of version {wanted}: it is left to instances of the \
                 newer program; upgrade this one, or give the code a version above {found}"
            )),
        }
    }
}

impl Machine {
    /// Leadership was acquired, with what is stored.
    pub(crate) fn on_taken(&mut self, found: Inherited) {
        let (intent, yielding, batch_size) = (self.intent, self.yielding, self.batch_size);
        let (fence, stands_by) = (self.fence.take(), self.stands_by);
        let tables = Tables::of(&found, self.policy.version);
        let phase = self.phase_with(tables);
        *self =
            Self { phase, tables, fence, stands_by, intent, yielding, batch_size, ..Self::new(self.policy.clone()) };
        (self.handled, self.stored, self.parked) = (found.global_sequence, found.global_sequence, found.parked);
    }

    fn phase_with(&self, tables: Tables) -> Phase {
        match tables {
            Tables::Ready => Phase::Running,
            Tables::Missing | Tables::Unknown => Phase::SettingUp { anew: false },
            Tables::Older { .. } if self.policy.rebuilds => Phase::SettingUp { anew: true },
            Tables::Older { .. } | Tables::Newer { .. } => {
                let wanted = self.policy.version.unwrap_or_default();
                Phase::Halted(tables.reason(&self.policy.subscriber_id, wanted).unwrap_or_default().into())
            }
        }
    }

    /// Whether tables that are made now would lack events that were handled before.
    pub(crate) fn would_lack_events(&self) -> bool {
        self.tables == Tables::Unknown
    }

    /// The tables that would be made lack events: nothing is made but by a rebuild.
    pub(crate) fn on_lacking_events(&mut self) {
        self.tables = Tables::Older { found: None };
        self.phase = self.phase_with(self.tables);
    }

    /// The tables were made, and that is stored.
    pub(crate) fn on_set_up(&mut self) {
        (self.phase, self.tables) = (Phase::Running, Tables::Ready);
    }

    /// Whether the tables are those that the code is written for.
    pub(crate) fn is_set_up(&self) -> bool {
        self.tables == Tables::Ready
    }

    /// What follows from the tables that were found. A subscriber that leaves them to instances of a newer program does not lead
    /// any more.
    pub(crate) fn judge(&mut self) -> Verdict {
        let Some(reason) = self.unfit().cloned() else { return Verdict::Fit };
        if self.is_outdated() {
            Verdict::Leaves { reason, fence: self.fence.take() }
        } else {
            Verdict::Waits { reason }
        }
    }

    /// Why no event may be handed over: the tables are not those that the code is written for.
    pub(crate) fn unfit(&self) -> Option<&Arc<str>> {
        self.halted().filter(|_| !self.is_set_up() && !matches!(self.phase, Phase::Fenced(_)))
    }

    /// Whether the tables are not those of the code, and a rebuild is requested.
    pub(crate) fn is_to_be_rebuilt<'a>(&self, mut requests: impl Iterator<Item = &'a Request>) -> bool {
        self.unfit().is_some() && requests.any(|request| request.kind == RequestKind::Rebuild)
    }

    /// Why a request is refused: it would hand events over.
    pub(crate) fn refuses(&self, request: &RequestKind) -> Option<&Arc<str>> {
        let hands_over = !matches!(request, RequestKind::Discard { .. } | RequestKind::Rebuild | RequestKind::Reread);
        self.unfit().filter(|_| hands_over)
    }

    /// Whether a checkpoint says that the tables are newer than the code here.
    pub(crate) fn is_behind(&self, setup_version: Option<u32>) -> bool {
        let found = Inherited { setup_version, ..Inherited::default() };
        matches!(Tables::of(&found, self.policy.version), Tables::Newer { .. })
    }

    /// Whether only instances of a newer program can process.
    pub(super) fn is_outdated(&self) -> bool {
        matches!(self.tables, Tables::Newer { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(setup_version: Option<u32>, begun: bool) -> Inherited {
        Inherited { setup_version, begun, ..Inherited::default() }
    }

    #[test]
    fn what_is_there_decides_what_is_to_be_done() {
        for (stored, begun, wanted, expected) in [
            (None, true, None, Tables::Ready),
            (Some(3), true, None, Tables::Ready),
            (None, false, Some(1), Tables::Missing),
            (None, true, Some(1), Tables::Unknown),
            (None, false, Some(2), Tables::Missing),
            (None, true, Some(2), Tables::Unknown),
            (Some(1), true, Some(1), Tables::Ready),
            (Some(1), false, Some(2), Tables::Older { found: Some(1) }),
            (Some(2), true, Some(1), Tables::Newer { found: 2 }),
        ] {
            assert_eq!(Tables::of(&found(stored, begun), wanted), expected, "{stored:?}, {begun}, {wanted:?}");
        }
    }

    #[test]
    fn a_reason_says_what_to_do() {
        let reason = |tables: Tables| tables.reason("projection:orders", 2).unwrap_or_default();
        assert_eq!(reason(Tables::Missing), "");
        let older = reason(Tables::Older { found: Some(1) });
        assert!(older.contains("of version 1 and its code is of version 2"), "{older}");
        assert!(older.contains("`highwater rebuild projection:orders --force`"), "{older}");
        assert!(reason(Tables::Older { found: None }).contains("never set up"));
        let newer = reason(Tables::Newer { found: 3 });
        assert!(newer.contains("upgrade this one") && newer.contains("above 3"), "{newer}");
    }
}
