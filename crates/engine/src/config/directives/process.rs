//! The process itself: daemon, pid file, title, CPU and OOM placement, shutdown.

use crate::config::apply::Apply::Server;
use crate::config::directive::{Directive, directives};
use crate::config::directive_entry::{
    DirectiveEntry, DirectiveKind, INT_MAX, choice, choices, flag, integer, special, text,
};
use crate::config::validators;

directives! { after super::logging::END;
    /// Processors that snapshots in the background run on.
    BGSAVE_CPULIST = text("bgsave-cpulist", "").alias("bgsave_cpulist").immutable();
    /// Processors that the threads of the background run on.
    BIO_CPULIST = text("bio-cpulist", "").alias("bio_cpulist").immutable();
    /// Go into the background at the start.
    DAEMONIZE = flag("daemonize", false).immutable();
    /// Use no transparent huge pages, even where the system gives them to every process.
    DISABLE_THP = flag("disable-thp", true).immutable();
    /// How often a second the work of the background is done, from 1 to 500.
    HZ = integer("hz", 10, 0, INT_MAX).clamped(1, 500);
    /// Tell the system how soon to end this process when memory is short: not, relative to the value at the
    /// start, or absolutely.
    OOM_SCORE_ADJ = choice("oom-score-adj", &["no", "yes", "relative", "absolute"], "no").synonym("relative", "yes").applied(Server(|server| server.oom_score()));
    /// These values for a primary, a replica, and a process that saves.
    OOM_SCORE_ADJ_VALUES = special("oom-score-adj-values", DirectiveKind::OomScoreAdjValues, "0 200 800").applied(Server(|server| server.oom_score()));
    /// The file that the process's number is written to.
    PIDFILE = text("pidfile", "").immutable();
    /// The form of the process's title.
    PROC_TITLE_TEMPLATE = text("proc-title-template", "{title} {listen-addr} {server-mode}").keeps_empty().checked(validators::title_template).applied(Server(|server| server.process_title()));
    /// Processors that workers run on.
    SERVER_CPULIST = text("server-cpulist", "").alias("server_cpulist").immutable();
    /// Show what the server is in its process's title.
    SET_PROC_TITLE = flag("set-proc-title", true).immutable();
    /// Effect of SIGINT, in the words of SHUTDOWN.
    SHUTDOWN_ON_SIGINT = choices("shutdown-on-sigint", &["default", "save", "nosave", "now", "force", "safe", "failover"], "default");
    /// Effect of SIGTERM, in the words of SHUTDOWN.
    SHUTDOWN_ON_SIGTERM = choices("shutdown-on-sigterm", &["default", "save", "nosave", "now", "force", "safe", "failover"], "default");
    /// Seconds that a shutdown waits for replicas.
    SHUTDOWN_TIMEOUT = integer("shutdown-timeout", 10, 0, INT_MAX);
    /// Supervisor of the process, which is notified when it is ready.
    SUPERVISED = choice("supervised", &["upstart", "systemd", "auto", "no"], "no").immutable();
}
