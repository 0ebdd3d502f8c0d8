//! Merging, writing and counting registers many at a time.
//!
//! The union of dense sketches takes the higher of each pair of registers, which works where they lie: two lanes of 16
//! bits compare by their highest bits, so a mask that leaves one register of a lane makes the lane's maximum that
//! register's. A lane has two whole ones wherever it begins, and registers between lanes are whole in lanes that begin
//! a byte later:
//!
//! ```text
//!   bits of three lanes        0          16         32         48   (letters: each bit's register, low bits first)
//!                              aaaaaabbbbbbcccc ccddddddeeeeeeff ffffgggggghhhhhh
//!   one mask                   aaaaaa.......... ..dddddd........ ....gggggg......
//!   another                    ......bbbbbb.... ........eeeeee.. ..........hhhhhh
//!   one mask, a byte later             ....cccccc...... ......ffffff.... ................
//! ```
//!
//! Five such threes go at once, 40 registers in 30 bytes.
//!
//! To make a byte of each register, 32 of them are unpacked at once: each half of a vector gets 12 packed bytes, and a
//! shuffle gives every three of them two lanes of 16 bits, of which the second is moved down by four; then a shift with
//! masks spreads a lane's 12 bits into two bytes:
//!
//! ```text
//!   lanes  33333322 2222.... | ....1111 11000000      (digits: the register of each bit)
//!   moved  ....3333 33222222 | ....1111 11000000
//!   bytes  ..333333 ..222222 | ..111111 ..000000
//! ```
//!
//! Writing them back goes the other way: multiplications by 1 and 64, and then by 1 and 4096, bring pairs of registers
//! and pairs of pairs together, and two shuffles move the three bytes of each lane up to those of the one before.
//!
//! The counts of registers with each value come from comparing all of them with each of the some twenty values: quicker
//! than a table of counters, where an increment waits for the one before it.
//!
//! Machines without AVX2 do the same with one group of four at a time, and have the tables.

use super::dense::{merge_group, pack_groups, raise_groups};
use super::header::{PACKED_LEN as LEN, REGISTERS};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether wide registers may be used (PFDEBUG SIMD).
static WIDE: AtomicBool = AtomicBool::new(true);

/// Lets merges use wide registers where the machine has them, or not.
pub fn set_simd(wide: bool) {
    WIDE.store(wide, Ordering::Relaxed);
}

/// Raises registers to those of a dense sketch.
pub(super) fn merge(registers: &mut [u8; REGISTERS], packed: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if WIDE.load(Ordering::Relaxed) && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as was checked just now.
        return unsafe { avx2::merge(registers, packed) };
    }
    merge_narrow(registers, packed);
}

/// Raises registers of a dense sketch to those of two others.
pub(super) fn raise(into: &mut [u8; LEN], one: &[u8; LEN], other: &[u8; LEN]) {
    #[cfg(target_arch = "x86_64")]
    if WIDE.load(Ordering::Relaxed) && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: as above.
        return unsafe { avx2::raise(into, one, other) };
    }
    raise_groups(into, one, other);
}

/// Writes all registers, which have six bits each, as those of a dense sketch.
pub(super) fn pack(registers: &[u8; REGISTERS], packed: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if WIDE.load(Ordering::Relaxed) && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: as above.
        return unsafe { avx2::pack(registers, packed) };
    }
    pack_groups(registers, packed);
}

/// Returns how many registers hold each value.
pub(super) fn histogram(registers: &[u8; REGISTERS]) -> [u32; 64] {
    #[cfg(target_arch = "x86_64")]
    if WIDE.load(Ordering::Relaxed) && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: as above.
        return unsafe { avx2::histogram(registers) };
    }
    histogram_narrow(registers)
}

fn histogram_narrow(registers: &[u8; REGISTERS]) -> [u32; 64] {
    // Four tables, because neighbours are often equal.
    let mut partial = [[0u32; 64]; 4];
    for four in registers.as_chunks::<4>().0 {
        for (register, table) in four.iter().zip(&mut partial) {
            table[usize::from(register & 63)] += 1;
        }
    }
    std::array::from_fn(|value| partial.iter().map(|table| table[value]).sum())
}

fn merge_narrow(registers: &mut [u8], packed: &[u8]) {
    for (four, three) in registers.chunks_exact_mut(4).zip(packed.chunks_exact(3)) {
        merge_group(four, three);
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{LEN, REGISTERS, merge_narrow, pack_groups, raise_groups};
    use std::arch::x86_64::*;

    /// Registers that go at once, and their packed bytes.
    const AT_ONCE: usize = 32;
    const PACKED: usize = 24;
    /// Bytes that a step reads: twelve in each half, and four more that are shuffled away.
    const READ: usize = 28;

    /// Loads sixteen bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn half(bytes: &[u8]) -> __m128i {
        let bytes = bytes.first_chunk::<16>().expect("callers take sixteen bytes");
        // SAFETY: these are 16 bytes, and the load needs no alignment.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    /// Bytes of 40 packed registers.
    const FORTY: usize = 30;
    /// The last bytes, which have too few behind them for a wide load.
    const REST: usize = 48;
    const _: () = assert!((LEN - REST).is_multiple_of(FORTY) && REST > AT_ONCE);

    /// Returns three masks in turn for fifteen lanes; the last lane is left out.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn masks(first: u16, second: u16, third: u16) -> __m256i {
        let [a, b, c] = [first as i16, second as i16, third as i16];
        _mm256_setr_epi16(a, b, c, a, b, c, a, b, c, a, b, c, a, b, c, 0)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn raise(into: &mut [u8; LEN], one: &[u8; LEN], other: &[u8; LEN]) {
        let (low, high, between) =
            (masks(0x003f, 0x00fc, 0x03f0), masks(0x0fc0, 0x3f00, 0xfc00), masks(0x03f0, 0x0fc0, 0));
        let highest = |of: [__m256i; 3], mask| {
            let [a, b, c] = of.map(|lanes| _mm256_and_si256(lanes, mask));
            _mm256_max_epu16(_mm256_max_epu16(a, b), c)
        };
        let rest = *into.last_chunk::<REST>().expect("it is shorter");
        let (mut here, mut later) = (at(into, 0), at(into, 1));
        for done in (0..LEN - REST).step_by(FORTY) {
            let whole = [here, at(one, done), at(other, done)];
            let whole = _mm256_or_si256(highest(whole, low), highest(whole, high));
            let crossing = highest([later, at(one, done + 1), at(other, done + 1)], between);
            // Up by one byte, over the middle too.
            let lower_half = _mm256_permute2x128_si256::<0x08>(crossing, crossing);
            let moved = _mm256_alignr_epi8::<15>(crossing, lower_half);
            // The last two bytes that are written are the next step's, which has read them before.
            (here, later) = (at(into, done + FORTY), at(into, done + FORTY + 1));
            let place = into[done..].first_chunk_mut::<AT_ONCE>().expect("the rest is longer");
            // SAFETY: `place` is 32 bytes that nobody else has, and the store needs no alignment.
            unsafe { _mm256_storeu_si256(place.as_mut_ptr().cast(), _mm256_or_si256(whole, moved)) };
        }
        let (into, one, other) = (&mut into[LEN - REST..], &one[LEN - REST..], &other[LEN - REST..]);
        into.copy_from_slice(&rest);
        raise_groups(into, one, other);
    }

    /// Returns the 32 bytes at an index.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn at(bytes: &[u8; LEN], index: usize) -> __m256i {
        load(bytes[index..].first_chunk().expect("callers stay before the end"))
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn merge(registers: &mut [u8; REGISTERS], packed: &[u8]) {
        let lanes = _mm256_setr_epi8(
            0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11, //
            0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11,
        );
        let (low, high) = (_mm256_set1_epi16(63), _mm256_set1_epi16(63 << 8));
        let mut done = 0;
        while let Some(bytes) = packed.get(done / AT_ONCE * PACKED..).and_then(|rest| rest.first_chunk::<READ>())
            && let Some(into) = registers.get_mut(done..).and_then(|rest| rest.first_chunk_mut::<AT_ONCE>())
        {
            // The second half begins with the thirteenth byte.
            let (first, second) = (half(&bytes[..16]), half(&bytes[READ - 16..]));
            let halves = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(first), second);
            let groups = _mm256_shuffle_epi8(halves, lanes);
            let pairs = _mm256_blend_epi16::<0xaa>(groups, _mm256_srli_epi16::<4>(groups));
            let spread =
                _mm256_or_si256(_mm256_and_si256(pairs, low), _mm256_and_si256(_mm256_slli_epi16::<2>(pairs), high));
            // SAFETY: `into` is 32 bytes that nobody else has, and the loads and stores need no alignment.
            unsafe {
                let place = into.as_mut_ptr().cast::<__m256i>();
                _mm256_storeu_si256(place, _mm256_max_epu8(_mm256_loadu_si256(place), spread));
            }
            done += AT_ONCE;
        }
        merge_narrow(&mut registers[done..], &packed[done / AT_ONCE * PACKED..]);
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(bytes: &[u8; AT_ONCE]) -> __m256i {
        // SAFETY: these are 32 bytes, and the load needs no alignment.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn pack(registers: &[u8; REGISTERS], packed: &mut [u8]) {
        let lanes = _mm256_setr_epi8(
            0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, //
            0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1,
        );
        let (bytes, pairs) = (_mm256_set1_epi16(1 | 64 << 8), _mm256_set1_epi32(1 | 4096 << 16));
        let (chunks, _) = registers.as_chunks::<AT_ONCE>();
        let mut done = 0;
        let together = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 7, 7);
        for chunk in chunks {
            let into = packed.get_mut(done / AT_ONCE * PACKED..).and_then(|rest| rest.first_chunk_mut::<AT_ONCE>());
            let Some(into) = into else { break };
            let groups = _mm256_madd_epi16(_mm256_maddubs_epi16(load(chunk), bytes), pairs);
            let halves = _mm256_shuffle_epi8(groups, lanes);
            // SAFETY: `into` is 32 bytes that nobody else has, and the store needs no alignment. The last eight of them
            // are written again by the next step.
            unsafe {
                _mm256_storeu_si256(into.as_mut_ptr().cast(), _mm256_permutevar8x32_epi32(halves, together));
            }
            done += AT_ONCE;
        }
        pack_groups(&registers[done..], &mut packed[done / AT_ONCE * PACKED..]);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn histogram(registers: &[u8; REGISTERS]) -> [u32; 64] {
        let (chunks, _) = registers.as_chunks::<AT_ONCE>();
        let most = chunks.iter().fold(_mm256_setzero_si256(), |most, chunk| _mm256_max_epu8(most, load(chunk)));
        let mut bytes = [0u8; AT_ONCE];
        // SAFETY: these are 32 bytes, and the store needs no alignment.
        unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), most) };
        let highest = bytes.iter().copied().max().unwrap_or(0).min(63);
        let mut histogram = [0; 64];
        for value in 0..=highest {
            let wanted = _mm256_set1_epi8(value as i8);
            let mut sums = _mm256_setzero_si256();
            // A byte counts up to 255.
            for part in chunks.chunks(255) {
                let found = part.iter().fold(_mm256_setzero_si256(), |found, chunk| {
                    _mm256_sub_epi8(found, _mm256_cmpeq_epi8(load(chunk), wanted))
                });
                sums = _mm256_add_epi64(sums, _mm256_sad_epu8(found, _mm256_setzero_si256()));
            }
            histogram[usize::from(value)] = (_mm256_extract_epi64::<0>(sums)
                + _mm256_extract_epi64::<1>(sums)
                + _mm256_extract_epi64::<2>(sums)
                + _mm256_extract_epi64::<3>(sums)) as u32;
        }
        histogram
    }
}

/// Checks that both ways have the same result.
pub(super) fn self_test() -> Result<(), String> {
    let mut registers = [0u8; REGISTERS];
    for (at, register) in registers.iter_mut().enumerate() {
        *register = (at * 37 % 64) as u8;
    }
    let (mut packed, mut written) = (vec![0; LEN], vec![0; LEN]);
    pack_groups(&registers, &mut packed);
    pack(&registers, &mut written);
    if written != packed || histogram(&registers) != histogram_narrow(&registers) {
        return Err("wide and narrow registers differ".to_string());
    }
    let (mut one, mut other) = ([0; LEN], [0; LEN]);
    one.copy_from_slice(&packed);
    other.copy_from_slice(&packed);
    one.reverse();
    other.rotate_left(LEN / 3);
    let (mut wide, mut narrow) = (other, other);
    other.reverse();
    raise(&mut wide, &one, &other);
    raise_groups(&mut narrow, &one, &other);
    if wide != narrow {
        return Err("wide and narrow unions differ".to_string());
    }
    let (mut wide, mut narrow) = (vec![5u8; REGISTERS], vec![5u8; REGISTERS]);
    merge_narrow(&mut narrow, &packed);
    let whole: &mut [u8; REGISTERS] = (&mut wide[..]).try_into().map_err(|_| "lengths differ".to_string())?;
    merge(whole, &packed);
    if wide != narrow {
        return Err("wide and narrow merges differ".to_string());
    }
    let right = registers.iter().zip(&narrow).all(|(register, merged)| *merged == (*register).max(5));
    if right { Ok(()) } else { Err("a register is not what was packed".to_string()) }
}
