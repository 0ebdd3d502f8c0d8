//! Reading: bytes from any reader, with the offset and the checksum of the bytes taken.
//!
//! Lengths, strings and numbers are read here, and none is trusted: memory for a string grows only as its bytes come
//! in, so that a length of terabytes costs no more than the file has.

use crate::checksum::{self, Digest};
use crate::format::{length, string};
use crate::write::put_length;
use std::borrow::Cow;
use std::io::{self, Read};
use structures::lzf;

/// The reason that reading ended, and the offset.
#[derive(Debug)]
pub struct Fault {
    /// Bytes that had been taken.
    pub offset: u64,
    /// The fault at that offset.
    pub reason: Reason,
}

/// A fault of an input.
#[derive(Debug)]
pub enum Reason {
    /// The input ended too early.
    Truncated,
    /// The input cannot be read.
    Io(io::Error),
    /// A collection without elements.
    Empty,
    /// The checksum of the content, and the one that is stated.
    Checksum {
        /// The content's checksum.
        found: u64,
        /// The stated checksum.
        stated: u64,
    },
    /// The version in the header, which is not known.
    Version(u16),
    /// An unknown type, or opcode, of a version that is not Valkey's.
    Foreign {
        /// Its number.
        kind: u8,
        /// The version in the header.
        version: u16,
    },
    /// An unknown type, or opcode.
    UnknownType(u8),
    /// Any other impossible content.
    Corrupt(Cow<'static, str>),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::Truncated => f.write_str("unexpected end of the input"),
            Reason::Io(error) => error.fmt(f),
            Reason::Empty => f.write_str("a collection without elements"),
            Reason::Checksum { found, stated } => {
                write!(f, "wrong checksum: expected {found:x}, the input says {stated:x}")
            }
            Reason::Version(version) => write!(f, "Can't handle RDB format version {version}"),
            Reason::Foreign { kind, version } => {
                write!(f, "Can't handle foreign type or opcode {kind} in RDB with version {version}")
            }
            Reason::UnknownType(kind) => write!(f, "Unknown type or opcode {kind}"),
            Reason::Corrupt(what) => f.write_str(what),
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at offset {}", self.reason, self.offset)
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// Moves the fault of truncated input to the item's start.
    fn starting(self, start: u64) -> Fault {
        match self.reason {
            Reason::Truncated => Fault { offset: start, ..self },
            _ => self,
        }
    }
}

/// The result of reading: a value, or the fault and its offset.
pub type Result<T> = std::result::Result<T, Fault>;

/// The buffer's size, and bytes of one read.
const BUFFER: usize = 256 << 10;

fn decompress(bytes: &[u8], len: u64, text: &mut Vec<u8>) -> Option<()> {
    lzf::decompress_into(bytes, usize::try_from(len).ok()?, text).ok()
}

/// A length, or the encoding that stands in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A length in bytes, or a count.
    Of(u64),
    /// A string of this encoding follows.
    Encoded(u8),
}

/// Bytes that are read one after the other.
pub struct Source<'r> {
    /// None: all bytes are in the buffer.
    from: Option<&'r mut dyn Read>,
    buffer: Vec<u8>,
    at: usize,
    /// Bytes before the buffer's first.
    before: u64,
    /// The checksum of everything before `summed` in the buffer, if one is computed.
    sum: Option<Digest>,
    summed: usize,
    /// Memory for bytes that are read and not retained.
    room: Vec<u8>,
}

impl<'r> Source<'r> {
    /// Returns a source. `sums`: whether a checksum is computed.
    pub fn new(from: &'r mut dyn Read, sums: bool) -> Self {
        let sum = sums.then(checksum::digest);
        Source { from: Some(from), buffer: Vec::new(), at: 0, before: 0, sum, summed: 0, room: Vec::new() }
    }

    /// Returns a source of these bytes, without a checksum.
    pub fn of(bytes: &[u8]) -> Source<'static> {
        Source { from: None, buffer: bytes.to_vec(), at: 0, before: 0, sum: None, summed: 0, room: Vec::new() }
    }

    /// Returns a vector for temporary bytes, to be [given back](Self::give_room).
    pub fn take_room(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.room)
    }

    /// Takes a vector back, to be used again.
    pub fn give_room(&mut self, room: Vec<u8>) {
        if room.capacity() <= BUFFER {
            self.room = room;
        }
    }

    /// Continues with these bytes, which are at `offset` of some file, in the place of the rest.
    pub fn restart(&mut self, bytes: &[u8], offset: u64) {
        self.buffer.clear();
        self.buffer.extend_from_slice(bytes);
        (self.at, self.summed, self.before) = (0, 0, offset);
    }

    /// Returns the bytes taken.
    pub fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// Returns whether the input begins with one of these; nothing is taken. Only before the first byte was taken.
    pub fn starts_with(&mut self, heads: &[&[u8]]) -> bool {
        // A read that failed fails with the same error again.
        let longest = heads.iter().map(|head| head.len()).max().unwrap_or(0);
        while self.buffer.len() < longest {
            let old = self.buffer.len();
            self.buffer.resize(longest, 0);
            let read = self.from.as_mut().map_or(0, |from| from.read(&mut self.buffer[old..]).unwrap_or(0));
            self.buffer.truncate(old + read);
            if read == 0 {
                break;
            }
        }
        heads.iter().any(|head| self.buffer.starts_with(head))
    }

    /// Ends reading here: returns the number of bytes taken, and the bytes read beyond them.
    pub fn into_rest(mut self) -> (u64, Vec<u8>) {
        let offset = self.offset();
        (offset, self.buffer.split_off(self.at))
    }

    /// Returns a fault at the present offset.
    pub fn fault(&self, reason: Reason) -> Fault {
        Fault { offset: self.offset(), reason }
    }

    /// Refuses the input at the present offset.
    ///
    /// # Errors
    /// Always: [`Reason::Corrupt`].
    pub fn corrupt<T>(&self, what: impl Into<Cow<'static, str>>) -> Result<T> {
        Err(self.fault(Reason::Corrupt(what.into())))
    }

    /// Returns the CRC-64 of the bytes taken; 0 if none is computed.
    pub fn checksum(&mut self) -> u64 {
        let taken = &self.buffer[self.summed..self.at];
        self.summed = self.at;
        self.sum.as_mut().map_or(0, |sum| {
            sum.update(taken);
            sum.finalize()
        })
    }

    /// Returns whether no byte is left.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another item here.
    pub fn is_at_end(&mut self) -> Result<bool> {
        Ok(self.at == self.buffer.len() && !self.refill()?)
    }

    /// Puts the next bytes into the buffer, all of which was taken; false at the end.
    fn refill(&mut self) -> Result<bool> {
        self.checksum();
        self.before += self.at as u64;
        (self.at, self.summed) = (0, 0);
        let Some(from) = &mut self.from else {
            self.buffer.clear();
            return Ok(false);
        };
        self.buffer.resize(BUFFER, 0);
        let got = loop {
            match from.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.buffer.truncate(*got.as_ref().unwrap_or(&0));
        let got = got.map_err(|error| self.fault(Reason::Io(error)))?;
        Ok(got > 0)
    }

    /// Reads the next byte.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another item here.
    #[inline]
    pub fn byte(&mut self) -> Result<u8> {
        if self.at == self.buffer.len() && !self.refill()? {
            return Err(self.fault(Reason::Truncated));
        }
        let byte = self.buffer[self.at];
        self.at += 1;
        Ok(byte)
    }

    /// Reads the next `N` bytes.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another item here.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        if let Some(bytes) = self.buffer[self.at..].first_chunk() {
            let bytes = *bytes;
            self.at += N;
            return Ok(bytes);
        }
        let (mut bytes, start) = ([0; N], self.offset());
        for byte in &mut bytes {
            *byte = self.byte().map_err(|fault| fault.starting(start))?;
        }
        Ok(bytes)
    }

    /// Appends the next `count` bytes.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another item here.
    pub fn append(&mut self, mut count: u64, to: &mut Vec<u8>) -> Result<()> {
        let start = self.offset();
        while count > 0 {
            if self.at == self.buffer.len() && !self.refill()? {
                return Err(self.fault(Reason::Truncated).starting(start));
            }
            let left = &self.buffer[self.at..];
            let some = left.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            to.extend_from_slice(&left[..some]);
            self.at += some;
            count -= some as u64;
        }
        Ok(())
    }

    /// Reads a length, or the encoding that stands in its place.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another item here.
    pub fn length_or_encoding(&mut self) -> Result<Length> {
        let first = self.byte()?;
        let low = first & 0x3f;
        Ok(match first >> 6 {
            length::SIX_BITS => Length::Of(low.into()),
            length::FOURTEEN_BITS => Length::Of(u64::from(low) << 8 | u64::from(self.byte()?)),
            length::ENCODED => Length::Encoded(low),
            _ if first == length::BYTES_4 => Length::Of(u32::from_be_bytes(self.array()?).into()),
            _ if first == length::BYTES_8 => Length::Of(u64::from_be_bytes(self.array()?)),
            _ => return self.corrupt(format!("unknown length encoding {first}")),
        })
    }

    /// Reads a length or a count.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another item here.
    pub fn length(&mut self) -> Result<u64> {
        match self.length_or_encoding()? {
            Length::Of(length) => Ok(length),
            Length::Encoded(_) => self.corrupt("an encoded string in the place of a length"),
        }
    }

    /// Reads a string into `text`, whose content is replaced.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another item here.
    pub fn string_into(&mut self, text: &mut Vec<u8>) -> Result<()> {
        text.clear();
        let number = match self.length_or_encoding()? {
            Length::Of(length) => {
                let room = usize::try_from(length).unwrap_or(usize::MAX);
                text.reserve_exact(room.min(BUFFER));
                return self.append(length, text);
            }
            Length::Encoded(string::INT_8) => i32::from(i8::from_le_bytes(self.array()?)),
            Length::Encoded(string::INT_16) => i32::from(i16::from_le_bytes(self.array()?)),
            Length::Encoded(string::INT_32) => i32::from_le_bytes(self.array()?),
            Length::Encoded(string::LZF) => return self.compressed_into(text),
            Length::Encoded(other) => return self.corrupt(format!("unknown string encoding {other}")),
        };
        text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        Ok(())
    }

    fn compressed_into(&mut self, text: &mut Vec<u8>) -> Result<()> {
        let (packed, len) = (self.length()?, self.length()?);
        let here = usize::try_from(packed).ok().and_then(|packed| self.buffer[self.at..].get(..packed));
        let unpacked = if let Some(bytes) = here {
            self.at += bytes.len();
            decompress(bytes, len, text)
        } else {
            let mut bytes = Vec::new();
            self.append(packed, &mut bytes)?;
            decompress(&bytes, len, text)
        };
        unpacked.map_or_else(|| self.corrupt("invalid LZF compressed string"), Ok)
    }

    /// Appends the bytes of a string as the file has them, to be read later.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another item here.
    pub fn string_unread(&mut self, to: &mut Vec<u8>) -> Result<()> {
        let length = match self.length_or_encoding()? {
            Length::Of(length) => {
                put_length(to, length);
                return self.append(length, to);
            }
            Length::Encoded(encoding) => {
                to.push(length::ENCODED << 6 | encoding);
                match encoding {
                    string::INT_8 => 1,
                    string::INT_16 => 2,
                    string::INT_32 => 4,
                    string::LZF => {
                        let (packed, unpacked) = (self.length()?, self.length()?);
                        put_length(to, packed);
                        put_length(to, unpacked);
                        packed
                    }
                    other => return self.corrupt(format!("unknown string encoding {other}")),
                }
            }
        };
        self.append(length, to)
    }

    /// Reads a string, unpacked.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another item here.
    pub fn string(&mut self) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        self.string_into(&mut text)?;
        Ok(text)
    }

    /// Reads a score in 8 bytes.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another item here.
    pub fn double(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// Reads a score as the digits of old files: a length, or a special value for scores that are not finite.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another item here.
    pub fn decimal_double(&mut self) -> Result<f64> {
        let mut text = Vec::new();
        match self.byte()? {
            255 => return Ok(f64::NEG_INFINITY),
            254 => return Ok(f64::INFINITY),
            253 => return Ok(f64::NAN),
            length => self.append(length.into(), &mut text)?,
        }
        match resp::number::parse_f64_c(&text) {
            Some(value) => Ok(value),
            None => self.corrupt("a score that is no number"),
        }
    }

    /// Reads milliseconds in 8 bytes.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another item here.
    pub fn milliseconds(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::put_string;
    use proptest::prelude::*;

    proptest! {
        /// The item may begin in one buffer and end in another.
        #[test]
        fn strings_can_be_read_later(before in 0..40usize, text in prop_oneof![
            "[a-c]{0,300}".prop_map(String::into_bytes),
            any::<i32>().prop_map(|n| n.to_string().into_bytes()),
            proptest::collection::vec(any::<u8>(), 0..300),
        ]) {
            let mut bytes = vec![0; BUFFER - before];
            put_string(&mut bytes, &text, true);
            let mut from = &bytes[..];
            let mut source = Source::new(&mut from, false);
            source.append((BUFFER - before) as u64, &mut Vec::new()).unwrap();
            let mut unread = Vec::new();
            source.string_unread(&mut unread).unwrap();
            prop_assert_eq!(source.offset(), bytes.len() as u64);
            let mut later = Source::of(b"");
            later.restart(&unread, 7);
            prop_assert_eq!(later.string().unwrap(), text);
            prop_assert_eq!(later.offset(), 7 + unread.len() as u64);
            later.restart(&unread[..unread.len() - 1], 0);
            prop_assert!(later.string().is_err());
        }
    }
}
