//! Slots: the parts that a keyspace is cut into, here and in a cluster, as Redis Cluster does it.
//!
//! A key's slot is the CRC-16/XMODEM of its name, or of what stands between the first `{` and the next `}` if that is
//! not empty: its tag. Keys of one tag lie together.

/// How many slots there are.
pub const SLOTS: usize = 1 << SLOT_BITS;
/// Bits of a slot's number.
pub(crate) const SLOT_BITS: u32 = 14;

/// The slot of a key.
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

/// The remainders of all bytes with 0 to 7 bytes of zero behind them.
static TABLES: [[u16; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut table = 0;
        while table < 8 {
            let mut bit = 0;
            while bit < 8 {
                crc = crc << 1 ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 };
                bit += 1;
            }
            tables[table][byte] = crc;
            table += 1;
        }
        byte += 1;
    }
    tables
};

/// The checksum, and whether there is a `{` among the bytes. Zeroes in front change no checksum that begins with zero,
/// so that a length which is no multiple of eight is made one there.
#[inline]
fn crc16(bytes: &[u8]) -> (u16, bool) {
    let (head, words) = bytes.as_rchunks::<8>();
    let (mut crc, mut braces) = (0, 0);
    if !head.is_empty() {
        let first = match bytes.first_chunk::<8>() {
            Some(first) => u64::from_be_bytes(*first) >> (64 - 8 * head.len()),
            None => short_word(head),
        };
        (crc, braces) = (fold(first), brace_in(first));
    }
    for word in words {
        let word = u64::from_be_bytes(*word);
        braces |= brace_in(word);
        crc = fold(word ^ u64::from(crc) << 48);
    }
    (crc, braces != 0)
}

#[inline(always)]
fn fold(word: u64) -> u16 {
    let [a, b, c, d, e, f, g, h] = word.to_be_bytes().map(usize::from);
    let [t0, t1, t2, t3, t4, t5, t6, t7] = &TABLES;
    t7[a] ^ t6[b] ^ t5[c] ^ t4[d] ^ t3[e] ^ t2[f] ^ t1[g] ^ t0[h]
}

/// Up to seven bytes as the low ones of a number. Loads may overlap: they bring the same bits.
#[inline(always)]
fn short_word(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_be_bytes(*first)) << (8 * (len - 4)) | u64::from(u32::from_be_bytes(*last))
        }
        _ => [0, len / 2, len - 1].iter().fold(0, |word, at| word | u64::from(bytes[*at]) << (8 * (len - 1 - at))),
    }
}

/// Not zero if one of the bytes is a `{`.
#[inline(always)]
fn brace_in(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let without = word ^ (ONES * b'{' as u64);
    without.wrapping_sub(ONES) & !without & (ONES << 7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bit by bit, as it is defined.
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
        assert_eq!(crc16(b"123456789").0, 0x31C3, "the check value of CRC-16/XMODEM");
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

    proptest! {
        #[test]
        fn any_key_has_its_slot(key in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'{'), Just(b'}')], 0..80)) {
            prop_assert_eq!(slot_of(&key), slot_by_specification(&key));
            prop_assert_eq!(crc16(&key), (crc16_by_bits(&key), key.contains(&b'{')));
        }

        #[test]
        fn long_keys_without_a_tag_do_too(key in prop::collection::vec(b'a'..=b'z', 0..70)) {
            prop_assert_eq!(slot_of(&key), slot_by_specification(&key));
        }
    }
}
