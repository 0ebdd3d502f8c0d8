//! The sections Memory and Scripting Engines of INFO.

use crate::server::info::field::{Field, Value, absent, field};
use crate::server::info::info_source::Source;
use crate::server::memory::{difference, ratio};
use engine::config::Directive;

pub(super) const MEMORY: &[Field] = &[
    field("used_memory", |s| s.memory().allocated.into()).gauge("memory_used_bytes", "Memory that is allocated."),
    field("used_memory_human", |s| Value::Human(s.memory().allocated)),
    field("used_memory_rss", |s| s.memory().rss.into()).gauge("memory_used_rss_bytes", "Memory that the process has."),
    field("used_memory_rss_human", |s| Value::Human(s.memory().rss)),
    field("used_memory_peak", |s| s.memory().peak.into())
        .gauge("memory_used_peak_bytes", "The most that was allocated."),
    field("used_memory_peak_human", |s| Value::Human(s.memory().peak)),
    field("used_memory_peak_perc", |s| Value::Percent(ratio(s.memory().allocated, s.memory().peak))),
    field("used_memory_overhead", |s| s.accounts().overhead().into())
        .gauge("memory_used_overhead_bytes", "Allocated bytes that are not keys and values."),
    field("used_memory_startup", |s| s.memory().startup.into())
        .gauge("memory_used_startup_bytes", "Bytes allocated when the server had started."),
    field("used_memory_dataset", |s| s.accounts().dataset().into())
        .gauge("memory_used_dataset_bytes", "Keys and values."),
    field("used_memory_dataset_perc", |s| Value::Percent(ratio(s.accounts().dataset(), s.accounts().since_start()))),
    field("allocator_allocated", |s| s.memory().allocated.into())
        .gauge("allocator_allocated_bytes", "Bytes that the allocator has given out."),
    field("allocator_active", |s| s.memory().active.into())
        .gauge("allocator_active_bytes", "Pages of which it has given something out."),
    field("allocator_resident", |s| s.memory().resident.into())
        .gauge("allocator_resident_bytes", "Pages that the allocator has."),
    field("allocator_muzzy", |s| s.memory().muzzy.into())
        .gauge("allocator_muzzy_bytes", "Pages that the system may take back."),
    field("total_system_memory", |s| s.memory().total_system.into())
        .gauge("total_system_memory_bytes", "Memory of the machine."),
    field("total_system_memory_human", |s| Value::Human(s.memory().total_system)),
    field("used_memory_lua", |s| interpreters(s).into()).gauge("memory_used_lua_bytes", "Interpreters of scripts."),
    field("used_memory_vm_eval", |s| interpreters(s).into())
        .gauge("memory_used_vm_eval_bytes", "Interpreters of scripts."),
    field("used_memory_lua_human", |s| Value::Human(interpreters(s))),
    field("used_memory_scripts_eval", |s| s.accounts().scripts.into())
        .gauge("memory_used_scripts_eval_bytes", "Texts of scripts."),
    field("number_of_cached_scripts", |s| s.engine.scripts().totals().0.into())
        .gauge("number_of_cached_scripts", "Scripts that are known by their names."),
    field("number_of_functions", |s| {
        s.engine.scripts().libraries().iter().map(|library| library.functions.len()).sum::<usize>().into()
    })
    .gauge("number_of_functions", "Functions of all libraries."),
    field("number_of_libraries", |s| s.engine.scripts().libraries().len().into())
        .gauge("number_of_libraries", "Libraries of functions."),
    absent("used_memory_vm_functions")
        .gauge("memory_used_vm_functions_bytes", "Interpreters that run functions only: there are none."),
    field("used_memory_vm_total", |s| interpreters(s).into()).gauge("memory_used_vm_total", "Bytes of interpreters."),
    field("used_memory_vm_total_human", |s| Value::Human(interpreters(s))),
    field("used_memory_functions", |s| s.accounts().functions.into())
        .gauge("memory_used_functions_bytes", "Libraries of functions."),
    field("used_memory_scripts", |s| (s.accounts().scripts + s.accounts().functions).into())
        .gauge("memory_used_scripts_bytes", "Texts of scripts and libraries of functions."),
    field("used_memory_scripts_human", |s| Value::Human(s.accounts().scripts + s.accounts().functions)),
    field("maxmemory", |s| s.config.bytes(Directive::MAXMEMORY).into())
        .gauge("memory_max_bytes", "The limit of memory; 0 for none."),
    field("maxmemory_human", |s| Value::Human(s.config.bytes(Directive::MAXMEMORY))),
    field("maxmemory_policy", |s| s.config.choice(Directive::MAXMEMORY_POLICY).into()),
    field("allocator_frag_ratio", |s| Value::Decimal(ratio(s.memory().active, s.memory().allocated), 2))
        .gauge("allocator_frag_ratio", "Active to allocated bytes."),
    field("allocator_frag_bytes", |s| difference(s.memory().active, s.memory().allocated).into())
        .gauge("allocator_frag_bytes", "Active bytes beyond those allocated."),
    field("allocator_rss_ratio", |s| Value::Decimal(ratio(s.memory().resident, s.memory().active), 2))
        .gauge("allocator_rss_ratio", "Resident to active bytes."),
    field("allocator_rss_bytes", |s| difference(s.memory().resident, s.memory().active).into())
        .gauge("allocator_rss_bytes", "Resident bytes beyond those active."),
    field("rss_overhead_ratio", |s| Value::Decimal(ratio(s.memory().rss, s.memory().resident), 2)),
    field("rss_overhead_bytes", |s| difference(s.memory().rss, s.memory().resident).into()),
    field("mem_fragmentation_ratio", |s| Value::Decimal(ratio(s.memory().rss, s.memory().allocated), 2))
        .gauge("mem_fragmentation_ratio", "Bytes of the process to allocated bytes."),
    field("mem_fragmentation_bytes", |s| difference(s.memory().rss, s.memory().allocated).into())
        .gauge("mem_fragmentation_bytes", "Bytes of the process beyond those allocated."),
    // Nothing else is left out.
    field("mem_not_counted_for_evict", |s| s.engine.not_counted().into())
        .gauge("mem_not_counted_for_eviction_bytes", "Bytes that the limit of memory does not count."),
    field("mem_replication_backlog", |s| s.accounts().backlog.into())
        .gauge("mem_replication_backlog_bytes", "The stream for replicas that come back."),
    field("mem_total_replication_buffers", |s| {
        (s.accounts().backlog + s.accounts().replicas + s.accounts().buffered).into()
    })
    .gauge("mem_total_replication_buffers_bytes", "The stream for all replicas."),
    field("mem_replicas_repl_buffer", |s| s.accounts().buffered.into())
        .gauge("mem_replicas_repl_buffer_bytes", "The primary's stream that waits for the end of its snapshot."),
    field("mem_clients_slaves", |s| s.accounts().replicas.into())
        .gauge("mem_clients_slaves", "Bytes of the stream that replicas have still to be sent."),
    field("mem_clients_normal", |s| s.accounts().clients.into())
        .gauge("mem_clients_normal", "Bytes that clients take up."),
    field("mem_cluster_links", |_| crate::cluster::link_counts().1.into())
        .gauge("mem_cluster_links_bytes", "Bytes that wait to be sent over the cluster's bus."),
    field("mem_cluster_slot_import", |s| s.accounts().slot_imports.into()),
    field("mem_cluster_slot_export", |s| s.accounts().slot_exports.into()),
    field("mem_aof_buffer", |s| s.accounts().log.into())
        .gauge("mem_aof_buffer_bytes", "Bytes that wait to be written to the append-only file."),
    field("mem_allocator", |s| s.memory().allocator.into()),
    field("mem_overhead_db_hashtable_rehashing", |s| s.accounts().resizing().into())
        .gauge("mem_overhead_db_hashtable_rehashing_bytes", "Tables that are being replaced."),
    absent("active_defrag_running")
        .gauge("active_defrag_running", "Whether memory is being defragmented: it never is."),
    field("lazyfree_pending_objects", |s| s.memory().lazy_pending.into())
        .gauge("lazyfree_pending_objects", "Values that are to be freed in the background."),
    field("lazyfreed_objects", |s| s.memory().lazy_freed.into())
        .gauge("lazyfreed_objects", "Values that were freed in the background."),
];

/// The one engine: Lua, with the interpreters of all workers.
pub(super) const ENGINES: &[Field] = &[
    absent("engines_count").gauge("scripting_engines_count", "Engines of scripts."),
    field("engines_total_used_memory", |s| s.engine.scripts().interpreter_bytes().into())
        .gauge("scripting_engines_memory_used_bytes", "Memory of interpreters."),
    field("engines_total_memory_overhead", |s| size_of_val(s.engine.scripts()).into())
        .gauge("scripting_engines_memory_overhead_bytes", "Memory of what keeps them."),
    field("engine_0", engine_0),
];

/// Returns the bytes of interpreters. An interpreter runs scripts and functions alike, and is counted once, with the
/// scripts.
fn interpreters(s: &Source<'_>) -> u64 {
    s.engine.scripts().interpreter_bytes() as u64
}

fn engine_0(s: &Source<'_>) -> Value {
    let (used, overhead) = (s.engine.scripts().interpreter_bytes(), size_of_val(s.engine.scripts()));
    Value::Parts(vec![
        ("name", "LUA".into()),
        ("module", "lua".into()),
        ("abi_version", 4u64.into()),
        ("used_memory", used.into()),
        ("memory_overhead", overhead.into()),
    ])
}
