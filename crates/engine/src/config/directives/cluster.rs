//! Cluster mode: slots, gossip, announcements.

use crate::config::check;
use crate::config::directive::{Directive, directives};
use crate::config::entry::{Entry, INT_MAX, PORT_MAX, Unit, Unmet, choice, flag, integer, memory, text};

const NO_CLUSTER: &str = "Cinnabar has no cluster mode";

directives! { after super::replication::END;
    CLUSTER_ALLOW_PUBSUBSHARD_WHEN_DOWN = flag("cluster-allow-pubsubshard-when-down", true).unsupported(NO_CLUSTER);
    CLUSTER_ALLOW_READS_WHEN_DOWN = flag("cluster-allow-reads-when-down", false).unsupported(NO_CLUSTER);
    CLUSTER_ALLOW_REPLICA_MIGRATION = flag("cluster-allow-replica-migration", true).unsupported(NO_CLUSTER);
    CLUSTER_ANNOUNCE_BUS_PORT = integer("cluster-announce-bus-port", 0, 0, PORT_MAX).unsupported(NO_CLUSTER);
    CLUSTER_ANNOUNCE_CLIENT_IPV4 = text("cluster-announce-client-ipv4", "").checked(check::ipv4).unsupported(NO_CLUSTER);
    CLUSTER_ANNOUNCE_CLIENT_IPV6 = text("cluster-announce-client-ipv6", "").checked(check::ipv6).unsupported(NO_CLUSTER);
    CLUSTER_ANNOUNCE_CLIENT_PORT = integer("cluster-announce-client-port", 0, 0, PORT_MAX).unsupported(NO_CLUSTER);
    CLUSTER_ANNOUNCE_CLIENT_TLS_PORT = integer("cluster-announce-client-tls-port", 0, 0, PORT_MAX).unsupported(NO_CLUSTER);
    CLUSTER_ANNOUNCE_HOSTNAME = text("cluster-announce-hostname", "").checked(check::hostname).unsupported(NO_CLUSTER);
    CLUSTER_ANNOUNCE_HUMAN_NODENAME = text("cluster-announce-human-nodename", "").checked(check::node_name).unsupported(NO_CLUSTER);
    CLUSTER_ANNOUNCE_IP = text("cluster-announce-ip", "").checked(check::announce_ip).unsupported(NO_CLUSTER);
    CLUSTER_ANNOUNCE_PORT = integer("cluster-announce-port", 0, 0, PORT_MAX).unsupported(NO_CLUSTER);
    CLUSTER_ANNOUNCE_TLS_PORT = integer("cluster-announce-tls-port", 0, 0, PORT_MAX).unsupported(NO_CLUSTER);
    CLUSTER_BLACKLIST_TTL = integer("cluster-blacklist-ttl", 60, i64::MIN, i64::MAX).unsupported(NO_CLUSTER);
    CLUSTER_CONFIG_FILE = text("cluster-config-file", "nodes.conf").keeps_empty().checked(check::cluster_config_file).immutable().unsupported(NO_CLUSTER);
    CLUSTER_CONFIG_SAVE_BEHAVIOR = choice("cluster-config-save-behavior", &["sync", "best-effort"], "sync").unsupported(NO_CLUSTER);
    CLUSTER_DATABASES = integer("cluster-databases", 1, 1, INT_MAX).immutable().confirmed().unsupported(NO_CLUSTER);
    CLUSTER_ENABLED = flag("cluster-enabled", false).immutable().unsupported(NO_CLUSTER).unmet(Unmet::Refused);
    CLUSTER_LINK_SENDBUF_LIMIT = memory("cluster-link-sendbuf-limit", 0, 0, i64::MAX).unit(Unit::UnsignedMemory).unsupported(NO_CLUSTER);
    CLUSTER_MANUAL_FAILOVER_TIMEOUT = integer("cluster-manual-failover-timeout", 5000, 1, INT_MAX).unsupported(NO_CLUSTER);
    CLUSTER_MIGRATION_BARRIER = integer("cluster-migration-barrier", 1, 0, INT_MAX).unsupported(NO_CLUSTER);
    CLUSTER_NODE_TIMEOUT = integer("cluster-node-timeout", 15000, 0, i64::MAX).unsupported(NO_CLUSTER);
    CLUSTER_PING_INTERVAL = integer("cluster-ping-interval", 0, 0, i64::MAX).hidden().unsupported(NO_CLUSTER);
    CLUSTER_PORT = integer("cluster-port", 0, 0, PORT_MAX).immutable().unsupported(NO_CLUSTER);
    CLUSTER_PREFERRED_ENDPOINT_TYPE = choice("cluster-preferred-endpoint-type", &["ip", "hostname", "unknown-endpoint"], "ip").unsupported(NO_CLUSTER);
    CLUSTER_REPLICA_NO_FAILOVER = flag("cluster-replica-no-failover", false).alias("cluster-slave-no-failover").unsupported(NO_CLUSTER);
    CLUSTER_REPLICA_VALIDITY_FACTOR = integer("cluster-replica-validity-factor", 10, 0, INT_MAX).alias("cluster-slave-validity-factor").unsupported(NO_CLUSTER);
    CLUSTER_REQUIRE_FULL_COVERAGE = flag("cluster-require-full-coverage", true).unsupported(NO_CLUSTER);
    CLUSTER_SLOT_MIGRATION_LOG_MAX_LEN = integer("cluster-slot-migration-log-max-len", 1000, 0, i64::MAX).unsupported(NO_CLUSTER);
    CLUSTER_SLOT_STATS_ENABLED = flag("cluster-slot-stats-enabled", false).unsupported(NO_CLUSTER);
    SLOT_MIGRATION_MAX_FAILOVER_REPL_BYTES = memory("slot-migration-max-failover-repl-bytes", 0, -1, i64::MAX).unit(Unit::SignedMemory).unsupported(NO_CLUSTER);
}
