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
        // The statements form it in the same way. There is no slash in a schema's name.
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

/// A name for a session that no other role can take: its process and its role on the server, first and last, as the statements
/// compare them with the holder of its locks. Both keys of a leader can be read in `pg_locks`, and taken when it is gone.
pub(super) fn session(pid: i32, role: u32) -> Uuid {
    let mut bytes = Uuid::now_v7().into_bytes();
    bytes[..4].copy_from_slice(&pid.to_be_bytes());
    bytes[12..].copy_from_slice(&role.to_be_bytes());
    Uuid::from_bytes(bytes)
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
    fn a_session_is_named_after_its_process_and_its_role_and_only_once() {
        let (one, other) =
            (session(0x0001_f2a3, 0xfedc_0010).to_string(), session(0x0001_f2a3, 0xfedc_0010).to_string());
        assert!(one.starts_with("0001f2a3-") && one.ends_with("fedc0010"), "{one}");
        assert_ne!(one, other);
    }

    #[test]
    fn a_number_has_both_halves() {
        assert_eq!(Key { high: 1, low: -1 }.number(), 0x1_ffff_ffff);
        assert_eq!(Key { high: -1, low: 0 }.number(), -0x1_0000_0000);
    }
}
