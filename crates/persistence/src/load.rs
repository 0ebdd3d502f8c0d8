//! Reading a file: its fields about itself, then keys with their values until the end, then the checksum.
//!
//! The loader hands each item to a [`Sink`], and the destination is the sink's affair.

use crate::decode::{self, Decoded};
use crate::format::{Family, is_known, opcode};
use crate::rdb_reader::{Reason, Result, Source};
use cluster::SLOTS;
use cluster::slot_set::SlotSet;
use engine::data::value::Object;
use engine::keyspace::encoding_limits::EncodingLimits;
use rdb::module_value;
use std::ops::RangeInclusive;

/// A key that was read, with its attributes.
#[derive(Debug)]
pub struct LoadedKey {
    /// The number of its database.
    pub db: u64,
    /// The key.
    pub name: Vec<u8>,
    /// Its value.
    pub value: Decoded,
    /// Unix time in milliseconds.
    pub expiry: Option<i64>,
    /// Seconds since it was used.
    pub idle: Option<u64>,
    /// Frequency of its use, on the scale of 0 to 255.
    pub frequency: Option<u8>,
}

/// A key whose value was not decoded.
#[derive(Clone, Copy, Debug)]
pub struct Unread<'a> {
    /// The number of its database.
    pub db: u64,
    /// The key.
    pub name: &'a [u8],
    /// The type of its value: see [`kind`](crate::format::kind).
    pub kind: u8,
    /// The family of the file's version.
    pub family: Family,
    /// The input of [`decode::value`].
    pub bytes: &'a [u8],
    /// The offset of these bytes in the file.
    pub offset: u64,
    /// The expiry: see [`LoadedKey`].
    pub expiry: Option<i64>,
    /// Seconds since it was used.
    pub idle: Option<u64>,
    /// Frequency of its use, on the scale of 0 to 255.
    pub frequency: Option<u8>,
}

/// Receives the items of a file. An error's text ends the reading.
pub trait Sink {
    /// Begins the load: the first bytes are those of a readable file. The data that this file replaces are there until
    /// now.
    ///
    /// # Errors
    /// The errors of [`key`](Sink::key).
    fn begin(&mut self) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Receives a key with its value.
    ///
    /// # Errors
    /// The reason of the refusal, in words for the log.
    fn key(&mut self, found: LoadedKey) -> std::result::Result<(), String>;

    /// Returns whether packed collections are taken [unread](Sink::unread), to be read elsewhere.
    fn takes_unread(&self) -> bool {
        false
    }

    /// Receives a packed collection whose bytes were not decoded.
    ///
    /// # Errors
    /// The errors of [`key`](Sink::key).
    fn unread(&mut self, _found: Unread<'_>) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Receives the version in the file's first bytes.
    fn version(&mut self, _offset: u64, _version: u16) {}

    /// Receives a field of the file about itself.
    fn field(&mut self, _name: &[u8], _value: &[u8]) {}

    /// Receives slots that were being imported by the server that the data is of, by that name.
    fn slot_import(&mut self, _name: &[u8; 40], _slots: SlotSet) {}

    /// Receives the source of a library of functions.
    ///
    /// # Errors
    /// The errors of [`key`](Sink::key).
    fn function(&mut self, _code: Vec<u8>) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Reports a collection without elements, which older servers could write; it is left out.
    fn empty_key(&mut self, _name: &[u8]) {}

    /// Reports that a module's data beside keys was skipped.
    fn skipped_module(&mut self, _name: &str) {}

    /// Reports the database of the keys that follow.
    fn database(&mut self, _db: u64) {}

    /// Receives a hint: the database has so many keys.
    fn reserve_keys(&mut self, _db: u64, _keys: u64) {}

    /// Receives the name of a key, whose value is of this type.
    fn name(&mut self, _kind: u8, _name: &[u8]) {}

    /// Reports that so many bytes have been read, and the next item.
    fn progress(&mut self, _offset: u64, _next: Doing) {}

    /// Reports that the checksum is right, or that the file has none.
    fn sum(&mut self, _has: bool) {}
}

/// The item that is being read, for messages about faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// The file's first bytes.
    #[default]
    Start,
    /// The byte before a record.
    Type,
    /// An expiry.
    Expire,
    /// The key of a value of this type.
    Key(u8),
    /// A value.
    Value,
    /// The checksum.
    CheckSum,
    /// A hint of how many keys there are.
    Length,
    /// A field of the file about itself.
    Aux,
    /// A module's data beside keys.
    ModuleAux,
    /// A library of functions.
    Functions,
}

/// Options of reading.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Versions that are not known are tried as well (`rdb-version-check`).
    pub relaxed: bool,
    /// The checksum is looked at (`rdbchecksum`).
    pub check_sum: bool,
}

/// Checks whether the file's first bytes are those of a loadable file.
///
/// # Errors
/// The bytes cannot be read, are not an RDB file's, or state an unknown version.
pub fn check_header(source: &mut Source<'_>, options: LoadOptions) -> Result<()> {
    header(source, options).map(drop)
}

/// Reads a whole file.
///
/// # Errors
/// The input cannot be read, is no RDB file or of an unknown version, ends early, or has an impossible value or a wrong
/// checksum; or the sink refuses an item.
pub fn load(source: &mut Source<'_>, options: LoadOptions, limits: &EncodingLimits, sink: &mut dyn Sink) -> Result<()> {
    let version = header(source, options)?;
    sink.version(source.offset(), version);
    sink.begin().or_else(|text| source.corrupt(text))?;
    let family = Family::of(version);
    let (mut db, mut next) = (0, Attributes::default());
    loop {
        sink.progress(source.offset(), Doing::Type);
        let opcode = source.byte()?;
        sink.progress(source.offset(), doing(opcode, family));
        match opcode {
            opcode::EOF => break,
            opcode::SELECT_DB => {
                db = source.length()?;
                sink.progress(source.offset(), Doing::Type);
                sink.database(db);
            }
            opcode::EXPIRY => next.expiry = Some(i64::from(i32::from_le_bytes(source.array()?)) * 1000),
            opcode::EXPIRY_MS => next.expiry = Some(source.milliseconds()?),
            opcode::FREQUENCY => next.frequency = Some(source.byte()?),
            opcode::IDLE => next.idle = Some(source.length()?),
            opcode::RESIZE_DB => {
                let (keys, _) = (source.length()?, source.length()?);
                sink.reserve_keys(db, keys);
            }
            opcode::SLOT_INFO => _ = (source.length()?, source.length()?, source.length()?),
            opcode::AUX => {
                let (name, value) = (source.string()?, source.string()?);
                sink.progress(source.offset(), Doing::Aux);
                match name.as_slice() {
                    crate::stream::STATE => next.stream = Some(value),
                    name => sink.field(name, &value),
                }
            }
            opcode::FUNCTION => {
                let code = source.string()?;
                sink.function(code).or_else(|text| source.corrupt(text))?;
            }
            opcode::FUNCTION_PRE_GA => return source.corrupt("Pre-release function format not supported."),
            opcode::MODULE_AUX => module_field(source, sink)?,
            opcode::SLOT_IMPORT if family != Family::Redis => slot_import(source, sink)?,
            opcode::KEY_METADATA if family == Family::Redis => key_metadata(source, sink)?,
            kind if !decode::is_type(kind, family) && family != Family::Valkey && FOREIGN.contains(&kind) => {
                return Err(source.fault(Reason::Foreign { kind, version }));
            }
            kind if !decode::is_type(kind, family) => return Err(source.fault(Reason::UnknownType(kind))),
            kind => {
                let next = std::mem::take(&mut next);
                key(source, sink, (db, kind, family), next, limits)?;
            }
        }
    }
    footer(source, version, options, sink)
}

/// Types and opcodes that another family may have given a meaning of its own.
const FOREIGN: RangeInclusive<u8> = 22..=243;

/// Returns the item that the opcode announces.
fn doing(opcode: u8, family: Family) -> Doing {
    match opcode {
        opcode::EOF => Doing::CheckSum,
        opcode::EXPIRY | opcode::EXPIRY_MS => Doing::Expire,
        opcode::SELECT_DB | opcode::RESIZE_DB | opcode::SLOT_INFO => Doing::Length,
        opcode::AUX => Doing::Aux,
        opcode::MODULE_AUX => Doing::ModuleAux,
        opcode::FUNCTION | opcode::FUNCTION_PRE_GA => Doing::Functions,
        kind if decode::is_type(kind, family) => Doing::Key(kind),
        _ => Doing::Type,
    }
}

fn key(
    source: &mut Source<'_>,
    sink: &mut dyn Sink,
    (db, kind, family): (u64, u8, Family),
    said: Attributes,
    limits: &EncodingLimits,
) -> Result<()> {
    let name = source.string()?;
    sink.progress(source.offset(), Doing::Value);
    sink.name(kind, &name);
    if sink.takes_unread() && decode::is_one_string(kind) {
        let (offset, mut bytes) = (source.offset(), source.take_room());
        bytes.clear();
        source.string_unread(&mut bytes)?;
        let Attributes { expiry, idle, frequency, .. } = said;
        let found = Unread { db, name: &name, kind, family, bytes: &bytes, offset, expiry, idle, frequency };
        sink.unread(found).or_else(|text| source.corrupt(text))?;
        source.give_room(bytes);
        return Ok(());
    }
    match decode::value(source, kind, family, limits) {
        Err(fault) if matches!(fault.reason, Reason::Empty) => {
            sink.empty_key(&name);
            Ok(())
        }
        Err(fault) => Err(fault),
        Ok(mut value) => {
            let Attributes { expiry, idle, frequency, stream } = said;
            if let (Decoded::Object(Object::Stream(value)), Some(state)) = (&mut value, stream)
                && crate::stream::restore_state(value, &state).is_err()
            {
                return source.corrupt("Stream state inconsistent with the stream");
            }
            let found = LoadedKey { db, name, value, expiry, idle, frequency };
            sink.key(found).or_else(|text| source.corrupt(text))
        }
    }
}

/// The attributes that precede a key.
#[derive(Default)]
struct Attributes {
    expiry: Option<i64>,
    idle: Option<u64>,
    frequency: Option<u8>,
    /// The state that the type of a stream has no place for.
    stream: Option<Vec<u8>>,
}

/// Reads `REDIS0011`, or `VALKEY080`.
fn header(source: &mut Source<'_>, options: LoadOptions) -> Result<u16> {
    let bytes: [u8; 9] = source.array()?;
    let (digits, family) = match (bytes.strip_prefix(b"REDIS"), bytes.strip_prefix(b"VALKEY")) {
        (Some(digits), _) => (digits, "redis"),
        (_, Some(digits)) => (digits, "valkey"),
        _ => return source.corrupt("Wrong signature trying to load DB from file"),
    };
    let digits = str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    let version = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let is_its = (Family::of(version) == Family::Valkey) == (family == "valkey");
    if version == 0 || !is_its || !(options.relaxed || is_known(version)) {
        return Err(source.fault(Reason::Version(version)));
    }
    Ok(version)
}

fn footer(source: &mut Source<'_>, version: u16, options: LoadOptions, sink: &mut dyn Sink) -> Result<()> {
    // Files had no checksum before.
    if version < 5 {
        return Ok(());
    }
    let found = source.checksum();
    let stated = u64::from_le_bytes(source.array()?);
    if options.check_sum && stated != 0 && stated != found {
        return Err(source.fault(Reason::Checksum { found, stated }));
    }
    sink.progress(source.offset(), Doing::CheckSum);
    sink.sum(stated != 0);
    Ok(())
}

fn module_field(source: &mut Source<'_>, sink: &mut dyn Sink) -> Result<()> {
    let name = module_value::name(source.length()?);
    // An opcode and a number precede the value: the time to read it.
    let _ = (source.length()?, source.length()?);
    module_value::skip(source)?;
    sink.skipped_module(&name);
    Ok(())
}

/// Skips modules' data about the next key if its class allows that.
fn key_metadata(source: &mut Source<'_>, sink: &mut dyn Sink) -> Result<()> {
    /// The lowest of three flags, below five bits of a version and four characters of a name.
    const MAY_BE_IGNORED: u32 = 1;
    for _ in 0..source.length()? {
        let class = u32::from_le_bytes(source.array()?);
        let name = &module_value::name(u64::from(class >> 8) << 40)[..4];
        if class & MAY_BE_IGNORED == 0 {
            let text = format!("The RDB file contains key metadata I can't load: no matching class '{name}'");
            return source.corrupt(text);
        }
        module_value::skip(source)?;
        sink.skipped_module(name);
    }
    Ok(())
}

fn slot_import(source: &mut Source<'_>, sink: &mut dyn Sink) -> Result<()> {
    let Ok(name) = <[u8; 40]>::try_from(source.string()?) else {
        return source.corrupt("Invalid slot import job name length in RDB");
    };
    let mut slots = SlotSet::none();
    for _ in 0..source.length()? {
        let range = (u16::try_from(source.length()?), u16::try_from(source.length()?));
        match range {
            (Ok(start), Ok(end)) if start <= end && usize::from(end) < SLOTS => {
                (start..=end).for_each(|slot| _ = slots.insert(slot));
            }
            _ => return source.corrupt("Invalid slot import range in RDB"),
        }
    }
    sink.slot_import(&name, slots);
    Ok(())
}

/// Fuzz hook: for all bytes, reading ends, and the result can be freed.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    struct Count(usize);
    impl Sink for Count {
        fn key(&mut self, found: LoadedKey) -> std::result::Result<(), String> {
            self.0 += 1;
            drop(found.value.into_entry(&found.name, None, 0));
            Ok(())
        }
    }
    let limits = EncodingLimits::new(&engine::config::Config::default());
    let mut bytes = data;
    let mut source = Source::new(&mut bytes, true);
    let mut sink = Count(0);
    let options = LoadOptions { relaxed: data.len().is_multiple_of(2), check_sum: false };
    let _ = load(&mut source, options, &limits, &mut sink);
    assert!(source.offset() <= data.len() as u64 && sink.0 <= data.len());
}
