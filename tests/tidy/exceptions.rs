//! Data for the rules of tidy: the order of crates and rooms, and the exceptions with their reasons. The tables of
//! exceptions only shrink: a line that is not needed is a complaint.

/// Files that may contain `unsafe`. ARCHITECTURE.md names them too, and says what each needs it for.
pub const UNSAFE_FILES: &[&str] = &[
    "crates/allocator/src/lib.rs",
    "crates/commands/src/scripting/looks.rs",
    "crates/commands/src/scripting/lua_host.rs",
    "crates/commands/src/scripting/lua_memory.rs",
    "crates/server/src/process/fatal_signals.rs",
    "crates/server/src/process/thread_stacks.rs",
    "crates/server/src/process/title.rs",
    "crates/server/src/system/prefault.rs",
    "crates/structures/src/crc16.rs",
    "crates/structures/src/entry.rs",
    "crates/structures/src/tagged_pointer.rs",
    "crates/structures/src/log_block.rs",
    "crates/structures/src/block_text.rs",
    "crates/structures/src/hashtable/bucket.rs",
    "crates/structures/src/hashtable/table_entry.rs",
    "crates/structures/src/hashtable/bucket_memory.rs",
    "crates/structures/src/hashtable/mod.rs",
    "crates/structures/src/hyperloglog/simd.rs",
    "crates/structures/src/member.rs",
    "crates/structures/src/sorted_set/indexed.rs",
    "crates/structures/src/sorted_set/scored_member.rs",
    "crates/structures/src/thin_bytes.rs",
];

/// Crates of ours on which a crate may depend. Imports go downwards only.
pub const LAYERS: &[(&str, &[&str])] = &[
    ("admin", &["resp"]),
    ("allocator", &[]),
    ("resp", &[]),
    ("tls", &[]),
    ("structures", &[]),
    ("rdb", &["resp", "structures"]),
    ("replication", &["resp"]),
    ("cluster", &["resp"]),
    ("engine", &["resp", "structures", "rdb", "replication", "cluster"]),
    ("sentinel", &["resp", "engine"]),
    ("persistence", &["resp", "structures", "rdb", "replication", "cluster", "engine"]),
    ("command", &["resp", "structures", "rdb", "replication", "cluster", "engine", "persistence"]),
    (
        "commands",
        &["resp", "structures", "rdb", "replication", "cluster", "engine", "sentinel", "persistence", "command"],
    ),
    (
        "types",
        &["resp", "structures", "rdb", "replication", "cluster", "engine", "sentinel", "persistence", "commands"],
    ),
    (
        "server",
        &[
            "admin",
            "allocator",
            "resp",
            "structures",
            "replication",
            "cluster",
            "engine",
            "sentinel",
            "persistence",
            "commands",
            "types",
            "tls",
        ],
    ),
    ("cli", &["resp", "tls", "replication"]),
    ("benchmark", &["resp", "tls"]),
    ("bench", &["allocator", "resp", "structures", "engine", "persistence", "commands"]),
];

/// The rooms of a crate, from bottom to top: a room imports those before it. The root is `lib.rs` or `main.rs`.
pub const ROOMS: &[(&str, &[&str])] = &[
    (
        "engine",
        &[
            "time",
            "glob",
            "per_worker",
            "locks",
            "config",
            "error",
            "data",
            "acl",
            "scripts",
            "propagation",
            "host",
            "clients",
            "stats",
            "status",
            "snapshot",
            "keyspace",
            "expiry",
            "engine",
            "root",
        ],
    ),
    (
        "commands",
        &[
            "version",
            "pubsub",
            "transactions",
            "scripting",
            "persistence",
            "keys",
            "strings",
            "bitmaps",
            "sorted_sets",
            "geo",
            "hashes",
            "hyperloglogs",
            "lists",
            "replication",
            "cluster",
            "server",
            "sentinel",
            "sets",
            "streams",
            "root",
        ],
    ),
    ("command", &["core", "blocking", "batch", "root"]),
    (
        "sentinel",
        &[
            "model",
            "statements",
            "config_line_list",
            "sentinel_settings",
            "watch",
            "voter",
            "odown",
            "failovers",
            "tilt",
            "sentinel",
            "info_text",
            "commands",
            "root",
        ],
    ),
    (
        "server",
        &[
            "tls",
            "connection",
            "schedule",
            "system",
            "workers",
            "aof",
            "listener",
            "event_loop",
            "process",
            "cluster",
            "sentinel",
            "admin",
            "host",
            "replication",
            "migration",
            "sentinel_within",
            "startup",
            "root",
        ],
    ),
];

/// Rooms that import one above them: crate, room, the one above, how many pairs of files, why.
pub const UPWARD: &[(&str, &str, &str, usize, &str)] =
    &[("engine", "engine", "root", 1, "a macro that is exported has its name at the root")];

/// Crates with a circle of more files than the rule allows: crate, files in the largest, why.
pub const CIRCLES: &[(&str, usize, &str)] = &[];

/// Types whose `impl` is in more files than the rule allows: crate, type, files, why.
pub const SPREAD: &[(&str, &str, usize, &str)] = &[
    ("cluster", "Bus", 36, "a node's state machine, not yet cut into parts with private state"),
    ("engine", "Engine", 7, "the owner of all parts, a file for each area that needs several of them"),
    ("engine", "Keyspace", 10, "the shards, a file for each walk over all of them"),
    ("server", "PrimaryThread", 6, "the thread of a replica's link, a file for each phase"),
    ("server", "Worker", 15, "the event loop, not yet cut into parts with private state"),
];

/// Folders with more files than the rule allows: folder, files, why.
pub const CROWDED: &[(&str, usize, &str)] = &[];

/// Files that may be longer than the rule allows: path, reason.
pub const LONG_FILES: &[(&str, &str)] = &[];

/// Functions that may be longer than the rule allows: path, name, reason.
pub const LONG_FUNCTIONS: &[(&str, &str, &str)] =
    &[("crates/resp/src/book.rs", "examples", "a table of captured bytes, in the form of the protocol's description")];

/// Names that several files have: name, why.
pub const SAME_FILES: &[(&str, &str)] = &[
    ("algebra.rs", "the set operations of two types"),
    ("apply.rs", "the hooks of directives, and what the server does at them"),
    ("book.rs", "one protocol: its bytes, and its client"),
    ("check.rs", "the two checkers of files"),
    ("clock.rs", "the trait, and the server's clock"),
    ("dump.rs", "the command, and the format"),
    ("files.rs", "the trait, and the server's files"),
    ("group.rs", "the commands, and the structure"),
    ("lazy_free.rs", "what is freed later, and the thread that does it"),
    ("lib.rs", "Cargo's name of a crate's root"),
    ("list.rs", "the commands, and the structure"),
    ("load.rs", "the server loads, and the format is read"),
    ("log.rs", "the trait, and the server's log"),
    ("main.rs", "Cargo's name of a program's root"),
    ("memory.rs", "the command, the directives and the trait"),
    ("mod.rs", "Rust's name of a room's front"),
    ("node.rs", "nodes of three structures"),
    ("options.rs", "the options of two programs"),
    ("pop.rs", "the same commands of two types"),
    ("process.rs", "the directives, and the trait"),
    ("random.rs", "the same commands of two types"),
    ("range.rs", "the same commands of two types"),
    ("rewrite.rs", "the command, and the format"),
    ("save.rs", "the server saves, and the format is written"),
    ("scan.rs", "the same commands of two rooms"),
    ("stream.rs", "the commands, and the format"),
    ("testing.rs", "what the unit tests of two crates share"),
    ("tests.rs", "the unit tests of the room that it lies in"),
    ("time.rs", "the command, and the units"),
    ("tracking.rs", "the command, and its state"),
    ("worker_barrier.rs", "the side that waits, and the worker's"),
];
