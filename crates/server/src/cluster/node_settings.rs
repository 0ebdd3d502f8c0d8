//! The node's settings in the configuration.

use cluster::bus::Settings;
use cluster::migration::MigrationSettings;
use cluster::node::Address;
use engine::config::{Config, Directive};

/// Distance from the port of clients to the bus's.
const BUS_PORT_DISTANCE: i64 = 10_000;

fn port(config: &Config, directive: Directive) -> i64 {
    config.int(directive)
}

/// Returns the port of the bus.
pub fn bus_port(config: &Config) -> u16 {
    let own = port(config, Directive::CLUSTER_PORT);
    let client = if config.flag(Directive::TLS_CLUSTER) { Directive::TLS_PORT } else { Directive::PORT };
    let of = if own == 0 { port(config, client) + BUS_PORT_DISTANCE } else { own };
    u16::try_from(of).unwrap_or_default()
}

fn text(config: &Config, directive: Directive) -> String {
    String::from_utf8_lossy(config.text(directive)).into_owned()
}

/// Returns the address at which others reach this node, and the node's name.
pub fn address(config: &Config) -> Address {
    let announced = |directive: Directive, own: i64| {
        let said = config.int(directive);
        u16::try_from(if said == 0 { own } else { said }).unwrap_or_default()
    };
    Address {
        ip: text(config, Directive::CLUSTER_ANNOUNCE_IP),
        tcp_port: announced(Directive::CLUSTER_ANNOUNCE_PORT, port(config, Directive::PORT)),
        tls_port: announced(Directive::CLUSTER_ANNOUNCE_TLS_PORT, port(config, Directive::TLS_PORT)),
        bus_port: announced(Directive::CLUSTER_ANNOUNCE_BUS_PORT, i64::from(bus_port(config))),
        hostname: text(config, Directive::CLUSTER_ANNOUNCE_HOSTNAME),
        human_name: text(config, Directive::CLUSTER_ANNOUNCE_HUMAN_NODENAME),
        availability_zone: text(config, Directive::AVAILABILITY_ZONE),
        client_ipv4: text(config, Directive::CLUSTER_ANNOUNCE_CLIENT_IPV4),
        client_ipv6: text(config, Directive::CLUSTER_ANNOUNCE_CLIENT_IPV6),
        client_port: announced(Directive::CLUSTER_ANNOUNCE_CLIENT_PORT, 0),
        client_tls_port: announced(Directive::CLUSTER_ANNOUNCE_CLIENT_TLS_PORT, 0),
    }
}

/// Returns the settings of the bus.
pub fn settings(config: &Config) -> Settings {
    let count = |directive: Directive| usize::try_from(config.int(directive)).unwrap_or_default();
    Settings {
        node_timeout: config.int(Directive::CLUSTER_NODE_TIMEOUT),
        ping_interval: config.int(Directive::CLUSTER_PING_INTERVAL),
        require_full_coverage: config.flag(Directive::CLUSTER_REQUIRE_FULL_COVERAGE),
        migration_barrier: count(Directive::CLUSTER_MIGRATION_BARRIER),
        allow_replica_migration: config.flag(Directive::CLUSTER_ALLOW_REPLICA_MIGRATION),
        replica_validity_factor: config.int(Directive::CLUSTER_REPLICA_VALIDITY_FACTOR),
        replica_no_failover: config.flag(Directive::CLUSTER_REPLICA_NO_FAILOVER),
        blacklist_ttl: config.int(Directive::CLUSTER_BLACKLIST_TTL),
        gossip_perc: count(Directive::CLUSTER_MESSAGE_GOSSIP_PERC),
        manual_failover_timeout: config.int(Directive::CLUSTER_MANUAL_FAILOVER_TIMEOUT),
        link_sendbuf_limit: config.int(Directive::CLUSTER_LINK_SENDBUF_LIMIT).max(0) as u64,
        repl_ping_period: config.int(Directive::REPL_PING_REPLICA_PERIOD),
        tls_cluster: config.flag(Directive::TLS_CLUSTER),
        tls_replication: config.flag(Directive::TLS_REPLICATION),
        migration: migration(config),
    }
}

/// Returns the settings of migrations of slots.
fn migration(config: &Config) -> MigrationSettings {
    MigrationSettings {
        timeout: config.int(Directive::REPL_TIMEOUT) * 1000,
        failover_timeout: config.int(Directive::CLUSTER_MANUAL_FAILOVER_TIMEOUT),
        max_unsent: u64::try_from(config.int(Directive::SLOT_MIGRATION_MAX_FAILOVER_REPL_BYTES)).ok(),
        log_max_len: usize::try_from(config.int(Directive::CLUSTER_SLOT_MIGRATION_LOG_MAX_LEN)).unwrap_or_default(),
        encrypts: config.flag(Directive::TLS_REPLICATION),
    }
}
