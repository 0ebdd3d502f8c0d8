//! The memory limit, eviction, lazy freeing, expiry effort and defragmentation.

use crate::config::apply::Apply::{Engine, EngineChange, Server};
use crate::config::directive::{Directive, directives};
use crate::config::directive_entry::{DirectiveEntry, INT_MAX, Unit, Unmet, choice, flag, integer, memory};

/// The first words are those of a Valkey that is built without.
const NO_DEFRAGMENTATION: &str = "Active defragmentation cannot be enabled: Cinnabar has none";

directives! { after super::limits::END;
    /// Percent of processor time that defragmentation takes at most.
    ACTIVE_DEFRAG_CYCLE_MAX = integer("active-defrag-cycle-max", 25, 1, 99).unsupported(NO_DEFRAGMENTATION).unmet(Unmet::Shown);
    /// Percent of processor time that defragmentation takes at least.
    ACTIVE_DEFRAG_CYCLE_MIN = integer("active-defrag-cycle-min", 1, 1, 99).unsupported(NO_DEFRAGMENTATION).unmet(Unmet::Shown);
    /// Microseconds of one step of defragmentation.
    ACTIVE_DEFRAG_CYCLE_US = integer("active-defrag-cycle-us", 500, 0, 100000).unsupported(NO_DEFRAGMENTATION).unmet(Unmet::Shown);
    /// Bytes of fragmentation that are left alone.
    ACTIVE_DEFRAG_IGNORE_BYTES = memory("active-defrag-ignore-bytes", 100 << 20, 1, i64::MAX).unsupported(NO_DEFRAGMENTATION).unmet(Unmet::Shown);
    /// Elements of a collection that defragmentation looks at in one step.
    ACTIVE_DEFRAG_MAX_SCAN_FIELDS = integer("active-defrag-max-scan-fields", 1000, 1, i64::MAX).unsupported(NO_DEFRAGMENTATION).unmet(Unmet::Shown);
    /// Percent of fragmentation at which defragmentation begins.
    ACTIVE_DEFRAG_THRESHOLD_LOWER = integer("active-defrag-threshold-lower", 10, 0, 1000).unsupported(NO_DEFRAGMENTATION).unmet(Unmet::Shown);
    /// Percent of fragmentation at which it takes the most time.
    ACTIVE_DEFRAG_THRESHOLD_UPPER = integer("active-defrag-threshold-upper", 100, 0, 1000).unsupported(NO_DEFRAGMENTATION).unmet(Unmet::Shown);
    /// How much time the background takes for expired keys, from 1 to 10.
    ACTIVE_EXPIRE_EFFORT = integer("active-expire-effort", 1, 1, 10);
    /// Move data together while the server runs.
    ACTIVEDEFRAG = flag("activedefrag", false).unsupported(NO_DEFRAGMENTATION).unmet(Unmet::Refused);
    /// Go on with the resizing of hash tables while nobody writes to them.
    ACTIVEREHASHING = flag("activerehashing", true);
    /// Let a thread of the allocator give unused memory back.
    JEMALLOC_BG_THREAD = flag("jemalloc-bg-thread", true).applied(Server(|server| server.allocator_thread()));
    /// Free what is evicted in the background.
    LAZYFREE_LAZY_EVICTION = flag("lazyfree-lazy-eviction", true);
    /// Free what has expired in the background.
    LAZYFREE_LAZY_EXPIRE = flag("lazyfree-lazy-expire", true);
    /// Free what commands overwrite or remove on the way in the background.
    LAZYFREE_LAZY_SERVER_DEL = flag("lazyfree-lazy-server-del", true);
    /// Free what DEL removes in the background, as UNLINK does.
    LAZYFREE_LAZY_USER_DEL = flag("lazyfree-lazy-user-del", true);
    /// FLUSHALL, FLUSHDB, SCRIPT FLUSH and FUNCTION FLUSH are ASYNC where they do not say SYNC.
    LAZYFREE_LAZY_USER_FLUSH = flag("lazyfree-lazy-user-flush", true);
    /// Minutes after which the frequency counter of an unused key falls by one; 0 never lets it fall.
    LFU_DECAY_TIME = integer("lfu-decay-time", 1, 0, INT_MAX).applied(Engine(|engine| engine.access_clock()));
    /// How slowly the frequency counter grows with uses; the greater, the slower.
    LFU_LOG_FACTOR = integer("lfu-log-factor", 10, 0, INT_MAX).applied(Engine(|engine| engine.access_clock()));
    /// Bytes of memory for data; above it keys are evicted, or writes are refused. 0 is no limit.
    MAXMEMORY = memory("maxmemory", 0, 0, i64::MAX).unit(Unit::UnsignedMemory).applied(EngineChange(|engine| engine.memory_limit()));
    /// How long one eviction may go on, from 0 (shortest) to 100 (until there is room).
    MAXMEMORY_EVICTION_TENACITY = integer("maxmemory-eviction-tenacity", 10, 0, 100);
    /// Keys that are evicted: any (`allkeys`) or only keys that expire (`volatile`), the least recently used (`lru`),
    /// least frequently used (`lfu`), next to expire (`ttl`) or any (`random`); `noeviction` refuses writes.
    MAXMEMORY_POLICY = choice("maxmemory-policy", &["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction"], "noeviction").applied(Engine(|engine| engine.eviction_policy()));
    /// Keys that are looked at for each one that is evicted.
    MAXMEMORY_SAMPLES = integer("maxmemory-samples", 5, 1, 64);
}
