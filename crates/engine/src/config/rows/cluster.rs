//! Cluster mode: slots, gossip, announcements.

use crate::config::check;
use crate::config::directive::Directive::*;
use crate::config::row::{INT_MAX, PORT_MAX, Row, Unit, Unmet, choice, flag, integer, memory, text};

const NO_CLUSTER: &str = "Cinnabar has no cluster mode";

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    flag(ClusterAllowPubsubshardWhenDown, "cluster-allow-pubsubshard-when-down", true).unsupported(NO_CLUSTER),
    flag(ClusterAllowReadsWhenDown, "cluster-allow-reads-when-down", false).unsupported(NO_CLUSTER),
    flag(ClusterAllowReplicaMigration, "cluster-allow-replica-migration", true).unsupported(NO_CLUSTER),
    integer(ClusterAnnounceBusPort, "cluster-announce-bus-port", 0, 0, PORT_MAX).unsupported(NO_CLUSTER),
    text(ClusterAnnounceClientIpv4, "cluster-announce-client-ipv4", "").checked(check::ipv4).unsupported(NO_CLUSTER),
    text(ClusterAnnounceClientIpv6, "cluster-announce-client-ipv6", "").checked(check::ipv6).unsupported(NO_CLUSTER),
    integer(ClusterAnnounceClientPort, "cluster-announce-client-port", 0, 0, PORT_MAX).unsupported(NO_CLUSTER),
    integer(ClusterAnnounceClientTlsPort, "cluster-announce-client-tls-port", 0, 0, PORT_MAX).unsupported(NO_CLUSTER),
    text(ClusterAnnounceHostname, "cluster-announce-hostname", "").checked(check::hostname).unsupported(NO_CLUSTER),
    text(ClusterAnnounceHumanNodename, "cluster-announce-human-nodename", "").checked(check::node_name).unsupported(NO_CLUSTER),
    text(ClusterAnnounceIp, "cluster-announce-ip", "").checked(check::announce_ip).unsupported(NO_CLUSTER),
    integer(ClusterAnnouncePort, "cluster-announce-port", 0, 0, PORT_MAX).unsupported(NO_CLUSTER),
    integer(ClusterAnnounceTlsPort, "cluster-announce-tls-port", 0, 0, PORT_MAX).unsupported(NO_CLUSTER),
    integer(ClusterBlacklistTtl, "cluster-blacklist-ttl", 60, i64::MIN, i64::MAX).unsupported(NO_CLUSTER),
    text(ClusterConfigFile, "cluster-config-file", "nodes.conf").keeps_empty().checked(check::cluster_config_file).immutable().unsupported(NO_CLUSTER),
    choice(ClusterConfigSaveBehavior, "cluster-config-save-behavior", &["sync", "best-effort"], "sync").unsupported(NO_CLUSTER),
    integer(ClusterDatabases, "cluster-databases", 1, 1, INT_MAX).immutable().confirmed().unsupported(NO_CLUSTER),
    flag(ClusterEnabled, "cluster-enabled", false).immutable().unsupported(NO_CLUSTER).unmet(Unmet::Refused),
    memory(ClusterLinkSendbufLimit, "cluster-link-sendbuf-limit", 0, 0, i64::MAX).unit(Unit::UnsignedMemory).unsupported(NO_CLUSTER),
    integer(ClusterManualFailoverTimeout, "cluster-manual-failover-timeout", 5000, 1, INT_MAX).unsupported(NO_CLUSTER),
    integer(ClusterMigrationBarrier, "cluster-migration-barrier", 1, 0, INT_MAX).unsupported(NO_CLUSTER),
    integer(ClusterNodeTimeout, "cluster-node-timeout", 15000, 0, i64::MAX).unsupported(NO_CLUSTER),
    integer(ClusterPingInterval, "cluster-ping-interval", 0, 0, i64::MAX).hidden().unsupported(NO_CLUSTER),
    integer(ClusterPort, "cluster-port", 0, 0, PORT_MAX).immutable().unsupported(NO_CLUSTER),
    choice(ClusterPreferredEndpointType, "cluster-preferred-endpoint-type", &["ip", "hostname", "unknown-endpoint"], "ip").unsupported(NO_CLUSTER),
    flag(ClusterReplicaNoFailover, "cluster-replica-no-failover", false).alias("cluster-slave-no-failover").unsupported(NO_CLUSTER),
    integer(ClusterReplicaValidityFactor, "cluster-replica-validity-factor", 10, 0, INT_MAX).alias("cluster-slave-validity-factor").unsupported(NO_CLUSTER),
    flag(ClusterRequireFullCoverage, "cluster-require-full-coverage", true).unsupported(NO_CLUSTER),
    integer(ClusterSlotMigrationLogMaxLen, "cluster-slot-migration-log-max-len", 1000, 0, i64::MAX).unsupported(NO_CLUSTER),
    flag(ClusterSlotStatsEnabled, "cluster-slot-stats-enabled", false).unsupported(NO_CLUSTER),
    memory(SlotMigrationMaxFailoverReplBytes, "slot-migration-max-failover-repl-bytes", 0, -1, i64::MAX).unit(Unit::SignedMemory).unsupported(NO_CLUSTER),
];
