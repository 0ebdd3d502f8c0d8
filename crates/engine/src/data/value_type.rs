//! The table of value types: names and classes by which the rest of the server refers to a type.
//!
//! TYPE, SCAN, the sizes of INFO, the checker's columns, ACL categories and groups of COMMAND DOCS read the table. Six
//! types are always there; others are [installed](install) by the program, before the first command.

use crate::data::event_class::EventClass;
use crate::data::typed_value::TypedValue;
use crate::data::value::{Collection, Object};
use rdb::module_value::{self, ModuleReader};
use rdb::rdb_reader::Result;
use std::fmt;
use std::sync::OnceLock;

/// A type of values: one line of the table.
pub struct ValueType {
    /// Name that TYPE replies and SCAN accepts.
    pub name: &'static str,
    /// Number in digests, and the column of the checker's statistics.
    pub number: u8,
    /// Group of its commands in COMMAND DOCS.
    pub group: &'static str,
    /// ACL category of its commands, without `@`.
    pub acl_category: &'static str,
    /// Class of its keyspace events.
    pub event_class: EventClass,
    /// Name of its sizes in INFO's section Keysizes; None: they are not shown.
    pub sizes: Option<&'static str>,
    /// Event and command that announce expired elements.
    pub element_expiry: ExpiryEvents,
    /// Form of its values in files and dumps, and the module that has the type elsewhere; None for the built-in types.
    pub module: Option<ModuleType>,
    /// Makes values of each size and encoding for the tests that every type passes.
    pub samples: fn() -> Vec<Object>,
}

/// A type as a module has it.
pub struct ModuleType {
    /// The module's name, as MODULE LIST shows it.
    pub module: &'static str,
    /// The module's version there.
    pub module_version: u32,
    /// [Name and version](rdb::module_value::id) of the type's encoding.
    pub id: u64,
    /// Reads a value, of any version of the encoding; the end's marker is the caller's.
    pub read: fn(&mut ModuleReader<'_, '_>) -> Result<Box<dyn TypedValue>>,
}

/// Event and command that announce expired elements of a collection.
#[derive(Clone, Copy, Debug)]
pub struct ExpiryEvents {
    /// The class of the keyspace event.
    pub class: EventClass,
    /// The event's name.
    pub expired: &'static str,
    /// The command that removes elements.
    pub removal: &'static [u8],
}

impl ExpiryEvents {
    /// Stands in the line of a type whose elements do not expire.
    pub const NONE: ExpiryEvents = ExpiryEvents { class: EventClass(0), expired: "", removal: b"" };
}

/// Number of types that come from modules elsewhere.
pub const MODULE_NUMBER: u8 = 5;

/// Bytes or an integer.
pub static STRING: ValueType = ValueType {
    name: "string",
    number: 0,
    group: "string",
    acl_category: "string",
    event_class: EventClass::STRING,
    sizes: Some("strings_sizes"),
    element_expiry: ExpiryEvents::NONE,
    module: None,
    samples: samples::string,
};

/// Elements in the order in which they were put there.
pub static LIST: ValueType = ValueType {
    name: "list",
    number: 1,
    group: "list",
    acl_category: "list",
    event_class: EventClass::LIST,
    sizes: Some("lists_items"),
    element_expiry: ExpiryEvents::NONE,
    module: None,
    samples: samples::list,
};

/// Different elements without order.
pub static SET: ValueType = ValueType {
    name: "set",
    number: 2,
    group: "set",
    acl_category: "set",
    event_class: EventClass::SET,
    sizes: Some("sets_items"),
    element_expiry: ExpiryEvents::NONE,
    module: None,
    samples: samples::set,
};

/// Members in the order of their scores.
pub static SORTED_SET: ValueType = ValueType {
    name: "zset",
    number: 3,
    group: "sorted-set",
    acl_category: "sortedset",
    event_class: EventClass::SORTED_SET,
    sizes: Some("zsets_items"),
    element_expiry: ExpiryEvents::NONE,
    module: None,
    samples: samples::sorted_set,
};

/// Fields with a value each.
pub static HASH: ValueType = ValueType {
    name: "hash",
    number: 4,
    group: "hash",
    acl_category: "hash",
    event_class: EventClass::HASH,
    sizes: Some("hashes_items"),
    element_expiry: ExpiryEvents { class: EventClass::HASH, expired: "hexpired", removal: b"HDEL" },
    module: None,
    samples: samples::hash,
};

/// Records in the order of their ids.
pub static STREAM: ValueType = ValueType {
    name: "stream",
    number: 6,
    group: "stream",
    acl_category: "stream",
    event_class: EventClass::STREAM,
    sizes: None,
    element_expiry: ExpiryEvents::NONE,
    module: None,
    samples: samples::stream,
};

/// Types that are always there.
pub static BUILT_IN: [&ValueType; 6] = [&STRING, &LIST, &SET, &SORTED_SET, &HASH, &STREAM];

static INSTALLED: OnceLock<Vec<&'static ValueType>> = OnceLock::new();

/// Adds types to the table, for the whole process. To be called before the first command; the first call decides.
///
/// # Panics
/// Two types have the same name, or one is not a module's.
pub fn install(types: Vec<&'static ValueType>) {
    for (at, added) in types.iter().enumerate() {
        let mut others = BUILT_IN.iter().chain(&types[..at]);
        assert!(others.all(|other| other.name != added.name), "two value types are called {}", added.name);
        assert!(added.module.is_some(), "{} has a form in files", added.name);
    }
    let _ = INSTALLED.set(types);
}

/// Returns the types that were installed.
pub fn installed() -> &'static [&'static ValueType] {
    INSTALLED.get().map_or(&[], Vec::as_slice)
}

/// Returns all types.
pub fn all() -> impl Iterator<Item = &'static ValueType> {
    BUILT_IN.into_iter().chain(installed().iter().copied())
}

/// Returns the type that has this name, in whatever case.
pub fn named(name: &[u8]) -> Option<&'static ValueType> {
    all().find(|known| known.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Returns the type whose encoding has this id, of whatever version.
pub fn of_module(id: u64) -> Option<(&'static ValueType, &'static ModuleType)> {
    let name = module_value::name(id);
    installed().iter().find_map(|known| {
        let form = known.module.as_ref().filter(|form| module_value::name(form.id) == name)?;
        Some((*known, form))
    })
}

impl PartialEq for ValueType {
    fn eq(&self, other: &ValueType) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for ValueType {}

impl fmt::Debug for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Values for tests of the built-in types: small and large ones.
mod samples {
    use super::*;
    use structures::hash::{self, FieldTtl, Hash};
    use structures::list::List;
    use structures::quicklist::{End, Rules};
    use structures::set::{self, Set};
    use structures::sorted_set::{self, SortedSet};
    use structures::stream::{self, Id, Stream};

    /// Elements of a small value and of a large one.
    const SIZES: [u64; 2] = [3, 5000];

    fn sized<C: Collection>(make: impl Fn(u64) -> C) -> Vec<Object> {
        SIZES.map(|size| make(size).into_object()).into()
    }

    pub fn string() -> Vec<Object> {
        [&b""[..], b"text", b"12345", &[b'x'; 100], &[b'y'; 100_000]]
            .map(|text| Object::String(text.to_vec().into()))
            .into()
    }

    pub fn list() -> Vec<Object> {
        sized(|size| {
            let mut list = List::default();
            (0..size).for_each(|n| list.push(End::Tail, format!("element {n}").into_bytes().into(), &Rules::default()));
            list
        })
    }

    pub fn set() -> Vec<Object> {
        let limits = set::Limits { intset_entries: 512, listpack_entries: 128, listpack_value: 64 };
        let numbers = |size| {
            let mut set = Set::default();
            (0..size).for_each(|n: u64| _ = set.insert(n.to_string().as_bytes(), &limits));
            set
        };
        let texts = |size| {
            let mut set = Set::default();
            (0..size).for_each(|n: u64| _ = set.insert(format!("member {n}").as_bytes(), &limits));
            set
        };
        [sized(numbers), sized(texts)].concat()
    }

    pub fn sorted_set() -> Vec<Object> {
        sized(|size| {
            let (mut set, limits) = (SortedSet::default(), sorted_set::Limits::default());
            (0..size).for_each(|n| _ = set.insert(format!("member {n}").as_bytes(), n as f64 / 4.0, limits));
            set
        })
    }

    pub fn hash() -> Vec<Object> {
        let limits = hash::Limits { fields: 128, bytes: 64 };
        /// Far in the future, in milliseconds of Unix time.
        const LATER: u64 = 4_000_000_000_000;
        let with = |size: u64, expiry: fn(u64) -> FieldTtl| {
            let mut hash = Hash::default();
            for n in 0..size {
                hash.set(format!("field {n}").as_bytes(), b"value", expiry(n), 0, limits);
            }
            hash
        };
        let plain = sized(|size| with(size, |_| FieldTtl::Clear));
        let timed = sized(|size| with(size, |n| if n % 2 == 0 { FieldTtl::At(LATER + n) } else { FieldTtl::Clear }));
        [plain, timed].concat()
    }

    pub fn stream() -> Vec<Object> {
        const LIMITS: stream::Limits = stream::Limits { bytes: 4096, entries: 100 };
        sized(|size| {
            let mut stream = Stream::default();
            for n in 0..size {
                stream.append(Id::new(n + 1, 0), [(&b"field"[..], &b"value"[..])].into_iter(), LIMITS);
            }
            stream
        })
    }
}
