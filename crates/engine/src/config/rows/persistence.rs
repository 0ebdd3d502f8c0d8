//! Snapshots and the append-only file.

use crate::config::check;
use crate::config::directive::Directive::*;
use crate::config::row::{INT_MAX, INT_MIN, Kind, Row, choice, flag, integer, memory, special, text};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    flag(AofDisableAutoGc, "aof-disable-auto-gc", false).hidden(),
    flag(AofLoadTruncated, "aof-load-truncated", true),
    text(AofRewriteCpulist, "aof-rewrite-cpulist", "").alias("aof_rewrite_cpulist").immutable(),
    flag(AofRewriteIncrementalFsync, "aof-rewrite-incremental-fsync", true),
    flag(AofTimestampEnabled, "aof-timestamp-enabled", false),
    flag(AofUseRdbPreamble, "aof-use-rdb-preamble", true),
    text(AppendDirname, "appenddirname", "appendonlydir").keeps_empty().checked(check::append_dirname).immutable(),
    text(AppendFilename, "appendfilename", "appendonly.aof").keeps_empty().checked(check::append_filename).immutable(),
    choice(AppendFsync, "appendfsync", &["everysec", "always", "no"], "everysec"),
    flag(AppendOnly, "appendonly", false).denied_while_loading(),
    memory(AutoAofRewriteMinSize, "auto-aof-rewrite-min-size", 64 << 20, 0, i64::MAX),
    integer(AutoAofRewritePercentage, "auto-aof-rewrite-percentage", 100, 0, INT_MAX),
    text(DbFilename, "dbfilename", "dump.rdb").keeps_empty().checked(check::db_filename).protected(),
    special(Dir, "dir", Kind::Dir, ".").protected().denied_while_loading(),
    integer(KeyLoadDelay, "key-load-delay", 0, INT_MIN, INT_MAX).hidden(),
    integer(LoadingProcessEventsIntervalBytes, "loading-process-events-interval-bytes", 2097152, 1024, INT_MAX).hidden().unsupported("Clients of Cinnabar are served by other threads than the one that loads"),
    flag(NoAppendFsyncOnRewrite, "no-appendfsync-on-rewrite", false),
    flag(RdbDelSyncFiles, "rdb-del-sync-files", false).unsupported("Cinnabar has no replication"),
    integer(RdbKeySaveDelay, "rdb-key-save-delay", 0, INT_MIN, INT_MAX).hidden(),
    flag(RdbSaveIncrementalFsync, "rdb-save-incremental-fsync", true),
    choice(RdbVersionCheck, "rdb-version-check", &["strict", "relaxed"], "strict"),
    // Whose form is taken for what the formats of Redis and Valkey have in different ways.
    choice(RdbVersionCompat, "rdb-version-compat", &["valkey", "redis"], "valkey"),
    flag(RdbChecksum, "rdbchecksum", true).immutable(),
    flag(RdbCompression, "rdbcompression", true),
    special(Save, "save", Kind::Save, "3600 1 300 100 60 10000"),
    flag(StopWritesOnBgsaveError, "stop-writes-on-bgsave-error", true),
];
