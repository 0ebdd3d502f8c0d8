//! Limits of one client, or of all clients together.

use crate::config::apply::Apply::{Engine, Server};
use crate::config::directive::{Directive, directives};
use crate::config::directive_entry::{
    DirectiveEntry, DirectiveKind, INT_MAX, UINT_MAX, Unit, integer, memory, special,
};

directives! { after super::security::END;
    /// Milliseconds after which a running script counts as long: what needs its keys is told BUSY,
    /// and SCRIPT KILL may end it.
    BUSY_REPLY_THRESHOLD = integer("busy-reply-threshold", 5000, 0, i64::MAX).alias("lua-time-limit");
    /// For each class of clients (normal, replica, pubsub): bytes of unsent replies at which a client is
    /// disconnected at once, and bytes and seconds after which it is disconnected. 0 is no limit.
    CLIENT_OUTPUT_BUFFER_LIMIT = special("client-output-buffer-limit", DirectiveKind::OutputBufferLimits, "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60");
    /// Bytes of requests of one client that may wait in memory.
    CLIENT_QUERY_BUFFER_LIMIT = memory("client-query-buffer-limit", 1 << 30, 1 << 20, i64::MAX);
    // Bytes of all of a worker's scripts together; 0 is no limit. Ours.
    /// Bytes that all scripts of one worker may take together; 0 is no limit.
    LUA_MEMORY_LIMIT = memory("lua-memory-limit", 0, 0, i64::MAX);
    /// Connections that are accepted at once before others are served again.
    MAX_NEW_CONNECTIONS_PER_CYCLE = integer("max-new-connections-per-cycle", 10, 1, 1000);
    /// TLS connections that are accepted at once.
    MAX_NEW_TLS_CONNECTIONS_PER_CYCLE = integer("max-new-tls-connections-per-cycle", 1, 1, 1000);
    /// Clients that may be connected at the same time.
    MAXCLIENTS = integer("maxclients", 10000, 1, UINT_MAX).applied(Server(|server| server.max_clients()));
    /// Memory of all clients' buffers together, in bytes or in percent of `maxmemory`; above it the largest
    /// clients are disconnected. 0 is no limit.
    MAXMEMORY_CLIENTS = memory("maxmemory-clients", 0, -100, i64::MAX).unit(Unit::MemoryOrPercent);
    /// Bytes of the longest argument.
    PROTO_MAX_BULK_LEN = memory("proto-max-bulk-len", 512 << 20, 1 << 20, i64::MAX);
    /// Seconds after which an idle client is disconnected; 0 never does.
    TIMEOUT = integer("timeout", 0, 0, INT_MAX);
    /// Keys that are remembered for client-side caching; above it clients are told to forget some.
    TRACKING_TABLE_MAX_KEYS = integer("tracking-table-max-keys", 1000000, 0, i64::MAX).applied(Engine(|engine| engine.tracked_keys()));
}
