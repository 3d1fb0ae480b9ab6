//! What locks are called.

use md5::{Digest, Md5};
use uuid::Uuid;

/// The key of an advisory lock: two halves of 32 bits, as `pg_locks` shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) high: i32,
    pub(super) low: i32,
}

impl Key {
    /// The lock of a subscriber. Two installations in one database are told apart by their schema.
    pub(super) fn subscriber(schema: &str, subscriber_id: &str) -> Self {
        Self::hash(&format!("{schema}/{subscriber_id}"))
    }

    /// An instance's own lock.
    pub(super) fn instance(schema: &str, session: Uuid) -> Self {
        Self::hash(&format!("{schema}//{session}"))
    }

    fn hash(text: &str) -> Self {
        let digest: [u8; 16] = Md5::digest(text).into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        Self { high: i32::from_be_bytes([a, b, c, d]), low: i32::from_be_bytes([e, f, g, h]) }
    }

    /// Both halves as one number, as the statements give them.
    pub(super) fn number(self) -> i64 {
        i64::from(self.high) << 32 | i64::from(self.low.cast_unsigned())
    }
}

/// The halves of many keys, for a statement.
pub(super) fn halves(keys: &[Key]) -> (Vec<i32>, Vec<i32>) {
    keys.iter().map(|key| (key.high, key.low)).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instances of different versions exclude each other by these; they must never change.
    #[test]
    fn keys_are_what_they_have_always_been() {
        // As `SELECT ('x' || substr(md5('highwater/projection:orders'), 1, 8))::bit(32)::int` and so on say.
        let golden = [
            ("highwater", "projection:orders", (1_363_311_034, 2_077_540_751)),
            ("highwater", "saga:fulfilment", (-1_297_935_798, 1_235_259_055)),
            ("shop", "projection:orders", (478_344_829, 1_944_262_745)),
            ("ünïcode", "projektion:größe", (-406_029_083, -297_277_566)),
        ];
        for (schema, subscriber_id, (high, low)) in golden {
            assert_eq!(Key::subscriber(schema, subscriber_id), Key { high, low }, "{schema}/{subscriber_id}");
        }
        let session = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let (high, low) = (646_564_951, -1_209_728_159);
        assert_eq!(Key::instance("highwater", session), Key { high, low });
    }

    #[test]
    fn a_number_has_both_halves() {
        assert_eq!(Key { high: 1, low: -1 }.number(), 0x1_ffff_ffff);
        assert_eq!(Key { high: -1, low: 0 }.number(), -0x1_0000_0000);
    }
}
