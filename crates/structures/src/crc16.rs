//! CRC-16/XMODEM of a key, which determines its slot, and whether there is a `{` among its bytes, which only keys with
//! a tag have. Both are found in one pass, eight bytes at a time:
//!
//! ```text
//!   key        k e y : 1 2 3 4 5 6 7 8      zeroes in front change no checksum that begins with zero
//!   words    0 0 0 0 k e y : | 1 2 3 4 5 6 7 8
//!   remainder        c = W1 * x^16 mod P  ->  (W2 ^ c * x^48) * x^16 mod P          P = x^16 + x^12 + x^5 + 1
//! ```
//!
//! The remainder of a word needs the quotient of W * x^16 by P, which is W times the quotient of x^80 by P, without the
//! low 64 bits of that: one multiplication without carries (Barrett's reduction, which is exact for polynomials). Its
//! low 16 bits times P are the remainder, as those of W * x^16 are zero. Processors without that multiplication look
//! each byte up in a table of its own.

/// Returns the checksum, and whether there is a `{` among the bytes.
#[inline]
pub fn crc16(bytes: &[u8]) -> (u16, bool) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: the processor has this multiplication, as was checked just now.
        return unsafe { carryless::crc16(bytes) };
    }
    by_words(bytes, by_tables)
}

/// `remainder`: the remainder of one word.
#[inline(always)]
fn by_words(bytes: &[u8], remainder: impl Fn(u64) -> u16) -> (u16, bool) {
    let (head, words) = bytes.as_rchunks::<8>();
    let (mut crc, mut braces) = (0, 0);
    if !head.is_empty() {
        let first = match bytes.first_chunk::<8>() {
            Some(first) => u64::from_be_bytes(*first) >> (64 - 8 * head.len()),
            None => short_word(head),
        };
        (crc, braces) = (remainder(first), brace_in(first));
    }
    for word in words {
        let word = u64::from_be_bytes(*word);
        braces |= brace_in(word);
        crc = remainder(word ^ u64::from(crc) << 48);
    }
    (crc, braces != 0)
}

#[cfg(target_arch = "x86_64")]
mod carryless {
    use std::arch::x86_64::{_mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_unpackhi_epi64};

    /// The quotient of x^80 by P, without its highest bit.
    const QUOTIENT: u64 = {
        let (mut left, mut quotient, mut bit) = (1u128 << 80, 0u128, 80);
        while bit >= 16 {
            if left >> bit & 1 == 1 {
                left ^= 0x1_1021 << (bit - 16);
                quotient |= 1 << (bit - 16);
            }
            bit -= 1;
        }
        quotient as u64
    };

    #[target_feature(enable = "pclmulqdq")]
    pub fn crc16(bytes: &[u8]) -> (u16, bool) {
        super::by_words(bytes, |word| remainder(word))
    }

    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    fn remainder(word: u64) -> u16 {
        let factors = (_mm_cvtsi64_si128(word as i64), _mm_cvtsi64_si128(QUOTIENT as i64));
        let product = _mm_clmulepi64_si128::<0>(factors.0, factors.1);
        // The highest bit of the quotient adds the word itself.
        let quotient = word ^ _mm_cvtsi128_si64(_mm_unpackhi_epi64(product, product)) as u64;
        (quotient ^ quotient << 5 ^ quotient << 12) as u16
    }
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

#[inline(always)]
fn by_tables(word: u64) -> u16 {
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

/// Returns a number that is not zero if one of the bytes is a `{`.
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

    /// Computes it bit by bit, as it is defined.
    fn by_bits(bytes: &[u8]) -> u16 {
        let mut crc = 0u16;
        for byte in bytes {
            crc ^= u16::from(*byte) << 8;
            for _ in 0..8 {
                crc = crc << 1 ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 };
            }
        }
        crc
    }

    #[test]
    fn the_check_value_is_that_of_the_catalogue() {
        assert_eq!((crc16(b"123456789").0, by_words(b"123456789", by_tables).0), (0x31C3, 0x31C3));
    }

    proptest! {
        #[test]
        fn every_way_says_the_same(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'{')], 0..80)) {
            let expected = (by_bits(&bytes), bytes.contains(&b'{'));
            prop_assert_eq!(crc16(&bytes), expected);
            prop_assert_eq!(by_words(&bytes, by_tables), expected);
        }
    }
}
