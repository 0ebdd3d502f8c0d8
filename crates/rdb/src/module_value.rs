//! Values of modules: numbers and strings, each behind a marker, up to an end.
//!
//! ```text
//!  | id as a length: name, version | marker part | marker part | ... | EOF |
//! ```
//!
//! A server that does not know the module can skip such a value.

use crate::format::module;
use crate::rdb_reader::{Result, Source};
use crate::write::{put_length, put_string};

/// Bits of a version, below the name.
const VERSION_BITS: u32 = 10;
/// Characters of a name.
const NAME_LEN: usize = 9;
const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns the id of a type: nine characters of six bits, above the encoding's version.
///
/// # Panics
/// The name has not nine characters of `A-Z`, `a-z`, `0-9`, `-` and `_`, or the version not ten bits.
pub const fn id(name: &str, version: u16) -> u64 {
    let name = name.as_bytes();
    assert!(name.len() == NAME_LEN && version < 1 << VERSION_BITS);
    let (mut id, mut at) = (0u64, 0);
    while at < NAME_LEN {
        let mut value = 0;
        while CHARACTERS[value] != name[at] {
            value += 1;
        }
        id = id << 6 | value as u64;
        at += 1;
    }
    id << VERSION_BITS | version as u64
}

/// Returns the name within an id.
pub fn name(id: u64) -> String {
    (0..NAME_LEN).map(|at| char::from(CHARACTERS[(id >> (58 - at * 6) & 0x3f) as usize])).collect()
}

/// Returns the version of the encoding within an id.
pub fn version(id: u64) -> u16 {
    (id & ((1 << VERSION_BITS) - 1)) as u16
}

/// Passes over a module's parts, up to their end.
///
/// # Errors
/// The input ends early, cannot be read, or has an unknown marker.
pub fn skip(source: &mut Source<'_>) -> Result<()> {
    let mut text = Vec::new();
    loop {
        match source.length()? {
            module::EOF => return Ok(()),
            module::SIGNED | module::UNSIGNED => _ = source.length()?,
            module::FLOAT => _ = source.array::<4>()?,
            module::DOUBLE => _ = source.array::<8>()?,
            module::STRING => source.string_into(&mut text)?,
            other => return source.corrupt(format!("unknown opcode {other} in a module's value")),
        }
    }
}

/// Appends the parts of a value.
pub struct ModuleWriter<'o> {
    out: &'o mut Vec<u8>,
    compress: bool,
}

impl<'o> ModuleWriter<'o> {
    /// Returns a writer. `compress`: whether long strings are compressed.
    pub fn new(out: &'o mut Vec<u8>, compress: bool) -> ModuleWriter<'o> {
        ModuleWriter { out, compress }
    }

    /// Returns the number of bytes before the next part.
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Appends a number.
    pub fn unsigned(&mut self, number: u64) {
        put_length(self.out, module::UNSIGNED);
        put_length(self.out, number);
    }

    /// Appends a number that may be negative, as the unsigned one of the same bits.
    pub fn signed(&mut self, number: i64) {
        self.unsigned(number as u64);
    }

    /// Appends a number of 4 bytes.
    pub fn float(&mut self, number: f32) {
        put_length(self.out, module::FLOAT);
        self.out.extend_from_slice(&number.to_le_bytes());
    }

    /// Appends a number of 8 bytes.
    pub fn double(&mut self, number: f64) {
        put_length(self.out, module::DOUBLE);
        self.out.extend_from_slice(&number.to_le_bytes());
    }

    /// Appends a string.
    pub fn string(&mut self, text: &[u8]) {
        put_length(self.out, module::STRING);
        put_string(self.out, text, self.compress);
    }

    /// Appends the end of the value.
    pub fn end(self) {
        put_length(self.out, module::EOF);
    }
}

/// Reads the parts of a value in their order.
pub struct ModuleReader<'s, 'r> {
    source: &'s mut Source<'r>,
    version: u16,
}

impl<'s, 'r> ModuleReader<'s, 'r> {
    /// Returns a reader of the parts after this id.
    pub fn new(source: &'s mut Source<'r>, id: u64) -> ModuleReader<'s, 'r> {
        ModuleReader { source, version: version(id) }
    }

    /// Returns the version of the encoding.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Refuses the value.
    ///
    /// # Errors
    /// Always: [`Reason::Corrupt`](crate::rdb_reader::Reason::Corrupt).
    pub fn corrupt<T>(&self, what: &'static str) -> Result<T> {
        self.source.corrupt(what)
    }

    fn marker(&mut self, expected: u64) -> Result<()> {
        let found = self.source.length()?;
        if found == expected {
            Ok(())
        } else {
            self.source.corrupt(format!("opcode {found} in the place of {expected}"))
        }
    }

    /// Reads a number.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another part here.
    pub fn unsigned(&mut self) -> Result<u64> {
        self.marker(module::UNSIGNED)?;
        self.source.length()
    }

    /// Reads a number that may be negative.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another part here.
    pub fn signed(&mut self) -> Result<i64> {
        self.unsigned().map(|number| number as i64)
    }

    /// Reads a number of 4 bytes.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another part here.
    pub fn float(&mut self) -> Result<f32> {
        self.marker(module::FLOAT)?;
        self.source.array().map(f32::from_le_bytes)
    }

    /// Reads a number of 8 bytes.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another part here.
    pub fn double(&mut self) -> Result<f64> {
        self.marker(module::DOUBLE)?;
        self.source.double()
    }

    /// Reads a string.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another part here.
    pub fn string(&mut self) -> Result<Vec<u8>> {
        self.marker(module::STRING)?;
        self.source.string()
    }

    /// Reads the end of the value.
    ///
    /// # Errors
    /// The input ends early, cannot be read, or has another part here.
    pub fn end(mut self) -> Result<()> {
        self.marker(module::EOF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_holds_name_and_version() {
        let of = id("ReJSON-RL", 3);
        assert_eq!((name(of).as_str(), version(of)), ("ReJSON-RL", 3));
    }

    #[test]
    fn parts_read_back_and_can_be_skipped() {
        let mut out = Vec::new();
        let mut writer = ModuleWriter::new(&mut out, true);
        writer.unsigned(1 << 40);
        writer.signed(-7);
        writer.float(0.5);
        writer.double(-2.25);
        writer.string(&[b'a'; 100]);
        assert!(writer.position() < 60, "the string is compressed");
        writer.end();
        let mut bytes = &out[..];
        let mut source = Source::new(&mut bytes, false);
        let mut reader = ModuleReader::new(&mut source, id("some-type", 1));
        assert_eq!((reader.unsigned().unwrap(), reader.signed().unwrap(), reader.version()), (1 << 40, -7, 1));
        assert_eq!((reader.float().unwrap(), reader.double().unwrap()), (0.5, -2.25));
        assert_eq!(reader.string().unwrap(), [b'a'; 100]);
        reader.end().unwrap();
        let mut bytes = &out[..];
        let mut source = Source::new(&mut bytes, false);
        skip(&mut source).unwrap();
        assert!(source.is_at_end().unwrap());
        let mut bytes = &out[..];
        let mut source = Source::new(&mut bytes, false);
        assert!(ModuleReader::new(&mut source, 0).string().is_err());
    }
}
