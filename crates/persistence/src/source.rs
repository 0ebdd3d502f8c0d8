//! Reading: bytes from anywhere, with the offset and the checksum of what was taken.
//!
//! Lengths, strings and numbers are read here, and nothing is believed: memory for a string grows only as its bytes come in,
//! so that a length of terabytes costs no more than the file has.

use crate::crc64;
use crate::format::{length, string};
use std::borrow::Cow;
use std::io::{self, Read};
use structures::lzf;

/// Why reading ended, and where.
#[derive(Debug)]
pub struct Fault {
    /// Bytes that had been taken.
    pub offset: u64,
    pub reason: Reason,
}

#[derive(Debug)]
pub enum Reason {
    /// The input ended too early.
    Truncated,
    Io(io::Error),
    /// A collection without elements.
    Empty,
    /// The checksum of the content, and the one that is stated.
    Checksum {
        found: u64,
        stated: u64,
    },
    Version(String),
    /// Anything else that cannot be.
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

pub type Result<T> = std::result::Result<T, Fault>;

/// The buffer's size: what is read at once.
const BUFFER: usize = 256 << 10;

/// A length, or the encoding that stands in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Of(u64),
    Encoded(u8),
}

/// Bytes that are read one after the other.
pub struct Source<'r> {
    from: &'r mut dyn Read,
    buffer: Vec<u8>,
    at: usize,
    /// Bytes before the buffer's first.
    before: u64,
    /// Of everything before `summed` in the buffer.
    crc: u64,
    summed: usize,
    sums: bool,
}

impl<'r> Source<'r> {
    /// `sums`: whether a checksum is kept.
    pub fn new(from: &'r mut dyn Read, sums: bool) -> Self {
        Source { from, buffer: Vec::new(), at: 0, before: 0, crc: 0, summed: 0, sums }
    }

    /// Bytes that were taken.
    pub fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// Whether the input begins with one of these; nothing is taken. Only before anything was.
    pub fn starts_with(&mut self, heads: &[&[u8]]) -> bool {
        // Whoever fails to read sees the same error again.
        let longest = heads.iter().map(|head| head.len()).max().unwrap_or(0);
        while self.buffer.len() < longest {
            let old = self.buffer.len();
            self.buffer.resize(longest, 0);
            let read = self.from.read(&mut self.buffer[old..]).unwrap_or(0);
            self.buffer.truncate(old + read);
            if read == 0 {
                break;
            }
        }
        heads.iter().any(|head| self.buffer.starts_with(head))
    }

    /// Ends reading here: bytes that were taken, and what was read beyond them.
    pub fn leave(mut self) -> (u64, Vec<u8>) {
        let offset = self.offset();
        (offset, self.buffer.split_off(self.at))
    }

    pub fn fault(&self, reason: Reason) -> Fault {
        Fault { offset: self.offset(), reason }
    }

    pub fn corrupt<T>(&self, what: impl Into<Cow<'static, str>>) -> Result<T> {
        Err(self.fault(Reason::Corrupt(what.into())))
    }

    /// The checksum of what was taken.
    pub fn checksum(&mut self) -> u64 {
        if self.sums {
            self.crc = crc64::update(self.crc, &self.buffer[self.summed..self.at]);
        }
        self.summed = self.at;
        self.crc
    }

    /// Whether nothing is left.
    pub fn is_at_end(&mut self) -> Result<bool> {
        Ok(self.at == self.buffer.len() && !self.refill()?)
    }

    /// Puts the next bytes into the buffer, all of which was taken; false at the end.
    fn refill(&mut self) -> Result<bool> {
        self.checksum();
        self.before += self.at as u64;
        (self.at, self.summed) = (0, 0);
        self.buffer.resize(BUFFER, 0);
        let got = loop {
            match self.from.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.buffer.truncate(*got.as_ref().unwrap_or(&0));
        let got = got.map_err(|error| self.fault(Reason::Io(error)))?;
        Ok(got > 0)
    }

    #[inline]
    pub fn byte(&mut self) -> Result<u8> {
        if self.at == self.buffer.len() && !self.refill()? {
            return Err(self.fault(Reason::Truncated));
        }
        let byte = self.buffer[self.at];
        self.at += 1;
        Ok(byte)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        if let Some(bytes) = self.buffer[self.at..].first_chunk() {
            let bytes = *bytes;
            self.at += N;
            return Ok(bytes);
        }
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Ok(bytes)
    }

    /// Appends the next `count` bytes.
    pub fn append(&mut self, mut count: u64, to: &mut Vec<u8>) -> Result<()> {
        while count > 0 {
            if self.at == self.buffer.len() && !self.refill()? {
                return Err(self.fault(Reason::Truncated));
            }
            let left = &self.buffer[self.at..];
            let some = left.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            to.extend_from_slice(&left[..some]);
            self.at += some;
            count -= some as u64;
        }
        Ok(())
    }

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

    /// A length or a count.
    pub fn length(&mut self) -> Result<u64> {
        match self.length_or_encoding()? {
            Length::Of(length) => Ok(length),
            Length::Encoded(_) => self.corrupt("an encoded string in the place of a length"),
        }
    }

    /// A string into `text`, whose content is replaced.
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
        let mut bytes = Vec::new();
        self.append(packed, &mut bytes)?;
        let Some(unpacked) = usize::try_from(len).ok().and_then(|len| lzf::decompress(&bytes, len).ok()) else {
            return self.corrupt("invalid LZF compressed string");
        };
        *text = unpacked;
        Ok(())
    }

    pub fn string(&mut self) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        self.string_into(&mut text)?;
        Ok(text)
    }

    /// A score in 8 bytes.
    pub fn double(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// A score as the digits of old files: a length, or what no digits can say.
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

    /// Milliseconds in 8 bytes.
    pub fn milliseconds(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }
}
