//! What tells a lease from a subscriber.

use uuid::Uuid;

use super::Checkpoint;

/// How the nonces of leases begin.
const LEASE: [u8; 8] = *b"hw-lease";

/// The nonce is stored with every term, on every backend: so what a claim was made for can be seen without another column, also by
/// processes that know nothing of the one that made it.
pub(super) fn of_a_lease(nonce: Uuid) -> Uuid {
    let mut bytes = nonce.into_bytes();
    bytes[..LEASE.len()].copy_from_slice(&LEASE);
    Uuid::from_bytes(bytes)
}

impl Checkpoint {
    /// Whether it belongs to a lease and not to a subscriber: a coordinator acquired it last with a [`Claim`](crate::Claim) that does not
    /// subscribe, and no position was ever stored.
    #[must_use]
    pub fn is_lease(&self) -> bool {
        self.term.nonce.as_bytes().starts_with(&LEASE) && self.global_sequence == 0 && self.event_id.is_none()
    }
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::*;
    use crate::{Claim, Instance, Term};

    #[test]
    fn a_lease_is_known_by_its_nonce_until_a_position_is_stored() {
        let here = Instance::here(None);
        let stored = |claim: Claim, global_sequence| Checkpoint {
            subscriber_id: claim.subscriber_id.to_string(),
            global_sequence,
            event_id: None,
            updated_at: Utc::now(),
            term: Term { number: 1, nonce: claim.by(&here, None).nonce },
            incarnation: 0,
            setup_version: None,
        };
        let (lease, other) = (Claim::of("timer:night"), Claim::of("timer:night"));
        assert!(stored(lease.clone(), 0).is_lease() && !stored(lease.clone(), 1).is_lease());
        assert!(!stored(Claim { subscribes: true, ..lease.clone() }, 0).is_lease());
        assert_ne!(lease.by(&here, None).nonce, other.by(&here, None).nonce, "terms are told apart by it");
    }
}
