//! Which instance should lead which subscriber: so that they do not all pile up on the instance that started first.
//!
//! Pure. Every instance makes the same plan from what it sees and carries out its own part of it, so they need not agree
//! on anything. A plan only moves what makes the difference between two instances smaller, and so it comes to an end.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::{Member, Want};

/// A subscriber that should be led by another instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) subscriber_id: String,
    pub(super) from: Uuid,
    pub(super) to: Uuid,
}

/// The first moves, up to so many, towards where everything should be. Each makes the shares better, so there is an end to
/// them.
pub(super) fn plan(members: &[Member], most: usize) -> Vec<Move> {
    let mut shares = Shares::new(members);
    let mut moves = Vec::new();
    while moves.len() < most
        && let Some(next) = shares.preferred().or_else(|| shares.levelling())
    {
        shares.carry_out(&next);
        moves.push(next);
    }
    moves
}

struct Share<'a> {
    label: Option<&'a str>,
    wants: BTreeMap<&'a str, Option<&'a str>>,
    leads: BTreeSet<String>,
}

impl Share<'_> {
    /// Whether it is what a subscriber prefers, or the subscriber prefers nothing.
    fn suits(&self, subscriber_id: &str) -> bool {
        match self.wants.get(subscriber_id) {
            Some(Some(prefers)) => self.label == Some(prefers),
            _ => true,
        }
    }
}

/// Shares in the order of their sessions, the same for every instance.
struct Shares<'a>(BTreeMap<Uuid, Share<'a>>);

impl<'a> Shares<'a> {
    fn new(members: &'a [Member]) -> Self {
        let wants = |Want { subscriber_id, prefers }: &'a Want| (subscriber_id.as_str(), prefers.as_deref());
        let share = |member: &'a Member| Share {
            label: member.instance.label.as_deref(),
            wants: member.wants.iter().map(wants).collect(),
            leads: member.leads.iter().cloned().collect(),
        };
        Self(members.iter().map(|member| (member.session, share(member))).collect())
    }

    /// The first subscriber that is led by an instance it does not prefer, while one that it prefers wants it.
    fn preferred(&self) -> Option<Move> {
        self.0.iter().find_map(|(from, share)| {
            share.leads.iter().filter(|id| !share.suits(id)).find_map(|id| {
                let fitting =
                    self.0.iter().filter(|(_, other)| other.wants.contains_key(id.as_str()) && other.suits(id));
                let (to, _) = fitting.min_by_key(|(_, other)| other.leads.len())?;
                Some(Move { subscriber_id: id.clone(), from: *from, to: *to })
            })
        })
    }

    /// From the one that leads most to the one that leads least among those that want one of its subscribers, if that makes
    /// the difference smaller. What a subscriber prefers is not taken away from it.
    fn levelling(&self) -> Option<Move> {
        let mut donors: Vec<_> = self.0.iter().collect();
        donors.sort_by_key(|(_, share)| std::cmp::Reverse(share.leads.len()));
        donors.into_iter().find_map(|(from, share)| {
            let candidates = self.0.iter().filter(|(_, other)| other.leads.len() + 1 < share.leads.len());
            let mut candidates: Vec<_> = candidates.collect();
            candidates.sort_by_key(|(_, other)| other.leads.len());
            candidates.into_iter().find_map(|(to, other)| {
                let may = |id: &&String| other.wants.contains_key(id.as_str()) && (other.suits(id) || !share.suits(id));
                let id = share.leads.iter().find(may)?;
                Some(Move { subscriber_id: id.clone(), from: *from, to: *to })
            })
        })
    }

    fn carry_out(&mut self, next: &Move) {
        if let Some(share) = self.0.get_mut(&next.from) {
            share.leads.remove(&next.subscriber_id);
        }
        if let Some(share) = self.0.get_mut(&next.to) {
            share.leads.insert(next.subscriber_id.clone());
        }
    }
}

#[cfg(test)]
mod tests;
