//! The fields of INFO for features that this server lacks: each with its constant value, and the capability that will
//! change it.
//!
//! A change that adds a capability removes its lines from here, which leads to the places that must then show the
//! actual values. A test checks that INFO prints no other constants.

use crate::server::info::field::Value;
use crate::server::module;

const DEFRAGMENTATION: &str = "active defragmentation";
const MODULES: &str = "modules";
/// Capability of threads for input and output: here every worker reads, writes and executes.
const IO_THREADS: &str = "threads for input and output only";
/// Capability of child processes: here threads save, next to the workers.
const CHILDREN: &str = "child processes";
/// Capability of expiry by samples: here it is known exactly which keys are due.
const SAMPLED_EXPIRY: &str = "expiry by samples";

/// Field, value, and the capability that it waits for.
pub const FIELDS: &[(&str, &str, &str)] = &[
    ("gcc_version", "0.0.0", "builds by a C compiler"),
    ("module", module::AS_FIELD, MODULES),
    ("engines_count", "1", "engines of scripts beside Lua"),
    ("used_memory_vm_functions", "0", "interpreters that run functions only"),
    ("active_defrag_running", "0", DEFRAGMENTATION),
    ("current_cow_size_age", "0", CHILDREN),
    ("aof_last_cow_size", "0", CHILDREN),
    ("module_fork_in_progress", "0", MODULES),
    ("module_fork_last_cow_size", "0", MODULES),
    ("slot_migration_fork_in_progress", "0", CHILDREN),
    ("loading_rdb_used_mem", "0", "memory use as a file's header tells it"),
    ("expired_stale_perc", "0.00", SAMPLED_EXPIRY),
    ("expired_keys_with_volatile_items_stale_perc", "0.00", SAMPLED_EXPIRY),
    ("expired_time_cap_reached_count", "0", SAMPLED_EXPIRY),
    ("active_defrag_hits", "0", DEFRAGMENTATION),
    ("active_defrag_misses", "0", DEFRAGMENTATION),
    ("active_defrag_key_hits", "0", DEFRAGMENTATION),
    ("active_defrag_key_misses", "0", DEFRAGMENTATION),
    ("total_active_defrag_time", "0", DEFRAGMENTATION),
    ("current_active_defrag_time", "0", DEFRAGMENTATION),
    ("io_threaded_reads_processed", "0", IO_THREADS),
    ("io_threaded_writes_processed", "0", IO_THREADS),
    ("io_threaded_freed_objects", "0", IO_THREADS),
    ("io_threaded_accept_processed", "0", IO_THREADS),
    ("io_threaded_poll_processed", "0", IO_THREADS),
    ("io_threaded_total_prefetch_batches", "0", IO_THREADS),
    ("io_threaded_total_prefetch_entries", "0", IO_THREADS),
    ("used_cpu_sys_children", "0.000000", CHILDREN),
    ("used_cpu_user_children", "0.000000", CHILDREN),
];

/// Returns the value in INFO of a field of the table: a number, for those that are one.
pub(super) fn constant(name: &str) -> Value {
    match FIELDS.iter().find(|(known, ..)| *known == name).map(|(_, value, _)| *value) {
        Some("0") => Value::Unsigned(0),
        Some("1") => Value::Unsigned(1),
        Some("0.00") => Value::Decimal(0.0, 2),
        Some("0.000000") => Value::Decimal(0.0, 6),
        Some(text) => Value::Word(text),
        None => Value::Word(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_gives_a_reason_for_every_constant() {
        let page = include_str!("../../../../../docs/different.md");
        for (name, ..) in FIELDS {
            assert!(page.contains(&format!("`{name}`")), "docs/different.md lacks {name}");
        }
    }
}
