//! Checks a file: it is read as for loading, and the findings are reported in the words of `valkey-check-rdb`.
//!
//! ```text
//!  [offset 0] Checking RDB file dump.rdb
//!  [offset 85] Selecting DB ID 0
//!  --- RDB ERROR DETECTED ---
//!  [offset 494] Internal error in RDB reading offset 494, function at value -> Hash ziplist integrity check failed
//!  [additional info] While doing: read-object-value
//! ```

use crate::check_stats::FileStats;
use crate::format::{Family, is_known, kind};
use crate::load::{self, Doing, LoadOptions, LoadedKey, Sink};
use crate::rdb_reader::{Fault, Reason, Source};
use engine::config::Config;
use engine::keyspace::caller::is_due;
use engine::keyspace::encoding_limits::EncodingLimits;
use engine::time::UnixMs;
use std::fmt::{Display, Write as _};
use std::io::Read;

/// The report's lines about a file, and whether it is sound.
#[derive(Debug)]
pub struct CheckReport {
    /// Lines, each with its end.
    pub text: String,
    /// Whether the file can be loaded.
    pub is_sound: bool,
    /// Its content, by database and type.
    pub stats: FileStats,
}

/// Reads a file. The report calls it `name`; `now`: Unix time in milliseconds.
pub fn check(name: &str, file: &mut dyn Read, now: UnixMs) -> CheckReport {
    check_beginning(name, file, now).0
}

/// Checks a file that may have more bytes behind the checked ones: also returns how many bytes were checked.
pub fn check_beginning(name: &str, file: &mut dyn Read, now: UnixMs) -> (CheckReport, u64) {
    let mut checker = Checker { now, ..Checker::default() };
    checker.say(&format!("Checking RDB file {name}"));
    let mut source = Source::new(file, true);
    let options = LoadOptions { relaxed: true, check_sum: true };
    let result = load::load(&mut source, options, &EncodingLimits::new(&Config::default()), &mut checker);
    let is_sound = match result {
        Ok(()) => {
            checker.say("Check RDB returned error code 0 (0 means success)");
            checker.say(match checker.strange {
                Some(_) => "\\o/ RDB looks OK, but loading requires config 'rdb-version-check relaxed'",
                None => "\\o/ RDB looks OK! \\o/",
            });
            true
        }
        Err(fault) => {
            checker.tell_fault(&fault);
            false
        }
    };
    let Checker { keys, expires, expired, functions, .. } = checker;
    for (count, what) in
        [(keys, "keys read"), (expires, "expires"), (expired, "already expired"), (functions, "functions")]
    {
        let _ = writeln!(checker.text, "[info] {count} {what}");
    }
    if !is_sound {
        checker.say("Check RDB returned error code 1 (0 means success)");
    }
    (CheckReport { text: checker.text, is_sound, stats: checker.stats }, source.offset())
}

#[derive(Default)]
struct Checker {
    now: UnixMs,
    text: String,
    offset: u64,
    doing: Doing,
    /// The type and the name of the key that is being read; none after one.
    kind: Option<u8>,
    name: Option<Vec<u8>>,
    keys: u64,
    expires: u64,
    expired: u64,
    functions: u64,
    stats: FileStats,
    /// The version and its name, if it is one that is not read whole.
    strange: Option<(&'static str, u16)>,
}

impl Checker {
    fn say(&mut self, line: &str) {
        let _ = writeln!(self.text, "[offset {}] {line}", self.offset);
    }

    /// Returns the message for an unknown type.
    fn unknown_type(&self, kind: impl Display) -> String {
        match self.strange {
            Some((name, version)) => {
                format!("Unknown object type {kind} in RDB file with {} version {version}", name.to_lowercase())
            }
            None => format!("Invalid object type: {kind}"),
        }
    }

    fn tell_fault(&mut self, fault: &Fault) {
        self.text += "--- RDB ERROR DETECTED ---\n";
        self.offset = fault.offset;
        match &fault.reason {
            Reason::Truncated => self.say("Unexpected EOF reading RDB file"),
            Reason::Checksum { .. } => self.say("RDB CRC error"),
            Reason::Version(_) | Reason::Io(_) => self.say(&fault.reason.to_string()),
            Reason::Foreign { kind, .. } | Reason::UnknownType(kind) => self.say(&self.unknown_type(kind)),
            Reason::Corrupt(text) if matches!(self.doing, Doing::Start | Doing::Type) => self.say(text),
            reason => self.say(&format!(
                "Internal error in RDB reading offset {}, function at {} -> {reason}",
                fault.offset,
                self.doing.name()
            )),
        }
        let _ = writeln!(self.text, "[additional info] While doing: {}", self.doing.name());
        if let Some(name) = &self.name {
            let _ = writeln!(self.text, "[additional info] Reading key '{}'", String::from_utf8_lossy(name));
        }
        if let Some(kind) = self.kind {
            let _ = writeln!(self.text, "[additional info] Reading type {kind} ({})", type_name(kind));
        }
    }
}

impl Sink for Checker {
    fn key(&mut self, found: LoadedKey) -> Result<(), String> {
        let expiry = found.expiry.filter(|at| *at != -1);
        let is_over = expiry.is_some_and(|at| is_due(at.max(0) as u64, self.now));
        self.expires += u64::from(expiry.is_some());
        self.expired += u64::from(is_over);
        self.stats.add_key(found.db, &found.name, &found.value, expiry.is_some(), is_over);
        (self.name, self.kind) = (None, None);
        Ok(())
    }

    fn version(&mut self, offset: u64, version: u16) {
        self.offset = offset;
        let name = if Family::of(version) == Family::Redis { "Foreign" } else { "Future" };
        self.strange = (!is_known(version)).then_some((name, version));
        if self.strange.is_some() {
            self.say(&format!("{name} RDB version {version} detected"));
        }
    }

    fn function(&mut self, _: Vec<u8>) -> Result<(), String> {
        self.functions += 1;
        Ok(())
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        self.say(&format!("AUX FIELD {name} = '{value}'"));
    }

    fn skipped_module(&mut self, name: &str) {
        self.say(&format!("MODULE AUX for: {name}"));
    }

    fn database(&mut self, db: u64) {
        self.say(&format!("Selecting DB ID {db}"));
        self.stats.add_database(db);
    }

    fn name(&mut self, _kind: u8, name: &[u8]) {
        self.keys += 1;
        self.name = Some(name.to_vec());
    }

    fn progress(&mut self, offset: u64, next: Doing) {
        (self.offset, self.doing) = (offset, next);
        if let Doing::Key(kind) = next {
            self.kind = Some(kind);
        }
    }

    fn sum(&mut self, has: bool) {
        self.say(if has { "Checksum OK" } else { "RDB file was saved with checksum disabled: no check performed." });
    }
}

impl Doing {
    /// Returns the name that reports give it.
    pub fn name(self) -> &'static str {
        match self {
            Doing::Start => "start",
            Doing::Type => "read-type",
            Doing::Expire => "read-expire",
            Doing::Key(_) => "read-key",
            Doing::Value => "read-object-value",
            Doing::CheckSum => "check-sum",
            Doing::Length => "read-len",
            Doing::Aux => "read-aux",
            Doing::ModuleAux => "read-module-aux",
            Doing::Functions => "read-functions",
        }
    }
}

fn type_name(of: u8) -> &'static str {
    match of {
        kind::STRING => "string",
        kind::LIST => "list-linked",
        kind::SET => "set-hashtable",
        kind::ZSET => "zset-v1",
        kind::HASH => "hash-hashtable",
        kind::ZSET_2 => "zset-v2",
        kind::MODULE_PRE_GA => "module-pre-release",
        kind::MODULE_2 => "module-value",
        kind::HASH_ZIPMAP => "hash-zipmap",
        kind::LIST_ZIPLIST => "list-ziplist",
        kind::SET_INTSET => "set-intset",
        kind::ZSET_ZIPLIST => "zset-ziplist",
        kind::HASH_ZIPLIST => "hash-ziplist",
        kind::LIST_QUICKLIST => "quicklist",
        kind::STREAM_LISTPACKS => "stream",
        kind::HASH_LISTPACK => "hash-listpack",
        kind::ZSET_LISTPACK => "zset-listpack",
        kind::LIST_QUICKLIST_2 => "quicklist-v2",
        kind::STREAM_LISTPACKS_2 => "stream-v2",
        kind::SET_LISTPACK => "set-listpack",
        kind::STREAM_LISTPACKS_3 => "stream-v3",
        kind::VALKEY_HASH_2 => "hash-volatile-items",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use engine::time::UnixMs;

    #[test]
    fn files_are_told_of_as_the_reference_does() {
        let told = |mut bytes: &[u8]| check("x", &mut bytes, UnixMs(1_000_000));
        let good = b"REDIS0003\xfe\x00\xfc\x05\0\0\0\0\0\0\0\x00\x01k\x01v\xff";
        let report = told(good);
        assert!(report.is_sound);
        assert_eq!(
            report.text,
            "[offset 0] Checking RDB file x\n[offset 11] Selecting DB ID 0\n\
             [offset 26] Check RDB returned error code 0 (0 means success)\n[offset 26] \\o/ RDB looks OK! \\o/\n\
             [info] 1 keys read\n[info] 1 expires\n[info] 1 already expired\n[info] 0 functions\n"
        );
        let report = told(&good[..24]);
        assert!(!report.is_sound);
        assert_eq!(
            report.text,
            "[offset 0] Checking RDB file x\n[offset 11] Selecting DB ID 0\n--- RDB ERROR DETECTED ---\n\
             [offset 24] Unexpected EOF reading RDB file\n[additional info] While doing: read-object-value\n\
             [additional info] Reading key 'k'\n[additional info] Reading type 0 (string)\n\
             [info] 1 keys read\n[info] 0 expires\n[info] 0 already expired\n[info] 0 functions\n\
             [offset 24] Check RDB returned error code 1 (0 means success)\n"
        );
        // The message about truncated input names the offset where the item begins; after a key there is none.
        let cut = told(b"REDIS0003\x00\x01k\x05val").text;
        assert!(cut.contains("[offset 13] Unexpected EOF reading RDB file\n"), "{cut}");
        let unknown = told(b"REDIS0003\x00\x01k\x01v\x63").text;
        assert!(
            unknown.contains("[offset 15] Invalid object type: 99\n[additional info] While doing: read-type\n[info]"),
            "{unknown}"
        );
        let future = told(b"VALKEY987\xfe\x00\x63").text;
        for line in [
            "[offset 9] Future RDB version 987 detected\n",
            "[offset 12] Unknown object type 99 in RDB file with future version 987\n",
        ] {
            assert!(future.contains(line), "{future}");
        }
        let foreign = told(b"REDIS0075\xff\0\0\0\0\0\0\0\0").text;
        for line in [
            "[offset 9] Foreign RDB version 75 detected\n",
            "RDB looks OK, but loading requires config 'rdb-version-check relaxed'\n",
        ] {
            assert!(foreign.contains(line), "{foreign}");
        }
        // No type is reported before the first one was read.
        for nothing in [&b""[..], b"REDIS", b"REDIS0011\xfa", b"REDIS0011\xfa\x01a\x01b\xfe", b"REDIS0011\xfe\x00"] {
            let text = told(nothing).text;
            assert!(
                !text.contains("Reading type") && text.ends_with("returned error code 1 (0 means success)\n"),
                "{text}"
            );
        }
        assert!(told(b"hello").text.contains("While doing: start"));
        assert!(told(b"NOFILE0003").text.contains("Wrong signature"));
    }
}
