//! The metric of each field of INFO: names that dashboards and alerts for redis_exporter have.
//!
//! The names are that exporter's, with `redis_` before them, and so are their units, whatever they would be called
//! today. A number that only grows is a counter.

use cinnabar_admin::family::Kind::{self, Counter, Gauge};

/// One field of INFO and its metric.
pub struct InfoMetric {
    /// Name of the field in INFO.
    pub field: &'static str,
    /// The metric's name without `redis_`.
    pub name: &'static str,
    pub kind: Kind,
    /// Size of the field's unit in the metric's.
    pub scale: f64,
    pub help: &'static str,
}

const fn entry(field: &'static str, name: &'static str, kind: Kind, help: &'static str) -> InfoMetric {
    InfoMetric { field, name, kind, scale: 1.0, help }
}

const fn micros(field: &'static str, name: &'static str, kind: Kind, help: &'static str) -> InfoMetric {
    InfoMetric { field, name, kind, scale: 1e-6, help }
}

/// Returns a metric with the name of its field.
const fn same(field: &'static str, kind: Kind, help: &'static str) -> InfoMetric {
    entry(field, field, kind, help)
}

#[rustfmt::skip]
pub const SERVER: &[InfoMetric] = &[
    same("uptime_in_seconds", Gauge, "Seconds since the server started."),
    same("process_id", Gauge, "The number of the process."),
    same("hz", Gauge, "How often background work is done in a second."),
    same("configured_hz", Gauge, "How often it is to be done."),
    same("io_threads_active", Gauge, "Whether another worker than the first has something to do."),
    entry("total_system_memory", "total_system_memory_bytes", Gauge, "Memory of the machine."),
    same("tls_server_cert_expires_in_seconds", Gauge, "Seconds until the server's certificate ends; 0 without one."),
    same("tls_client_cert_expires_in_seconds", Gauge, "Seconds until the certificate for other servers ends."),
    same("tls_ca_cert_expires_in_seconds", Gauge, "Seconds until the first of the authorities' certificates ends."),
    entry("used_cpu_sys", "cpu_sys_seconds_total", Counter, "Processor time in the kernel."),
    entry("used_cpu_user", "cpu_user_seconds_total", Counter, "Processor time in the program."),
    entry("used_cpu_sys_children", "cpu_sys_children_seconds_total", Counter, "The same of child processes: there are none."),
    entry("used_cpu_user_children", "cpu_user_children_seconds_total", Counter, "The same of child processes: there are none."),
    entry("used_cpu_sys_main_thread", "cpu_sys_main_thread_seconds_total", Counter, "The same of the first worker."),
    entry("used_cpu_user_main_thread", "cpu_user_main_thread_seconds_total", Counter, "The same of the first worker."),
    entry("used_active_time_main_thread", "active_time_main_thread_seconds_total", Counter, "For how long the first worker had something to do."),
];

#[rustfmt::skip]
pub const CLIENTS: &[InfoMetric] = &[
    same("connected_clients", Gauge, "Clients, without replicas."),
    same("blocked_clients", Gauge, "Clients that wait for keys, replicas or the end of a pause."),
    entry("maxclients", "max_clients", Gauge, "Clients that there may be."),
    same("tracking_clients", Gauge, "Clients that cache what they read."),
    same("clients_in_timeout_table", Gauge, "Clients that wait no longer than until a set time."),
    same("pubsub_clients", Gauge, "Clients that have subscribed to something."),
    same("watching_clients", Gauge, "Clients that watch keys."),
    same("total_watched_keys", Gauge, "Keys that clients watch."),
    same("total_blocking_keys", Gauge, "Keys that clients wait for."),
    same("total_blocking_keys_on_nokey", Gauge, "Keys that clients wait for who are told when they go."),
    same("cluster_connections", Gauge, "Connections of the cluster's bus."),
    entry("client_recent_max_input_buffer", "client_recent_max_input_buffer_bytes", Gauge, "The largest room for a client's input within the last seconds."),
    entry("client_recent_max_output_buffer", "client_recent_max_output_buffer_bytes", Gauge, "The largest of the clients' unsent replies within the last seconds."),
    entry("total_connections_received", "connections_received_total", Counter, "Connections that were let in."),
    entry("rejected_connections", "rejected_connections_total", Counter, "Connections that were refused, at maxclients or by protected mode."),
    entry("client_query_buffer_limit_disconnections", "client_query_buffer_limit_disconnections_total", Counter, "Clients that were disconnected for the size of their requests."),
    entry("client_output_buffer_limit_disconnections", "client_output_buffer_limit_disconnections_total", Counter, "Clients that were disconnected for the size of their replies."),
    entry("evicted_clients", "evicted_clients_total", Counter, "Clients that were disconnected for the memory that all of them took."),
    entry("acl_access_denied_auth", "acl_access_denied_auth_total", Counter, "Wrong names and passwords."),
    entry("acl_access_denied_cmd", "acl_access_denied_cmd_total", Counter, "Commands that users may not run."),
    entry("acl_access_denied_key", "acl_access_denied_key_total", Counter, "Keys that users may not use."),
    entry("acl_access_denied_channel", "acl_access_denied_channel_total", Counter, "Channels that users may not use."),
    entry("acl_access_denied_tls_cert", "acl_access_denied_tls_cert_total", Counter, "Certificates that name no user."),
    entry("acl_access_denied_db", "acl_access_denied_db_total", Counter, "Databases that users may not use."),
];

#[rustfmt::skip]
pub const MEMORY: &[InfoMetric] = &[
    entry("used_memory", "memory_used_bytes", Gauge, "Memory that is allocated."),
    entry("used_memory_rss", "memory_used_rss_bytes", Gauge, "Memory that the process has."),
    entry("used_memory_peak", "memory_used_peak_bytes", Gauge, "The most that was allocated."),
    entry("used_memory_overhead", "memory_used_overhead_bytes", Gauge, "Allocated bytes that are not keys and values."),
    entry("used_memory_startup", "memory_used_startup_bytes", Gauge, "Bytes allocated when the server had started."),
    entry("used_memory_dataset", "memory_used_dataset_bytes", Gauge, "Keys and values."),
    entry("used_memory_lua", "memory_used_lua_bytes", Gauge, "Interpreters of scripts."),
    entry("used_memory_vm_eval", "memory_used_vm_eval_bytes", Gauge, "Interpreters of scripts."),
    entry("used_memory_scripts_eval", "memory_used_scripts_eval_bytes", Gauge, "Texts of scripts."),
    entry("used_memory_vm_functions", "memory_used_vm_functions_bytes", Gauge, "Interpreters that run functions only: there are none."),
    entry("used_memory_vm_total", "memory_used_vm_total", Gauge, "Bytes of interpreters."),
    entry("used_memory_functions", "memory_used_functions_bytes", Gauge, "Libraries of functions."),
    entry("used_memory_scripts", "memory_used_scripts_bytes", Gauge, "Texts of scripts and libraries of functions."),
    same("number_of_cached_scripts", Gauge, "Scripts that are known by their names."),
    same("number_of_functions", Gauge, "Functions of all libraries."),
    same("number_of_libraries", Gauge, "Libraries of functions."),
    entry("maxmemory", "memory_max_bytes", Gauge, "The limit of memory; 0 for none."),
    entry("allocator_allocated", "allocator_allocated_bytes", Gauge, "Bytes that the allocator has given out."),
    entry("allocator_active", "allocator_active_bytes", Gauge, "Pages of which it has given something out."),
    entry("allocator_resident", "allocator_resident_bytes", Gauge, "Pages that the allocator has."),
    entry("allocator_muzzy", "allocator_muzzy_bytes", Gauge, "Pages that the system may take back."),
    same("allocator_frag_ratio", Gauge, "Active to allocated bytes."),
    same("allocator_frag_bytes", Gauge, "Active bytes beyond those allocated."),
    same("allocator_rss_ratio", Gauge, "Resident to active bytes."),
    same("allocator_rss_bytes", Gauge, "Resident bytes beyond those active."),
    same("mem_fragmentation_ratio", Gauge, "Bytes of the process to allocated bytes."),
    same("mem_fragmentation_bytes", Gauge, "Bytes of the process beyond those allocated."),
    entry("mem_not_counted_for_evict", "mem_not_counted_for_eviction_bytes", Gauge, "Bytes that the limit of memory does not count."),
    entry("mem_replication_backlog", "mem_replication_backlog_bytes", Gauge, "The stream for replicas that come back."),
    entry("mem_total_replication_buffers", "mem_total_replication_buffers_bytes", Gauge, "The stream for all replicas."),
    entry("mem_replicas_repl_buffer", "mem_replicas_repl_buffer_bytes", Gauge, "The primary's stream that waits for the end of its snapshot."),
    same("mem_clients_slaves", Gauge, "Bytes of the stream that replicas have still to be sent."),
    same("mem_clients_normal", Gauge, "Bytes that clients take up."),
    entry("mem_cluster_links", "mem_cluster_links_bytes", Gauge, "Bytes that wait to be sent over the cluster's bus."),
    entry("mem_aof_buffer", "mem_aof_buffer_bytes", Gauge, "Bytes that wait to be written to the append-only file."),
    entry("mem_overhead_db_hashtable_rehashing", "mem_overhead_db_hashtable_rehashing_bytes", Gauge, "Tables that are being replaced."),
    same("active_defrag_running", Gauge, "Whether memory is being defragmented: it never is."),
    same("lazyfree_pending_objects", Gauge, "Values that are to be freed in the background."),
    same("lazyfreed_objects", Gauge, "Values that were freed in the background."),
    entry("engines_count", "scripting_engines_count", Gauge, "Engines of scripts."),
    entry("engines_total_used_memory", "scripting_engines_memory_used_bytes", Gauge, "Memory of interpreters."),
    entry("engines_total_memory_overhead", "scripting_engines_memory_overhead_bytes", Gauge, "Memory of what keeps them."),
];

#[rustfmt::skip]
pub const PERSISTENCE: &[InfoMetric] = &[
    entry("loading", "loading_dump_file", Gauge, "Whether the data set is being loaded."),
    same("async_loading", Gauge, "Whether another data set is being loaded beside the one that is served."),
    same("rdb_changes_since_last_save", Gauge, "Changes since the last snapshot."),
    same("rdb_bgsave_in_progress", Gauge, "Whether a snapshot is being saved."),
    entry("rdb_last_save_time", "rdb_last_save_timestamp_seconds", Gauge, "Unix time of the last snapshot."),
    same("rdb_last_bgsave_status", Gauge, "Whether the last snapshot was saved well."),
    entry("rdb_last_bgsave_time_sec", "rdb_last_bgsave_duration_sec", Gauge, "Seconds that it took; -1 without one."),
    entry("rdb_current_bgsave_time_sec", "rdb_current_bgsave_duration_sec", Gauge, "Seconds since the present one began; -1 without one."),
    entry("rdb_saves", "rdb_saves_total", Counter, "Snapshots that were begun."),
    entry("rdb_last_cow_size", "rdb_last_cow_size_bytes", Gauge, "Values that the last snapshot wrote down before they were changed."),
    entry("rdb_last_load_keys_expired", "rdb_last_load_expired_keys", Gauge, "Keys of the last load that had expired."),
    entry("rdb_last_load_keys_loaded", "rdb_last_load_loaded_keys", Gauge, "Keys that it has brought."),
    same("aof_enabled", Gauge, "Whether there is an append-only file."),
    same("aof_rewrite_in_progress", Gauge, "Whether it is being rewritten."),
    same("aof_rewrite_scheduled", Gauge, "Whether a rewrite is to begin."),
    entry("aof_last_rewrite_time_sec", "aof_last_rewrite_duration_sec", Gauge, "Seconds that the last rewrite took; -1 without one."),
    entry("aof_current_rewrite_time_sec", "aof_current_rewrite_duration_sec", Gauge, "Seconds since the present one began; -1 without one."),
    entry("aof_last_cow_size", "aof_last_cow_size_bytes", Gauge, "Bytes that child processes copied: there are none."),
    entry("aof_current_size", "aof_current_size_bytes", Gauge, "The size of the append-only file."),
    entry("aof_base_size", "aof_base_size_bytes", Gauge, "Its size after the last rewrite."),
    same("aof_pending_rewrite", Gauge, "Whether the file begins with a rewrite that has not ended."),
    same("aof_buffer_length", Gauge, "Bytes that wait to be written."),
    same("aof_pending_bio_fsync", Gauge, "Whether it is being synced."),
    same("aof_delayed_fsync", Gauge, "How often writing waited for that."),
    same("aof_last_bgrewrite_status", Gauge, "Whether the last rewrite went well."),
    same("aof_last_write_status", Gauge, "Whether the last write went well."),
    same("module_fork_in_progress", Gauge, "Whether a module has forked: there are none."),
    same("module_fork_last_cow_size", Gauge, "Bytes that it copied."),
    micros("latest_fork_usec", "latest_fork_seconds", Gauge, "For how long the last snapshot stopped everybody when it began."),
];

#[rustfmt::skip]
pub const STATS: &[InfoMetric] = &[
    entry("total_commands_processed", "commands_processed_total", Counter, "Commands that have run."),
    same("instantaneous_ops_per_sec", Gauge, "Commands a second."),
    entry("total_net_input_bytes", "net_input_bytes_total", Counter, "Bytes that have come."),
    entry("total_net_output_bytes", "net_output_bytes_total", Counter, "Bytes that were sent."),
    entry("total_net_repl_input_bytes", "net_repl_input_bytes_total", Counter, "Bytes of them from the primary."),
    entry("total_net_repl_output_bytes", "net_repl_output_bytes_total", Counter, "Bytes of them to replicas."),
    entry("expired_keys", "expired_keys_total", Counter, "Keys that went because they had expired."),
    entry("expired_fields", "expired_fields_total", Counter, "Fields that went because they had expired."),
    entry("expired_stale_perc", "expired_stale_percentage", Gauge, "Expired keys that are still there: what is due is known exactly."),
    entry("expired_keys_with_volatile_items_stale_perc", "expired_keys_with_volatile_items_stale_percentage", Gauge, "The same of fields."),
    entry("expired_time_cap_reached_count", "expired_time_cap_reached_total", Counter, "How often expiry stopped early: it does not."),
    entry("expire_cycle_cpu_milliseconds", "expire_cycle_cpu_time_ms_total", Counter, "Milliseconds of work in the background."),
    entry("evicted_keys", "evicted_keys_total", Counter, "Keys that were evicted."),
    entry("evicted_scripts", "evicted_scripts_total", Counter, "Scripts that were evicted."),
    entry("total_eviction_exceeded_time", "eviction_exceeded_time_ms_total", Counter, "Milliseconds for which there was more data than there may be."),
    entry("current_eviction_exceeded_time", "current_eviction_exceeded_time_ms", Gauge, "Milliseconds since when there is."),
    entry("keyspace_hits", "keyspace_hits_total", Counter, "Reads that found a key."),
    entry("keyspace_misses", "keyspace_misses_total", Counter, "Reads that found none."),
    same("pubsub_channels", Gauge, "Channels with subscribers."),
    same("pubsub_patterns", Gauge, "Patterns with subscribers."),
    same("pubsubshard_channels", Gauge, "Channels of slots with subscribers."),
    entry("migrate_cached_sockets", "migrate_cached_sockets_total", Gauge, "Connections that are kept for MIGRATE."),
    same("slave_expires_tracked_keys", Gauge, "Keys with an expiry that were written on a replica."),
    entry("active_defrag_hits", "defrag_hits", Gauge, "Values that were moved: none are."),
    entry("active_defrag_misses", "defrag_misses", Gauge, "Values that were left."),
    entry("active_defrag_key_hits", "defrag_key_hits", Gauge, "Keys that were moved."),
    entry("active_defrag_key_misses", "defrag_key_misses", Gauge, "Keys that were left."),
    same("tracking_total_keys", Gauge, "Keys that clients cache."),
    same("tracking_total_items", Gauge, "These clients, counted at each key."),
    same("tracking_total_prefixes", Gauge, "Prefixes that clients are told of."),
    same("unexpected_error_replies", Counter, "Commands of a log that replied an error."),
    same("total_error_replies", Counter, "Errors that were replied."),
    same("dump_payload_sanitizations", Counter, "Payloads and files that were searched."),
    same("total_reads_processed", Counter, "Reads of sockets."),
    same("total_writes_processed", Counter, "Writes to sockets."),
    same("io_threaded_reads_processed", Counter, "Reads of threads that only read: there are none."),
    same("io_threaded_writes_processed", Counter, "Writes of threads that only write: there are none."),
    entry("reply_buffer_shrinks", "reply_buffer_shrinks_total", Counter, "How often reply buffers were made smaller."),
    entry("reply_buffer_expands", "reply_buffer_expands_total", Counter, "How often they were made larger."),
    entry("eventloop_cycles", "eventloop_cycles_total", Counter, "Turns of all event loops."),
    entry("eventloop_duration_sum", "eventloop_duration_sum_usec_total", Counter, "Microseconds that they took."),
    entry("eventloop_duration_cmd_sum", "eventloop_duration_cmd_sum_usec_total", Counter, "Microseconds of these that commands took."),
    same("instantaneous_eventloop_cycles_per_sec", Gauge, "Turns a second."),
    same("instantaneous_eventloop_duration_usec", Gauge, "Microseconds of one turn."),
];

#[rustfmt::skip]
pub const REPLICATION: &[InfoMetric] = &[
    same("connected_slaves", Gauge, "Replicas that follow."),
    entry("repl_backlog_size", "replication_backlog_bytes", Gauge, "The wanted size of the backlog."),
    entry("repl_backlog_active", "repl_backlog_is_active", Gauge, "Whether there is a backlog."),
    same("repl_backlog_first_byte_offset", Gauge, "The stream's offset at which the backlog begins."),
    entry("repl_backlog_histlen", "repl_backlog_history_bytes", Gauge, "Bytes in the backlog."),
    same("master_repl_offset", Gauge, "The stream's offset."),
    same("second_repl_offset", Gauge, "The offset up to which the history is also that of another primary."),
    same("slave_priority", Gauge, "How much a replica is wanted as a primary; 0 is never."),
    entry("sync_full", "replica_resyncs_full", Gauge, "How often replicas got a snapshot."),
    entry("sync_partial_ok", "replica_partial_resync_accepted", Gauge, "How often they went on from the backlog."),
    entry("sync_partial_err", "replica_partial_resync_denied", Gauge, "How often they could not."),
    entry("replicas_repl_buffer_size", "replicas_repl_buffer_size_bytes", Gauge, "The primary's stream that waits for the end of its snapshot."),
    entry("replicas_repl_buffer_peak", "replicas_repl_buffer_peak_bytes", Gauge, "The most of it that there was."),
    same("replicas_waiting_psync", Gauge, "Replicas with a snapshot that have not asked for the stream behind it."),
    same("cluster_enabled", Gauge, "Whether the server is a node of a cluster."),
];

#[rustfmt::skip]
pub const CLUSTER: &[InfoMetric] = &[
    same("cluster_state", Gauge, "Whether the cluster serves."),
    same("cluster_slots_assigned", Gauge, "Slots that nodes have."),
    same("cluster_slots_ok", Gauge, "Slots of nodes that are well."),
    same("cluster_slots_pfail", Gauge, "Slots of nodes that may have failed."),
    same("cluster_slots_fail", Gauge, "Slots of nodes that have failed."),
    same("cluster_known_nodes", Gauge, "Nodes that are known."),
    same("cluster_size", Gauge, "Nodes that have slots."),
    same("cluster_current_epoch", Gauge, "The cluster's epoch."),
    same("cluster_my_epoch", Gauge, "The epoch of this node's slots."),
    entry("cluster_stats_messages_sent", "cluster_messages_sent_total", Counter, "Packets that were sent over the bus."),
    entry("cluster_stats_messages_received", "cluster_messages_received_total", Counter, "Packets that have come over it."),
];
