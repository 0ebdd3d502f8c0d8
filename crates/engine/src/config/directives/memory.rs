//! The memory memory_limit, eviction, lazy freeing, expiry effort and defragmentation.

use crate::config::apply::Apply::{Engine, EngineChange, Server};
use crate::config::directive::{Directive, directives};
use crate::config::entry::{Entry, INT_MAX, Unit, choice, flag, integer, memory};

/// Valkey's words, where it is built without.
const NO_DEFRAGMENTATION: &str = "Active defragmentation cannot be enabled: it requires a server compiled with a modified Jemalloc like the one shipped by default with the source distribution";

directives! { after super::limits::END;
    ACTIVE_DEFRAG_CYCLE_MAX = integer("active-defrag-cycle-max", 25, 1, 99).unsupported(NO_DEFRAGMENTATION);
    ACTIVE_DEFRAG_CYCLE_MIN = integer("active-defrag-cycle-min", 1, 1, 99).unsupported(NO_DEFRAGMENTATION);
    ACTIVE_DEFRAG_CYCLE_US = integer("active-defrag-cycle-us", 500, 0, 100000).unsupported(NO_DEFRAGMENTATION);
    ACTIVE_DEFRAG_IGNORE_BYTES = memory("active-defrag-ignore-bytes", 100 << 20, 1, i64::MAX).unsupported(NO_DEFRAGMENTATION);
    ACTIVE_DEFRAG_MAX_SCAN_FIELDS = integer("active-defrag-max-scan-fields", 1000, 1, i64::MAX).unsupported(NO_DEFRAGMENTATION);
    ACTIVE_DEFRAG_THRESHOLD_LOWER = integer("active-defrag-threshold-lower", 10, 0, 1000).unsupported(NO_DEFRAGMENTATION);
    ACTIVE_DEFRAG_THRESHOLD_UPPER = integer("active-defrag-threshold-upper", 100, 0, 1000).unsupported(NO_DEFRAGMENTATION);
    ACTIVE_EXPIRE_EFFORT = integer("active-expire-effort", 1, 1, 10);
    ACTIVEDEFRAG = flag("activedefrag", false).unsupported(NO_DEFRAGMENTATION);
    ACTIVEREHASHING = flag("activerehashing", true);
    JEMALLOC_BG_THREAD = flag("jemalloc-bg-thread", true).applied(Server(|server| server.allocator_thread()));
    LAZYFREE_LAZY_EVICTION = flag("lazyfree-lazy-eviction", true);
    LAZYFREE_LAZY_EXPIRE = flag("lazyfree-lazy-expire", true);
    LAZYFREE_LAZY_SERVER_DEL = flag("lazyfree-lazy-server-del", true);
    LAZYFREE_LAZY_USER_DEL = flag("lazyfree-lazy-user-del", true);
    LAZYFREE_LAZY_USER_FLUSH = flag("lazyfree-lazy-user-flush", true);
    LFU_DECAY_TIME = integer("lfu-decay-time", 1, 0, INT_MAX).applied(Engine(|engine| engine.access_clock()));
    LFU_LOG_FACTOR = integer("lfu-log-factor", 10, 0, INT_MAX).applied(Engine(|engine| engine.access_clock()));
    MAXMEMORY = memory("maxmemory", 0, 0, i64::MAX).unit(Unit::UnsignedMemory).applied(EngineChange(|engine| engine.memory_limit()));
    MAXMEMORY_EVICTION_TENACITY = integer("maxmemory-eviction-tenacity", 10, 0, 100);
    MAXMEMORY_POLICY = choice("maxmemory-policy", &["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction"], "noeviction").applied(Engine(|engine| engine.eviction_policy()));
    MAXMEMORY_SAMPLES = integer("maxmemory-samples", 5, 1, 64);
}
