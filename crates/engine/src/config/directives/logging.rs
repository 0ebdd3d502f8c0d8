//! Logs, the command log, latency tracking and crash reports.

use crate::config::apply::Apply::{Engine, Server};
use crate::config::directive::{Directive, directives};
use crate::config::entry::{Entry, INT_MAX, Kind, choice, flag, integer, special, text};

directives! { after super::tls::END;
    ALWAYS_SHOW_LOGO = flag("always-show-logo", false).immutable();
    COMMANDLOG_EXECUTION_SLOWER_THAN = integer("commandlog-execution-slower-than", 10000, -1, i64::MAX).alias("slowlog-log-slower-than").applied(Engine(|engine| engine.command_log()));
    COMMANDLOG_LARGE_REPLY_MAX_LEN = integer("commandlog-large-reply-max-len", 128, 0, i64::MAX).applied(Engine(|engine| engine.command_log()));
    COMMANDLOG_LARGE_REQUEST_MAX_LEN = integer("commandlog-large-request-max-len", 128, 0, i64::MAX).applied(Engine(|engine| engine.command_log()));
    COMMANDLOG_REPLY_LARGER_THAN = integer("commandlog-reply-larger-than", 1048576, -1, i64::MAX).applied(Engine(|engine| engine.command_log()));
    COMMANDLOG_REQUEST_LARGER_THAN = integer("commandlog-request-larger-than", 1048576, -1, i64::MAX).applied(Engine(|engine| engine.command_log()));
    COMMANDLOG_SLOW_EXECUTION_MAX_LEN = integer("commandlog-slow-execution-max-len", 128, 0, i64::MAX).alias("slowlog-max-len").applied(Engine(|engine| engine.command_log()));
    CRASH_LOG_ENABLED = flag("crash-log-enabled", true);
    CRASH_MEMCHECK_ENABLED = flag("crash-memcheck-enabled", true).unsupported("A crash report of Cinnabar does not test the memory");
    HIDE_USER_DATA_FROM_LOG = flag("hide-user-data-from-log", true);
    IGNORE_WARNINGS = text("ignore-warnings", "").keeps_empty().unsupported("No warning keeps Cinnabar from starting");
    LATENCY_MONITOR_THRESHOLD = integer("latency-monitor-threshold", 0, 0, i64::MAX).applied(Engine(|engine| engine.latency_monitor()));
    LATENCY_TRACKING = flag("latency-tracking", true).applied(Engine(|engine| engine.latency_tracking()));
    LATENCY_TRACKING_INFO_PERCENTILES = special("latency-tracking-info-percentiles", Kind::Percentiles, "50 99 99.9");
    LOG_FORMAT = choice("log-format", &["legacy", "logfmt", "json"], "legacy").applied(Server(|server| server.log()));
    LOG_TIMESTAMP_FORMAT = choice("log-timestamp-format", &["legacy", "iso8601", "milliseconds"], "legacy").applied(Server(|server| server.log()));
    LOGFILE = text("logfile", "").keeps_empty().immutable();
    LOGLEVEL = choice("loglevel", &["debug", "verbose", "notice", "warning", "nothing"], "notice").applied(Server(|server| server.log()));
    SYSLOG_ENABLED = flag("syslog-enabled", false).immutable();
    SYSLOG_FACILITY = choice("syslog-facility", &["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"], "local0").immutable();
    SYSLOG_IDENT = text("syslog-ident", "valkey").keeps_empty().immutable();
    USE_EXIT_ON_PANIC = flag("use-exit-on-panic", false).hidden();
    WATCHDOG_PERIOD = integer("watchdog-period", 0, 0, INT_MAX).hidden().applied(Server(|server| server.watchdog()));
}
