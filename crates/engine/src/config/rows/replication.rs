//! Both ends of a replication link.

use crate::config::directive::Directive::*;
use crate::config::row::{INT_MAX, Kind, PORT_MAX, Row, Unmet, choice, flag, integer, memory, special, text};

const NO_REPLICATION: &str = "Cinnabar has no replication";

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    flag(DualChannelReplicationEnabled, "dual-channel-replication-enabled", false).unsupported(NO_REPLICATION),
    integer(MinReplicasMaxLag, "min-replicas-max-lag", 10, 0, INT_MAX).alias("min-slaves-max-lag"),
    integer(MinReplicasToWrite, "min-replicas-to-write", 0, 0, INT_MAX).alias("min-slaves-to-write"),
    text(PrimaryAuth, "primaryauth", "").alias("masterauth").sensitive().unsupported(NO_REPLICATION).unmet(Unmet::Shown),
    text(PrimaryUser, "primaryuser", "").alias("masteruser").sensitive().unsupported(NO_REPLICATION).unmet(Unmet::Shown),
    choice(PropagationErrorBehavior, "propagation-error-behavior", &["ignore", "panic", "panic-on-replicas"], "ignore").unsupported("Cinnabar goes on after a command that fails when it is replayed"),
    memory(ReplBacklogSize, "repl-backlog-size", 10 << 20, 1, i64::MAX).clamped(16 << 10, i64::MAX).unsupported(NO_REPLICATION).unmet(Unmet::Shown),
    integer(ReplBacklogTtl, "repl-backlog-ttl", 3600, 0, i64::MAX).unsupported(NO_REPLICATION),
    flag(ReplDisableTcpNodelay, "repl-disable-tcp-nodelay", false).unsupported(NO_REPLICATION),
    choice(ReplDisklessLoad, "repl-diskless-load", &["disabled", "on-empty-db", "swapdb", "flush-before-load"], "disabled").denied_while_loading().unsupported(NO_REPLICATION),
    flag(ReplDisklessSync, "repl-diskless-sync", true).unsupported(NO_REPLICATION),
    integer(ReplDisklessSyncDelay, "repl-diskless-sync-delay", 5, 0, INT_MAX).unsupported(NO_REPLICATION),
    integer(ReplDisklessSyncMaxReplicas, "repl-diskless-sync-max-replicas", 0, 0, INT_MAX).unsupported(NO_REPLICATION),
    flag(ReplMptcp, "repl-mptcp", false).immutable().confirmed().unsupported(NO_REPLICATION),
    integer(ReplPingReplicaPeriod, "repl-ping-replica-period", 10, 1, INT_MAX).alias("repl-ping-slave-period").unsupported(NO_REPLICATION),
    integer(ReplTimeout, "repl-timeout", 60, 1, INT_MAX).unsupported(NO_REPLICATION),
    text(ReplicaAnnounceIp, "replica-announce-ip", "").alias("slave-announce-ip").unsupported(NO_REPLICATION),
    integer(ReplicaAnnouncePort, "replica-announce-port", 0, 0, PORT_MAX).alias("slave-announce-port").unsupported(NO_REPLICATION),
    flag(ReplicaAnnounced, "replica-announced", true).unsupported(NO_REPLICATION),
    flag(ReplicaIgnoreDiskWriteErrors, "replica-ignore-disk-write-errors", false).unsupported(NO_REPLICATION),
    flag(ReplicaIgnoreMaxMemory, "replica-ignore-maxmemory", true).alias("slave-ignore-maxmemory").unsupported(NO_REPLICATION),
    flag(ReplicaLazyFlush, "replica-lazy-flush", true).alias("slave-lazy-flush").unsupported(NO_REPLICATION),
    integer(ReplicaPriority, "replica-priority", 100, 0, INT_MAX).alias("slave-priority").unsupported(NO_REPLICATION),
    flag(ReplicaReadOnly, "replica-read-only", true).alias("slave-read-only").unsupported(NO_REPLICATION).unmet(Unmet::Shown),
    flag(ReplicaServeStaleData, "replica-serve-stale-data", true).alias("slave-serve-stale-data").unsupported(NO_REPLICATION),
    special(Replicaof, "replicaof", Kind::ReplicaOf, "no one").alias("slaveof").immutable().unsupported(NO_REPLICATION).unmet(Unmet::Refused),
];
