//! The sparse form: runs of equal registers.
//!
//! ```text
//!   00llllll            l+1 registers are 0
//!   01llllll llllllll   l+1 registers are 0 (up to 16384)
//!   1vvvvvll            l+1 registers are v+1 (up to 4 of them, values up to 32)
//! ```
//!
//! An empty sketch is two bytes. Raising a register splits the run that it is in; neighbouring runs of the same value
//! are put together again where a scan of a few bytes shows them. A value above 32, or more bytes than are allowed,
//! calls for the dense form.

use super::header::{Corrupt, REGISTERS};
use std::fmt::Write;

/// The highest value that an opcode can say, and the most registers.
const VALUE_MAX: u8 = 32;
const VALUE_RUN_MAX: usize = 4;
const SHORT_ZEROS_MAX: usize = 64;

/// One opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    value: u8,
    len: usize,
    /// Bytes of the opcode.
    size: usize,
}

/// Returns the opcode at the start of `bytes`.
fn read(bytes: &[u8]) -> Option<Run> {
    let first = *bytes.first()?;
    Some(match first >> 6 {
        0 => Run { value: 0, len: usize::from(first) + 1, size: 1 },
        1 => {
            let len = usize::from(first & 63) << 8 | usize::from(*bytes.get(1)?);
            Run { value: 0, len: len + 1, size: 2 }
        }
        _ => Run { value: (first >> 2 & 31) + 1, len: usize::from(first & 3) + 1, size: 1 },
    })
}

/// Appends opcodes for `len` zeros; nothing for none.
pub(super) fn push_zeros(out: &mut Vec<u8>, len: usize) {
    match len {
        0 => {}
        1..=SHORT_ZEROS_MAX => out.push(len as u8 - 1),
        _ => out.extend_from_slice(&[0x40 | ((len - 1) >> 8) as u8, (len - 1) as u8]),
    }
}

fn value_opcode(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len as u8 - 1)
}

/// Visits the runs as (first register, registers, value).
pub(super) fn for_each(opcodes: &[u8], mut visit: impl FnMut(usize, usize, u8)) -> Result<(), Corrupt> {
    let (mut rest, mut first) = (opcodes, 0);
    while !rest.is_empty() {
        let run = read(rest).ok_or(Corrupt)?;
        if first + run.len > REGISTERS {
            return Err(Corrupt);
        }
        visit(first, run.len, run.value);
        first += run.len;
        rest = &rest[run.size..];
    }
    if first == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

/// Result of an attempt to raise a register.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Raised {
    Yes,
    /// It was not lower.
    No,
    /// This form cannot hold it.
    TooLarge,
}

/// Raises a register to `value`. The opcodes begin at byte `start`; `max` bounds all of `bytes`.
pub(super) fn raise(bytes: &mut Vec<u8>, start: usize, index: usize, value: u8, max: usize) -> Result<Raised, Corrupt> {
    if value > VALUE_MAX {
        return Ok(Raised::TooLarge);
    }
    // The run that covers the register, the place of it and of the one before.
    let (mut at, mut before, mut first) = (start, start, 0);
    let run = loop {
        let run = read(&bytes[at..]).ok_or(Corrupt)?;
        if index < first + run.len {
            break run;
        }
        before = at;
        first += run.len;
        at += run.size;
    };
    if run.value >= value {
        return Ok(Raised::No);
    }
    if run.size == 1 && run.len == 1 {
        bytes[at] = value_opcode(value, 1);
    } else {
        let mut split = Vec::with_capacity(5);
        let fill = |split: &mut Vec<u8>, len: usize| match (run.value, len) {
            (0, len) => push_zeros(split, len),
            (_, 0) => {}
            (other, len) => split.push(value_opcode(other, len)),
        };
        fill(&mut split, index - first);
        split.push(value_opcode(value, 1));
        fill(&mut split, first + run.len - 1 - index);
        if split.len() > run.size && bytes.len() + split.len() - run.size > max {
            return Ok(Raised::TooLarge);
        }
        bytes.splice(at..at + run.size, split);
    }
    join_values(bytes, before);
    Ok(Raised::Yes)
}

/// Puts neighbouring runs of one value together, in the five opcodes from `at` on.
fn join_values(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..5 {
        let Some(run) = bytes.get(at..).and_then(read) else { return };
        let next = if run.value > 0 { read(&bytes[at + run.size..]) } else { None };
        match next {
            Some(next) if next.value == run.value && run.len + next.len <= VALUE_RUN_MAX => {
                bytes[at + 1] = value_opcode(run.value, run.len + next.len);
                bytes.remove(at);
            }
            _ => at += run.size,
        }
    }
}

/// Returns the opcodes as text: `z:3 v:1,2 Z:16379`.
pub(super) fn describe(opcodes: &[u8]) -> String {
    let (mut rest, mut text) = (opcodes, String::new());
    while let Some(run) = read(rest) {
        let written = match (run.value, run.size) {
            (0, 1) => write!(text, "z:{} ", run.len),
            (0, _) => write!(text, "Z:{} ", run.len),
            (value, _) => write!(text, "v:{value},{} ", run.len),
        };
        debug_assert!(written.is_ok());
        rest = &rest[run.size..];
    }
    text.truncate(text.trim_end().len());
    text
}
