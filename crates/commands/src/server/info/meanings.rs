//! The reference of INFO: each field with its meaning and unit. The page docs/reference/info.md is made from it.
//!
//! A field that is a metric has the metric's help, a constant of a feature that this server lacks has the feature's
//! name; the table has all others, and those whose help counts on the line before it.

use crate::server::info::field::{Metric, Read};
use crate::server::info::{KEY_SIZES, SECTIONS, absent, cluster_section};

/// A field of INFO for people.
pub struct FieldReference {
    /// Its name; `*` stands for the rest of a name of which there are several.
    pub name: String,
    /// One sentence.
    pub meaning: String,
    /// Unit of its value; empty for a count, a flag or a text.
    pub unit: &'static str,
    /// Its metric.
    pub metric: Option<&'static Metric>,
}

/// Returns the sections of INFO with their fields, in their order.
pub fn reference() -> Vec<(&'static str, Vec<FieldReference>)> {
    let mut sections = Vec::new();
    for section in SECTIONS {
        let mut fields: Vec<FieldReference> = Vec::new();
        for field in section.fields {
            let name = if matches!(field.read, Read::Many(_)) { format!("{}*", field.name) } else { field.name.into() };
            let is_known = fields.iter().any(|known| known.name.trim_end_matches('*') == field.name);
            if !is_known {
                fields.push(described(name, field.metric.as_ref(), matches!(field.read, Read::Absent)));
            }
        }
        if section.title == super::CLUSTER_INFO {
            fields.extend(cluster_section::metrics().map(|(name, metric)| described(name.into(), Some(metric), false)));
        }
        if section.title == KEY_SIZES {
            fields.push(described("db*".into(), None, false));
        }
        sections.push((section.title, fields));
    }
    sections
}

fn described(name: String, metric: Option<&'static Metric>, is_absent: bool) -> FieldReference {
    let plain = name.trim_end_matches('*');
    let known = MEANINGS.iter().find(|(known, _)| *known == name).map(|(_, meaning)| (*meaning).to_owned());
    let constant = absent::FIELDS.iter().find(|(known, ..)| is_absent && *known == plain);
    let meaning = known
        .or_else(|| constant.map(|(_, value, lack)| format!("Always {value}: Cinnabar has no {lack}.")))
        .or_else(|| metric.map(|metric| metric.help.to_owned()))
        .unwrap_or_default();
    FieldReference { unit: unit(plain, metric), name, meaning, metric }
}

/// Units of fields whose names do not say them.
const UNITS: &[(&str, &str)] = &[
    ("hz", "a second"),
    ("uptime_in_days", "days"),
    ("lru_clock", "seconds"),
    ("server_time_usec", "Unix time in microseconds"),
    ("rdb_last_save_time", "Unix time in seconds"),
    ("loading_start_time", "Unix time in seconds"),
    ("aof_buffer_length", "bytes"),
    ("current_cow_peak", "bytes"),
    ("current_cow_size", "bytes"),
    ("used_active_time_io_thread_", "seconds"),
    ("instantaneous_eventloop_duration_usec", "microseconds"),
];

/// Parts of names of fields or their metrics, and the unit; the first that is found counts.
const PARTS: &[(&str, &str)] = &[
    ("_human", "text"),
    ("kbps", "kilobytes a second"),
    ("per_sec", "a second"),
    ("_perc", "percent"),
    ("_ratio", "ratio"),
    ("_offset", "offset of the stream"),
    ("eventloop_duration", "microseconds"),
    ("usec", "microseconds"),
    ("milliseconds", "milliseconds"),
    ("_ms", "milliseconds"),
    ("seconds", "seconds"),
    ("_sec", "seconds"),
    ("_hz", "a second"),
    ("bytes", "bytes"),
    ("used_memory", "bytes"),
    ("mem_c", "bytes"),
];

fn unit(name: &str, metric: Option<&Metric>) -> &'static str {
    let metric = metric.map_or("", |metric| metric.name);
    let exact = UNITS.iter().find(|(known, _)| *known == name);
    let part = || PARTS.iter().find(|(part, _)| name.contains(part) || metric.contains(part));
    exact.or_else(part).map_or("", |(_, unit)| unit)
}

const MEANINGS: &[(&str, &str)] = &[
    // Server
    ("redis_version", "Version of Redis whose commands are served, for clients that check it."),
    ("server_name", "`valkey`, for clients that choose by it."),
    ("valkey_version", "Version of Valkey whose behaviour is served."),
    ("valkey_release_stage", "Stage of that version."),
    ("cinnabar_version", "Version of Cinnabar."),
    ("redis_git_sha1", "Commit of Cinnabar's source."),
    ("redis_git_dirty", "Whether the source differed from the commit."),
    ("redis_build_id", "Number of the build."),
    ("redis_mode", "`standalone`, `cluster` or `sentinel`; shown with `extended-redis-compatibility`."),
    ("server_mode", "`standalone`, `cluster` or `sentinel`; shown without `extended-redis-compatibility`."),
    ("os", "Operating system, its version and processor."),
    ("arch_bits", "Bits of an address."),
    ("monotonic_clock", "Clock that durations are measured with."),
    ("multiplexing_api", "System call by which workers wait for sockets."),
    ("gcc_version", "Always 0.0.0: Cinnabar is not built by a C compiler."),
    ("process_id", "Number of the process."),
    ("process_supervised", "Supervisor: `systemd`, `upstart`, `unknown` or `no`."),
    ("run_id", "Random name of this run of the server."),
    ("tcp_port", "Port for clients; that for TLS if it is the only one."),
    ("server_time_usec", "Time of the server's clock."),
    ("uptime_in_days", "Days since the server started."),
    ("configured_hz", "How often background work is to be done in a second."),
    ("clients_hz", "How often clients are looked after in a second."),
    ("lru_clock", "Clock of LRU eviction: the lowest 24 bits of the time."),
    ("executable", "Path of the program."),
    ("config_file", "Path of the configuration file; empty without one."),
    ("availability_zone", "Text of `availability-zone`."),
    ("worker_threads", "Workers that run commands."),
    ("shutdown_in_milliseconds", "Time until a shutdown stops waiting for replicas; shown while it waits."),
    ("listener*", "A listener: name, addresses, and port or path."),
    // TLS, Clients, CPU
    ("tls_server_cert_serial", "Serial number of the server's certificate, or `none`."),
    ("tls_client_cert_serial", "Serial number of the certificate for other servers, or `none`."),
    ("tls_ca_cert_serial", "Serial number of the first authority's certificate, or `none`."),
    ("total_blocking_keys_on_nokey", "Keys whose waiting clients are also woken when the key is deleted."),
    ("paused_reason", "`none`, `client_pause`, or the reason for which the server delays writes itself."),
    ("paused_actions", "Commands that are delayed: `none`, `write` or `all`."),
    ("paused_timeout_milliseconds", "Time that is left of the pause."),
    ("used_cpu_sys_main_thread", "Processor time of the first worker in the kernel."),
    ("used_cpu_user_main_thread", "Processor time of the first worker in the program."),
    ("used_active_time_io_thread_*", "Time for which a worker beside the first one had something to do."),
    // Memory
    ("used_memory", "Bytes that are allocated."),
    ("used_memory_rss", "Bytes of memory that the process has."),
    ("used_memory_peak", "Most bytes that were allocated at a time."),
    ("used_memory_human", "`used_memory` for people."),
    ("used_memory_rss_human", "`used_memory_rss` for people."),
    ("used_memory_peak_human", "`used_memory_peak` for people."),
    ("used_memory_peak_perc", "`used_memory` as a part of its peak."),
    ("used_memory_dataset", "Bytes of keys and values."),
    ("used_memory_dataset_perc", "`used_memory_dataset` as a part of the memory allocated since the start."),
    ("allocator_active", "Bytes of pages of which the allocator has given something out."),
    ("allocator_resident", "Bytes of pages that the allocator has."),
    ("allocator_muzzy", "Bytes of pages that the system may take back."),
    ("total_system_memory_human", "`total_system_memory` for people."),
    ("used_memory_lua", "Bytes of the interpreters of scripts."),
    ("used_memory_vm_eval", "Bytes of the interpreters of scripts."),
    ("used_memory_lua_human", "`used_memory_lua` for people."),
    ("used_memory_vm_total_human", "`used_memory_vm_total` for people."),
    ("used_memory_scripts_human", "`used_memory_scripts` for people."),
    ("maxmemory", "Limit of memory; 0 for none."),
    ("maxmemory_human", "`maxmemory` for people."),
    ("maxmemory_policy", "Keys that are evicted at the limit."),
    ("rss_overhead_ratio", "Memory of the process to resident bytes of the allocator."),
    ("rss_overhead_bytes", "Bytes of the process beyond those of the allocator."),
    ("mem_replication_backlog", "Bytes of the stream for replicas that return."),
    ("mem_total_replication_buffers", "Bytes of the stream for all replicas."),
    ("mem_replicas_repl_buffer", "Bytes of the primary's stream that wait for the end of its snapshot."),
    ("mem_cluster_slot_import", "Bytes that wait in imports of slots."),
    ("mem_cluster_slot_export", "Bytes that wait in exports of slots."),
    ("mem_allocator", "Name and version of the allocator."),
    ("mem_overhead_db_hashtable_rehashing", "Bytes of tables that are being replaced."),
    ("engines_total_used_memory", "Bytes of the interpreters of scripts."),
    ("engines_total_memory_overhead", "Bytes that the interpreters need beside their own."),
    ("engine_0", "Engine of scripts: its name, and bytes that it takes up."),
    // Persistence
    ("async_loading", "Whether another data set is being loaded while this one is served."),
    ("current_cow_peak", "Most bytes of values that the present snapshot has copied before they were changed."),
    ("current_cow_size", "Bytes of values that the present snapshot has copied before they were changed."),
    ("current_fork_perc", "Part of the keys that the present snapshot has written."),
    ("current_save_keys_processed", "Keys that the present snapshot has written."),
    ("current_save_keys_total", "Keys that the present snapshot is to write."),
    ("rdb_last_bgsave_time_sec", "Seconds that the last snapshot took; -1 without one."),
    ("rdb_current_bgsave_time_sec", "Seconds since the present snapshot began; -1 without one."),
    ("rdb_last_cow_size", "Bytes of values that the last snapshot copied before they were changed."),
    ("rdb_last_load_keys_expired", "Keys of the last load that had expired."),
    ("rdb_last_load_keys_loaded", "Keys that the last load has brought."),
    ("aof_rewrite_in_progress", "Whether the append-only file is being rewritten."),
    ("aof_rewrite_scheduled", "Whether a rewrite of the append-only file is to begin."),
    ("aof_current_rewrite_time_sec", "Seconds since the present rewrite began; -1 without one."),
    ("aof_rewrites", "Rewrites of the append-only file that were begun."),
    ("aof_rewrites_consecutive_failures", "Rewrites that have failed since the last that went well."),
    ("aof_last_write_status", "Whether the last write to the append-only file went well."),
    ("aof_base_size", "Bytes of the append-only file after the last rewrite."),
    ("aof_current_size", "Bytes of the append-only file."),
    ("aof_pending_rewrite", "Whether the append-only file begins with a rewrite that has not ended."),
    ("aof_buffer_length", "Bytes that wait to be written to the append-only file."),
    ("aof_pending_bio_fsync", "Whether the append-only file is being synced."),
    ("aof_delayed_fsync", "How often writing waited for a sync."),
    ("loading_start_time", "Time at which loading began."),
    ("loading_total_bytes", "Bytes to load."),
    ("loading_rdb_used_mem", "Always 0: the memory that the file's header names is not read."),
    ("loading_loaded_bytes", "Bytes that are loaded."),
    ("loading_loaded_perc", "Part of the bytes that is loaded."),
    ("loading_eta_seconds", "Time until loading ends, at its speed so far."),
    // Stats
    ("total_net_repl_input_bytes", "Bytes that have come from the primary."),
    ("total_net_repl_output_bytes", "Bytes that were sent to replicas."),
    ("total_net_cluster_slot_import_bytes", "Bytes that imports of slots have received."),
    ("total_net_cluster_slot_export_bytes", "Bytes that exports of slots have sent."),
    ("instantaneous_input_kbps", "Kilobytes received a second."),
    ("instantaneous_output_kbps", "Kilobytes sent a second."),
    ("instantaneous_input_repl_kbps", "Kilobytes received from the primary a second."),
    ("instantaneous_output_repl_kbps", "Kilobytes sent to replicas a second."),
    ("sync_partial_ok", "How often replicas continued from the backlog."),
    ("sync_partial_err", "How often replicas could not continue from the backlog."),
    ("current_eviction_exceeded_time", "Milliseconds since when there is more data than there may be."),
    ("evicted_clients", "Clients that were disconnected for the memory of all clients (`maxmemory-clients`)."),
    ("keyspace_misses", "Reads that found no key."),
    ("latest_fork_usec", "Time for which the last snapshot stopped all workers when it began."),
    ("total_forks", "Snapshots and rewrites that were begun."),
    ("mass_deletions_running", "FLUSH commands and deletions of many keys that are in progress."),
    ("mass_deletions_keys", "Keys that they are to delete."),
    ("mass_deletions_perc", "Part of these that is deleted."),
    ("tracking_total_prefixes", "Prefixes of keys that clients track (BCAST)."),
    ("dump_payload_sanitizations", "Payloads and files that were checked in depth."),
    ("tracking_total_items", "Clients that cache keys, counted at each key."),
    ("reply_buffer_expands", "How often reply buffers were made larger."),
    ("eventloop_duration_sum", "Time that all turns of event loops took."),
    ("eventloop_duration_cmd_sum", "Time of commands in all turns of event loops."),
    ("eventloop_duration_aof_sum", "Time of writing the append-only file."),
    ("eventloop_duration_cron_sum", "Time of work in the background."),
    ("eventloop_duration_max", "Longest turn of an event loop."),
    ("eventloop_cmd_per_cycle_max", "Most commands in a turn of an event loop."),
    // Replication
    ("role", "`master` or `slave`."),
    ("master_host", "Host of the primary."),
    ("master_port", "Port of the primary."),
    ("master_link_status", "`up` or `down`: the connection to the primary."),
    ("master_last_io_seconds_ago", "Time since the primary last sent something; -1 without a connection."),
    ("master_sync_in_progress", "Whether a snapshot of the primary is being received."),
    ("slave_read_repl_offset", "Offset that was received from the primary."),
    ("slave_repl_offset", "Offset that was applied."),
    ("master_sync_total_bytes", "Bytes of the snapshot; 0 if they are not known, -1 before it begins."),
    ("master_sync_read_bytes", "Bytes of the snapshot that have come."),
    ("master_sync_left_bytes", "Bytes of the snapshot that are to come."),
    ("master_sync_perc", "Part of the snapshot that has come."),
    ("master_sync_last_io_seconds_ago", "Time since a part of the snapshot came."),
    ("master_link_down_since_seconds", "Time since the connection to the primary was lost; -1 if there was none."),
    ("slave_priority", "How much Sentinels prefer this replica: less is better, and 0 is never."),
    ("slave_read_only", "Whether this replica refuses writes."),
    ("replica_announced", "Whether Sentinels are told of this replica."),
    ("min_slaves_good_slaves", "Replicas that count for `min-replicas-to-write`."),
    ("slave*", "A replica: address, state, offset, seconds since its last word, and kind."),
    ("replicas_repl_buffer_size", "Bytes of the primary's stream that wait for the end of its snapshot."),
    ("replicas_repl_buffer_peak", "Most bytes of the primary's stream that have waited for a snapshot."),
    ("master_failover_state", "State of FAILOVER: `no-failover`, `waiting-for-sync` or `failover-in-progress`."),
    ("master_replid", "Name of the history of writes."),
    ("master_replid2", "Name of the history before the last change of roles."),
    ("master_repl_offset", "Offset of the stream of writes."),
    (
        "in_sync_state",
        "A primary's acknowledged writes: `unconfirmed`, `waiting`, `blocked`, `open` or `off`; a replica: `in-sync` or `out-of-sync`.",
    ),
    ("in_sync_id", "This server's name in the set of replicas that acknowledge."),
    ("in_sync_term", "Number of the lead: each new primary has a larger one."),
    ("in_sync_epoch", "Number of the set of replicas that acknowledge, larger with each change of the set."),
    ("in_sync_needed", "Members that have to have a write before it is acknowledged."),
    ("in_sync_members", "Names of the members, with commas between them."),
    ("in_sync_offset", "Offset of the acknowledged history that this server has."),
    ("in_sync_promoted", "Whether this primary was promoted since it started."),
    ("in_sync_handed_over", "Whether this primary leads by a hand-over."),
    (
        "in_sync_missing*",
        "A member without which nothing is acknowledged: name, address, and for how many seconds it is absent.",
    ),
    (
        "in_sync_untold*",
        "An absent member for which no reply waits, but which a server that is promoted later may need: name, address, seconds of absence.",
    ),
    // Sections about commands, keys, modules
    (
        "module",
        "A module: there are none, so these lines name the modules whose types Cinnabar has built in, for clients that look for them.",
    ),
    (
        "cmdstat_*",
        "A command: calls, microseconds in all and a call, calls that were rejected before they ran, and calls that failed.",
    ),
    ("errorstat_*", "How often an error with this first word was replied."),
    ("latency_percentiles_usec_*", "Percentiles of a command's time, as `latency-tracking-info-percentiles` asks for."),
    ("cluster_*", "Fields of CLUSTER INFO; those that are metrics follow."),
    ("cluster_stats_messages_received", "Packets that have come over the bus."),
    (
        "db*",
        "A database: in Keyspace its keys, those that expire, their mean time to live in milliseconds, and keys with elements that expire; in Keysizes the number of values of each type by size, in powers of two.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_sentence_of_its_own() {
        let all: Vec<FieldReference> = reference().into_iter().flat_map(|(_, fields)| fields).collect();
        for field in &all {
            let meaning = &field.meaning;
            assert!(meaning.ends_with('.') && meaning.len() > 10, "{}: {meaning}", field.name);
            for start in ["The same", "It ", "They ", "Its "] {
                assert!(!meaning.starts_with(start), "{}: {meaning}", field.name);
            }
        }
        for (name, _) in MEANINGS {
            assert!(all.iter().any(|field| field.name == *name), "{name} is no field");
        }
        for (name, _) in UNITS {
            assert!(all.iter().any(|field| field.name.trim_end_matches('*') == *name), "{name} is no field");
        }
    }
}
