//! INFO persistence: saving, loading, and the state of the append-only file.

use crate::server::info::absent;
use crate::server::info::field::{Field, Value, absent, field};
use crate::server::info::info_source::Source;
use engine::status::persistence_status::{Loading, SaveProgress};
use engine::time::SteadyMs;
use persistence::aof::{self, Aof, State};
use std::sync::atomic::Ordering::Relaxed;

pub(super) const PERSISTENCE: &[Field] = &[
    field("loading", |s| s.engine.persistence_status().deny_reasons().is_loading().into())
        .gauge("loading_dump_file", "Whether the data set is being loaded."),
    field("async_loading", |s| s.engine.persistence_status().deny_reasons().is_async_loading().into())
        .gauge("async_loading", "Whether another data set is being loaded beside the one that is served."),
    field("current_cow_peak", |s| progress(s).copied_peak.load(Relaxed).into()),
    field("current_cow_size", |s| progress(s).copied.load(Relaxed).into()),
    absent("current_cow_size_age"),
    field("current_fork_perc", |s| saved_percent(progress(s))),
    field("current_save_keys_processed", |s| progress(s).keys.load(Relaxed).into()),
    field("current_save_keys_total", |s| progress(s).total.load(Relaxed).into()),
    field("rdb_changes_since_last_save", |s| unsaved(s).into())
        .gauge("rdb_changes_since_last_save", "Changes since the last snapshot."),
    field("rdb_bgsave_in_progress", |s| is_saving(s).into())
        .gauge("rdb_bgsave_in_progress", "Whether a snapshot is being saved."),
    field("rdb_last_save_time", |s| s.engine.persistence_status().last_save.load(Relaxed).into())
        .gauge("rdb_last_save_timestamp_seconds", "Unix time of the last snapshot."),
    field("rdb_last_bgsave_status", |s| Value::well(!s.engine.persistence_status().has_failed()))
        .gauge("rdb_last_bgsave_status", "Whether the last snapshot was saved well."),
    field("rdb_last_bgsave_time_sec", |s| s.engine.persistence_status().last_seconds().unwrap_or(-1).into())
        .gauge("rdb_last_bgsave_duration_sec", "Seconds that it took; -1 without one."),
    field("rdb_current_bgsave_time_sec", |s| {
        let save = s.engine.persistence_status().started_at.load(Relaxed);
        let for_replicas = || s.engine.replication().snapshots.since().map_or(0, |since| since.0);
        seconds_since(s, if save > 0 { save } else { for_replicas() }).into()
    })
    .gauge("rdb_current_bgsave_duration_sec", "Seconds since the present one began; -1 without one."),
    field("rdb_saves", |s| s.engine.persistence_status().count.load(Relaxed).into())
        .counter("rdb_saves_total", "Snapshots that were begun."),
    field("rdb_last_cow_size", |s| progress(s).last_copied.load(Relaxed).into())
        .gauge("rdb_last_cow_size_bytes", "Values that the last snapshot wrote down before they were changed."),
    field("rdb_last_load_keys_expired", |s| s.engine.persistence_status().loading.keys_expired.load(Relaxed).into())
        .gauge("rdb_last_load_expired_keys", "Keys of the last load that had expired."),
    field("rdb_last_load_keys_loaded", |s| s.engine.persistence_status().loading.keys_loaded.load(Relaxed).into())
        .gauge("rdb_last_load_loaded_keys", "Keys that it has brought."),
    field("aof_enabled", |s| log(s).is_some().into()).gauge("aof_enabled", "Whether there is an append-only file."),
    field("aof_rewrite_in_progress", |s| aof::of(s.engine).is_some_and(|aof| aof.stats.rewriting.load(Relaxed)).into())
        .gauge("aof_rewrite_in_progress", "Whether it is being rewritten."),
    field("aof_rewrite_scheduled", |s| aof::of(s.engine).is_some_and(|aof| aof.stats.scheduled.load(Relaxed)).into())
        .gauge("aof_rewrite_scheduled", "Whether a rewrite is to begin."),
    field("aof_last_rewrite_time_sec", |s| {
        aof::of(s.engine).map_or(-1, |aof| aof.stats.last_seconds.load(Relaxed) - 1).into()
    })
    .gauge("aof_last_rewrite_duration_sec", "Seconds that the last rewrite took; -1 without one."),
    field("aof_current_rewrite_time_sec", |s| {
        seconds_since(s, aof::of(s.engine).map_or(0, |aof| aof.stats.started_at.load(Relaxed))).into()
    })
    .gauge("aof_current_rewrite_duration_sec", "Seconds since the present one began; -1 without one."),
    field("aof_last_bgrewrite_status", |s| {
        Value::well(!aof::of(s.engine).is_some_and(|aof| aof.stats.last_failed.load(Relaxed)))
    })
    .gauge("aof_last_bgrewrite_status", "Whether the last rewrite went well."),
    field("aof_rewrites", |s| aof::of(s.engine).map_or(0, |aof| aof.stats.rewrites.load(Relaxed)).into()),
    field("aof_rewrites_consecutive_failures", |s| {
        aof::of(s.engine).map_or(0, |aof| aof.stats.failures.load(Relaxed)).into()
    }),
    field("aof_last_write_status", |s| Value::well(!aof::of(s.engine).is_some_and(Aof::has_failed)))
        .gauge("aof_last_write_status", "Whether the last write went well."),
    absent("aof_last_cow_size").gauge("aof_last_cow_size_bytes", "Bytes that child processes copied: there are none."),
    absent("module_fork_in_progress").gauge("module_fork_in_progress", "Whether a module has forked: there are none."),
    absent("module_fork_last_cow_size").gauge("module_fork_last_cow_size", "Bytes that it copied."),
    absent("slot_migration_fork_in_progress"),
    // The log's sizes exist only while it is on.
    field("aof_current_size", |s| Value::of(log(s), |aof| aof.journal.size.load(Relaxed).into()))
        .gauge("aof_current_size_bytes", "The size of the append-only file."),
    field("aof_base_size", |s| Value::of(log(s), |aof| aof.stats.base_size.load(Relaxed).into()))
        .gauge("aof_base_size_bytes", "Its size after the last rewrite."),
    field("aof_pending_rewrite", |s| Value::of(log(s), |aof| (aof.state() == State::Waiting).into()))
        .gauge("aof_pending_rewrite", "Whether the file begins with a rewrite that has not ended."),
    field("aof_buffer_length", |s| Value::of(log(s), |aof| aof.behind().into()))
        .gauge("aof_buffer_length", "Bytes that wait to be written."),
    field("aof_pending_bio_fsync", |s| Value::of(log(s), |aof| aof.journal.is_syncing().into()))
        .gauge("aof_pending_bio_fsync", "Whether it is being synced."),
    field("aof_delayed_fsync", |s| Value::of(log(s), |aof| aof.stats.delayed.load(Relaxed).into()))
        .gauge("aof_delayed_fsync", "How often writing waited for that."),
    // While the data set is loaded: how far the file has been read.
    field("loading_start_time", |s| Value::of(loading(s), |load| load.started_at.load(Relaxed).into())),
    field("loading_total_bytes", |s| Value::of(loading(s), |load| load.total_bytes.load(Relaxed).into())),
    field("loading_rdb_used_mem", |s| Value::of(loading(s), |_| absent::constant("loading_rdb_used_mem"))),
    field("loading_loaded_bytes", |s| Value::of(loading(s), |load| load.loaded_bytes.load(Relaxed).into())),
    field("loading_loaded_perc", |s| Value::of(loading(s), loaded_percent)),
    field("loading_eta_seconds", loading_eta),
];

fn progress<'s>(s: &'s Source<'_>) -> &'s SaveProgress {
    &s.engine.persistence_status().progress
}

fn saved_percent(progress: &SaveProgress) -> Value {
    let (keys, total) = (progress.keys.load(Relaxed), progress.total.load(Relaxed));
    Value::Decimal(if total == 0 { 0.0 } else { keys as f64 / total as f64 * 100.0 }, 2)
}

fn unsaved(s: &Source<'_>) -> u64 {
    s.overview().stats.dirty.saturating_sub(s.engine.persistence_status().changes.load(Relaxed))
}

fn is_saving(s: &Source<'_>) -> bool {
    s.engine.persistence_status().is_running_in_background() || s.engine.replication().snapshots.since().is_some()
}

/// Returns the seconds since a beginning; -1 for one of 0, which is none.
fn seconds_since(s: &Source<'_>, began: i64) -> i64 {
    if began > 0 { s.engine.steady_now().since(SteadyMs(began)).max(0) / 1000 } else { -1 }
}

/// Returns the append-only file while it is on.
fn log<'s>(s: &'s Source<'_>) -> Option<&'s Aof> {
    aof::of(s.engine).filter(|aof| aof.state() != State::Off)
}

/// Returns the progress of loading, while the data set is loaded.
fn loading<'s>(s: &'s Source<'_>) -> Option<&'s Loading> {
    let status = s.engine.persistence_status();
    let is_loading = status.deny_reasons().is_loading() || status.deny_reasons().is_async_loading();
    is_loading.then_some(&status.loading)
}

fn loaded_percent(load: &Loading) -> Value {
    let (total, loaded) = (load.total_bytes.load(Relaxed), load.loaded_bytes.load(Relaxed));
    Value::Decimal(loaded as f64 / total.max(1) as f64 * 100.0, 2)
}

fn loading_eta(s: &Source<'_>) -> Value {
    Value::of(loading(s), |load| {
        let elapsed = (s.now_us.seconds() - load.started_at.load(Relaxed)).max(0) as u64;
        let loaded = load.loaded_bytes.load(Relaxed);
        let left = load.total_bytes.load(Relaxed).saturating_sub(loaded);
        (elapsed * left).checked_div(loaded).unwrap_or(1).into()
    })
}
