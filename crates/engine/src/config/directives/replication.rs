//! Both ends of a replication link.

use crate::config::apply::Apply::Engine;
use crate::config::directive::{Directive, directives};
use crate::config::directive_entry::{
    DirectiveEntry, DirectiveKind, INT_MAX, PORT_MAX, choice, flag, integer, memory, special, text,
};

directives! { after super::persistence::END;
    /// Milliseconds for which a primary may answer after a replica's last acknowledgement. A promoted server waits for
    /// so long before it answers. The same on all servers.
    ACKNOWLEDGE_LEASE = integer("acknowledge-lease", 2000, 100, 60_000);
    /// Milliseconds that a reply waits for replicas, before it is an error that says that the outcome is open.
    ACKNOWLEDGE_TIMEOUT = integer("acknowledge-timeout", 5000, 1, INT_MAX);
    /// Send snapshot and changes over two connections.
    DUAL_CHANNEL_REPLICATION_ENABLED = flag("dual-channel-replication-enabled", false);
    /// Seconds since its last word after which a replica does not count.
    MIN_REPLICAS_MAX_LAG = integer("min-replicas-max-lag", 10, 0, INT_MAX).alias("min-slaves-max-lag").applied(Engine(|engine| engine.wanted_replicas()));
    /// Replicas that must have every write that a reply may show before the reply is sent; 0 asks for none. CLIENT
    /// ACKNOWLEDGE is the same for a connection.
    MIN_REPLICAS_TO_ACKNOWLEDGE = integer("min-replicas-to-acknowledge", 0, 0, 16).applied(Engine(|engine| engine.acknowledging_replicas()));
    /// Replicas without which writes are refused; 0 asks for none.
    MIN_REPLICAS_TO_WRITE = integer("min-replicas-to-write", 0, 0, INT_MAX).alias("min-slaves-to-write").applied(Engine(|engine| engine.wanted_replicas()));
    /// The password for the primary.
    PRIMARYAUTH = text("primaryauth", "").alias("masterauth").sensitive();
    /// The user at the primary.
    PRIMARYUSER = text("primaryuser", "").alias("masteruser").sensitive();
    /// Reaction to a replicated command that fails.
    PROPAGATION_ERROR_BEHAVIOR = choice("propagation-error-behavior", &["ignore", "panic", "panic-on-replicas"], "ignore");
    /// Bytes of changes that are kept for replicas that come back.
    REPL_BACKLOG_SIZE = memory("repl-backlog-size", 10 << 20, 1, i64::MAX).clamped(16 << 10, i64::MAX);
    /// Seconds without replicas after which the backlog is freed.
    REPL_BACKLOG_TTL = integer("repl-backlog-ttl", 3600, 0, i64::MAX);
    /// Send fewer and larger packets to replicas.
    REPL_DISABLE_TCP_NODELAY = flag("repl-disable-tcp-nodelay", false);
    /// Load a primary's snapshot without a file. With `swapdb` the old data stays, and takes up memory, until the new
    /// one is whole.
    REPL_DISKLESS_LOAD = choice("repl-diskless-load", &["disabled", "on-empty-db", "swapdb", "flush-before-load"], "disabled").denied_while_loading();
    /// Send snapshots without a file.
    REPL_DISKLESS_SYNC = flag("repl-diskless-sync", true);
    /// Seconds to wait for more replicas before a snapshot is sent.
    REPL_DISKLESS_SYNC_DELAY = integer("repl-diskless-sync-delay", 5, 0, INT_MAX);
    /// Replicas that end that wait.
    REPL_DISKLESS_SYNC_MAX_REPLICAS = integer("repl-diskless-sync-max-replicas", 0, 0, INT_MAX);
    /// Connect to the primary with Multipath TCP.
    REPL_MPTCP = flag("repl-mptcp", false).immutable();
    /// Seconds between pings to replicas.
    REPL_PING_REPLICA_PERIOD = integer("repl-ping-replica-period", 10, 1, INT_MAX).alias("repl-ping-slave-period");
    /// Seconds of silence after which a replication link counts as broken.
    REPL_TIMEOUT = integer("repl-timeout", 60, 1, INT_MAX);
    /// The address that a replica tells its primary.
    REPLICA_ANNOUNCE_IP = text("replica-announce-ip", "").alias("slave-announce-ip");
    /// The port that a replica tells its primary.
    REPLICA_ANNOUNCE_PORT = integer("replica-announce-port", 0, 0, PORT_MAX).alias("slave-announce-port");
    /// Whether Sentinel is told of this replica.
    REPLICA_ANNOUNCED = flag("replica-announced", true);
    /// A replica goes on when its disk fails.
    REPLICA_IGNORE_DISK_WRITE_ERRORS = flag("replica-ignore-disk-write-errors", false);
    /// A replica leaves eviction to its primary.
    REPLICA_IGNORE_MAXMEMORY = flag("replica-ignore-maxmemory", true).alias("slave-ignore-maxmemory");
    /// Free a replica's old data in the background.
    REPLICA_LAZY_FLUSH = flag("replica-lazy-flush", true).alias("slave-lazy-flush");
    /// Whether the server leads, or follows another one, even if acknowledged writes may be lost thereby. For an
    /// operator who knows that nothing better is left.
    REPLICA_MAY_LOSE_ACKNOWLEDGED = flag("replica-may-lose-acknowledged", false);
    /// Rank of this replica for Sentinel, which prefers the lowest above 0.
    REPLICA_PRIORITY = integer("replica-priority", 100, 0, INT_MAX).alias("slave-priority");
    /// A replica refuses writes of clients.
    REPLICA_READ_ONLY = flag("replica-read-only", true).alias("slave-read-only").applied(Engine(|engine| engine.replica_admission()));
    /// A replica answers while its link is broken.
    REPLICA_SERVE_STALE_DATA = flag("replica-serve-stale-data", true).alias("slave-serve-stale-data").applied(Engine(|engine| engine.replica_admission()));
    /// The primary that this server follows.
    REPLICAOF = special("replicaof", DirectiveKind::ReplicaOf, "no one").alias("slaveof").immutable();
}
