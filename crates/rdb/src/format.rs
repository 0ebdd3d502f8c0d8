//! The numbers of the format: opcodes, types of values, encodings of strings, versions.
//!
//! Two families have separated since version 11. Redis continues from 12; Valkey from 80, with a magic word of its own.
//! Both use type 22 and above, for different things, so such a type means nothing without the version.

/// Redis 7.0: before small sets of texts and streams had types of their own.
pub const VERSION_OLDER: u16 = 10;
/// The last version that both families read: Redis 7.2, Valkey 7.2 and 8.
pub const VERSION_COMMON: u16 = 11;
/// Redis 7.4 and 8: hashes whose fields have expiries.
pub const VERSION_REDIS: u16 = 12;
/// The highest version of Redis whose types are known here.
pub const VERSION_REDIS_MAX: u16 = 14;
/// Valkey 9.0: such hashes in another form.
pub const VERSION_VALKEY: u16 = 80;
/// The highest version of Valkey whose types are known here.
pub const VERSION_VALKEY_MAX: u16 = 81;

/// The servers that understand a type above the common ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Redis up to 7.2 and Valkey up to 8, which write the same.
    Common,
    /// Redis from 7.4 on.
    Redis,
    /// Valkey from 9 on.
    Valkey,
}

impl Family {
    /// Returns the family that writes this version.
    pub fn of(version: u16) -> Family {
        match version {
            0..=VERSION_COMMON => Family::Common,
            VERSION_REDIS..VERSION_VALKEY => Family::Redis,
            _ => Family::Valkey,
        }
    }
}

/// Returns whether everything of this version can be read.
pub fn is_known(version: u16) -> bool {
    matches!(version, 1..=VERSION_REDIS_MAX | VERSION_VALKEY..=VERSION_VALKEY_MAX)
}

/// The meaning of a byte at the beginning of a record, if it is no type of a value.
pub mod opcode {
    /// Valkey: a slot that is being imported. A name, the number of ranges, their ends.
    pub const SLOT_IMPORT: u8 = 243;
    /// Redis: modules' data about the next key. A count, for each a class in 4 bytes and a module's value.
    pub const KEY_METADATA: u8 = 243;
    /// Slot, keys, keys with an expiry: a hint.
    pub const SLOT_INFO: u8 = 244;
    /// The source of a library of functions.
    pub const FUNCTION: u8 = 245;
    /// Functions as the release candidates of 7.0 wrote them.
    pub const FUNCTION_PRE_GA: u8 = 246;
    /// A module's data beside keys.
    pub const MODULE_AUX: u8 = 247;
    /// Seconds since the next key was used.
    pub const IDLE: u8 = 248;
    /// Frequency of the next key's use, one byte.
    pub const FREQUENCY: u8 = 249;
    /// A name and a value about the file itself.
    pub const AUX: u8 = 250;
    /// Keys and keys with an expiry of this database: a hint.
    pub const RESIZE_DB: u8 = 251;
    /// The next key's expiry, 8 bytes of milliseconds.
    pub const EXPIRY_MS: u8 = 252;
    /// The next key's expiry, 4 bytes of seconds.
    pub const EXPIRY: u8 = 253;
    /// The keys that follow are of this database.
    pub const SELECT_DB: u8 = 254;
    /// The end; a checksum follows.
    pub const EOF: u8 = 255;
}

/// Types of values.
pub mod kind {
    /// A string.
    pub const STRING: u8 = 0;
    /// A count, then the elements as strings.
    pub const LIST: u8 = 1;
    /// A count, then the members as strings.
    pub const SET: u8 = 2;
    /// Scores are decimal texts.
    pub const ZSET: u8 = 3;
    /// A count, then names and values as strings.
    pub const HASH: u8 = 4;
    /// Scores are doubles.
    pub const ZSET_2: u8 = 5;
    /// A module's value as release candidates wrote it; it cannot be skipped.
    pub const MODULE_PRE_GA: u8 = 6;
    /// A module's value.
    pub const MODULE_2: u8 = 7;
    /// A zipmap, of Redis up to 2.4.
    pub const HASH_ZIPMAP: u8 = 9;
    /// A ziplist of the elements.
    pub const LIST_ZIPLIST: u8 = 10;
    /// An intset.
    pub const SET_INTSET: u8 = 11;
    /// A ziplist of members and scores.
    pub const ZSET_ZIPLIST: u8 = 12;
    /// A ziplist of names and values.
    pub const HASH_ZIPLIST: u8 = 13;
    /// Nodes are ziplists.
    pub const LIST_QUICKLIST: u8 = 14;
    /// A stream of Redis 5.
    pub const STREAM_LISTPACKS: u8 = 15;
    /// A listpack of names and values.
    pub const HASH_LISTPACK: u8 = 16;
    /// A listpack of members and scores.
    pub const ZSET_LISTPACK: u8 = 17;
    /// Nodes are listpacks or single elements.
    pub const LIST_QUICKLIST_2: u8 = 18;
    /// A stream of Redis 7.0: with its first id, deletions and entries read.
    pub const STREAM_LISTPACKS_2: u8 = 19;
    /// A listpack of members.
    pub const SET_LISTPACK: u8 = 20;
    /// A stream of Redis 7.2: with consumers' times of activity.
    pub const STREAM_LISTPACKS_3: u8 = 21;

    /// Valkey: each field is followed by its value and its expiry, 8 bytes, or -1.
    pub const VALKEY_HASH_2: u8 = 22;

    /// Redis: each field comes after its expiry, or 0; of release candidates.
    pub const REDIS_HASH_METADATA_PRE_GA: u8 = 22;
    /// Redis: fields, values and expiries in one listpack; of release candidates.
    pub const REDIS_HASH_LISTPACK_EX_PRE_GA: u8 = 23;
    /// Redis: the earliest expiry, then as before, but an expiry is its distance from the earliest plus 1.
    pub const REDIS_HASH_METADATA: u8 = 24;
    /// Redis: the earliest expiry, then the listpack.
    pub const REDIS_HASH_LISTPACK_EX: u8 = 25;
    /// Redis 8.6: with the records of idempotent producers.
    pub const REDIS_STREAM_LISTPACKS_4: u8 = 26;
    /// Redis: the same with entries that were given back and have no consumer.
    pub const REDIS_STREAM_LISTPACKS_5: u8 = 27;
}

/// Bits at the top of a length's first byte, or that byte as a whole.
pub mod length {
    /// The length is the byte's other bits.
    pub const SIX_BITS: u8 = 0;
    /// The length is the other bits and the next byte.
    pub const FOURTEEN_BITS: u8 = 1;
    /// A string's encoding is the other bits.
    pub const ENCODED: u8 = 3;
    /// The length is the next 4 bytes.
    pub const BYTES_4: u8 = 0x80;
    /// The length is the next 8 bytes.
    pub const BYTES_8: u8 = 0x81;
}

/// The encoding of a string, where a length says that it is encoded.
pub mod string {
    /// A number of one byte.
    pub const INT_8: u8 = 0;
    /// A number of 2 bytes.
    pub const INT_16: u8 = 1;
    /// A number of 4 bytes.
    pub const INT_32: u8 = 2;
    /// Compressed length, length, LZF.
    pub const LZF: u8 = 3;
}

/// Containers of a list's nodes.
pub mod node {
    /// One element, as a string.
    pub const PLAIN: u64 = 1;
    /// A listpack, or a ziplist in old files.
    pub const PACKED: u64 = 2;
}

/// Markers of the parts of a module's value.
pub mod module {
    /// The end of the value.
    pub const EOF: u64 = 0;
    /// A signed number, as a length.
    pub const SIGNED: u64 = 1;
    /// An unsigned number, as a length.
    pub const UNSIGNED: u64 = 2;
    /// A number of 4 bytes.
    pub const FLOAT: u64 = 3;
    /// A number of 8 bytes.
    pub const DOUBLE: u64 = 4;
    /// A string.
    pub const STRING: u64 = 5;
}
