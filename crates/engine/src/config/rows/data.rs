//! Databases, key events and the thresholds between compact and full encodings.

use crate::config::check;
use crate::config::directive::Directive::*;
use crate::config::row::{INT_MAX, INT_MIN, Kind, Row, Unmet, choice, flag, integer, memory, special, text};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    integer(Databases, "databases", 16, 1, INT_MAX).immutable(),
    flag(ExtendedRedisCompatibility, "extended-redis-compatibility", false),
    integer(HashMaxListpackEntries, "hash-max-listpack-entries", 512, 0, i64::MAX).alias("hash-max-ziplist-entries"),
    memory(HashMaxListpackValue, "hash-max-listpack-value", 64, 0, i64::MAX).alias("hash-max-ziplist-value"),
    text(HashSeed, "hash-seed", "").immutable().confirmed(),
    memory(HllSparseMaxBytes, "hll-sparse-max-bytes", 3000, 0, i64::MAX),
    flag(ImportMode, "import-mode", false),
    integer(ListCompressDepth, "list-compress-depth", 0, 0, INT_MAX),
    integer(ListMaxListpackSize, "list-max-listpack-size", -2, INT_MIN, INT_MAX).alias("list-max-ziplist-size"),
    text(LocaleCollate, "locale-collate", "").keeps_empty().checked(check::locale).unsupported("Cinnabar sorts by the order of bytes").unmet(Unmet::Shown),
    special(NotifyKeyspaceEvents, "notify-keyspace-events", Kind::KeyspaceEvents, ""),
    choice(SanitizeDumpPayload, "sanitize-dump-payload", &["no", "yes", "clients"], "no"),
    integer(SetMaxIntsetEntries, "set-max-intset-entries", 512, 0, i64::MAX),
    integer(SetMaxListpackEntries, "set-max-listpack-entries", 128, 0, i64::MAX),
    integer(SetMaxListpackValue, "set-max-listpack-value", 64, 0, i64::MAX),
    memory(StreamNodeMaxBytes, "stream-node-max-bytes", 4 << 10, 0, i64::MAX),
    integer(StreamNodeMaxEntries, "stream-node-max-entries", 100, 0, i64::MAX),
    integer(ZsetMaxListpackEntries, "zset-max-listpack-entries", 128, 0, i64::MAX).alias("zset-max-ziplist-entries"),
    memory(ZsetMaxListpackValue, "zset-max-listpack-value", 64, 0, i64::MAX).alias("zset-max-ziplist-value"),
];
