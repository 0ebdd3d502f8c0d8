//! DEBUG DIGEST: a number for what a data set, or a value, is, so that two of them can be compared.
//!
//! It is Valkey's, so that it can be compared with what other servers answer. A digest is 20 bytes, zero at first, and
//! takes bytes in two ways:
//!
//! ```text
//! add(bytes)   digest ^= SHA1(bytes)                    the order does not matter: members, keys
//! mix(bytes)   add(bytes); digest = SHA1(digest)        the order does
//!
//! value        mix(type, 4 bytes); string: mix(bytes)
//!              sorted set: for each member add(digest of mix(member), mix(score as replied))
//!              with a deadline: add("!!expire!!")
//! data set     for each database that has keys: mix(number, 4 bytes);
//!              for each of its keys: add(digest of mix(key), its value)
//! ```

use engine::value::{Value, ValueExt};
use resp::format_double;
use sha1::{Digest as _, Sha1};
use std::fmt;
use structures::sorted_set::SortedSet;

/// The digest of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest([u8; 20]);

impl Digest {
    pub fn add(&mut self, bytes: &[u8]) {
        let hash: [u8; 20] = Sha1::digest(bytes).into();
        self.0.iter_mut().zip(hash).for_each(|(byte, other)| *byte ^= other);
    }

    pub fn mix(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    /// Takes in a database's number, before its keys.
    pub fn mix_database(&mut self, db: u32) {
        self.mix(&db.to_be_bytes());
    }

    /// Takes in a key with its value.
    pub fn add_key(&mut self, name: &[u8], value: &Value<'_>, expires: bool) {
        let mut digest = Digest::default();
        digest.mix(name);
        digest.mix_value(value, expires);
        self.add(&digest.0);
    }

    pub fn mix_value(&mut self, value: &Value<'_>, expires: bool) {
        if let Ok(text) = value.as_string() {
            self.mix(&STRING.to_be_bytes());
            self.mix(text.bytes(&mut itoa::Buffer::new()));
        } else if let Ok(set) = value.as_collection::<SortedSet>() {
            self.mix(&SORTED_SET.to_be_bytes());
            for (name, score) in set.range(0..set.len()) {
                let mut member = Digest::default();
                member.mix(name);
                member.mix(format_double(score).as_bytes());
                self.add(&member.0);
            }
        }
        if expires {
            self.add(b"!!expire!!");
        }
    }
}

/// Types by number, as in dumps.
const STRING: u32 = 0;
const SORTED_SET: u32 = 3;

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::value::Object;
    use structures::sorted_set::Limits;

    /// What Valkey 9 answers to DEBUG DIGEST-VALUE.
    #[test]
    fn values_have_the_digests_of_other_servers() {
        let mut digest = Digest::default();
        digest.mix_value(&Value::Inline(b"value:1\0\0\0"), false);
        assert_eq!(digest.to_string(), "2428886ea90a6ca0422fbe93c8d4365d76f377c4");
        let mut set = SortedSet::default();
        let members =
            [("a", 1.0), ("b", 2.5), ("c", 0.1), ("d", 1e300), ("e", -3.0), ("f", 1e-7), ("g", f64::INFINITY)];
        for (name, score) in members {
            set.insert(name.as_bytes(), score, Limits::default());
        }
        let mut digest = Digest::default();
        digest.mix_value(&Value::Payload(&Object::SortedSet(set)), false);
        assert_eq!(digest.to_string(), "64389e37ae801677fd5a263b810ad674a91be92c");
    }
}
