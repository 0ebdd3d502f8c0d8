//! What one client, or all clients together, may take.

use crate::config::directive::Directive::*;
use crate::config::row::{INT_MAX, Kind, Row, UINT_MAX, Unit, integer, memory, special};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    integer(BusyReplyThreshold, "busy-reply-threshold", 5000, 0, i64::MAX).alias("lua-time-limit"),
    special(ClientOutputBufferLimit, "client-output-buffer-limit", Kind::OutputBufferLimits, "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"),
    memory(ClientQueryBufferLimit, "client-query-buffer-limit", 1 << 30, 1 << 20, i64::MAX),
    // Bytes of all of a worker's scripts together; 0 is no limit. Ours.
    memory(LuaMemoryLimit, "lua-memory-limit", 0, 0, i64::MAX),
    integer(MaxNewConnectionsPerCycle, "max-new-connections-per-cycle", 10, 1, 1000),
    integer(MaxNewTlsConnectionsPerCycle, "max-new-tls-connections-per-cycle", 1, 1, 1000).unsupported("Cinnabar has no TLS"),
    integer(MaxClients, "maxclients", 10000, 1, UINT_MAX),
    memory(MaxMemoryClients, "maxmemory-clients", 0, -100, i64::MAX).unit(Unit::MemoryOrPercent),
    memory(ProtoMaxBulkLen, "proto-max-bulk-len", 512 << 20, 1 << 20, i64::MAX),
    integer(Timeout, "timeout", 0, 0, INT_MAX),
    integer(TrackingTableMaxKeys, "tracking-table-max-keys", 1000000, 0, i64::MAX),
];
