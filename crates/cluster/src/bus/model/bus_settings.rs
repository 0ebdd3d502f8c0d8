//! What the configuration says, and what is known of replication.

use crate::Millis;
use crate::migration::MigrationSettings;

/// Directives that the bus goes by. All may change at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `cluster-node-timeout`: who answers nothing for so long is suspected.
    pub node_timeout: Millis,
    /// `cluster-ping-interval`: each node is asked at least so often; 0 for half of the timeout.
    pub ping_interval: Millis,
    /// `cluster-require-full-coverage`: the cluster is down while a slot is without an owner that works.
    pub require_full_coverage: bool,
    /// `cluster-migration-barrier`: so many replicas stay with a primary when others move.
    pub migration_barrier: usize,
    /// `cluster-allow-replica-migration`: replicas move to primaries that have none, and follow their slots.
    pub allow_replica_migration: bool,
    /// `cluster-replica-validity-factor`: of so many timeouts the data may lack; 0 for any age.
    pub replica_validity_factor: i64,
    /// `cluster-replica-no-failover`: this node takes over only when it is told to.
    pub replica_no_failover: bool,
    /// `cluster-blacklist-ttl`, in seconds: so long forgotten nodes stay forgotten.
    pub blacklist_ttl: i64,
    /// `cluster-message-gossip-perc`: of so many percent of all nodes each ping tells.
    pub gossip_perc: usize,
    /// `cluster-manual-failover-timeout`.
    pub manual_failover_timeout: Millis,
    /// `cluster-link-sendbuf-limit`: a link with more waiting is closed; 0 for no limit.
    pub link_sendbuf_limit: u64,
    /// `repl-ping-replica-period`, in seconds.
    pub repl_ping_period: i64,
    /// `tls-cluster`: nodes reach each other by the port with TLS.
    pub tls_cluster: bool,
    /// `tls-replication`: replicas reach their primaries by the port with TLS.
    pub tls_replication: bool,
    /// What migrations of slots go by.
    pub migration: MigrationSettings,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            node_timeout: 15_000,
            ping_interval: 0,
            require_full_coverage: true,
            migration_barrier: 1,
            allow_replica_migration: true,
            replica_validity_factor: 10,
            replica_no_failover: false,
            blacklist_ttl: 60,
            gossip_perc: 10,
            manual_failover_timeout: 5000,
            link_sendbuf_limit: 0,
            repl_ping_period: 10,
            tls_cluster: false,
            tls_replication: false,
            migration: MigrationSettings::default(),
        }
    }
}

/// What DEBUG changes, for tests of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebugSettings {
    /// Packets of that number are not taken: -1 for none, -2 for all.
    pub drop_packet_filter: i64,
    /// Nor is the link kept on which they come.
    pub close_link_on_drop: bool,
    /// No link is made.
    pub disable_reconnection: bool,
    /// Nodes are asked only when it is time.
    pub disable_random_ping: bool,
    /// A source of slots does not pause.
    pub prevents_migration_pause: bool,
    /// A target of slots does not take them.
    pub prevents_migration_takeover: bool,
}

impl Default for DebugSettings {
    fn default() -> DebugSettings {
        DebugSettings {
            drop_packet_filter: -1,
            close_link_on_drop: false,
            disable_reconnection: false,
            disable_random_ping: false,
            prevents_migration_pause: false,
            prevents_migration_takeover: false,
        }
    }
}

/// What is known of replication. The driver tells it before each input that may need it, at least before each tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// How far this node's history is: what it has written, or what it has processed as a replica.
    pub replication_offset: i64,
    /// How far a replica may hold what was acknowledged: less than its history, if it has led since without being
    /// confirmed, and has told of that in its stream.
    pub claimed_offset: i64,
    /// Nothing is written any more since [`Effect::PauseWrites`](crate::bus::Effect::PauseWrites), and the offset is
    /// that of all that was.
    pub are_writes_paused: bool,
    /// Replication follows a primary, whether or not the link to it stands.
    pub is_following: bool,
    /// The link to the primary stands, and its stream is applied.
    pub is_linked: bool,
    /// When the primary was heard last while the link to it stands; otherwise when the link was lost.
    pub heard_from_primary: Millis,
    /// This node leads, and answers no client: it may lack acknowledged writes.
    pub is_unconfirmed: bool,
    /// This node may have all that was acknowledged, however long it has followed nobody.
    pub is_in_sync: bool,
    /// Acknowledged writes may be elsewhere only: this node was left out of the in-sync set, and no operator accepts
    /// their loss.
    pub may_lack_acknowledged: bool,
    /// This node is a replica and has data of its primary's history: it was synchronized once.
    pub has_history: bool,
}
