//! Cluster mode: slots, gossip, announcements.

use crate::config::check;
use crate::config::directive::Directive::*;
use crate::config::row::{INT_MAX, PORT_MAX, Row, Unit, choice, flag, integer, memory, text};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    flag(ClusterAllowPubsubshardWhenDown, "cluster-allow-pubsubshard-when-down", true),
    flag(ClusterAllowReadsWhenDown, "cluster-allow-reads-when-down", false),
    flag(ClusterAllowReplicaMigration, "cluster-allow-replica-migration", true),
    integer(ClusterAnnounceBusPort, "cluster-announce-bus-port", 0, 0, PORT_MAX),
    text(ClusterAnnounceClientIpv4, "cluster-announce-client-ipv4", "").checked(check::ipv4),
    text(ClusterAnnounceClientIpv6, "cluster-announce-client-ipv6", "").checked(check::ipv6),
    integer(ClusterAnnounceClientPort, "cluster-announce-client-port", 0, 0, PORT_MAX),
    integer(ClusterAnnounceClientTlsPort, "cluster-announce-client-tls-port", 0, 0, PORT_MAX),
    text(ClusterAnnounceHostname, "cluster-announce-hostname", "").checked(check::hostname),
    text(ClusterAnnounceHumanNodename, "cluster-announce-human-nodename", "").checked(check::node_name),
    text(ClusterAnnounceIp, "cluster-announce-ip", "").checked(check::announce_ip),
    integer(ClusterAnnouncePort, "cluster-announce-port", 0, 0, PORT_MAX),
    integer(ClusterAnnounceTlsPort, "cluster-announce-tls-port", 0, 0, PORT_MAX),
    integer(ClusterBlacklistTtl, "cluster-blacklist-ttl", 60, i64::MIN, i64::MAX),
    text(ClusterConfigFile, "cluster-config-file", "nodes.conf").keeps_empty().checked(check::cluster_config_file).immutable(),
    choice(ClusterConfigSaveBehavior, "cluster-config-save-behavior", &["sync", "best-effort"], "sync"),
    integer(ClusterDatabases, "cluster-databases", 1, 1, INT_MAX).immutable().confirmed(),
    flag(ClusterEnabled, "cluster-enabled", false).immutable(),
    memory(ClusterLinkSendbufLimit, "cluster-link-sendbuf-limit", 0, 0, i64::MAX).unit(Unit::UnsignedMemory),
    integer(ClusterManualFailoverTimeout, "cluster-manual-failover-timeout", 5000, 1, INT_MAX),
    integer(ClusterMigrationBarrier, "cluster-migration-barrier", 1, 0, INT_MAX),
    integer(ClusterNodeTimeout, "cluster-node-timeout", 15000, 0, i64::MAX),
    integer(ClusterPingInterval, "cluster-ping-interval", 0, 0, i64::MAX).hidden(),
    integer(ClusterPort, "cluster-port", 0, 0, PORT_MAX).immutable(),
    choice(ClusterPreferredEndpointType, "cluster-preferred-endpoint-type", &["ip", "hostname", "unknown-endpoint"], "ip"),
    flag(ClusterReplicaNoFailover, "cluster-replica-no-failover", false).alias("cluster-slave-no-failover"),
    integer(ClusterReplicaValidityFactor, "cluster-replica-validity-factor", 10, 0, INT_MAX).alias("cluster-slave-validity-factor"),
    flag(ClusterRequireFullCoverage, "cluster-require-full-coverage", true),
    integer(ClusterSlotMigrationLogMaxLen, "cluster-slot-migration-log-max-len", 1000, 0, i64::MAX),
    flag(ClusterSlotStatsEnabled, "cluster-slot-stats-enabled", false),
    memory(SlotMigrationMaxFailoverReplBytes, "slot-migration-max-failover-repl-bytes", 0, -1, i64::MAX).unit(Unit::SignedMemory),
];
