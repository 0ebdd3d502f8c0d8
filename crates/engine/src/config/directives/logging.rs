//! Logs, the command log, latency tracking and crash reports.

use crate::config::apply::Apply::{Engine, Server};
use crate::config::directive::{Directive, directives};
use crate::config::directive_entry::{
    DirectiveEntry, DirectiveKind, INT_MAX, Unmet, choice, flag, integer, special, text,
};

directives! { after super::tls::END;
    /// Show the logo in the log even when it is no terminal.
    ALWAYS_SHOW_LOGO = flag("always-show-logo", false).immutable();
    /// Microseconds from which on a command counts as slow for COMMANDLOG and SLOWLOG; -1 logs none.
    COMMANDLOG_EXECUTION_SLOWER_THAN = integer("commandlog-execution-slower-than", 10000, -1, i64::MAX).alias("slowlog-log-slower-than").applied(Engine(|engine| engine.command_log()));
    /// Entries of the log of large replies.
    COMMANDLOG_LARGE_REPLY_MAX_LEN = integer("commandlog-large-reply-max-len", 128, 0, i64::MAX).applied(Engine(|engine| engine.command_log()));
    /// Entries of the log of large requests.
    COMMANDLOG_LARGE_REQUEST_MAX_LEN = integer("commandlog-large-request-max-len", 128, 0, i64::MAX).applied(Engine(|engine| engine.command_log()));
    /// Bytes from which on a reply counts as large; -1 logs none.
    COMMANDLOG_REPLY_LARGER_THAN = integer("commandlog-reply-larger-than", 1048576, -1, i64::MAX).applied(Engine(|engine| engine.command_log()));
    /// Bytes from which on a request counts as large; -1 logs none.
    COMMANDLOG_REQUEST_LARGER_THAN = integer("commandlog-request-larger-than", 1048576, -1, i64::MAX).applied(Engine(|engine| engine.command_log()));
    /// Entries of the log of slow commands.
    COMMANDLOG_SLOW_EXECUTION_MAX_LEN = integer("commandlog-slow-execution-max-len", 128, 0, i64::MAX).alias("slowlog-max-len").applied(Engine(|engine| engine.command_log()));
    /// Write a report into the log when the process cannot go on.
    CRASH_LOG_ENABLED = flag("crash-log-enabled", true);
    /// Test the memory in that report.
    CRASH_MEMCHECK_ENABLED = flag("crash-memcheck-enabled", true);
    /// Text that a crash report adds about the work of the server.
    DEBUG_CONTEXT = text("debug-context", "").keeps_empty().hidden();
    /// Keep keys and values out of crash reports.
    HIDE_USER_DATA_FROM_LOG = flag("hide-user-data-from-log", true);
    /// Warnings that do not keep the server from starting.
    IGNORE_WARNINGS = text("ignore-warnings", "").keeps_empty().unsupported("No warning keeps Cinnabar from starting").unmet(Unmet::Shown);
    /// Milliseconds from which on LATENCY notes an event; 0 notes none.
    LATENCY_MONITOR_THRESHOLD = integer("latency-monitor-threshold", 0, 0, i64::MAX).applied(Engine(|engine| engine.latency_monitor()));
    /// Keep a histogram of each command's durations.
    LATENCY_TRACKING = flag("latency-tracking", true).applied(Engine(|engine| engine.latency_tracking()));
    /// The percentiles of these that INFO shows.
    LATENCY_TRACKING_INFO_PERCENTILES = special("latency-tracking-info-percentiles", DirectiveKind::Percentiles, "50 99 99.9");
    /// The form of the log's lines.
    LOG_FORMAT = choice("log-format", &["legacy", "logfmt", "json"], "legacy").applied(Server(|server| server.log()));
    /// The form of the time in the log's lines.
    LOG_TIMESTAMP_FORMAT = choice("log-timestamp-format", &["legacy", "iso8601", "milliseconds"], "legacy").applied(Server(|server| server.log()));
    /// The file that is logged to; empty is standard output.
    LOGFILE = text("logfile", "").keeps_empty().immutable();
    /// The least important lines that are logged.
    LOGLEVEL = choice("loglevel", &["debug", "verbose", "notice", "warning", "nothing"], "notice").applied(Server(|server| server.log()));
    /// Log to the system's log, too.
    SYSLOG_ENABLED = flag("syslog-enabled", false).immutable();
    /// The facility of these lines.
    SYSLOG_FACILITY = choice("syslog-facility", &["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"], "local0").immutable();
    /// The name of these lines' sender.
    SYSLOG_IDENT = text("syslog-ident", "valkey").keeps_empty().immutable();
    /// End by exit instead of abort when the process cannot go on.
    USE_EXIT_ON_PANIC = flag("use-exit-on-panic", false).hidden();
    /// Milliseconds of silence of a thread after which stacks are logged; 0 never does.
    WATCHDOG_PERIOD = integer("watchdog-period", 0, 0, INT_MAX).hidden().applied(Server(|server| server.watchdog()));
}
