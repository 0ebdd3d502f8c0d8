//! Snapshots and the append-only file.

use crate::config::apply::Apply::{Engine, EngineChange};
use crate::config::check;
use crate::config::directive::{Directive, directives};
use crate::config::entry::{Entry, INT_MAX, INT_MIN, Kind, choice, flag, integer, memory, special, text};

directives! { after super::data::END;
    AOF_DISABLE_AUTO_GC = flag("aof-disable-auto-gc", false).hidden();
    AOF_LOAD_TRUNCATED = flag("aof-load-truncated", true);
    AOF_REWRITE_CPULIST = text("aof-rewrite-cpulist", "").alias("aof_rewrite_cpulist").immutable();
    AOF_REWRITE_INCREMENTAL_FSYNC = flag("aof-rewrite-incremental-fsync", true);
    AOF_TIMESTAMP_ENABLED = flag("aof-timestamp-enabled", false).applied(EngineChange(|engine| engine.append_timestamps()));
    AOF_USE_RDB_PREAMBLE = flag("aof-use-rdb-preamble", true);
    APPENDDIRNAME = text("appenddirname", "appendonlydir").keeps_empty().checked(check::append_dirname).immutable();
    APPENDFILENAME = text("appendfilename", "appendonly.aof").keeps_empty().checked(check::append_filename).immutable();
    APPENDFSYNC = choice("appendfsync", &["everysec", "always", "no"], "everysec").applied(Engine(|engine| engine.append_fsync()));
    APPENDONLY = flag("appendonly", false).denied_while_loading().applied(EngineChange(|engine| engine.append_only()));
    AUTO_AOF_REWRITE_MIN_SIZE = memory("auto-aof-rewrite-min-size", 64 << 20, 0, i64::MAX);
    AUTO_AOF_REWRITE_PERCENTAGE = integer("auto-aof-rewrite-percentage", 100, 0, INT_MAX);
    DBFILENAME = text("dbfilename", "dump.rdb").keeps_empty().checked(check::db_filename).protected();
    DIR = special("dir", Kind::Dir, ".").protected().denied_while_loading();
    KEY_LOAD_DELAY = integer("key-load-delay", 0, INT_MIN, INT_MAX).hidden();
    LOADING_PROCESS_EVENTS_INTERVAL_BYTES = integer("loading-process-events-interval-bytes", 2097152, 1024, INT_MAX).hidden().unsupported("Clients of Cinnabar are served by other threads than the one that loads");
    NO_APPENDFSYNC_ON_REWRITE = flag("no-appendfsync-on-rewrite", false);
    RDB_DEL_SYNC_FILES = flag("rdb-del-sync-files", false).unsupported("Cinnabar has no replication");
    RDB_KEY_SAVE_DELAY = integer("rdb-key-save-delay", 0, INT_MIN, INT_MAX).hidden();
    RDB_SAVE_INCREMENTAL_FSYNC = flag("rdb-save-incremental-fsync", true);
    RDB_VERSION_CHECK = choice("rdb-version-check", &["strict", "relaxed"], "strict");
    // Whose form is taken for what the formats of Redis and Valkey have in different ways.
    RDB_VERSION_COMPAT = choice("rdb-version-compat", &["valkey", "redis"], "valkey");
    RDBCHECKSUM = flag("rdbchecksum", true).immutable();
    RDBCOMPRESSION = flag("rdbcompression", true);
    SAVE = special("save", Kind::Save, "3600 1 300 100 60 10000").applied(EngineChange(|engine| engine.save_failures()));
    STOP_WRITES_ON_BGSAVE_ERROR = flag("stop-writes-on-bgsave-error", true).applied(EngineChange(|engine| engine.save_failures()));
}
