//! The dense form: registers of six bits, one behind the other, the low bits of a byte first.
//!
//! ```text
//!   byte 0    byte 1    byte 2
//!   11000000  22221111  33333322      (the digit of each bit: the register that it belongs to)
//! ```

/// Raises a register to `value`; true if it was lower.
pub(super) fn raise(packed: &mut [u8], index: usize, value: u8) -> bool {
    let (byte, shift) = (index * 6 / 8, index * 6 % 8);
    let low = packed[byte];
    // The last register ends with the last byte and has no next one.
    let high = packed.get(byte + 1).copied().unwrap_or(0);
    let both = u16::from_le_bytes([low, high]);
    if (both >> shift) as u8 & 63 >= value {
        return false;
    }
    let [low, high] = (both & !(63 << shift) | u16::from(value & 63) << shift).to_le_bytes();
    packed[byte] = low;
    if let Some(next) = packed.get_mut(byte + 1) {
        *next = high;
    }
    true
}

/// Writes registers, four in three bytes.
pub(super) fn pack_groups(registers: &[u8], packed: &mut [u8]) {
    for (four, three) in registers.chunks_exact(4).zip(packed.chunks_exact_mut(3)) {
        let bits = four.iter().rev().fold(0u32, |bits, register| bits << 6 | u32::from(register & 63));
        three.copy_from_slice(&bits.to_le_bytes()[..3]);
    }
}

/// Raises registers to those of four packed ones in three bytes.
#[inline]
pub(super) fn merge_group(registers: &mut [u8], packed: &[u8]) {
    let bits = u32::from_le_bytes([packed[0], packed[1], packed[2], 0]);
    for (at, register) in registers.iter_mut().enumerate() {
        *register = (*register).max((bits >> (6 * at)) as u8 & 63);
    }
}

/// Raises packed registers to those of two others.
pub(super) fn raise_groups(into: &mut [u8], one: &[u8], other: &[u8]) {
    for ((into, one), other) in into.chunks_exact_mut(3).zip(one.chunks_exact(3)).zip(other.chunks_exact(3)) {
        let mut registers = [0; 4];
        [&*into, one, other].iter().for_each(|three| merge_group(&mut registers, three));
        pack_groups(&registers, into);
    }
}
