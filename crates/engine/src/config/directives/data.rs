//! Databases, key events and the thresholds between compact and full encodings.

use crate::config::apply::Apply::{Engine, EngineChange};
use crate::config::check;
use crate::config::directive::{Directive, directives};
use crate::config::entry::{Entry, INT_MAX, INT_MIN, Kind, Unmet, choice, flag, integer, memory, special, text};

directives! { after super::memory::END;
    DATABASES = integer("databases", 16, 1, INT_MAX).immutable();
    EXTENDED_REDIS_COMPATIBILITY = flag("extended-redis-compatibility", false);
    HASH_MAX_LISTPACK_ENTRIES = integer("hash-max-listpack-entries", 512, 0, i64::MAX).alias("hash-max-ziplist-entries").applied(EngineChange(|engine| engine.encoding_limits()));
    HASH_MAX_LISTPACK_VALUE = memory("hash-max-listpack-value", 64, 0, i64::MAX).alias("hash-max-ziplist-value").applied(EngineChange(|engine| engine.encoding_limits()));
    HASH_SEED = text("hash-seed", "").immutable().confirmed();
    HLL_SPARSE_MAX_BYTES = memory("hll-sparse-max-bytes", 3000, 0, i64::MAX).applied(EngineChange(|engine| engine.encoding_limits()));
    IMPORT_MODE = flag("import-mode", false).applied(Engine(|engine| engine.import_mode()));
    LIST_COMPRESS_DEPTH = integer("list-compress-depth", 0, 0, INT_MAX).applied(EngineChange(|engine| engine.encoding_limits()));
    LIST_MAX_LISTPACK_SIZE = integer("list-max-listpack-size", -2, INT_MIN, INT_MAX).alias("list-max-ziplist-size").applied(EngineChange(|engine| engine.encoding_limits()));
    LOCALE_COLLATE = text("locale-collate", "").keeps_empty().checked(check::locale).unsupported("Cinnabar sorts by the order of bytes").unmet(Unmet::Shown);
    NOTIFY_KEYSPACE_EVENTS = special("notify-keyspace-events", Kind::KeyspaceEvents, "").applied(Engine(|engine| engine.keyspace_events()));
    SANITIZE_DUMP_PAYLOAD = choice("sanitize-dump-payload", &["no", "yes", "clients"], "no");
    SET_MAX_INTSET_ENTRIES = integer("set-max-intset-entries", 512, 0, i64::MAX).applied(EngineChange(|engine| engine.encoding_limits()));
    SET_MAX_LISTPACK_ENTRIES = integer("set-max-listpack-entries", 128, 0, i64::MAX).applied(EngineChange(|engine| engine.encoding_limits()));
    SET_MAX_LISTPACK_VALUE = integer("set-max-listpack-value", 64, 0, i64::MAX).applied(EngineChange(|engine| engine.encoding_limits()));
    STREAM_NODE_MAX_BYTES = memory("stream-node-max-bytes", 4 << 10, 0, i64::MAX).applied(EngineChange(|engine| engine.encoding_limits()));
    STREAM_NODE_MAX_ENTRIES = integer("stream-node-max-entries", 100, 0, i64::MAX).applied(EngineChange(|engine| engine.encoding_limits()));
    ZSET_MAX_LISTPACK_ENTRIES = integer("zset-max-listpack-entries", 128, 0, i64::MAX).alias("zset-max-ziplist-entries").applied(EngineChange(|engine| engine.encoding_limits()));
    ZSET_MAX_LISTPACK_VALUE = memory("zset-max-listpack-value", 64, 0, i64::MAX).alias("zset-max-ziplist-value").applied(EngineChange(|engine| engine.encoding_limits()));
}
