//! Both ends of a replication link.

use crate::config::directive::Directive::*;
use crate::config::row::{INT_MAX, Kind, PORT_MAX, Row, choice, flag, integer, memory, special, text};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    flag(DualChannelReplicationEnabled, "dual-channel-replication-enabled", false),
    integer(MinReplicasMaxLag, "min-replicas-max-lag", 10, 0, INT_MAX).alias("min-slaves-max-lag"),
    integer(MinReplicasToWrite, "min-replicas-to-write", 0, 0, INT_MAX).alias("min-slaves-to-write"),
    text(PrimaryAuth, "primaryauth", "").alias("masterauth").sensitive(),
    text(PrimaryUser, "primaryuser", "").alias("masteruser").sensitive(),
    choice(PropagationErrorBehavior, "propagation-error-behavior", &["ignore", "panic", "panic-on-replicas"], "ignore"),
    memory(ReplBacklogSize, "repl-backlog-size", 10 << 20, 1, i64::MAX).clamped(16 << 10, i64::MAX),
    integer(ReplBacklogTtl, "repl-backlog-ttl", 3600, 0, i64::MAX),
    flag(ReplDisableTcpNodelay, "repl-disable-tcp-nodelay", false),
    choice(ReplDisklessLoad, "repl-diskless-load", &["disabled", "on-empty-db", "swapdb", "flush-before-load"], "disabled").denied_while_loading(),
    flag(ReplDisklessSync, "repl-diskless-sync", true),
    integer(ReplDisklessSyncDelay, "repl-diskless-sync-delay", 5, 0, INT_MAX),
    integer(ReplDisklessSyncMaxReplicas, "repl-diskless-sync-max-replicas", 0, 0, INT_MAX),
    flag(ReplMptcp, "repl-mptcp", false).immutable().confirmed(),
    integer(ReplPingReplicaPeriod, "repl-ping-replica-period", 10, 1, INT_MAX).alias("repl-ping-slave-period"),
    integer(ReplTimeout, "repl-timeout", 60, 1, INT_MAX),
    text(ReplicaAnnounceIp, "replica-announce-ip", "").alias("slave-announce-ip"),
    integer(ReplicaAnnouncePort, "replica-announce-port", 0, 0, PORT_MAX).alias("slave-announce-port"),
    flag(ReplicaAnnounced, "replica-announced", true),
    flag(ReplicaIgnoreDiskWriteErrors, "replica-ignore-disk-write-errors", false),
    flag(ReplicaIgnoreMaxMemory, "replica-ignore-maxmemory", true).alias("slave-ignore-maxmemory"),
    flag(ReplicaLazyFlush, "replica-lazy-flush", true).alias("slave-lazy-flush"),
    integer(ReplicaPriority, "replica-priority", 100, 0, INT_MAX).alias("slave-priority"),
    flag(ReplicaReadOnly, "replica-read-only", true).alias("slave-read-only"),
    flag(ReplicaServeStaleData, "replica-serve-stale-data", true).alias("slave-serve-stale-data"),
    special(Replicaof, "replicaof", Kind::ReplicaOf, "no one").alias("slaveof").immutable(),
];
