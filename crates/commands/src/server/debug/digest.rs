//! DEBUG DIGEST: a number for the contents of a data set, or of a value, so that two of them can be compared.
//!
//! It is Valkey's, so that it can be compared with the replies of other servers. A digest is 20 bytes, zero at first,
//! and takes bytes in two ways:
//!
//! ```text
//! add(bytes)   digest ^= SHA1(bytes)                    the order does not matter: members, keys
//! mix(bytes)   add(bytes); digest = SHA1(digest)        the order does
//!
//! value        mix(type, 4 bytes); string: mix(bytes)
//!              list: for each element mix(element); set: for each member add(member)
//!              hash: for each field add(digest of mix(field), mix(value))
//!              sorted set: for each member add(digest of mix(member), mix(score))
//!              stream: for each entry mix(`ms.seq`), and for each field mix(name), mix(value)
//!              with an expiry: add("!!expire!!")
//! data set     for each database that has keys: mix(number, 4 bytes);
//!              for each of its keys: add(digest of mix(key), its value)
//! ```

use crate::core::args::Args;
use crate::core::context::Context;
use crate::core::yielding::Yielding;
use engine::Error;
use engine::data::typed_value::DigestSink;
use engine::data::value::{Object, Value, ValueExt};
use resp::format_by_digits;
use sha1::{Digest as _, Sha1};
use std::collections::BTreeSet;
use std::fmt;
use structures::hash::View;
use structures::stream::Id;

/// Elements that one element counts as when digests are computed.
const DIGEST_STEPS: usize = 10;

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

    /// Adds a member with its value, in whatever order the pairs come.
    fn add_pair(&mut self, first: &[u8], second: &[u8]) {
        let mut pair = Digest::default();
        pair.mix(first);
        pair.mix(second);
        self.add(&pair.0);
    }

    /// Takes in a database's number, before its keys.
    pub fn mix_database(&mut self, db: u32) {
        self.mix(&db.to_be_bytes());
    }

    /// Takes in a key with its value.
    pub fn add_key(&mut self, name: &[u8], value: &Value<'_>, expires: bool, yielding: &Yielding<'_>) {
        let mut digest = Digest::default();
        digest.mix(name);
        digest.mix_value(value, expires, yielding);
        self.add(&digest.0);
    }

    /// Adds a hash as if no time had passed, so that every field is there.
    fn mix_hash(&mut self, hash: View<'_>, yielding: &Yielding<'_>) {
        hash.visit(0, |field, value| {
            yielding.steps(DIGEST_STEPS);
            self.add_pair(field.bytes(&mut itoa::Buffer::new()), value.bytes(&mut itoa::Buffer::new()));
        });
    }

    pub fn mix_value(&mut self, value: &Value<'_>, expires: bool, yielding: &Yielding<'_>) {
        let step = || yielding.steps(DIGEST_STEPS);
        step();
        self.mix(&u32::from(value.value_type().number).to_be_bytes());
        let mut digits = itoa::Buffer::new();
        match value {
            Value::Inline(bytes) => self.mix(bytes),
            Value::Int(n) => self.mix(digits.format(*n).as_bytes()),
            Value::Payload(Object::String(bytes)) => self.mix(bytes),
            Value::Payload(Object::List(list)) => list.each(0..list.len(), false, |item| {
                step();
                self.mix(item.bytes(&mut digits));
            }),
            Value::Payload(Object::Set(set)) => set.iter().for_each(|item| {
                step();
                self.add(item.bytes(&mut digits));
            }),
            Value::Payload(Object::Hash(hash)) => self.mix_hash(hash.view(), yielding),
            Value::Packed(bytes) => self.mix_hash(View::packed(bytes), yielding),
            Value::Payload(Object::Other(value)) => value.digest(self),
            Value::Payload(Object::SortedSet(set)) => {
                for (name, score) in set.range(0..set.len()) {
                    step();
                    self.add_pair(name, format_by_digits(score).as_bytes());
                }
            }
            Value::Payload(Object::Stream(stream)) => {
                let mut cursor = stream.range(Id::MIN, Id::MAX);
                while let Some(id) = cursor.next() {
                    step();
                    self.mix(format!("{}.{}", id.ms, id.seq).as_bytes());
                    while let Some((name, value)) = cursor.field() {
                        self.mix(name.bytes(&mut digits));
                        self.mix(value.bytes(&mut digits));
                    }
                }
            }
        }
        if expires {
            self.add(b"!!expire!!");
        }
    }
}

impl DigestSink for Digest {
    fn add(&mut self, bytes: &[u8]) {
        Digest::add(self, bytes);
    }

    fn mix(&mut self, bytes: &[u8]) {
        Digest::mix(self, bytes);
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// DEBUG DIGEST: the whole data set at one moment.
pub fn digest(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.keys.escalate()?;
    let yielding = cx.lending_at_once();
    let mut digest = Digest::default();
    let mut dbs = BTreeSet::new();
    cx.keys.each_shard(|_, shard, _| dbs.extend(shard.dbs.iter().map(|(db, _)| db)))?;
    for db in dbs {
        let mut mixed = false;
        cx.keys.each_shard(|_, shard, _| {
            for entry in shard.dbs[db].table.iter() {
                if !mixed {
                    digest.mix_database(db);
                    mixed = true;
                }
                digest.add_key(entry.key(), &entry.value(), entry.expiry().is_some(), &yielding);
            }
        })?;
    }
    cx.reply.simple(digest.to_string());
    Ok(())
}

/// DEBUG DIGEST-VALUE key...
pub fn digest_values(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.keys.escalate()?;
    cx.reply.array(args.len() - 2);
    let yielding = cx.lending_at_once();
    for name in args.from(2) {
        let mut digest = Digest::default();
        let key = cx.keys.key(name);
        if let Some(found) = cx.keys.lookup_no_expire(key) {
            digest.mix_value(&found.value(), found.expiry().is_some(), &yielding);
        }
        cx.reply.simple(digest.to_string());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use structures::hash::{self, Hash};
    use structures::list::List;
    use structures::quicklist::{End, Rules};
    use structures::set::{self, Set};
    use structures::sorted_set::{Limits, SortedSet};

    /// The digests are replies of Valkey 9 to DEBUG DIGEST-VALUE.
    #[test]
    fn values_have_the_digests_of_other_servers() {
        let mut digest = Digest::default();
        digest.mix_value(&Value::Inline(b"value:1\0\0\0"), false, &Yielding::never());
        assert_eq!(digest.to_string(), "2428886ea90a6ca0422fbe93c8d4365d76f377c4");
        let mut set = SortedSet::default();
        let members =
            [("a", 1.0), ("b", 2.5), ("c", 0.1), ("d", 1e300), ("e", -3.0), ("f", 1e-7), ("g", f64::INFINITY)];
        for (name, score) in members {
            set.insert(name.as_bytes(), score, Limits::default());
        }
        let mut digest = Digest::default();
        digest.mix_value(&Value::Payload(&Object::SortedSet(set)), false, &Yielding::never());
        assert_eq!(digest.to_string(), "64389e37ae801677fd5a263b810ad674a91be92c");
    }

    #[test]
    fn collections_have_the_digests_of_other_servers() {
        let mut hash = Hash::default();
        let limits = hash::Limits { fields: 1, bytes: 64 };
        for (field, value) in [("a", "1"), ("b", "xyz")] {
            hash.set(field.as_bytes(), value.as_bytes(), hash::FieldTtl::At(7), 0, limits);
        }
        let mut list = List::default();
        let mut members = Set::default();
        for word in ["1", "abc", "2"] {
            list.push(End::Tail, word.as_bytes().into(), &Rules::default());
            members.insert(word.as_bytes(), &set::Limits { intset_entries: 1, listpack_entries: 2, listpack_value: 9 });
        }
        for (object, expected) in [
            (Object::Hash(hash), "b0c26a847b4176e35c0b9cce40f68a6f0b77aba4"),
            (Object::Set(members), "f4017cd3fa7f795972051044941aaa5a37760960"),
            (Object::List(list), "5bd5ee170b0ed1ad85b44756b1177a72bcd0d8cb"),
        ] {
            let mut digest = Digest::default();
            digest.mix_value(&Value::Payload(&object), false, &Yielding::never());
            assert_eq!(digest.to_string(), expected, "{object:?}");
        }
        let mut hash = Hash::default();
        let limits = structures::hash::Limits { fields: 9, bytes: 9 };
        for (name, value) in [("a", "2.5"), ("b", "1"), ("s", "abc")] {
            hash.set(name.as_bytes(), value.as_bytes(), structures::hash::FieldTtl::Clear, 0, limits);
        }
        let mut digest = Digest::default();
        digest.mix_value(&Value::Payload(&Object::Hash(hash)), false, &Yielding::never());
        assert_eq!(digest.to_string(), "265e98ae6547ff6909fbb0afe9e6ea7f01983dac");
    }
}
