//! A member's knowledge on the disk: the member writes it before it acknowledges anything that follows from it, and the
//! next process in the directory reads it.
//!
//! ```text
//!   running    the record names the process, the latest term and the last set
//!   SHUTDOWN   data set saved -> the record has the data's place: a history and an offset
//!              log complete -> the record has the log's place, and which files it has
//!   start      the loaded data is at that place           -> heir: a member as before
//!              it is older, newer, or of another history  -> another member; the former one is gone
//! ```
//!
//! A directory that was copied while its process ran, or is older than the last start, is at no such place. Other
//! servers recognise a directory that was copied after a SHUTDOWN: they know a later set, or that the process is gone.

use crate::in_sync_member::Membership;
use crate::in_sync_set::{InSyncSet, MemberId, Term};
use crate::link_event::Position;
use std::fmt::Write;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct MemberRecord {
    /// The member's knowledge.
    pub membership: Membership,
    /// The place of the data in the snapshot on the disk, if all of it is there.
    pub saved: Option<Position>,
    /// The place of the data in the append-only file, if all of it is there.
    pub logged: Option<LoggedPlace>,
    /// Number of the directory in its file system: a copy of the directory has another one.
    pub directory: u64,
}

/// Place of an append-only file, which does not name its place itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedPlace {
    /// End of the file's data in the history.
    pub position: Position,
    /// Database that the history has selected there.
    pub db: u32,
    /// [Sum](sum) of the names and lengths of the log's files.
    pub files: u64,
}

/// Data set that a process has loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// A snapshot, and its place if it names one.
    Snapshot(Option<Position>),
    /// An append-only file; the [sum] of the names and lengths of its files if these are known.
    Log(Option<u64>),
}

/// First line; another first line belongs to a version that this one does not know.
const HEAD: &str = "cinnabar in-sync record 1";
/// Beginning of the last line, which has a sum of all lines before it.
const SUM: &str = "sum ";

impl MemberRecord {
    /// Returns the record as text.
    pub fn to_text(&self) -> String {
        let Membership { id, term, set, claim, heir_of, gone, unused, .. } = &self.membership;
        let mut text = format!("{HEAD}\nid {id}\nterm {term}\n");
        let mut line = |name: &str, value: String| _ = writeln!(text, "{name} {value}");
        let place = |Position { id, offset }: &Position| format!("{id}:{offset}");
        set.iter().for_each(|set| line("set", set.to_string()));
        claim.iter().for_each(|claim| line("claim", place(claim)));
        heir_of.iter().for_each(|id| line("heir-of", id.to_string()));
        gone.iter().for_each(|id| line("gone", id.to_string()));
        unused.iter().for_each(|term| line("unused", term.to_string()));
        self.saved.iter().for_each(|saved| line("saved", place(saved)));
        if let Some(LoggedPlace { position, db, files }) = &self.logged {
            line("log", format!("{}:{db}:{files:016x}", place(position)));
        }
        line("directory", self.directory.to_string());
        text += &sum_line(&text);
        text
    }

    /// Reads a record; None if the text is none, or is damaged.
    pub fn parse(text: &[u8]) -> Option<MemberRecord> {
        let text = std::str::from_utf8(text).ok()?;
        let body = &text[..text.rfind(SUM)?];
        if text[body.len()..] != sum_line(body) {
            return None;
        }
        let mut lines = body.strip_prefix(HEAD)?.lines().filter(|line| !line.is_empty());
        let id = MemberId::parse(lines.next()?.strip_prefix("id ")?.as_bytes())?;
        let mut record = MemberRecord { membership: Membership::new(id), saved: None, logged: None, directory: 0 };
        for line in lines {
            let (name, value) = line.split_once(' ')?;
            let member = &mut record.membership;
            match name {
                "term" => member.term = Term::parse(value.as_bytes())?,
                "set" => member.set = Some(InSyncSet::parse(value.as_bytes())?),
                "claim" => member.claim = Some(place(value)?),
                "heir-of" => member.heir_of.push(MemberId::parse(value.as_bytes())?),
                "gone" => member.gone.push(MemberId::parse(value.as_bytes())?),
                "unused" => member.unused = Some(Term::parse(value.as_bytes())?),
                "saved" => record.saved = Some(place(value)?),
                "log" => record.logged = Some(logged_place(value)?),
                "directory" => record.directory = value.parse().ok()?,
                _ => return None,
            }
        }
        Some(record)
    }

    /// Returns whether a process in this directory with this data has all data of the former process, and nothing else.
    pub fn has_heir(&self, loaded: Loaded, directory: u64) -> bool {
        let is_the_same = match loaded {
            Loaded::Snapshot(position) => self.saved.is_some() && self.saved == position,
            Loaded::Log(files) => self.logged.is_some_and(|logged| files == Some(logged.files)),
        };
        is_the_same && directory == self.directory
    }

    /// Returns the knowledge of the next process, which has the name `id` and has loaded this data.
    pub fn restore(self, id: MemberId, loaded: Loaded, directory: u64) -> Membership {
        let is_heir = self.has_heir(loaded, directory);
        let mut member = self.membership;
        match is_heir {
            true => member.inherit(id),
            // Processes that the record names may run in the directory that was copied.
            false if directory != self.directory => member = Membership { term: member.term, ..Membership::new(id) },
            false => member.forget(id),
        }
        member
    }
}

fn place(text: &str) -> Option<Position> {
    let (id, offset) = text.split_once(':')?;
    Some(Position { id: MemberId::parse(id.as_bytes())?, offset: offset.parse().ok()? })
}

fn logged_place(text: &str) -> Option<LoggedPlace> {
    let (text, files) = text.rsplit_once(':')?;
    let (position, db) = text.rsplit_once(':')?;
    let files = u64::from_str_radix(files, 16).ok()?;
    Some(LoggedPlace { position: place(position)?, db: db.parse().ok()?, files })
}

/// Returns a sum that differs when some bytes do (FNV-1a), against damage, not against intent.
pub fn sum(bytes: &[u8]) -> u64 {
    let add = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, add)
}

/// Returns the last line, with the sum of the body.
fn sum_line(body: &str) -> String {
    format!("{SUM}{:016x}\n", sum(body.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_sync_set::Quorum;
    use proptest::prelude::*;

    fn id(n: u128) -> MemberId {
        MemberId::of(n, 0)
    }

    fn record(saved: Option<Position>) -> MemberRecord {
        let term = Term { number: 4, leader: id(7) };
        let set = InSyncSet { term, epoch: 3, quorum: Quorum::new(1, vec![id(1), id(2)]), before: None };
        let claim = Some(Position { id: id(8), offset: 5 });
        let membership = Membership { term, set: Some(set), claim, gone: vec![id(5)], ..Membership::new(id(1)) };
        MemberRecord { membership, saved, logged: None, directory: 9 }
    }

    fn log_record() -> MemberRecord {
        let logged = LoggedPlace { position: Position { id: id(8), offset: 77 }, db: 3, files: 0xabc };
        MemberRecord { logged: Some(logged), ..record(None) }
    }

    #[test]
    fn a_record_comes_back() {
        for saved in [None, Some(Position { id: id(8), offset: 77 })] {
            let read = MemberRecord::parse(record(saved).to_text().as_bytes()).unwrap();
            let (was, is) = (record(saved).membership, read.membership);
            assert_eq!((is.id, is.term, is.set, is.claim), (was.id, was.term, was.set, was.claim));
            assert_eq!((is.heir_of, is.gone, read.saved), (was.heir_of, was.gone, saved));
        }
    }

    #[test]
    fn a_record_of_a_log_comes_back_and_one_from_before_there_were_such_is_read() {
        let text = log_record().to_text();
        let read = MemberRecord::parse(text.as_bytes()).unwrap();
        assert_eq!((read.logged, read.saved), (log_record().logged, None));
        let with_body = |body: &str| MemberRecord::parse((body.to_owned() + &sum_line(body)).as_bytes());
        let body = &text[..text.rfind(SUM).unwrap()];
        let line = format!("log {}:77:3:0000000000000abc\n", id(8));
        assert!(body.contains(&line) && with_body(body).is_some());
        assert_eq!(with_body(&body.replace(&line, "")).unwrap().logged, None);
        for damaged in [":77:3\n", ":77:3:x\n", ":77:x:abc\n", ":3:abc\n", "\n", ":77:-1:abc\n", ":77:3:1:abc\n"] {
            let line_now = format!("log {}{damaged}", id(8));
            assert!(with_body(&body.replace(&line, &line_now)).is_none(), "{line_now}");
        }
    }

    #[test]
    fn only_the_log_of_the_moment_of_the_shutdown_makes_an_heir() {
        let position = Position { id: id(8), offset: 77 };
        let heir = log_record().restore(id(2), Loaded::Log(Some(0xabc)), 9);
        assert!(heir.is_in_sync() && heir.heir_of == [id(1)] && heir.is_restored);
        for (record, loaded) in [
            (log_record(), Loaded::Log(Some(0xabd))),
            (log_record(), Loaded::Log(None)),
            (log_record(), Loaded::Snapshot(Some(position))),
            (record(None), Loaded::Log(None)),
            (record(Some(position)), Loaded::Log(Some(0xabc))),
        ] {
            let other = record.restore(id(2), loaded, 9);
            assert!(!other.is_in_sync() && other.heir_of.is_empty() && other.gone == [id(5), id(1)], "{loaded:?}");
        }
        let copy = log_record().restore(id(2), Loaded::Log(Some(0xabc)), 10);
        assert!(!copy.is_in_sync() && copy.heir_of.is_empty() && copy.gone.is_empty());
    }

    #[test]
    fn only_data_of_the_moment_of_the_shutdown_makes_an_heir() {
        let saved = Position { id: id(8), offset: 77 };
        let heir = record(Some(saved)).restore(id(2), Loaded::Snapshot(Some(saved)), 9);
        assert!(heir.is_in_sync() && heir.heir_of == [id(1)] && heir.id == id(2));
        for (saved, loaded) in [
            (None, Some(saved)),
            (Some(saved), None),
            (Some(saved), Some(Position { offset: 76, ..saved })),
            (Some(saved), Some(Position { offset: 78, ..saved })),
            (Some(saved), Some(Position { id: id(9), ..saved })),
        ] {
            let other = record(saved).restore(id(2), Loaded::Snapshot(loaded), 9);
            assert!(!other.is_in_sync() && other.heir_of.is_empty() && other.gone == [id(5), id(1)]);
            assert_eq!((other.term.number, other.set), (4, None));
        }
        let copy = record(Some(saved)).restore(id(2), Loaded::Snapshot(Some(saved)), 10);
        assert!(!copy.is_in_sync() && copy.heir_of.is_empty() && copy.gone.is_empty() && copy.term.number == 4);
    }

    proptest! {
        #[test]
        fn a_damaged_record_is_none(at in any::<prop::sample::Index>(), bit in 0..8u32) {
            let mut bytes = log_record().to_text().into_bytes();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(MemberRecord::parse(&bytes).is_none());
        }

        #[test]
        fn any_bytes_are_a_record_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            _ = MemberRecord::parse(&bytes);
        }
    }
}
