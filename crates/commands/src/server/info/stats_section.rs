//! The sections Stats and Debug of INFO.

use crate::server::info::field::{Field, Value, absent, field};
use crate::server::info::info_source::Source;
use engine::acl::denial_log::Denied;
use engine::clients::pubsub::ChannelKind;
use engine::stats::metrics::{self, Counter, Totals, WorkerMetrics};
use persistence::aof;
use std::sync::atomic::Ordering::Relaxed;

pub(super) const STATS: &[Field] = &[
    field("total_connections_received", |s| s.engine.host().connections().received.into())
        .counter("connections_received_total", "Connections that were let in."),
    field("total_commands_processed", |s| s.totals().commands.into())
        .counter("commands_processed_total", "Commands that have run."),
    field("instantaneous_ops_per_sec", |s| s.rates().commands.into())
        .gauge("instantaneous_ops_per_sec", "Commands a second."),
    field("total_net_input_bytes", |s| input(s.totals()).into())
        .counter("net_input_bytes_total", "Bytes that have come."),
    field("total_net_output_bytes", |s| output(s.totals()).into())
        .counter("net_output_bytes_total", "Bytes that were sent."),
    field("total_net_repl_input_bytes", |s| s.totals().replication_input.into())
        .counter("net_repl_input_bytes_total", "Bytes of them from the primary."),
    field("total_net_repl_output_bytes", |s| s.totals().replication_output.into())
        .counter("net_repl_output_bytes_total", "Bytes of them to replicas."),
    field("total_net_cluster_slot_import_bytes", |s| s.totals().slot_import.into()),
    field("total_net_cluster_slot_export_bytes", |s| s.totals().slot_export.into()),
    field("instantaneous_input_kbps", |s| kilobytes(input(s.rates()))),
    field("instantaneous_output_kbps", |s| kilobytes(output(s.rates()))),
    field("instantaneous_input_repl_kbps", |s| kilobytes(s.rates().replication_input)),
    field("instantaneous_output_repl_kbps", |s| kilobytes(s.rates().replication_output)),
    field("rejected_connections", |s| s.engine.host().connections().rejected.into())
        .counter("rejected_connections_total", "Connections that were refused, at maxclients or by protected mode."),
    field("sync_full", |s| s.engine.replication().counts.full.load(Relaxed).into())
        .gauge("replica_resyncs_full", "How often replicas got a snapshot."),
    field("sync_partial_ok", |s| s.engine.replication().counts.partial_ok.load(Relaxed).into())
        .gauge("replica_partial_resync_accepted", "How often they went on from the backlog."),
    field("sync_partial_err", |s| s.engine.replication().counts.partial_err.load(Relaxed).into())
        .gauge("replica_partial_resync_denied", "How often they could not."),
    field("expired_keys", |s| s.overview().stats.expired.into())
        .counter("expired_keys_total", "Keys that went because they had expired."),
    field("expired_fields", |s| s.overview().stats.expired_elements.into())
        .counter("expired_fields_total", "Fields that went because they had expired."),
    // The due keys are known exactly, and nothing is left for later.
    absent("expired_stale_perc")
        .gauge("expired_stale_percentage", "Expired keys that are still there: what is due is known exactly."),
    absent("expired_keys_with_volatile_items_stale_perc")
        .gauge("expired_keys_with_volatile_items_stale_percentage", "The same of fields."),
    absent("expired_time_cap_reached_count")
        .counter("expired_time_cap_reached_total", "How often expiry stopped early: it does not."),
    field("expire_cycle_cpu_milliseconds", |s| (sum(s, |worker| &worker.background_nanos) / 1_000_000).into())
        .counter("expire_cycle_cpu_time_ms_total", "Milliseconds of work in the background."),
    field("evicted_keys", |s| s.overview().stats.evicted.into())
        .counter("evicted_keys_total", "Keys that were evicted."),
    field("evicted_clients", |s| sum(s, |worker| &worker.evicted_clients).into())
        .counter("evicted_clients_total", "Clients that were disconnected for the memory that all of them took."),
    field("evicted_scripts", |s| s.engine.scripts().evicted().into())
        .counter("evicted_scripts_total", "Scripts that were evicted."),
    field("total_eviction_exceeded_time", |s| s.engine.memory_limit().exceeded(s.now_us.ms()).0.into())
        .counter("eviction_exceeded_time_ms_total", "Milliseconds for which there was more data than there may be."),
    field("current_eviction_exceeded_time", |s| s.engine.memory_limit().exceeded(s.now_us.ms()).1.into())
        .gauge("current_eviction_exceeded_time_ms", "Milliseconds since when there is."),
    field("keyspace_hits", |s| s.overview().stats.hits.into())
        .counter("keyspace_hits_total", "Reads that found a key."),
    field("keyspace_misses", |s| s.overview().stats.misses.into())
        .counter("keyspace_misses_total", "Reads that found none."),
    field("pubsub_channels", |s| s.engine.pubsub().count(ChannelKind::Channel).into())
        .gauge("pubsub_channels", "Channels with subscribers."),
    field("pubsub_patterns", |s| s.engine.pubsub().count(ChannelKind::Pattern).into())
        .gauge("pubsub_patterns", "Patterns with subscribers."),
    field("pubsubshard_channels", |s| s.engine.pubsub().count(ChannelKind::Shard).into())
        .gauge("pubsubshard_channels", "Channels of slots with subscribers."),
    field("latest_fork_usec", |s| (s.engine.persistence_status().snapshot_nanos.load(Relaxed) / 1000).into())
        .micros("latest_fork_seconds", "For how long the last snapshot stopped everybody when it began."),
    field("total_forks", |s| s.engine.persistence_status().forks.load(Relaxed).into()),
    field("migrate_cached_sockets", |s| s.engine.links().len().into())
        .gauge("migrate_cached_sockets_total", "Connections that are kept for MIGRATE."),
    field("mass_deletions_running", |s| s.engine.mass_deletions().running().count.into()),
    field("mass_deletions_keys", |s| s.engine.mass_deletions().running().keys.into()),
    field("mass_deletions_perc", |s| Value::Decimal(s.engine.mass_deletions().running().percent, 2)),
    field("slave_expires_tracked_keys", |s| s.engine.replica_keys().len().into())
        .gauge("slave_expires_tracked_keys", "Keys with an expiry that were written on a replica."),
    absent("active_defrag_hits").gauge("defrag_hits", "Values that were moved: none are."),
    absent("active_defrag_misses").gauge("defrag_misses", "Values that were left."),
    absent("active_defrag_key_hits").gauge("defrag_key_hits", "Keys that were moved."),
    absent("active_defrag_key_misses").gauge("defrag_key_misses", "Keys that were left."),
    absent("total_active_defrag_time"),
    absent("current_active_defrag_time"),
    field("tracking_total_keys", |s| s.overview().tracked_keys.into())
        .gauge("tracking_total_keys", "Keys that clients cache."),
    field("tracking_total_items", |s| s.overview().tracked_items.into())
        .gauge("tracking_total_items", "These clients, counted at each key."),
    field("tracking_total_prefixes", |s| s.engine.tracking().prefixes().into())
        .gauge("tracking_total_prefixes", "Prefixes that clients are told of."),
    field("unexpected_error_replies", |s| s.engine.persistence_status().loading.errors.load(Relaxed).into())
        .counter("unexpected_error_replies", "Commands of a log that replied an error."),
    field("total_error_replies", |s| sum(s, |worker| &worker.error_replies).into())
        .counter("total_error_replies", "Errors that were replied."),
    field("dump_payload_sanitizations", |s| s.engine.persistence_status().sanitizations.load(Relaxed).into())
        .counter("dump_payload_sanitizations", "Payloads and files that were searched."),
    field("total_reads_processed", |s| sum(s, |worker| &worker.reads).into())
        .counter("total_reads_processed", "Reads of sockets."),
    field("total_writes_processed", |s| sum(s, |worker| &worker.writes).into())
        .counter("total_writes_processed", "Writes to sockets."),
    // The fields about io threads have another meaning than the work of workers between waits.
    absent("io_threaded_reads_processed")
        .counter("io_threaded_reads_processed", "Reads of threads that only read: there are none."),
    absent("io_threaded_writes_processed")
        .counter("io_threaded_writes_processed", "Writes of threads that only write: there are none."),
    absent("io_threaded_freed_objects"),
    absent("io_threaded_accept_processed"),
    absent("io_threaded_poll_processed"),
    absent("io_threaded_total_prefetch_batches"),
    absent("io_threaded_total_prefetch_entries"),
    field("client_query_buffer_limit_disconnections", |s| sum(s, |worker| &worker.query_limit_disconnections).into())
        .counter(
            "client_query_buffer_limit_disconnections_total",
            "Clients that were disconnected for the size of their requests.",
        ),
    field("client_output_buffer_limit_disconnections", |s| s.engine.clients().slow_readers.load(Relaxed).into())
        .counter(
            "client_output_buffer_limit_disconnections_total",
            "Clients that were disconnected for the size of their replies.",
        ),
    field("reply_buffer_shrinks", |s| sum(s, |worker| &worker.reply_buffer_shrinks).into())
        .counter("reply_buffer_shrinks_total", "How often reply buffers were made smaller."),
    field("reply_buffer_expands", |s| sum(s, |worker| &worker.reply_buffer_expands).into())
        .counter("reply_buffer_expands_total", "How often they were made larger."),
    field("eventloop_cycles", |s| s.totals().turns.into())
        .counter("eventloop_cycles_total", "Turns of all event loops."),
    field("eventloop_duration_sum", |s| (s.totals().turn_nanos / 1000).into())
        .counter("eventloop_duration_sum_usec_total", "Microseconds that they took."),
    field("eventloop_duration_cmd_sum", |s| (metrics::command_nanos(s.engine.metrics()) / 1000).into())
        .counter("eventloop_duration_cmd_sum_usec_total", "Microseconds of these that commands took."),
    field("instantaneous_eventloop_cycles_per_sec", |s| s.rates().turns.into())
        .gauge("instantaneous_eventloop_cycles_per_sec", "Turns a second."),
    field("instantaneous_eventloop_duration_usec", |s| {
        (s.rates().turn_nanos.checked_div(s.rates().turns).unwrap_or(0) / 1000).into()
    })
    .gauge("instantaneous_eventloop_duration_usec", "Microseconds of one turn."),
    field("acl_access_denied_auth", |s| denials(s, Denied::Auth).into())
        .counter("acl_access_denied_auth_total", "Wrong names and passwords."),
    field("acl_access_denied_cmd", |s| denials(s, Denied::Command).into())
        .counter("acl_access_denied_cmd_total", "Commands that users may not run."),
    field("acl_access_denied_key", |s| denials(s, Denied::Key).into())
        .counter("acl_access_denied_key_total", "Keys that users may not use."),
    field("acl_access_denied_channel", |s| denials(s, Denied::Channel).into())
        .counter("acl_access_denied_channel_total", "Channels that users may not use."),
    field("acl_access_denied_tls_cert", |s| denials(s, Denied::Certificate).into())
        .counter("acl_access_denied_tls_cert_total", "Certificates that name no user."),
    field("acl_access_denied_db", |s| denials(s, Denied::Database).into())
        .counter("acl_access_denied_db_total", "Databases that users may not use."),
];

pub(super) const DEBUG: &[Field] = &[
    field("eventloop_duration_aof_sum", |s| log_micros(s).into()),
    field("eventloop_duration_cron_sum", |s| (sum(s, |worker| &worker.background_nanos) / 1000).into()),
    field("eventloop_duration_max", |s| (max(s, |worker| &worker.longest_turn_nanos) / 1000).into()),
    field("eventloop_cmd_per_cycle_max", |s| max(s, |worker| &worker.most_commands_a_turn).into()),
];

fn sum(s: &Source<'_>, counter: fn(&WorkerMetrics) -> &Counter) -> u64 {
    metrics::sum(s.engine.metrics(), counter)
}

fn max(s: &Source<'_>, counter: fn(&WorkerMetrics) -> &Counter) -> u64 {
    metrics::max(s.engine.metrics(), counter)
}

/// Returns the bytes that came in: of clients, of replication, and of slots that move.
fn input(totals: &Totals) -> u64 {
    totals.input_bytes + totals.replication_input + totals.slot_import
}

/// Returns the bytes that went out, of the same three.
fn output(totals: &Totals) -> u64 {
    totals.output_bytes + totals.replication_output + totals.slot_export
}

fn kilobytes(bytes: u64) -> Value {
    Value::Decimal(bytes as f64 / 1024.0, 2)
}

fn denials(s: &Source<'_>, kind: Denied) -> u64 {
    s.engine.users().log.count(kind)
}

/// Returns the microseconds that writes of the append-only file took.
fn log_micros(s: &Source<'_>) -> u64 {
    let thread = aof::of(s.engine).map_or(0, |aof| aof.stats.thread_nanos.load(Relaxed));
    (sum(s, |worker| &worker.log_nanos) + thread) / 1000
}
