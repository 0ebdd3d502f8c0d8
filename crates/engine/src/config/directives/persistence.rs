//! Snapshots and the append-only file.

use crate::config::apply::Apply::{Engine, EngineChange};
use crate::config::directive::{Directive, directives};
use crate::config::directive_entry::{
    DirectiveEntry, DirectiveKind, INT_MAX, INT_MIN, Unmet, choice, flag, integer, memory, special, text,
};
use crate::config::validators;

directives! { after super::data::END;
    /// Leave files of the log that are no longer needed in their folder.
    AOF_DISABLE_AUTO_GC = flag("aof-disable-auto-gc", false).hidden();
    /// Load a log whose end is cut off, up to its last whole command, instead of refusing to start.
    AOF_LOAD_TRUNCATED = flag("aof-load-truncated", true);
    /// Processors that rewrites of the log run on.
    AOF_REWRITE_CPULIST = text("aof-rewrite-cpulist", "").alias("aof_rewrite_cpulist").immutable();
    /// Sync the file of a rewrite every few megabytes.
    AOF_REWRITE_INCREMENTAL_FSYNC = flag("aof-rewrite-incremental-fsync", true);
    /// Note the time in the log, for restores to a point in time.
    AOF_TIMESTAMP_ENABLED = flag("aof-timestamp-enabled", false).applied(EngineChange(|engine| engine.append_timestamps()));
    /// The base of a rewritten log is a snapshot instead of commands.
    AOF_USE_RDB_PREAMBLE = flag("aof-use-rdb-preamble", true);
    /// The folder of the append-only file, inside `dir`.
    APPENDDIRNAME = text("appenddirname", "appendonlydir").keeps_empty().checked(validators::append_dirname).immutable();
    /// Beginning of the names of the log's files.
    APPENDFILENAME = text("appendfilename", "appendonly.aof").keeps_empty().checked(validators::append_filename).immutable();
    /// When the log is synced: before every reply, once a second, or when the system does.
    APPENDFSYNC = choice("appendfsync", &["everysec", "always", "no"], "everysec").applied(Engine(|engine| engine.append_fsync()));
    /// Keep a log of all changes.
    APPENDONLY = flag("appendonly", false).denied_while_loading().applied(EngineChange(|engine| engine.append_only()));
    /// Bytes that the log must have before it is rewritten by itself.
    AUTO_AOF_REWRITE_MIN_SIZE = memory("auto-aof-rewrite-min-size", 64 << 20, 0, i64::MAX);
    /// Growth since the last rewrite, in percent, at which the log is rewritten; 0 never does it.
    AUTO_AOF_REWRITE_PERCENTAGE = integer("auto-aof-rewrite-percentage", 100, 0, INT_MAX);
    /// The name of the snapshot.
    DBFILENAME = text("dbfilename", "dump.rdb").keeps_empty().checked(validators::db_filename).protected();
    /// The working directory, where snapshot and log lie.
    DIR = special("dir", DirectiveKind::Dir, ".").protected().denied_while_loading();
    /// Microseconds to wait after each loaded key, for tests.
    KEY_LOAD_DELAY = integer("key-load-delay", 0, INT_MIN, INT_MAX).hidden();
    /// Bytes after which a load serves clients, at the latest. They are served all the time, by other threads.
    LOADING_PROCESS_EVENTS_INTERVAL_BYTES = integer("loading-process-events-interval-bytes", 2097152, 1024, INT_MAX).hidden().unsupported("Clients of Cinnabar are served by other threads than the one that loads").unmet(Unmet::Shown);
    /// Do not sync the log while a snapshot or a rewrite is written.
    NO_APPENDFSYNC_ON_REWRITE = flag("no-appendfsync-on-rewrite", false);
    /// Delete the snapshot of a synchronization.
    RDB_DEL_SYNC_FILES = flag("rdb-del-sync-files", false);
    /// Microseconds to wait after each saved key, for tests.
    RDB_KEY_SAVE_DELAY = integer("rdb-key-save-delay", 0, INT_MIN, INT_MAX).hidden();
    /// Sync the snapshot every few megabytes.
    RDB_SAVE_INCREMENTAL_FSYNC = flag("rdb-save-incremental-fsync", true);
    /// Refuse snapshots of versions that are not known (`strict`), or try them (`relaxed`).
    RDB_VERSION_CHECK = choice("rdb-version-check", &["strict", "relaxed"], "strict");
    // The dialect of the formats that Redis and Valkey have in different ways.
    /// Server whose form DUMP and snapshots take where the forms of Redis and Valkey differ.
    RDB_VERSION_COMPAT = choice("rdb-version-compat", &["valkey", "redis"], "valkey");
    /// Snapshots end in a checksum, which loads check.
    RDBCHECKSUM = flag("rdbchecksum", true).immutable();
    /// Compress strings in snapshots.
    RDBCOMPRESSION = flag("rdbcompression", true);
    /// Snapshots are taken after so many seconds with at least so many changes; an empty text takes none.
    SAVE = special("save", DirectiveKind::Save, "3600 1 300 100 60 10000").applied(EngineChange(|engine| engine.save_failures()));
    /// Refuse writes after a snapshot in the background has failed.
    STOP_WRITES_ON_BGSAVE_ERROR = flag("stop-writes-on-bgsave-error", true).applied(EngineChange(|engine| engine.save_failures()));
}
