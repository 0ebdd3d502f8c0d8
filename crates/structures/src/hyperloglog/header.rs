//! The bytes before a sketch's registers, and how many registers follow them.

/// Registers of a sketch.
pub const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of a hash that choose the register.
pub(super) const INDEX_BITS: u32 = 14;
/// Bits of a hash beyond the index; a register holds at most one more.
pub(super) const RUN_BITS: usize = 50;
/// Bytes of the header.
pub(super) const HEADER: usize = 16;
/// Bytes of all registers in the dense form, at six bits each.
pub(super) const PACKED_LEN: usize = REGISTERS * 6 / 8;
/// Bytes of a dense sketch.
pub(super) const DENSE_LEN: usize = HEADER + PACKED_LEN;
/// Place of the encoding.
pub(super) const ENCODING: usize = 4;
pub(super) const DENSE: u8 = 0;
pub(super) const SPARSE: u8 = 1;
const CACHED: std::ops::Range<usize> = 8..16;
const OUT_OF_DATE: u8 = 1 << 7;

/// The registers' encoding does not make sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt;

/// Form of the registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Six bits each, one behind the other.
    Dense,
    /// Runs of equal registers.
    Sparse,
}

/// Returns the encoding, if these bytes look like a sketch at all.
pub fn encoding(bytes: &[u8]) -> Option<Encoding> {
    if bytes.len() < HEADER || !bytes.starts_with(b"HYLL") {
        return None;
    }
    match bytes[ENCODING] {
        DENSE if bytes.len() == DENSE_LEN => Some(Encoding::Dense),
        SPARSE => Some(Encoding::Sparse),
        _ => None,
    }
}

/// Returns the count that was computed before, if nothing was added since.
pub fn cached_count(bytes: &[u8]) -> Option<u64> {
    let field = bytes.get(CACHED)?;
    (field[7] & OUT_OF_DATE == 0).then(|| u64::from_le_bytes(field.try_into().unwrap_or_default()))
}

/// Remembers a count; `None` for one that is out of date.
pub fn set_cached_count(bytes: &mut [u8], count: Option<u64>) {
    match count {
        Some(count) => bytes[CACHED].copy_from_slice(&count.to_le_bytes()),
        None => bytes[CACHED.end - 1] |= OUT_OF_DATE,
    }
}
