//! Cluster mode: slots, gossip, announcements.

use crate::config::apply::Apply::Engine;
use crate::config::directive::{Directive, directives};
use crate::config::directive_entry::{DirectiveEntry, INT_MAX, PORT_MAX, Unit, choice, flag, integer, memory, text};
use crate::config::validators;

directives! { after super::replication::END;
    /// Sharded messages while the cluster is down.
    CLUSTER_ALLOW_PUBSUBSHARD_WHEN_DOWN = flag("cluster-allow-pubsubshard-when-down", true);
    /// Reads while the cluster is down.
    CLUSTER_ALLOW_READS_WHEN_DOWN = flag("cluster-allow-reads-when-down", false);
    /// Replicas may move to primaries that have none.
    CLUSTER_ALLOW_REPLICA_MIGRATION = flag("cluster-allow-replica-migration", true);
    /// The bus port that other nodes are told.
    CLUSTER_ANNOUNCE_BUS_PORT = integer("cluster-announce-bus-port", 0, 0, PORT_MAX);
    /// The IPv4 address that clients are told.
    CLUSTER_ANNOUNCE_CLIENT_IPV4 = text("cluster-announce-client-ipv4", "").checked(validators::ipv4);
    /// The IPv6 address that clients are told.
    CLUSTER_ANNOUNCE_CLIENT_IPV6 = text("cluster-announce-client-ipv6", "").checked(validators::ipv6);
    /// The port that clients are told.
    CLUSTER_ANNOUNCE_CLIENT_PORT = integer("cluster-announce-client-port", 0, 0, PORT_MAX);
    /// The TLS port that clients are told.
    CLUSTER_ANNOUNCE_CLIENT_TLS_PORT = integer("cluster-announce-client-tls-port", 0, 0, PORT_MAX);
    /// The host name that others are told.
    CLUSTER_ANNOUNCE_HOSTNAME = text("cluster-announce-hostname", "").checked(validators::hostname);
    /// A name of this node for its operators.
    CLUSTER_ANNOUNCE_HUMAN_NODENAME = text("cluster-announce-human-nodename", "").checked(validators::node_name);
    /// The address that others are told.
    CLUSTER_ANNOUNCE_IP = text("cluster-announce-ip", "").checked(validators::announce_ip);
    /// The port that others are told.
    CLUSTER_ANNOUNCE_PORT = integer("cluster-announce-port", 0, 0, PORT_MAX);
    /// The TLS port that others are told.
    CLUSTER_ANNOUNCE_TLS_PORT = integer("cluster-announce-tls-port", 0, 0, PORT_MAX);
    /// Seconds for which a forgotten node is not added again.
    CLUSTER_BLACKLIST_TTL = integer("cluster-blacklist-ttl", 60, i64::MIN, i64::MAX);
    /// The file in which a node keeps what it knows of the cluster.
    CLUSTER_CONFIG_FILE = text("cluster-config-file", "nodes.conf").keeps_empty().checked(validators::cluster_config_file).immutable();
    /// Whether a node ends when that file cannot be written.
    CLUSTER_CONFIG_SAVE_BEHAVIOR = choice("cluster-config-save-behavior", &["sync", "best-effort"], "sync");
    /// How many databases a cluster has.
    CLUSTER_DATABASES = integer("cluster-databases", 1, 1, INT_MAX).immutable();
    /// This server is a node of a cluster.
    CLUSTER_ENABLED = flag("cluster-enabled", false).immutable();
    /// Bytes that may wait for another node.
    CLUSTER_LINK_SENDBUF_LIMIT = memory("cluster-link-sendbuf-limit", 0, 0, i64::MAX).unit(Unit::UnsignedMemory);
    /// Milliseconds that a failover by hand may take.
    CLUSTER_MANUAL_FAILOVER_TIMEOUT = integer("cluster-manual-failover-timeout", 5000, 1, INT_MAX);
    /// Percent of all nodes that a message to one of them tells of.
    CLUSTER_MESSAGE_GOSSIP_PERC = integer("cluster-message-gossip-perc", 10, 1, 100).hidden();
    /// Replicas that a primary keeps before one may move.
    CLUSTER_MIGRATION_BARRIER = integer("cluster-migration-barrier", 1, 0, INT_MAX);
    /// Milliseconds of silence after which a node counts as failing.
    CLUSTER_NODE_TIMEOUT = integer("cluster-node-timeout", 15000, 0, i64::MAX);
    /// Milliseconds between pings of other nodes.
    CLUSTER_PING_INTERVAL = integer("cluster-ping-interval", 0, 0, i64::MAX).hidden();
    /// The port of the cluster's bus.
    CLUSTER_PORT = integer("cluster-port", 0, 0, PORT_MAX).immutable();
    /// How other nodes are named in redirections.
    CLUSTER_PREFERRED_ENDPOINT_TYPE = choice("cluster-preferred-endpoint-type", &["ip", "hostname", "unknown-endpoint"], "ip");
    /// Answers commands about other nodes' slots by asking the owners, instead of MOVED.
    CLUSTER_PROXY = flag("cluster-proxy", false).hidden();
    /// This replica never takes over.
    CLUSTER_REPLICA_NO_FAILOVER = flag("cluster-replica-no-failover", false).alias("cluster-slave-no-failover");
    /// How old a replica's data may be for it to take over, in node timeouts.
    CLUSTER_REPLICA_VALIDITY_FACTOR = integer("cluster-replica-validity-factor", 10, 0, INT_MAX).alias("cluster-slave-validity-factor");
    /// The cluster is down while slots are without a node.
    CLUSTER_REQUIRE_FULL_COVERAGE = flag("cluster-require-full-coverage", true);
    /// A node that is alone owns all slots from its start on. CONFIG GET shows it by its whole name only.
    CLUSTER_SINGLE = flag("cluster-single", false).immutable().hidden();
    /// Entries about moved slots that are kept.
    CLUSTER_SLOT_MIGRATION_LOG_MAX_LEN = integer("cluster-slot-migration-log-max-len", 1000, 0, i64::MAX);
    /// Count use by slots.
    CLUSTER_SLOT_STATS_ENABLED = flag("cluster-slot-stats-enabled", false).applied(Engine(|engine| engine.slot_stats()));
    /// Bytes still to be sent at which a moved slot changes hands.
    SLOT_MIGRATION_MAX_FAILOVER_REPL_BYTES = memory("slot-migration-max-failover-repl-bytes", 0, -1, i64::MAX).unit(Unit::SignedMemory);
}
