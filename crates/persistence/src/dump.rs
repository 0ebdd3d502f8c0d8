//! The payload of DUMP and RESTORE: one value, a version and a checksum.
//!
//! ```text
//!  | type | value ... | version u16 LE | crc-64 of all before, LE |
//! ```
//!
//! FUNCTION DUMP and RESTORE do the same with libraries of functions: the byte 245 and a text as a string, for each.

use crate::chunked_values::{self, ChunkedWriter};
use crate::decode::{self, Decoded};
use crate::encode::{Style, put_kind, put_members, put_string, put_value};
use crate::format::{Family, VERSION_COMMON, VERSION_OLDER, VERSION_REDIS_MAX, is_known, kind, opcode};
use crate::rdb_reader::{Result, Source};
use crate::stream;
use engine::data::value::{Object, Value};
use engine::keyspace::encoding_limits::EncodingLimits;
use engine::snapshot::encoder::ValueCursor;
use rdb::checksum::checksum;
use structures::list::List;
use structures::set::Set;
use structures::stream::Stream;

/// Bytes after the value.
const FOOTER: usize = 10;

/// Returns the value as bytes.
pub fn dump(value: &Value<'_>, style: &Style) -> Vec<u8> {
    if let Value::Payload(Object::Stream(stream)) = value
        && let Some(bytes) = newer_stream(stream, style)
    {
        return bytes;
    }
    plain(value, style)
}

/// Dumps the value without the parts that only Redis's newest types have a place for.
fn plain(value: &Value<'_>, style: &Style) -> Vec<u8> {
    let mut out = Vec::new();
    put_kind(&mut out, value, style);
    put_value(&mut out, value, style);
    finish(out, style.version(value))
}

/// Dumps in a form that Redis 7.0 reads, too: for a caller that does not know the reader (MIGRATE). Streams, and hashes
/// whose fields have expiries, have no such form.
pub fn dump_widely(value: &Value<'_>, style: &Style) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Value::Payload(Object::Set(set @ Set::Small(_))) => {
            out.push(kind::SET);
            put_members(&mut out, set, style);
        }
        Value::Payload(Object::Stream(_)) => return dump(value, style),
        _ if style.version(value) != VERSION_COMMON => return dump(value, style),
        _ => {
            put_kind(&mut out, value, style);
            put_value(&mut out, value, style);
        }
    }
    finish(out, VERSION_OLDER)
}

/// A large value that is [dumped widely](dump_widely) a piece at a time, while it stays as it is.
pub struct ChunkedDump {
    pieces: Box<ChunkedWriter>,
    bytes: Vec<u8>,
    version: u16,
}

impl ChunkedDump {
    /// Begins a dump; None for a value to be dumped at once: a small one, and one that may lose elements by itself.
    pub fn begin(value: &Value<'_>, style: &Style) -> Option<ChunkedDump> {
        if chunked_values::is_large(value) { ChunkedDump::of(value, style) } else { None }
    }

    pub(crate) fn of(value: &Value<'_>, style: &Style) -> Option<ChunkedDump> {
        let Value::Payload(object) = value else { return None };
        let (fits, version) = match object {
            Object::String(_) => (true, VERSION_OLDER),
            Object::List(list) => (matches!(list, List::Quick(_)), VERSION_OLDER),
            Object::Set(set) => (matches!(set, Set::Big(_)), VERSION_OLDER),
            Object::Hash(hash) => {
                (hash.as_listpack().is_none() && style.version(value) == VERSION_COMMON, VERSION_OLDER)
            }
            Object::SortedSet(set) => (set.encoding() != "listpack", VERSION_OLDER),
            Object::Other(_) => (true, VERSION_OLDER),
            Object::Stream(stream) => (stream::whole_kind(stream) == kind::STREAM_LISTPACKS_3, VERSION_COMMON),
        };
        fits.then(|| {
            let mut bytes = Vec::new();
            put_kind(&mut bytes, value, style);
            let pieces = Box::new(ChunkedWriter::begin(&mut bytes, value, *style));
            ChunkedDump { pieces, bytes, version }
        })
    }

    /// Dumps about `max` bytes more, and returns whether these were the last.
    pub fn step(&mut self, value: &Value<'_>, max: usize) -> bool {
        let Value::Payload(object) = value else { return true };
        self.step_object(object, max)
    }

    /// Dumps about `max` bytes more of the value's object.
    pub(crate) fn step_object(&mut self, object: &Object, max: usize) -> bool {
        self.pieces.put(&mut self.bytes, object, max)
    }

    /// Returns the whole, after the last step.
    pub fn finish(self) -> Vec<u8> {
        let ChunkedDump { pieces, mut bytes, version } = self;
        pieces.finish(&mut bytes);
        finish(bytes, version)
    }
}

/// Converts a payload into a form that Redis 7.2 and Valkey read; None if the payload has that form, or if none exists:
/// each of them writes hashes whose fields have expiries in its own way.
pub fn for_others(payload: &[u8], value: &Value<'_>, style: &Style) -> Option<Vec<u8>> {
    let version = payload.len().checked_sub(FOOTER).and_then(|at| payload[at..].first_chunk::<2>());
    let is_read = version.is_none_or(|bytes| u16::from_le_bytes(*bytes) <= VERSION_COMMON);
    (!is_read && style.version(value) == VERSION_COMMON).then(|| plain(value, style))
}

/// Returns a stream's state that only Redis's newest types have a place for.
pub fn stream_state(stream: &Stream) -> Option<Vec<u8>> {
    stream::state(stream)
}

/// Restores a stream's state from the bytes of [`stream_state`]; false if they are not valid.
pub fn restore_stream_state(stream: &mut Stream, state: &[u8]) -> bool {
    stream::restore_state(stream, state).is_ok()
}

/// Dumps a stream, if it has parts that only Redis's newest types have a place for.
fn newer_stream(stream: &Stream, style: &Style) -> Option<Vec<u8>> {
    let kind = stream::whole_kind(stream);
    (kind != kind::STREAM_LISTPACKS_3).then(|| {
        let mut out = vec![kind];
        stream::put_whole(&mut out, stream, style, kind);
        finish(out, VERSION_REDIS_MAX)
    })
}

fn finish(mut out: Vec<u8>, version: u16) -> Vec<u8> {
    out.extend_from_slice(&version.to_le_bytes());
    let sum = checksum(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Returns libraries' texts as bytes.
pub fn dump_functions<'t>(texts: impl Iterator<Item = &'t [u8]>, compress: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for text in texts {
        out.push(opcode::FUNCTION);
        put_string(&mut out, text, compress);
    }
    finish(out, VERSION_COMMON)
}

/// Reads the libraries' texts of a payload; None if it holds anything else.
///
/// # Errors
/// A text ends early or cannot be unpacked.
pub fn restore_functions(payload: Payload<'_>) -> Result<Option<Vec<Vec<u8>>>> {
    let mut source = Source::of(payload.body);
    let mut texts = Vec::new();
    while !source.is_at_end()? {
        if source.byte()? != opcode::FUNCTION {
            return Ok(None);
        }
        texts.push(source.string()?);
    }
    Ok(Some(texts))
}

/// A payload whose footer has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    /// Type and value.
    body: &'a [u8],
    version: u16,
}

/// Checks the version and the checksum; None if one of them is wrong. `relaxed`: any version will do. `skip_sum`: any
/// checksum will do.
pub fn verify(bytes: &[u8], relaxed: bool, skip_sum: bool) -> Option<Payload<'_>> {
    let body = bytes.get(..bytes.len().checked_sub(FOOTER)?)?;
    let (version, stated) = bytes[body.len()..].split_first_chunk()?;
    let version = u16::from_le_bytes(*version);
    if !(is_known(version) || relaxed) || version == 0 {
        return None;
    }
    let stated = u64::from_le_bytes(*stated.first_chunk()?);
    let sum = || checksum(&bytes[..bytes.len() - 8]);
    (skip_sum || stated == sum()).then_some(Payload { body, version })
}

/// Reads the value of a payload.
///
/// # Errors
/// The value cannot be read ([`decode::value`]), or more bytes follow it.
pub fn restore(payload: Payload<'_>, limits: &EncodingLimits) -> Result<Decoded> {
    let mut source = Source::of(payload.body);
    let kind = source.byte()?;
    let value = decode::value(&mut source, kind, Family::of(payload.version), limits)?;
    if !source.is_at_end()? {
        return source.corrupt("bytes after the value");
    }
    Ok(value)
}

/// Fuzz hook: every payload is refused or becomes a value that can be written again.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    use crate::format::VERSION_COMMON;
    use structures::entry::NewValue;
    let Some((which, body)) = data.split_first() else { return };
    let version = [VERSION_COMMON, crate::format::VERSION_REDIS, crate::format::VERSION_VALKEY][usize::from(which % 3)];
    let limits = EncodingLimits::new(&engine::config::Config::default());
    let Ok(decoded) = restore(Payload { body, version }, &limits) else { return };
    let entry = decoded.into_entry(b"key", None, 0);
    for family in [Family::Valkey, Family::Redis] {
        let style = Style { compress: which & 4 != 0, family };
        let again = dump(&entry.value(), &style);
        let read =
            restore(verify(&again, false, false).expect("a footer of our own"), &limits).expect("what was written");
        let second = read.into_entry(b"key", None, 0);
        assert_eq!(dump(&second.value(), &style).len(), again.len());
    }
    if let Some(object) = entry.into_payload() {
        drop(engine::data::value::KeyEntry::new(b"k", NewValue::Payload(object), None, 0));
    }
}
