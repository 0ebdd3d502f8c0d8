//! `--keystats`: sizes in memory and lengths of all keys in one walk, their distribution, and the largest keys.
//!
//! Options and report are redis-cli's: `--top` sets how many of the largest are listed, `--cursor` where the walk
//! begins, `--keystats-samples` how many elements of a key MEMORY USAGE samples.

use hdrhistogram::Histogram;

use super::key_sizing::{self, TYPES};
use super::key_stats_report as report;
use super::keyspace_walk::walk;
use crate::protocol_client::ClientFailure;
use crate::reply_format;
use crate::resp_session::RespSession;
use crate::transport::print;

/// Default number of keys that are listed.
const TOP: usize = 10;
/// Upper bound of the histogram of sizes, which distinguishes four digits.
const SIZE_MAX: u64 = 1 << 40;

/// Names up to so many bytes are counted together.
pub const NAME_LENGTHS: [u64; 6] = [1 << 5, 1 << 8, 1 << 16, 1 << 32, 1 << 48, u64::MAX];

/// Totals of one type.
#[derive(Debug, Default)]
pub struct TypeStats {
    pub name: String,
    /// Unit of a length; None for types without a length.
    pub unit: Option<&'static str>,
    pub keys: u64,
    pub size: u64,
    pub length: u64,
    pub largest: Option<(u64, Vec<u8>)>,
    pub longest: Option<(u64, Vec<u8>)>,
}

/// One of the largest keys.
#[derive(Debug)]
pub struct TopKey {
    pub size: u64,
    /// Its type, by its place among the types.
    pub kind: usize,
    pub key: Vec<u8>,
}

#[derive(Debug)]
pub struct KeyStats {
    pub types: Vec<TypeStats>,
    pub keys: u64,
    pub size: u64,
    /// The largest keys first; of equal ones the first found.
    pub top: Vec<TopKey>,
    pub top_max: usize,
    pub sizes: Histogram<u64>,
    /// Names by [`NAME_LENGTHS`].
    pub names: [u64; NAME_LENGTHS.len()],
    pub name_bytes: u64,
    pub name_max: u64,
}

pub fn run(session: &mut RespSession) -> Result<(), ClientFailure> {
    let is_json = session.options().output.is_json();
    let mut stats = KeyStats::new(session.options().top_keys.unwrap_or(TOP));
    let end = walk(session, report::INTRODUCTION, |session, keys, _| stats.look_at(session, keys))?;
    if is_json {
        print(&reply_format::reply(&report::as_value(&stats, &end), session.options()));
    } else {
        print(report::text(&stats, &end).as_bytes());
    }
    Ok(())
}

impl KeyStats {
    pub fn new(top_max: usize) -> KeyStats {
        let known = |(name, _, unit): (&str, _, _)| TypeStats {
            name: name.to_owned(),
            unit: Some(unit),
            ..TypeStats::default()
        };
        KeyStats {
            types: TYPES.map(known).into(),
            keys: 0,
            size: 0,
            top: Vec::new(),
            top_max,
            sizes: Histogram::new_with_bounds(1, SIZE_MAX, 4).expect("the bounds are legal"),
            names: [0; NAME_LENGTHS.len()],
            name_bytes: 0,
            name_max: 0,
        }
    }

    fn look_at(&mut self, session: &mut RespSession, keys: &[Vec<u8>]) -> Result<(), ClientFailure> {
        let typed = key_sizing::typed(session, keys)?;
        let samples = session.options().memory_samples;
        let sizes = key_sizing::memory(session, &typed, samples)?;
        let lengths = key_sizing::lengths(session, &typed)?;
        for (((key, name), size), length) in typed.iter().zip(sizes).zip(lengths) {
            self.note(key, name, size.unwrap_or(0), length);
        }
        Ok(())
    }

    /// Counts a key.
    pub fn note(&mut self, key: &[u8], name: &str, size: u64, length: Option<u64>) {
        let kind = self.types.iter().position(|stats| stats.name == name).unwrap_or_else(|| {
            self.types.push(TypeStats { name: name.to_owned(), ..TypeStats::default() });
            self.types.len() - 1
        });
        self.keys += 1;
        self.size += size;
        self.sizes.saturating_record(size);
        let name_length = key.len() as u64;
        self.names[NAME_LENGTHS.partition_point(|upto| *upto < name_length)] += 1;
        self.name_bytes += name_length;
        self.name_max = self.name_max.max(name_length);
        let stats = &mut self.types[kind];
        stats.keys += 1;
        stats.size += size;
        stats.length += length.unwrap_or(0);
        replace_if_more(&mut stats.largest, size, key);
        replace_if_more(&mut stats.longest, length.unwrap_or(0), key);
        let place = self.top.partition_point(|other| other.size >= size);
        if size > 0 && place < self.top_max {
            self.top.insert(place, TopKey { size, kind, key: key.to_vec() });
            self.top.truncate(self.top_max);
        }
    }
}

fn replace_if_more(record: &mut Option<(u64, Vec<u8>)>, value: u64, key: &[u8]) {
    if value > record.as_ref().map_or(0, |(record, _)| *record) {
        *record = Some((value, key.to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept_in_order() {
        let mut stats = KeyStats::new(3);
        for (key, size) in [("a", 5), ("b", 9), ("c", 5), ("d", 0), ("e", 7), ("f", 5)] {
            stats.note(key.as_bytes(), "string", size, Some(1));
        }
        let top: Vec<_> = stats.top.iter().map(|top| (top.size, &top.key[..])).collect();
        assert_eq!(top, [(9, &b"b"[..]), (7, b"e"), (5, b"a")]);
        assert_eq!((stats.keys, stats.size, stats.name_bytes, stats.name_max), (6, 31, 6, 1));
        assert_eq!(stats.types[0].largest, Some((9, b"b".to_vec())));
        assert_eq!(stats.types[0].longest, Some((1, b"a".to_vec())));
    }

    #[test]
    fn types_that_nobody_knows_have_a_size_only() {
        let mut stats = KeyStats::new(10);
        stats.note(&[b'k'; 300], "vectorset", 70, None);
        let odd = stats.types.last().unwrap();
        assert_eq!((odd.name.as_str(), odd.unit, odd.size, odd.length), ("vectorset", None, 70, 0));
        assert_eq!((odd.longest.as_ref(), stats.names), (None, [0, 0, 1, 0, 0, 0]));
    }
}
