"""The tests that show the effects of directives without an experiment in directive_effects.py.

`ELSEWHERE`: {directive: the test}; `OPEN`: {directive: the observation of a future experiment}. The latter are not tried yet,
and the table only shrinks.
Directives whose entry says that they are unsupported have no effect, and need no line.
"""

BY_TEST = {
    "black_box/acknowledged.rs":
        "auto-aof-rewrite-min-size auto-aof-rewrite-percentage replica-may-lose-acknowledged",
    "black_box/admin.rs":
        "otlp-ca-cert-file otlp-endpoint otlp-headers otlp-interval tls-admin",
    "black_box/admin_page.rs":
        "admin-host-names",
    "black_box/admission.rs":
        "min-replicas-to-write",
    "black_box/all_commands.rs":
        "enable-module-command",
    "black_box/append_only.rs":
        "aof-load-truncated aof-use-rdb-preamble appendonly",
    "black_box/bad_clients.rs":
        "client-query-buffer-limit maxmemory-clients",
    "black_box/balancing.rs":
        "io-threads",
    "black_box/blocking.rs":
        "timeout",
    "black_box/book.rs":
        "book-idle-timeout",
    "black_box/clock_jumps.rs":
        "repl-diskless-sync repl-timeout shutdown-timeout",
    "black_box/cluster_disks.rs":
        "cluster-config-save-behavior",
    "black_box/commands.rs":
        "latency-monitor-threshold lazyfree-lazy-expire proto-max-bulk-len",
    "black_box/connections.rs":
        "bind tcp-keepalive unixsocketperm",
    "black_box/crashes.rs":
        "stop-writes-on-bgsave-error",
    "black_box/debug.rs":
        "enable-debug-command",
    "black_box/directives.rs":
        "dir server-cpulist",
    "black_box/dual_channel.rs":
        "rdbcompression",
    "black_box/ended_connections.rs":
        "repl-diskless-sync-delay",
    "black_box/eviction.rs":
        "lfu-log-factor maxmemory maxmemory-policy",
    "black_box/harness.rs":
        "threads",
    "black_box/process.rs":
        "crash-log-enabled daemonize dbfilename log-format log-timestamp-format logfile pidfile proc-title-template "
        "unixsocket",
    "black_box/proxies.rs":
        "book-port protected-mode proxy-protocol",
    "black_box/pubsub.rs":
        "client-output-buffer-limit",
    "black_box/removed_users.rs":
        "cluster-port cluster-require-full-coverage",
    "black_box/replica_buffers.rs":
        "repl-backlog-size",
    "black_box/replica_edges.rs":
        "repl-diskless-load",
    "black_box/replica_links.rs":
        "dual-channel-replication-enabled repl-ping-replica-period",
    "black_box/rights.rs":
        "aclfile notify-keyspace-events",
    "black_box/scripts.rs":
        "busy-reply-threshold lua-memory-limit",
    "black_box/secrets.rs":
        "primaryauth requirepass tls-client-key-file-pass tls-key-file-pass",
    "black_box/sentinel_within.rs":
        "port sentinel-port",
    "black_box/slot_import.rs":
        "min-replicas-to-acknowledge",
    "black_box/slow_disk_background.rs":
        "acknowledge-lease acknowledge-timeout",
    "black_box/slow_disks.rs":
        "appendfsync",
    "black_box/snapshots.rs":
        "enable-protected-configs loglevel save",
    "black_box/startup.rs":
        "maxclients",
    "black_box/stopped_nodes.rs":
        "cluster-enabled cluster-node-timeout",
    "black_box/strangers.rs":
        "admin-bind admin-port",
    "black_box/tls.rs":
        "acllog-max-len tls-auth-clients tls-auth-clients-user tls-auto-reload-interval tls-ca-cert-file tls-cert-file "
        "tls-ciphers tls-ciphersuites tls-client-cert-file tls-cluster tls-key-file tls-port tls-protocols "
        "tls-session-caching",
    "black_box/transactions_and_scripts.rs":
        "lazyfree-lazy-user-del replicaof",
    "compat/aof_files.py":
        "aof-timestamp-enabled",
    "compat/cluster_cases.py":
        "cluster-announce-hostname cluster-preferred-endpoint-type",
    "compat/cluster_node.py":
        "cluster-allow-reads-when-down cluster-slot-stats-enabled",
    "compat/lifecycle.py":
        "hide-user-data-from-log oom-score-adj oom-score-adj-values set-proc-title supervised syslog-enabled "
        "syslog-facility syslog-ident tcp-backlog",
    "compat/operator_nodes.py":
        "cluster-config-file shutdown-on-sigterm",
    "compat/rdb_files.py":
        "rdb-version-compat",
    "compat/rewrite.py":
        "active-expire-effort always-show-logo aof-rewrite-cpulist bgsave-cpulist bio-cpulist "
        "cluster-announce-client-ipv6 disable-thp hash-seed hz primaryuser propagation-error-behavior rdb-version-check "
        "rdbchecksum shutdown-on-sigint socket-mark-id unixsocketgroup",
    "compat/slot_migration.py":
        "cluster-allow-replica-migration cluster-databases cluster-replica-no-failover",
    "compat/syncs.py":
        "replica-read-only tls-replication",
    "compat/tools_cases.py":
        "mptcp",
    "differential/src/effects.rs":
        "appenddirname appendfilename",
    "differential/src/families/acl.rs":
        "acl-pubsub-default",
}
ELSEWHERE = {name: test for test, names in BY_TEST.items() for name in names.split()}

OPEN = {
    "cluster-announce-human-nodename": "the name of a node in the log of another one",
    "activerehashing": "a look at tables that shrink while nobody comes",
    "admin-ready-max-lag": "a replica whose primary stands still, asked for /ready",
    "aof-rewrite-incremental-fsync": "a count of syncs while a large log is rewritten",
    "cluster-announce-client-tls-port": "a client with TLS that asks for CLUSTER SLOTS",
    "cluster-announce-tls-port": "a client with TLS that asks for CLUSTER SLOTS",
    "cluster-blacklist-ttl": "CLUSTER FORGET among three nodes, and the time until the node is back",
    "cluster-link-sendbuf-limit": "a node that stands still while others publish",
    "cluster-manual-failover-timeout": "CLUSTER FAILOVER of a primary that stands still",
    "cluster-migration-barrier": "four nodes, one of which loses its only replica",
    "cluster-replica-validity-factor": "a replica that was cut off for long before its primary ends",
    "cluster-slot-migration-log-max-len": "CLUSTER GETSLOTMIGRATIONS after more than so many",
    "lfu-decay-time": "OBJECT FREQ after minutes",
    "max-new-connections-per-cycle": "connections that are accepted while others wait for a reply",
    "max-new-tls-connections-per-cycle": "the same with TLS",
    "maxmemory-eviction-tenacity": "the latency of writes at the limit",
    "maxmemory-samples": "the age of keys that were evicted",
    "no-appendfsync-on-rewrite": "syncs while a log is rewritten on a slow disk",
    "rdb-save-incremental-fsync": "a count of syncs while a large file is saved",
    "repl-disable-tcp-nodelay": "the options of the socket of a replica",
    "repl-mptcp": "the protocol of the socket of a link, where the kernel has MPTCP",
    "replica-ignore-disk-write-errors": "a replica on a disk that fails",
    "replica-ignore-maxmemory": "a replica beyond its limit",
    "slot-migration-max-failover-repl-bytes": "the moment at which slots change hands under load",
    "tls-ca-cert-dir": "a client whose authority lies in a folder",
    "tls-client-key-file": "a link between servers that ask for certificates",
    "tls-dh-params-file": "nothing: no cipher with such parameters is there",
    "tls-prefer-server-ciphers": "the cipher of a connection that offers two",
    "tls-session-cache-size": "how many sessions are resumed",
    "tls-session-cache-timeout": "a session that is resumed after so long",
}
