//! The table of value types: names and classes by which the rest of the server refers to a type.
//!
//! TYPE, SCAN, the sizes of INFO, the checker's columns, ACL categories and groups of COMMAND DOCS read the table. Six
//! types are always there; others are [installed](install) by the program, before the first command.

use crate::data::event_class::EventClass;
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
    pub element_expiry: ElementWords,
}

/// Event and command that announce expired elements of a collection.
#[derive(Clone, Copy, Debug)]
pub struct ElementWords {
    /// The class of the keyspace event.
    pub class: EventClass,
    /// The event's name.
    pub expired: &'static str,
    /// The command that removes elements.
    pub removal: &'static [u8],
}

impl ElementWords {
    /// Stands in the line of a type whose elements do not expire.
    pub const NONE: ElementWords = ElementWords { class: EventClass(0), expired: "", removal: b"" };
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
    element_expiry: ElementWords::NONE,
};

/// Elements in the order in which they were put there.
pub static LIST: ValueType = ValueType {
    name: "list",
    number: 1,
    group: "list",
    acl_category: "list",
    event_class: EventClass::LIST,
    sizes: Some("lists_items"),
    element_expiry: ElementWords::NONE,
};

/// Different elements without order.
pub static SET: ValueType = ValueType {
    name: "set",
    number: 2,
    group: "set",
    acl_category: "set",
    event_class: EventClass::SET,
    sizes: Some("sets_items"),
    element_expiry: ElementWords::NONE,
};

/// Members in the order of their scores.
pub static SORTED_SET: ValueType = ValueType {
    name: "zset",
    number: 3,
    group: "sorted-set",
    acl_category: "sortedset",
    event_class: EventClass::SORTED_SET,
    sizes: Some("zsets_items"),
    element_expiry: ElementWords::NONE,
};

/// Fields with a value each.
pub static HASH: ValueType = ValueType {
    name: "hash",
    number: 4,
    group: "hash",
    acl_category: "hash",
    event_class: EventClass::HASH,
    sizes: Some("hashes_items"),
    element_expiry: ElementWords { class: EventClass::HASH, expired: "hexpired", removal: b"HDEL" },
};

/// Records in the order of their ids.
pub static STREAM: ValueType = ValueType {
    name: "stream",
    number: 6,
    group: "stream",
    acl_category: "stream",
    event_class: EventClass::STREAM,
    sizes: None,
    element_expiry: ElementWords::NONE,
};

/// Types that are always there.
pub static BUILT_IN: [&ValueType; 6] = [&STRING, &LIST, &SET, &SORTED_SET, &HASH, &STREAM];

static INSTALLED: OnceLock<Vec<&'static ValueType>> = OnceLock::new();

/// Adds types to the table, for the whole process. To be called before the first command; the first call decides.
///
/// # Panics
/// Two types have the same name.
pub fn install(types: Vec<&'static ValueType>) {
    for (at, added) in types.iter().enumerate() {
        let mut others = BUILT_IN.iter().chain(&types[..at]);
        assert!(others.all(|other| other.name != added.name), "two value types are called {}", added.name);
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
