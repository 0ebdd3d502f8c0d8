//! A replica's description of itself before it asks for the stream, and the primary's conclusions from it.

use crate::in_sync_member::{Introduction, Past};
use resp::number::parse_i64;
use std::borrow::Cow;

/// Format of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SnapshotVersion {
    /// Format that the oldest servers read: the replica has sent nothing about itself.
    #[default]
    Oldest,
    /// Format that Redis and Valkey read from 7.2 on.
    Common,
    /// Valkey 9.0's format.
    Valkey,
}

/// Options that a replica has sent with REPLCONF.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handshake {
    /// Port on which the replica listens; 0: unknown.
    pub port: u16,
    /// Replica's address, if it differs from the connection's.
    pub ip: Option<Vec<u8>>,
    /// Whether the replica finds the end of a snapshot of unknown length.
    pub eof: bool,
    /// Whether the replica knows that a history can have two names.
    pub psync2: bool,
    /// Whether the replica can take the snapshot over a second connection.
    pub dual_channel: bool,
    /// Whether the replica has announced that capability by Redis's name.
    pub rdb_channel_repl: bool,
    /// Whether the replica wants no checksum.
    pub skips_checksum: bool,
    /// Replica's version, as a number for each part.
    pub version: Option<[u32; 3]>,
    /// Whether the replica wants only a snapshot.
    pub rdb_only: bool,
    /// Whether the replica wants no keys.
    pub without_data: bool,
    /// Whether the replica wants no functions.
    pub without_functions: bool,
    /// Whether this is the second connection, for the snapshot.
    pub rdb_channel: bool,
    /// Client whose connection gets this one's snapshot.
    pub rdb_client: Option<u64>,
    /// Client whose connection gets the stream behind this one's snapshot.
    pub main_client: Option<u64>,
    /// Name of the replica's node, in a cluster.
    pub node: Option<String>,
    /// Replica's place in the in-sync set, if it knows that set.
    pub introduction: Option<Introduction>,
}

/// Request for the stream.
#[derive(Clone, Debug)]
pub struct SyncRequest {
    /// Options that the replica has sent.
    pub handshake: Handshake,
    /// The replica's history, and the number of the first byte that it lacks; None: the replica sent SYNC, as the
    /// oldest do, and acknowledges nothing.
    pub asked: Option<(Vec<u8>, i64)>,
}

/// Refusal of an option of REPLCONF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadOption {
    /// The option is unknown.
    Unrecognized(Vec<u8>),
    /// The value is no number.
    NotAnInteger,
    /// The value is neither 0 nor 1.
    NotABit,
    /// The address has so many bytes.
    AddressTooLong(usize),
    /// Unsupported part of the value of `rdb-filter-only`.
    UnsupportedFilter(Vec<u8>),
    /// The value is no version.
    Version(Vec<u8>),
}

/// Greatest length of a replica's address.
const ADDRESS_MAX: usize = 256;

impl Handshake {
    /// Returns the replica's address: the announced one, or that of its connection, which comes from `addr`.
    pub fn host<'a>(&'a self, addr: &'a str) -> Cow<'a, str> {
        match &self.ip {
            Some(ip) => String::from_utf8_lossy(ip),
            None => addr.rsplit_once(':').map_or(addr, |(ip, _)| ip.trim_matches(['[', ']'])).into(),
        }
    }

    /// Returns the replica's name in logs.
    pub fn name(&self, addr: &str) -> String {
        let host = self.host(addr);
        match self.port {
            0 => format!("{host}:<unknown-replica-port>"),
            port => format!("{host}:{port}"),
        }
    }

    /// Takes an option and its value. `dual_channel`: whether a second connection is allowed.
    ///
    /// # Errors
    /// Returns a [`BadOption`] if the option or the value is invalid.
    pub fn set(&mut self, name: &[u8], value: &[u8], dual_channel: bool) -> Result<(), BadOption> {
        match &name.to_ascii_lowercase()[..] {
            b"listening-port" => {
                let port = parse_i64(value).ok_or(BadOption::NotAnInteger)?;
                self.port = u16::try_from(port).unwrap_or(0);
            }
            b"ip-address" if value.len() >= ADDRESS_MAX => return Err(BadOption::AddressTooLong(value.len())),
            b"ip-address" => self.ip = Some(value.to_vec()),
            b"capa" => match &value.to_ascii_lowercase()[..] {
                b"eof" => self.eof = true,
                b"psync2" => self.psync2 = true,
                b"dual-channel" => self.dual_channel |= dual_channel,
                b"rdb-channel-repl" => self.rdb_channel_repl |= dual_channel,
                b"skip-rdb-checksum" => self.skips_checksum = true,
                // Newer replicas announce further capabilities.
                other => self.introduce(other),
            },
            b"rdb-only" => self.rdb_only = bit(value)?,
            b"rdb-filter-only" => self.filter(value)?,
            b"version" => self.version = Some(version(value).ok_or_else(|| BadOption::Version(value.to_vec()))?),
            b"rdb-channel" => self.rdb_channel = bit(value)?,
            b"main-ch-client-id" => {
                let id = parse_i64(value).ok_or(BadOption::NotAnInteger)?;
                self.main_client = u64::try_from(id).ok();
            }
            b"set-rdb-client-id" => {
                let id = parse_i64(value).ok_or(BadOption::NotAnInteger)?;
                self.rdb_client = u64::try_from(id).ok();
            }
            b"set-cluster-node-id" => self.node = Some(String::from_utf8_lossy(value).into_owned()),
            _ => return Err(BadOption::Unrecognized(name.to_vec())),
        }
        Ok(())
    }

    /// Takes a capability that concerns the in-sync set. The past's word follows the introduction.
    fn introduce(&mut self, word: &[u8]) {
        if let Some(said) = Introduction::parse(word) {
            self.introduction = Some(said);
        } else if let (Some(introduction), Some(past)) = (&mut self.introduction, Past::parse(word)) {
            introduction.past = past;
        }
    }

    fn filter(&mut self, value: &[u8]) -> Result<(), BadOption> {
        (self.without_data, self.without_functions) = (true, true);
        for word in value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
            match word.eq_ignore_ascii_case(b"functions") {
                true => self.without_functions = false,
                false => return Err(BadOption::UnsupportedFilter(word.to_vec())),
            }
        }
        Ok(())
    }

    /// Returns whether the connection fetches a snapshot for a backup, not for a replica.
    pub fn is_backup(&self) -> bool {
        self.rdb_only && self.version.is_none() && !self.rdb_channel
    }

    /// Returns the format that the replica reads.
    pub fn snapshot_version(&self) -> SnapshotVersion {
        match self.version {
            Some(version) if version >= [9, 0, 0] => SnapshotVersion::Valkey,
            Some(version) if version >= [7, 2, 0] => SnapshotVersion::Common,
            _ => SnapshotVersion::Oldest,
        }
    }
}

fn bit(value: &[u8]) -> Result<bool, BadOption> {
    match parse_i64(value) {
        None => Err(BadOption::NotAnInteger),
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        Some(_) => Err(BadOption::NotABit),
    }
}

fn version(text: &[u8]) -> Option<[u32; 3]> {
    let mut parts = text.split(|byte| *byte == b'.').map(|part| {
        let is_number = !part.is_empty() && part.len() <= 3 && part.iter().all(u8::is_ascii_digit);
        is_number.then(|| part.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
    });
    let version = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(version)
}

/// Progress of a replica that gets the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acks {
    /// Bytes of the stream that the replica has applied.
    pub applied: u64,
    /// Bytes of the stream that the replica's own log has on the disk.
    pub synced: u64,
}

impl Acks {
    /// Takes the words of a REPLCONF ACK behind these two; returns false if they are none.
    pub fn take<'w>(&mut self, mut words: impl Iterator<Item = &'w [u8]>) -> bool {
        let number = |word: &[u8]| parse_i64(word).and_then(|n| u64::try_from(n).ok());
        let Some(applied) = words.next().and_then(number) else { return false };
        self.applied = self.applied.max(applied);
        if words.next().is_some_and(|word| word.eq_ignore_ascii_case(b"fack"))
            && let Some(synced) = words.next().and_then(number)
        {
            self.synced = self.synced.max(synced);
        }
        true
    }
}

/// Limit to the bytes that a replica may be behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit {
    /// Greatest number of bytes; 0: there is no limit.
    pub hard: u64,
    /// Number of bytes that may be exceeded for [`soft_ms`](Self::soft_ms); 0: there is no limit.
    pub soft: u64,
    /// Milliseconds for which the soft limit may be exceeded.
    pub soft_ms: i64,
}

/// State of a replica that is behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lag {
    over_soft_since: Option<i64>,
}

impl Lag {
    /// Returns whether the replica is too far behind, with `pending` bytes to be sent. `backlog`: bytes that are
    /// retained anyway; no limit is smaller.
    pub fn is_over(&mut self, pending: u64, limit: OutputLimit, backlog: u64, now_ms: i64) -> bool {
        let beyond = |bytes: u64| bytes > 0 && pending > bytes.max(backlog);
        if !beyond(limit.soft) {
            self.over_soft_since = None;
        }
        let since = match beyond(limit.soft) {
            true => now_ms - *self.over_soft_since.get_or_insert(now_ms),
            false => 0,
        };
        beyond(limit.hard) || self.over_soft_since.is_some() && since > limit.soft_ms
    }
}

/// Fuzz hook: a replica's options and acknowledgements are taken or refused, and an acknowledgement is not taken back.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    let (mut handshake, mut acks) = (Handshake::default(), Acks::default());
    for line in data.split(|byte| *byte == b'\n') {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let before = acks;
        acks.take(words.iter().copied());
        assert!(acks.applied >= before.applied && acks.synced >= before.synced, "an acknowledgement is not taken back");
        for pair in words.chunks_exact(2) {
            // The error describes the refusal.
            let _ = handshake.set(pair[0], pair[1], true);
        }
    }
    let _ = handshake.snapshot_version();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_for_a_replica_follow_from_its_version() {
        let of = |text: &[u8]| {
            let mut handshake = Handshake::default();
            handshake.set(b"VERSION", text, false).map(|()| handshake.snapshot_version())
        };
        assert_eq!(Handshake::default().snapshot_version(), SnapshotVersion::Oldest);
        for (text, expected) in [
            ("9.0.0", SnapshotVersion::Valkey),
            ("10.1.2", SnapshotVersion::Valkey),
            ("8.1.1", SnapshotVersion::Common),
            ("7.2.0", SnapshotVersion::Common),
            ("7.0.15", SnapshotVersion::Oldest),
        ] {
            assert_eq!(of(text.as_bytes()), Ok(expected), "{text}");
        }
        for text in ["", "9", "9.0", "9.0.0.0", "9.0.x", "9..0", "1234.0.0"] {
            assert!(of(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn options_are_read_and_others_refused() {
        let mut handshake = Handshake::default();
        for (name, value) in [("listening-port", "6380"), ("capa", "EOF"), ("Capa", "psync2"), ("capa", "unheard-of")] {
            assert_eq!(handshake.set(name.as_bytes(), value.as_bytes(), false), Ok(()));
        }
        assert!(handshake.port == 6380 && handshake.eof && handshake.psync2 && !handshake.dual_channel);
        assert_eq!(handshake.set(b"rdb-only", b"2", false), Err(BadOption::NotABit));
        assert_eq!(handshake.set(b"nope", b"1", false), Err(BadOption::Unrecognized(b"nope".to_vec())));
        assert_eq!(handshake.set(b"rdb-filter-only", b"functions", false), Ok(()));
        assert!(handshake.without_data && !handshake.without_functions);
        assert!(matches!(handshake.set(b"rdb-filter-only", b"x", false), Err(BadOption::UnsupportedFilter(_))));
    }

    #[test]
    fn acknowledgements_only_grow() {
        let mut acks = Acks::default();
        let mut take = |words: &[&str]| acks.take(words.iter().map(|word| word.as_bytes()));
        assert!(take(&["100", "FACK", "50"]) && take(&["90"]) && take(&["110", "fack", "x"]) && !take(&["x"]));
        assert_eq!(acks, Acks { applied: 110, synced: 50 });
    }

    #[test]
    fn a_replica_may_be_above_the_soft_limit_for_a_while() {
        let limit = OutputLimit { hard: 1000, soft: 100, soft_ms: 50 };
        let mut lag = Lag::default();
        assert!(!lag.is_over(101, limit, 0, 0) && !lag.is_over(101, limit, 0, 50) && lag.is_over(101, limit, 0, 51));
        assert!(!lag.is_over(100, limit, 0, 60) && !lag.is_over(101, limit, 0, 200));
        assert!(lag.is_over(1001, limit, 0, 0) && !lag.is_over(1001, limit, 5000, 0));
        assert!(!lag.is_over(u64::MAX, OutputLimit { hard: 0, soft: 0, soft_ms: 0 }, 0, 0));
    }
}
