//! Slots: the parts that a keyspace is cut into, here and in a cluster, as Redis Cluster does it.
//!
//! A key's slot is the CRC-16/XMODEM of its name, or of the text between the first `{` and the next `}` if that is not
//! empty: its tag. Keys of one tag lie together.

pub use cluster::SLOTS;
use structures::crc16::crc16;

/// Bits of a slot's number.
pub(crate) const SLOT_BITS: u32 = SLOTS.ilog2();

/// Returns the slot of a key.
#[inline]
pub fn slot_of(key: &[u8]) -> u16 {
    let (crc, has_brace) = crc16(key);
    if has_brace { slot_of_tag(key) } else { crc & SLOT_MASK }
}

const SLOT_MASK: u16 = (SLOTS - 1) as u16;

#[cold]
fn slot_of_tag(key: &[u8]) -> u16 {
    let after = key.iter().position(|byte| *byte == b'{').map_or(key.len(), |open| open + 1);
    let rest = &key[after..];
    let tag = rest.iter().position(|byte| *byte == b'}').filter(|len| *len > 0).map_or(key, |len| &rest[..len]);
    crc16(tag).0 & SLOT_MASK
}

/// Returns the slot of all keys that match a glob pattern, if they have the same: a tag without wildcards comes first
/// in it, or it has none at all. A pattern with escapes is not looked into.
pub fn slot_of_pattern(pattern: &[u8]) -> Option<u16> {
    let wildcard = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    let has_tag = |text: &[u8]| {
        let open = text.iter().position(|byte| *byte == b'{')?;
        text[open + 1..].iter().position(|byte| *byte == b'}').filter(|len| *len > 0)
    };
    (wildcard == pattern.len() || has_tag(&pattern[..wildcard]).is_some()).then(|| slot_of(pattern))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes it bit by bit, as it is defined.
    fn crc16_by_bits(bytes: &[u8]) -> u16 {
        let mut crc = 0u16;
        for byte in bytes {
            crc ^= u16::from(*byte) << 8;
            for _ in 0..8 {
                crc = crc << 1 ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 };
            }
        }
        crc
    }

    /// As the specification of Redis Cluster says it.
    fn slot_by_specification(key: &[u8]) -> u16 {
        if let Some(open) = key.iter().position(|byte| *byte == b'{')
            && let Some(len) = key[open + 1..].iter().position(|byte| *byte == b'}')
            && len > 0
        {
            return crc16_by_bits(&key[open + 1..open + 1 + len]) & 0x3FFF;
        }
        crc16_by_bits(key) & 0x3FFF
    }

    #[test]
    fn slots_are_those_of_a_cluster() {
        for (key, slot) in [("", 0), ("foo", 12182), ("123456789", 12739), ("{user1000}.following", 3443)] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        let same = |one: &str, two: &str| slot_of(one.as_bytes()) == slot_of(two.as_bytes());
        assert!(
            same("{user1000}.following", "user1000") && same("a{user1000}{b}", "user1000") && same("x{{a}}y", "{a")
        );
        for key in ["foo{}{bar}", "{}", "{open", "}close{"] {
            assert_eq!(slot_of(key.as_bytes()), crc16_by_bits(key.as_bytes()) & 0x3FFF, "{key} has no tag");
        }
    }

    #[test]
    fn patterns_with_a_tag_are_of_one_slot() {
        for pattern in ["{a}*", "x{a}[bc]", "plain", "{}plain"] {
            assert_eq!(slot_of_pattern(pattern.as_bytes()), Some(slot_of(pattern.as_bytes())), "{pattern}");
        }
        for pattern in ["*{a}", "{a*}", "{}*", "pl?in", "a\\b", "[{a}]"] {
            assert_eq!(slot_of_pattern(pattern.as_bytes()), None, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn any_key_has_its_slot(key in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'{'), Just(b'}')], 0..80)) {
            prop_assert_eq!(slot_of(&key), slot_by_specification(&key));
        }

        #[test]
        fn long_keys_without_a_tag_do_too(key in prop::collection::vec(b'a'..=b'z', 0..70)) {
            prop_assert_eq!(slot_of(&key), slot_by_specification(&key));
        }
    }
}
