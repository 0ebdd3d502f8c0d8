//! Settings of the bus, and the state of replication.

use crate::Millis;
use crate::migration::MigrationSettings;

/// Directives of the bus. All may change at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `cluster-node-timeout`: time without an answer after which a node is suspected.
    pub node_timeout: Millis,
    /// `cluster-ping-interval`: greatest time between two pings to a node; 0 for half of the timeout.
    pub ping_interval: Millis,
    /// `cluster-require-full-coverage`: the cluster is down while a slot has no working owner.
    pub require_full_coverage: bool,
    /// `cluster-migration-barrier`: number of replicas that stay with a primary when others move.
    pub migration_barrier: usize,
    /// `cluster-allow-replica-migration`: replicas move to primaries that have none, and follow their slots.
    pub allow_replica_migration: bool,
    /// `cluster-replica-validity-factor`: greatest age of a replica's data in timeouts; 0 for any age.
    pub replica_validity_factor: i64,
    /// `cluster-replica-no-failover`: this node takes over only by an order.
    pub replica_no_failover: bool,
    /// `cluster-blacklist-ttl`: seconds for which a node stays forgotten.
    pub blacklist_ttl: i64,
    /// `cluster-message-gossip-perc`: percentage of all nodes that each ping has.
    pub gossip_perc: usize,
    /// `cluster-manual-failover-timeout`.
    pub manual_failover_timeout: Millis,
    /// `cluster-link-sendbuf-limit`: bytes above which a link is closed; 0 for no limit.
    pub link_sendbuf_limit: u64,
    /// `repl-ping-replica-period`, in seconds.
    pub repl_ping_period: i64,
    /// `tls-cluster`: nodes reach each other by the port with TLS.
    pub tls_cluster: bool,
    /// `tls-replication`: replicas reach their primaries by the port with TLS.
    pub tls_replication: bool,
    /// Settings of slot migrations.
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

/// Settings of DEBUG, for tests of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebugSettings {
    /// Type of packets that are dropped: -1 for none, -2 for all.
    pub drop_packet_filter: i64,
    /// Whether a link is closed on which such a packet arrives.
    pub close_link_on_drop: bool,
    /// Whether no link is made.
    pub disable_reconnection: bool,
    /// Whether no node is pinged before its time.
    pub disable_random_ping: bool,
    /// Whether a source of slots does not pause.
    pub prevents_migration_pause: bool,
    /// Whether a target of slots does not take them.
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

/// State of replication. The driver updates it before each input that may need it, at least before each tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Length of this node's history: bytes that it has written, or has processed as a replica.
    pub replication_offset: i64,
    /// Offset up to which a replica may hold acknowledged writes: less than its history, if it has led since without
    /// being confirmed, and its stream has announcements of that.
    pub claimed_offset: i64,
    /// Whether no client has written since [`Effect::PauseWrites`](crate::bus::Effect::PauseWrites), and the offset
    /// includes all writes.
    pub are_writes_paused: bool,
    /// Whether replication follows a primary, with a link or without.
    pub is_following: bool,
    /// Whether the link to the primary is up, and its stream is applied.
    pub is_linked: bool,
    /// Number of times that a link to a primary came up, with the primary's data.
    pub synchronizations: u64,
    /// Whether the node's files do not have the data of the last synchronization yet: a node that starts with them has
    /// the data from before it.
    pub is_unsaved: bool,
    /// Time of the primary's last bytes while the link is up; otherwise the time at which the link was lost.
    pub heard_from_primary: Millis,
    /// Whether this node leads, and answers no client: it may lack acknowledged writes.
    pub is_unconfirmed: bool,
    /// Whether this node may have all acknowledged writes, however long it has followed no primary.
    pub is_in_sync: bool,
    /// Whether only other nodes may have acknowledged writes: this node was left out of the in-sync set, and no
    /// operator accepts their loss.
    pub may_lack_acknowledged: bool,
    /// Whether this node is a replica with data of its primary's history: it was synchronized once.
    pub has_history: bool,
}
