//! The memory memory_limit, eviction, lazy freeing, expiry effort and defragmentation.

use crate::config::directive::Directive::*;
use crate::config::row::{INT_MAX, Row, Unit, choice, flag, integer, memory};

/// Valkey's words, where it is built without.
const NO_DEFRAGMENTATION: &str = "Active defragmentation cannot be enabled: it requires a server compiled with a modified Jemalloc like the one shipped by default with the source distribution";

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    integer(ActiveDefragCycleMax, "active-defrag-cycle-max", 25, 1, 99).unsupported(NO_DEFRAGMENTATION),
    integer(ActiveDefragCycleMin, "active-defrag-cycle-min", 1, 1, 99).unsupported(NO_DEFRAGMENTATION),
    integer(ActiveDefragCycleUs, "active-defrag-cycle-us", 500, 0, 100000).unsupported(NO_DEFRAGMENTATION),
    memory(ActiveDefragIgnoreBytes, "active-defrag-ignore-bytes", 100 << 20, 1, i64::MAX).unsupported(NO_DEFRAGMENTATION),
    integer(ActiveDefragMaxScanFields, "active-defrag-max-scan-fields", 1000, 1, i64::MAX).unsupported(NO_DEFRAGMENTATION),
    integer(ActiveDefragThresholdLower, "active-defrag-threshold-lower", 10, 0, 1000).unsupported(NO_DEFRAGMENTATION),
    integer(ActiveDefragThresholdUpper, "active-defrag-threshold-upper", 100, 0, 1000).unsupported(NO_DEFRAGMENTATION),
    integer(ActiveExpireEffort, "active-expire-effort", 1, 1, 10),
    flag(ActiveDefrag, "activedefrag", false).unsupported(NO_DEFRAGMENTATION),
    flag(ActiveRehashing, "activerehashing", true),
    flag(JemallocBgThread, "jemalloc-bg-thread", true),
    flag(LazyfreeLazyEviction, "lazyfree-lazy-eviction", true),
    flag(LazyfreeLazyExpire, "lazyfree-lazy-expire", true),
    flag(LazyfreeLazyServerDel, "lazyfree-lazy-server-del", true),
    flag(LazyfreeLazyUserDel, "lazyfree-lazy-user-del", true),
    flag(LazyfreeLazyUserFlush, "lazyfree-lazy-user-flush", true),
    integer(LfuDecayTime, "lfu-decay-time", 1, 0, INT_MAX),
    integer(LfuLogFactor, "lfu-log-factor", 10, 0, INT_MAX),
    memory(MaxMemory, "maxmemory", 0, 0, i64::MAX).unit(Unit::UnsignedMemory),
    integer(MaxMemoryEvictionTenacity, "maxmemory-eviction-tenacity", 10, 0, 100),
    choice(MaxMemoryPolicy, "maxmemory-policy", &["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction"], "noeviction"),
    integer(MaxMemorySamples, "maxmemory-samples", 5, 1, 64),
];
