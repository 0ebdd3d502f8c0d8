//! The section Keysizes of INFO: how large the values are, type by type and database by database.
//!
//! ```text
//! db0_distrib_strings_sizes:0=1,16=3,1K=20      one empty, three of 16 to 31 bytes, 20 of 1,024 to 2,047
//! db0_distrib_lists_items:4=1                   one of four to seven elements
//! ```
//!
//! Nothing is counted while keys change: a client that asks for the section, by its name, has all keys iterated over, a
//! piece at a time. A key that is added or removed meanwhile may be counted or not.

use engine::Error;
use engine::data::value::{Value, ValueExt};
use engine::data::value_type;
use engine::keyspace::keys::Keys;
use std::collections::BTreeMap;
use std::fmt::Write;
use structures::hashtable::position;

/// Number of values of each size: of size 0, and from each power of two to the next.
type Histogram = [u64; 65];

/// Entries that are visited before others get their turn.
const PIECE: usize = 1000;
/// Buckets that are looked into for every entry that may be visited.
const BUCKETS_PER_ENTRY: usize = 10;

/// The iteration over all keys, and its counts.
#[derive(Default)]
pub struct KeySizes {
    shard: usize,
    db: u32,
    /// Position in the table of that database. Entries before it have been counted.
    position: u64,
    /// Sizes of the values of each type, by its place in the table.
    dbs: BTreeMap<u32, Vec<Histogram>>,
}

impl KeySizes {
    /// Counts one piece. Returns whether that was the last.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]
    pub fn piece(&mut self, keys: &mut Keys<'_>) -> Result<bool, Error> {
        let mut left = PIECE * BUCKETS_PER_ENTRY;
        while self.shard < keys.keyspace().locks().len() {
            if left == 0 {
                return Ok(false);
            }
            // A lock costs as much as a few buckets.
            left = left.saturating_sub(BUCKETS_PER_ENTRY);
            self.shard_piece(keys, &mut left)?;
        }
        Ok(true)
    }

    /// Counts the part of a piece that is in one shard.
    fn shard_piece(&mut self, keys: &mut Keys<'_>, left: &mut usize) -> Result<(), Error> {
        let hasher = keys.keyspace().hasher();
        let KeySizes { shard: index, db: number, position: at, dbs } = self;
        keys.with_shard(*index, |shard, _| {
            while let Some(db) = shard.dbs.next(*number) {
                if db != *number {
                    (*number, *at) = (db, 0);
                }
                let table = &shard.dbs[db].table;
                let mut next = if table.is_empty() { None } else { Some(*at) };
                // A bucket may have been joined with one that was visited before the lock was last given up.
                let mut visited_below = *at;
                while let Some(position_now) = next {
                    *at = position_now;
                    if *left == 0 {
                        return;
                    }
                    *left = left.saturating_sub(1);
                    next = table.scan(position_now, |entry| {
                        if visited_below == 0 || position(hasher.local_of(entry.key())) >= visited_below {
                            *left = left.saturating_sub(BUCKETS_PER_ENTRY);
                            count(dbs.entry(db).or_default(), &entry.value());
                        }
                    });
                    visited_below = 0;
                }
                let Some(following) = number.checked_add(1) else { break };
                (*number, *at) = (following, 0);
            }
            (*index, *number, *at) = (*index + 1, 0, 0);
        })
    }

    /// Returns the fields of the section.
    pub fn fields(&self) -> String {
        let mut text = String::new();
        for (number, types) in &self.dbs {
            let shown = value_type::all().zip(types).filter_map(|(known, sizes)| Some((known.sizes?, sizes)));
            for (name, histogram) in shown {
                let sizes = histogram.iter().enumerate().filter(|(_, count)| **count > 0);
                let sizes: Vec<String> = sizes.map(|(bits, count)| format!("{}={count}", label(bits))).collect();
                if !sizes.is_empty() {
                    let _ = write!(text, "db{number}_distrib_{name}:{}\r\n", sizes.join(","));
                }
            }
        }
        text
    }
}

fn count(types: &mut Vec<Histogram>, value: &Value<'_>) {
    let of = value.value_type();
    if of.sizes.is_none() {
        return;
    }
    let Some(place) = value_type::all().position(|known| known == of) else { return };
    if types.len() <= place {
        types.resize(place + 1, [0; 65]);
    }
    types[place][(usize::BITS - value.length().leading_zeros()) as usize] += 1;
}

/// Returns the least size that has so many bits: `0`, `1`, `2`, ..., `512`, `1K`.
fn label(bits: usize) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    match bits.checked_sub(1) {
        None => "0".to_owned(),
        Some(power) => format!("{}{}", 1 << (power % 10), UNITS[power / 10]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    #[test]
    fn values_are_counted_by_type_and_size() {
        let mut client = Client::new();
        client.run_words(&["SET", "empty", ""]);
        for (command, reply) in [
            ("SET b x", "+OK"),
            ("SET n 12345", "+OK"),
            ("SETRANGE e 1100 x", ":1101"),
            ("RPUSH l a b c", ":3"),
            ("ZADD z 1 a", ":1"),
            ("HSET h a 1 b 2", ":2"),
            ("SADD s a", ":1"),
            ("XADD st 1-1 a b", "1-1"),
            ("SELECT 3", "+OK"),
            ("SADD s b c d e", ":4"),
        ] {
            client.is(command, reply);
        }
        client.is(
            "INFO keysizes",
            "# Keysizes\r\ndb0_distrib_strings_sizes:0=1,1=1,4=1,1K=1\r\ndb0_distrib_lists_items:2=1\r\n\
             db0_distrib_sets_items:1=1\r\ndb0_distrib_zsets_items:1=1\r\ndb0_distrib_hashes_items:2=1\r\n\
             db3_distrib_sets_items:4=1\r\n",
        );
        assert!(!client.run("INFO everything").contains("Keysizes"));
        client.is("MULTI", "+OK").is("INFO keysizes", "+QUEUED");
        assert!(client.run("EXEC").contains("db3_distrib_sets_items:4=1"));
    }

    #[test]
    fn all_keys_are_counted_over_many_pieces() {
        let mut client = Client::new();
        (0..5000).for_each(|n| _ = client.is(&format!("SET key:{n} v"), "+OK"));
        client.is("INFO keysizes", "# Keysizes\r\ndb0_distrib_strings_sizes:1=5000\r\n");
    }

    #[test]
    fn labels_are_powers_of_two() {
        let shown = [(0, "0"), (1, "1"), (10, "512"), (11, "1K"), (31, "1G"), (64, "8E")];
        shown.iter().for_each(|(bits, text)| assert_eq!(label(*bits), *text));
    }
}
