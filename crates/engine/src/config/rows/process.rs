//! The process itself: daemon, pid file, title, CPU and OOM placement, shutdown.

use crate::config::check;
use crate::config::directive::Directive::*;
use crate::config::row::{INT_MAX, Kind, Row, Unmet, choice, choices, flag, integer, special, text};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    text(BgsaveCpulist, "bgsave-cpulist", "").alias("bgsave_cpulist").immutable(),
    text(BioCpulist, "bio-cpulist", "").alias("bio_cpulist").immutable(),
    flag(Daemonize, "daemonize", false).immutable(),
    flag(DisableThp, "disable-thp", true).immutable(),
    integer(Hz, "hz", 10, 0, INT_MAX).clamped(1, 500),
    choice(OomScoreAdj, "oom-score-adj", &["no", "yes", "relative", "absolute"], "no").synonym("relative", "yes"),
    special(OomScoreAdjValues, "oom-score-adj-values", Kind::OomScoreAdjValues, "0 200 800"),
    text(PidFile, "pidfile", "").immutable(),
    text(ProcTitleTemplate, "proc-title-template", "{title} {listen-addr} {server-mode}").keeps_empty().checked(check::title_template),
    text(ServerCpulist, "server-cpulist", "").alias("server_cpulist").immutable(),
    flag(SetProcTitle, "set-proc-title", true).immutable(),
    choices(ShutdownOnSigint, "shutdown-on-sigint", &["default", "save", "nosave", "now", "force", "safe", "failover"], "default"),
    choices(ShutdownOnSigterm, "shutdown-on-sigterm", &["default", "save", "nosave", "now", "force", "safe", "failover"], "default"),
    integer(ShutdownTimeout, "shutdown-timeout", 10, 0, INT_MAX).unsupported("Cinnabar has no replicas to wait for").unmet(Unmet::Shown),
    choice(Supervised, "supervised", &["upstart", "systemd", "auto", "no"], "no").immutable(),
];
