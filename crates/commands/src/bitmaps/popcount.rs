//! The number of set bits in a string of bytes.
//!
//! Counting the ones of a word takes a dozen instructions if the processor has none for it, which the build does not
//! assume. So words are added up first, bit by bit, as if each bit position were a column of numbers to be added by
//! hand (Harley and Seal). A carry-save adder takes three words and gives two:
//!
//! ```text
//! a   1 0 1 1
//! b   0 0 1 1      low:  the sum's ones      a ^ b ^ c
//! c   1 0 0 1      high: what is carried     majority of a, b, c
//!     -------
//! low 0 0 0 1  high 1 0 1 1
//! ```
//!
//! Seven adders turn eight words into one of "eights", whose ones are counted, and the rest in `ones`, `twos` and
//! `fours` goes on to the next block. A word here is four of 64 bits side by side, so that the compiler uses vector
//! registers.

/// Numbers of 64 bits in a word.
const LANES: usize = 4;
const WORD_BYTES: usize = 8 * LANES;
/// Eight words.
const BLOCK_BYTES: usize = 8 * WORD_BYTES;

type Word = [u64; LANES];

/// Returns the ones in all bytes.
pub fn count_ones(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    let (mut ones, mut twos, mut fours, mut eights) = ([0; LANES], [0; LANES], [0; LANES], 0);
    for block in blocks {
        let (words, _) = block.as_chunks::<WORD_BYTES>();
        let word = |index: usize| load(&words[index]);
        let (twos_a, sum) = add(ones, word(0), word(1));
        let (twos_b, sum) = add(sum, word(2), word(3));
        let (fours_a, pairs) = add(twos, twos_a, twos_b);
        let (twos_a, sum) = add(sum, word(4), word(5));
        let (twos_b, sum) = add(sum, word(6), word(7));
        let (fours_b, pairs) = add(pairs, twos_a, twos_b);
        let (carry, quads) = add(fours, fours_a, fours_b);
        (ones, twos, fours) = (sum, pairs, quads);
        eights += ones_of(carry);
    }
    8 * eights + 4 * ones_of(fours) + 2 * ones_of(twos) + ones_of(ones) + one_by_one(rest)
}

/// Returns the carry and the sum of the carry-save adder.
#[inline(always)]
fn add(a: Word, b: Word, c: Word) -> (Word, Word) {
    let (mut high, mut low) = ([0; LANES], [0; LANES]);
    for lane in 0..LANES {
        let half = a[lane] ^ b[lane];
        high[lane] = (a[lane] & b[lane]) | (half & c[lane]);
        low[lane] = half ^ c[lane];
    }
    (high, low)
}

#[inline(always)]
fn load(bytes: &[u8; WORD_BYTES]) -> Word {
    let (numbers, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|lane| u64::from_ne_bytes(numbers[lane]))
}

#[inline(always)]
fn ones_of(word: Word) -> u64 {
    word.iter().map(|number| u64::from(number.count_ones())).sum()
}

fn one_by_one(bytes: &[u8]) -> u64 {
    let (numbers, rest) = bytes.as_chunks::<8>();
    let in_numbers: u64 = numbers.iter().map(|number| u64::from(u64::from_ne_bytes(*number).count_ones())).sum();
    in_numbers + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_counting_each_byte(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let each: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
            prop_assert_eq!(count_ones(&bytes), each);
        }
    }

    #[test]
    fn nothing_is_lost_between_blocks() {
        for blocks in 0..20 {
            let bytes = vec![0xFF; blocks * BLOCK_BYTES + 13];
            assert_eq!(count_ones(&bytes), bytes.len() as u64 * 8);
        }
    }
}
