//! The process itself: daemon, pid file, title, CPU and OOM placement, shutdown.

use crate::config::apply::Apply::Server;
use crate::config::check;
use crate::config::directive::{Directive, directives};
use crate::config::entry::{Entry, INT_MAX, Kind, Unmet, choice, choices, flag, integer, special, text};

directives! { after super::logging::END;
    BGSAVE_CPULIST = text("bgsave-cpulist", "").alias("bgsave_cpulist").immutable();
    BIO_CPULIST = text("bio-cpulist", "").alias("bio_cpulist").immutable();
    DAEMONIZE = flag("daemonize", false).immutable();
    DISABLE_THP = flag("disable-thp", true).immutable();
    HZ = integer("hz", 10, 0, INT_MAX).clamped(1, 500);
    OOM_SCORE_ADJ = choice("oom-score-adj", &["no", "yes", "relative", "absolute"], "no").synonym("relative", "yes").applied(Server(|server| server.oom_score()));
    OOM_SCORE_ADJ_VALUES = special("oom-score-adj-values", Kind::OomScoreAdjValues, "0 200 800").applied(Server(|server| server.oom_score()));
    PIDFILE = text("pidfile", "").immutable();
    PROC_TITLE_TEMPLATE = text("proc-title-template", "{title} {listen-addr} {server-mode}").keeps_empty().checked(check::title_template).applied(Server(|server| server.process_title()));
    SERVER_CPULIST = text("server-cpulist", "").alias("server_cpulist").immutable();
    SET_PROC_TITLE = flag("set-proc-title", true).immutable();
    SHUTDOWN_ON_SIGINT = choices("shutdown-on-sigint", &["default", "save", "nosave", "now", "force", "safe", "failover"], "default");
    SHUTDOWN_ON_SIGTERM = choices("shutdown-on-sigterm", &["default", "save", "nosave", "now", "force", "safe", "failover"], "default");
    SHUTDOWN_TIMEOUT = integer("shutdown-timeout", 10, 0, INT_MAX).unsupported("Cinnabar has no replicas to wait for").unmet(Unmet::Shown);
    SUPERVISED = choice("supervised", &["upstart", "systemd", "auto", "no"], "no").immutable();
}
