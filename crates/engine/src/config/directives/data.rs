//! Databases, key events and the thresholds between compact and full encodings.

use crate::config::apply::Apply::{Engine, EngineChange};
use crate::config::directive::{Directive, directives};
use crate::config::directive_entry::{
    DirectiveEntry, DirectiveKind, INT_MAX, INT_MIN, Unmet, flag, integer, memory, special, text,
};
use crate::config::validators;

directives! { after super::memory::END;
    /// How many databases SELECT can choose from.
    DATABASES = integer("databases", 16, 1, INT_MAX).immutable();
    /// HELLO and INFO name a Redis server, for clients that insist on one.
    EXTENDED_REDIS_COMPATIBILITY = flag("extended-redis-compatibility", false);
    /// Fields up to which a hash stays packed.
    HASH_MAX_LISTPACK_ENTRIES = integer("hash-max-listpack-entries", 512, 0, i64::MAX).alias("hash-max-ziplist-entries").applied(EngineChange(|engine| engine.encoding_limits()));
    /// Bytes of a field or value up to which a hash stays packed.
    HASH_MAX_LISTPACK_VALUE = memory("hash-max-listpack-value", 64, 0, i64::MAX).alias("hash-max-ziplist-value").applied(EngineChange(|engine| engine.encoding_limits()));
    /// The text that the hash of keys is seeded with; without one it is random.
    HASH_SEED = text("hash-seed", "").immutable();
    /// Bytes up to which a HyperLogLog stays sparse.
    HLL_SPARSE_MAX_BYTES = memory("hll-sparse-max-bytes", 3000, 0, i64::MAX).applied(EngineChange(|engine| engine.encoding_limits()));
    /// Another server's data is being imported: nothing expires or is evicted meanwhile.
    IMPORT_MODE = flag("import-mode", false).applied(Engine(|engine| engine.import_mode()));
    /// Nodes at each end of a list that stay uncompressed; 0 compresses none.
    LIST_COMPRESS_DEPTH = integer("list-compress-depth", 0, 0, INT_MAX).applied(EngineChange(|engine| engine.encoding_limits()));
    /// The size of a list's nodes: elements, or from -1 to -5 for 4, 8, 16, 32 and 64 KiB.
    LIST_MAX_LISTPACK_SIZE = integer("list-max-listpack-size", -2, INT_MIN, INT_MAX).alias("list-max-ziplist-size").applied(EngineChange(|engine| engine.encoding_limits()));
    /// The order that SORT ALPHA follows; only the order of bytes (empty, `C` or `POSIX`) is there.
    LOCALE_COLLATE = text("locale-collate", "").keeps_empty().checked(validators::locale).unsupported("Cinnabar sorts by the order of bytes").unmet(Unmet::Shown);
    /// Events of keys that are published: `K` and `E` choose the channels, the other letters the classes.
    NOTIFY_KEYSPACE_EVENTS = special("notify-keyspace-events", DirectiveKind::KeyspaceEvents, "").applied(Engine(|engine| engine.keyspace_events()));
    /// Members up to which a set of integers stays packed.
    SET_MAX_INTSET_ENTRIES = integer("set-max-intset-entries", 512, 0, i64::MAX).applied(EngineChange(|engine| engine.encoding_limits()));
    /// Members up to which a set stays packed.
    SET_MAX_LISTPACK_ENTRIES = integer("set-max-listpack-entries", 128, 0, i64::MAX).applied(EngineChange(|engine| engine.encoding_limits()));
    /// Bytes of a member up to which a set stays packed.
    SET_MAX_LISTPACK_VALUE = integer("set-max-listpack-value", 64, 0, i64::MAX).applied(EngineChange(|engine| engine.encoding_limits()));
    /// Bytes of a stream's nodes; 0 is no limit.
    STREAM_NODE_MAX_BYTES = memory("stream-node-max-bytes", 4 << 10, 0, i64::MAX).applied(EngineChange(|engine| engine.encoding_limits()));
    /// Entries of a stream's nodes; 0 is no limit.
    STREAM_NODE_MAX_ENTRIES = integer("stream-node-max-entries", 100, 0, i64::MAX).applied(EngineChange(|engine| engine.encoding_limits()));
    /// Members up to which a sorted set stays packed.
    ZSET_MAX_LISTPACK_ENTRIES = integer("zset-max-listpack-entries", 128, 0, i64::MAX).alias("zset-max-ziplist-entries").applied(EngineChange(|engine| engine.encoding_limits()));
    /// Bytes of a member up to which a sorted set stays packed.
    ZSET_MAX_LISTPACK_VALUE = memory("zset-max-listpack-value", 64, 0, i64::MAX).alias("zset-max-ziplist-value").applied(EngineChange(|engine| engine.encoding_limits()));
}
