"""The tests that show the effects of directives without an experiment in directive_effects.py.

`ELSEWHERE`: {directive: the test}; `WITHOUT`: {directive: the reason for which it has no effect here}.
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
        "crash-log-enabled crash-memcheck-enabled daemonize dbfilename log-format log-timestamp-format logfile pidfile "
        "proc-title-template unixsocket",
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

WITHOUT = {
    "tls-dh-params-file": "no cipher with such parameters is there: the file is checked, and a line of the log says it",
}
