//! INFO persistence: saving, loading, and the state of the append-only file.

use super::section_text::{Source, Text};
use crate::persistence::aof;
use engine::time::SteadyMs;
use std::sync::atomic::Ordering::Relaxed;

pub(super) fn persistence(text: &mut Text, source: &Source<'_>) {
    let saves = source.engine.persistence_status();
    text.field("loading", u8::from(saves.deny_reasons().is_loading()));
    text.field("async_loading", u8::from(saves.deny_reasons().is_async_loading()));
    let progress = &saves.progress;
    let (keys, total) = (progress.keys.load(Relaxed), progress.total.load(Relaxed));
    text.field("current_cow_peak", progress.copied_peak.load(Relaxed));
    text.field("current_cow_size", progress.copied.load(Relaxed));
    text.absent(&["current_cow_size_age"]);
    text.field(
        "current_fork_perc",
        format_args!("{:.2}", if total == 0 { 0.0 } else { keys as f64 / total as f64 * 100.0 }),
    );
    text.field("current_save_keys_processed", keys);
    text.field("current_save_keys_total", total);
    let unsaved = source.overview.stats.dirty.saturating_sub(saves.changes.load(Relaxed));
    text.field("rdb_changes_since_last_save", unsaved);
    let is_saving = saves.is_running_in_background() || source.engine.replication().snapshots.load(Relaxed) > 0;
    text.field("rdb_bgsave_in_progress", u8::from(is_saving));
    text.field("rdb_last_save_time", saves.last_save.load(Relaxed));
    text.field("rdb_last_bgsave_status", if saves.has_failed() { "err" } else { "ok" });
    text.field("rdb_last_bgsave_time_sec", saves.last_seconds().unwrap_or(-1));
    let began = Some(saves.started_at.load(Relaxed)).filter(|began| *began > 0);
    let running = began.map_or(-1, |began| source.engine.steady_now().since(SteadyMs(began)).max(0) / 1000);
    text.field("rdb_current_bgsave_time_sec", running);
    text.field("rdb_saves", saves.count.load(Relaxed));
    text.field("rdb_last_cow_size", progress.last_copied.load(Relaxed));
    text.field("rdb_last_load_keys_expired", saves.loading.keys_expired.load(Relaxed));
    text.field("rdb_last_load_keys_loaded", saves.loading.keys_loaded.load(Relaxed));
    let aof = aof::report(source.engine);
    aof.fields.iter().for_each(|(name, value)| text.field(name, value));
    text.absent(&[
        "aof_last_cow_size",
        "module_fork_in_progress",
        "module_fork_last_cow_size",
        "slot_migration_fork_in_progress",
    ]);
    aof.sizes.iter().for_each(|(name, value)| text.field(name, value));
    if saves.deny_reasons().is_loading() || saves.deny_reasons().is_async_loading() {
        loading(text, source);
    }
}

/// Writes how far the file has been read.
fn loading(text: &mut Text, source: &Source<'_>) {
    let loading = &source.engine.persistence_status().loading;
    let began = loading.started_at.load(Relaxed);
    let (total, loaded) = (loading.total_bytes.load(Relaxed), loading.loaded_bytes.load(Relaxed));
    let elapsed = (source.now_us.seconds() - began).max(0) as u64;
    let left = total.saturating_sub(loaded);
    text.field("loading_start_time", began);
    text.field("loading_total_bytes", total);
    text.absent(&["loading_rdb_used_mem"]);
    text.field("loading_loaded_bytes", loaded);
    text.field("loading_loaded_perc", format_args!("{:.2}", loaded as f64 / total.max(1) as f64 * 100.0));
    text.field("loading_eta_seconds", (elapsed * left).checked_div(loaded).unwrap_or(1));
}
