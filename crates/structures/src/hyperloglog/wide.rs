//! Merging dense sketches many registers at a time.
//!
//! A merge unpacks 16384 registers of six bits and takes the higher of each pair. With AVX2, 32 of them go at once: each half of a
//! vector gets 12 packed bytes, a shuffle gives every three bytes a 32-bit lane of their own, and four shifts with masks spread a
//! lane's 24 bits into four bytes:
//!
//! ```text
//!   lane   ........ 33333322 22221111 11000000      (digits: the register of each bit)
//!   bytes  ..333333 ..222222 ..111111 ..000000
//! ```
//!
//! Machines without AVX2 do the same with one group of four at a time.

use super::REGISTERS;
use super::dense::{LEN, merge_group, pack};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether wide registers may be used (PFDEBUG SIMD).
static WIDE: AtomicBool = AtomicBool::new(true);

/// Lets merges use wide registers where the machine has them, or not.
pub fn set_wide(wide: bool) {
    WIDE.store(wide, Ordering::Relaxed);
}

/// Raises registers to those of a dense sketch.
pub(super) fn merge(registers: &mut [u8; REGISTERS], packed: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if WIDE.load(Ordering::Relaxed) && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as was asked just now.
        return unsafe { avx2::merge(registers, packed) };
    }
    merge_narrow(registers, packed);
}

fn merge_narrow(registers: &mut [u8], packed: &[u8]) {
    for (four, three) in registers.chunks_exact_mut(4).zip(packed.chunks_exact(3)) {
        merge_group(four, three);
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{REGISTERS, merge_narrow};
    use std::arch::x86_64::*;

    /// Registers that go at once, and their packed bytes.
    const AT_ONCE: usize = 32;
    const PACKED: usize = 24;
    /// Bytes that a step reads: twelve in each half, and four more that are shuffled away.
    const READ: usize = 28;

    #[target_feature(enable = "avx2")]
    pub(super) fn merge(registers: &mut [u8; REGISTERS], packed: &[u8]) {
        let lanes = _mm256_setr_epi8(
            0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, //
            0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1,
        );
        let mask = |shift: u32| _mm256_set1_epi32(63 << shift);
        let (first, second, third, fourth) = (mask(0), mask(8), mask(16), mask(24));
        let mut done = 0;
        while let Some(bytes) = packed.get(done / AT_ONCE * PACKED..).and_then(|rest| rest.first_chunk::<READ>())
            && let Some(into) = registers.get_mut(done..).and_then(|rest| rest.first_chunk_mut::<AT_ONCE>())
        {
            let word = |at: usize| i64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
            let halves = _mm256_set_epi64x(word(20), word(12), word(8), word(0));
            let groups = _mm256_shuffle_epi8(halves, lanes);
            let spread = _mm256_or_si256(
                _mm256_or_si256(
                    _mm256_and_si256(groups, first),
                    _mm256_and_si256(_mm256_slli_epi32::<2>(groups), second),
                ),
                _mm256_or_si256(
                    _mm256_and_si256(_mm256_slli_epi32::<4>(groups), third),
                    _mm256_and_si256(_mm256_slli_epi32::<6>(groups), fourth),
                ),
            );
            // SAFETY: `into` is 32 bytes that nobody else has, and the loads and stores need no alignment.
            unsafe {
                let place = into.as_mut_ptr().cast::<__m256i>();
                _mm256_storeu_si256(place, _mm256_max_epu8(_mm256_loadu_si256(place), spread));
            }
            done += AT_ONCE;
        }
        merge_narrow(&mut registers[done..], &packed[done / AT_ONCE * PACKED..]);
    }
}

/// Both ways have the same result.
pub(super) fn self_test() -> Result<(), String> {
    let mut registers = [0u8; REGISTERS];
    for (at, register) in registers.iter_mut().enumerate() {
        *register = (at * 37 % 64) as u8;
    }
    let mut packed = vec![0; LEN];
    pack(&registers, &mut packed);
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
