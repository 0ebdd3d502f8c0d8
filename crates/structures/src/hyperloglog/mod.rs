//! HyperLogLog: how many different elements there were, in 12 KiB, to within 0.81 %.
//!
//! An element's hash picks one of 16384 registers by 14 bits; the register holds the longest run of zero bits with
//! which the rest of such a hash began, plus one. The estimate is that of Otmar Ertl, *New cardinality estimation
//! algorithms for HyperLogLog sketches* (2017). The bytes are the ones that Redis stores in its strings, so that they
//! can be read, written and moved between servers:
//!
//! ```text
//!  0      4     5         8                       16
//!  +------+-----+---------+-----------------------+------------------ ...
//!  | HYLL | enc | not used| cached count, 63 bits | registers
//!  +------+-----+---------+-----------------------+------------------ ...
//!           0 dense: 16384 registers of 6 bits         the 64th bit: the cached count is out of date
//!           1 sparse: opcodes, see `sparse`
//! ```
//!
//! Bytes come from clients (SET, RESTORE), so nothing in them is believed: opcodes that do not add up to 16384
//! registers are [`Corrupt`].

mod dense;
mod estimate;
mod header;
mod simd;
mod sparse;

pub use header::{Corrupt, Encoding, REGISTERS, cached_count, encoding, set_cached_count};
pub use simd::set_simd;

use header::{DENSE, DENSE_LEN, ENCODING, HEADER, INDEX_BITS, PACKED_LEN, RUN_BITS};

/// The seed that all servers hash elements with.
const SEED: u64 = 0xadc8_3b19;

/// Makes an empty sketch.
pub fn new() -> Vec<u8> {
    let mut bytes = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    sparse::push_zeros(&mut bytes, REGISTERS);
    bytes
}

/// Computes the estimate.
///
/// # Errors
/// The bytes are no sketch, or its opcodes do not add up.
pub fn count(bytes: &[u8]) -> Result<u64, Corrupt> {
    match encoding(bytes).ok_or(Corrupt)? {
        Encoding::Dense => Ok(estimate::cardinality(&simd::histogram(&unpacked(packed(bytes)?)))),
        Encoding::Sparse => {
            let mut histogram = [0u32; 64];
            sparse::for_each(&bytes[HEADER..], |_, len, value| histogram[usize::from(value)] += len as u32)?;
            Ok(estimate::cardinality(&histogram))
        }
    }
}

/// Adds an element; true if a register changed. A sparse sketch that outgrows `sparse_max` bytes becomes dense.
///
/// # Errors
/// The bytes are no sketch, or its opcodes do not add up.
pub fn add(bytes: &mut Vec<u8>, element: &[u8], sparse_max: usize) -> Result<bool, Corrupt> {
    let (index, run) = place(element);
    raise(bytes, index, run, sparse_max)
}

/// Raises one register to `value`; true if it was lower.
fn raise(bytes: &mut Vec<u8>, index: usize, value: u8, sparse_max: usize) -> Result<bool, Corrupt> {
    let changed = match encoding(bytes).ok_or(Corrupt)? {
        Encoding::Dense => dense::raise(&mut bytes[HEADER..], index, value),
        Encoding::Sparse => match sparse::raise(bytes, HEADER, index, value, sparse_max)? {
            sparse::Raised::Yes => true,
            sparse::Raised::No => false,
            sparse::Raised::TooLarge => {
                make_dense(bytes)?;
                dense::raise(&mut bytes[HEADER..], index, value)
            }
        },
    };
    if changed {
        set_cached_count(bytes, None);
    }
    Ok(changed)
}

/// Makes a sketch dense; false if it is already.
///
/// # Errors
/// The bytes are no sketch, or its opcodes do not add up.
pub fn make_dense(bytes: &mut Vec<u8>) -> Result<bool, Corrupt> {
    if encoding(bytes).ok_or(Corrupt)? == Encoding::Dense {
        return Ok(false);
    }
    let mut registers = Registers::default();
    registers.merge(bytes)?;
    bytes.truncate(HEADER);
    bytes[ENCODING] = DENSE;
    bytes.resize(DENSE_LEN, 0);
    simd::pack(&registers.values(), &mut bytes[HEADER..]);
    Ok(true)
}

/// Returns the opcodes of a sparse sketch, as PFDEBUG DECODE prints them; None for a dense one.
pub fn describe(bytes: &[u8]) -> Option<String> {
    (encoding(bytes)? == Encoding::Sparse).then(|| sparse::describe(&bytes[HEADER..]))
}

/// Returns the registers of a dense sketch.
fn packed(bytes: &[u8]) -> Result<&[u8; PACKED_LEN], Corrupt> {
    bytes.get(HEADER..).and_then(|rest| rest.try_into().ok()).ok_or(Corrupt)
}

fn packed_mut(bytes: &mut [u8]) -> Result<&mut [u8; PACKED_LEN], Corrupt> {
    bytes.get_mut(HEADER..).and_then(|rest| rest.try_into().ok()).ok_or(Corrupt)
}

fn zeros() -> Box<[u8; REGISTERS]> {
    vec![0; REGISTERS].into_boxed_slice().try_into().expect("the length is that of the array")
}

fn unpacked(packed: &[u8; PACKED_LEN]) -> Box<[u8; REGISTERS]> {
    let mut registers = zeros();
    simd::merge(&mut registers, packed);
    registers
}

/// The registers of a union of sketches.
#[derive(Default)]
pub struct Registers(Form);

#[derive(Default)]
enum Form {
    /// The union of no sketch so far.
    #[default]
    Zero,
    /// The union of dense ones only, which need not be unpacked to be compared: a dense sketch.
    Packed(Vec<u8>),
    /// One byte each.
    Bytes(Box<[u8; REGISTERS]>),
}

impl Registers {
    /// Makes a union of no sketch so far that is to be counted, and has a byte for each register therefore.
    pub fn for_count() -> Registers {
        Registers(Form::Bytes(zeros()))
    }

    /// Raises each register to that of a sketch.
    ///
    /// # Errors
    /// The bytes are no sketch, or its opcodes do not add up; the union has a part of it then.
    pub fn merge(&mut self, bytes: &[u8]) -> Result<(), Corrupt> {
        match encoding(bytes).ok_or(Corrupt)? {
            Encoding::Dense => self.merge_dense(std::iter::once(bytes))?,
            Encoding::Sparse => {
                if !matches!(self.0, Form::Bytes(_)) {
                    self.0 = Form::Bytes(self.values());
                }
                let Form::Bytes(registers) = &mut self.0 else { return Ok(()) };
                sparse::for_each(&bytes[HEADER..], |first, len, value| {
                    let raised = if value > 0 { first..first + len } else { 0..0 };
                    registers[raised].iter_mut().for_each(|register| *register = (*register).max(value));
                })?;
            }
        }
        Ok(())
    }

    /// Raises each register to those of dense sketches, which is quicker with several at once.
    ///
    /// # Errors
    /// One of them is not a dense sketch; those before it are in the union.
    pub fn merge_dense<'a>(&mut self, mut sketches: impl Iterator<Item = &'a [u8]>) -> Result<(), Corrupt> {
        if let Form::Bytes(registers) = &mut self.0 {
            return sketches.try_for_each(|bytes| packed(bytes).map(|packed| simd::merge(registers, packed)));
        }
        if matches!(self.0, Form::Zero)
            && let Some(first) = sketches.next()
        {
            packed(first)?;
            self.0 = Form::Packed(first.to_vec());
        }
        let Form::Packed(union) = &mut self.0 else { return Ok(()) };
        let union = packed_mut(union)?;
        while let Some(one) = sketches.next() {
            simd::raise(union, packed(one)?, packed(sketches.next().unwrap_or(one))?);
        }
        Ok(())
    }

    /// Returns the registers, one byte each.
    pub fn values(&self) -> Box<[u8; REGISTERS]> {
        match &self.0 {
            Form::Zero => zeros(),
            Form::Packed(union) => packed(union).map_or_else(|_| zeros(), unpacked),
            Form::Bytes(registers) => registers.clone(),
        }
    }

    /// Returns the estimate.
    pub fn count(&self) -> u64 {
        estimate::cardinality(&match &self.0 {
            Form::Bytes(registers) => simd::histogram(registers),
            _ => simd::histogram(&self.values()),
        })
    }

    /// Writes these over the registers of a sketch, none of which is higher. It is dense afterwards if it was, if all
    /// sketches of this union were, or if `densely`.
    ///
    /// # Errors
    /// The bytes are no sketch, or its opcodes do not add up.
    pub fn store(self, bytes: &mut Vec<u8>, densely: bool, sparse_max: usize) -> Result<(), Corrupt> {
        encoding(bytes).ok_or(Corrupt)?;
        if densely && !matches!(self.0, Form::Packed(_)) {
            make_dense(bytes)?;
        }
        match self.0 {
            Form::Zero => {}
            Form::Packed(mut union) => {
                union[..HEADER].copy_from_slice(&bytes[..HEADER]);
                union[ENCODING] = DENSE;
                *bytes = union;
            }
            Form::Bytes(registers) if encoding(bytes) == Some(Encoding::Dense) => {
                simd::pack(&registers, &mut bytes[HEADER..]);
            }
            Form::Bytes(registers) => {
                for (index, value) in registers.iter().enumerate().filter(|(_, value)| **value > 0) {
                    raise(bytes, index, *value, sparse_max)?;
                }
            }
        }
        set_cached_count(bytes, None);
        Ok(())
    }
}

/// Returns the register of an element, and the value to which it is to be raised.
fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur64a(element, SEED);
    let index = hash as usize & (REGISTERS - 1);
    let rest = hash >> INDEX_BITS | 1 << RUN_BITS;
    (index, rest.trailing_zeros() as u8 + 1)
}

/// Computes MurmurHash2 for 64 bits (variant A) of Austin Appleby, read as on a little-endian machine.
fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(M);
    }
    hash ^= hash >> R;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> R
}

/// Checks the arithmetic of this machine: registers keep their neighbours, both encodings and both merges agree,
/// estimates are as near as they should be.
///
/// # Errors
/// The text says which check has failed.
pub fn self_test() -> Result<(), String> {
    let mut sparse = new();
    let mut packed = new();
    make_dense(&mut packed).map_err(|_| "an empty sketch is corrupt".to_string())?;
    let mut exact = 0u64;
    let mut checkpoint = 1;
    while exact < 100_000 {
        let element = exact.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        let added = add(&mut sparse, &element, 3000).and_then(|_| add(&mut packed, &element, 0));
        added.map_err(|_| format!("corrupt after {exact} elements"))?;
        exact += 1;
        if exact == checkpoint {
            let (a, b) = (count(&sparse), count(&packed));
            let estimate = a.map_err(|_| "a sketch is corrupt".to_string())?;
            if a != b {
                return Err(format!("the encodings differ after {exact} elements: {a:?} and {b:?}"));
            }
            // Five times the standard error, and a little for small numbers.
            let allowed = (exact as f64 * 0.0081 * 5.0).max(3.0);
            if (estimate as f64 - exact as f64).abs() > allowed {
                return Err(format!("{exact} elements are estimated as {estimate}"));
            }
            checkpoint *= 10;
        }
    }
    simd::self_test()
}

#[cfg(test)]
mod tests;
