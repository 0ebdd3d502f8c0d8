//! Logs, the command log, latency tracking and crash reports.

use crate::config::directive::Directive::*;
use crate::config::row::{INT_MAX, Kind, Row, choice, flag, integer, special, text};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    flag(AlwaysShowLogo, "always-show-logo", false).immutable(),
    integer(CommandlogExecutionSlowerThan, "commandlog-execution-slower-than", 10000, -1, i64::MAX).alias("slowlog-log-slower-than"),
    integer(CommandlogLargeReplyMaxLen, "commandlog-large-reply-max-len", 128, 0, i64::MAX),
    integer(CommandlogLargeRequestMaxLen, "commandlog-large-request-max-len", 128, 0, i64::MAX),
    integer(CommandlogReplyLargerThan, "commandlog-reply-larger-than", 1048576, -1, i64::MAX),
    integer(CommandlogRequestLargerThan, "commandlog-request-larger-than", 1048576, -1, i64::MAX),
    integer(CommandlogSlowExecutionMaxLen, "commandlog-slow-execution-max-len", 128, 0, i64::MAX).alias("slowlog-max-len"),
    flag(CrashLogEnabled, "crash-log-enabled", true),
    flag(CrashMemcheckEnabled, "crash-memcheck-enabled", true).unsupported("A crash report of Cinnabar does not test the memory"),
    flag(HideUserDataFromLog, "hide-user-data-from-log", true),
    text(IgnoreWarnings, "ignore-warnings", "").keeps_empty().unsupported("No warning keeps Cinnabar from starting"),
    integer(LatencyMonitorThreshold, "latency-monitor-threshold", 0, 0, i64::MAX),
    flag(LatencyTracking, "latency-tracking", true),
    special(LatencyTrackingInfoPercentiles, "latency-tracking-info-percentiles", Kind::Percentiles, "50 99 99.9"),
    choice(LogFormat, "log-format", &["legacy", "logfmt", "json"], "legacy"),
    choice(LogTimestampFormat, "log-timestamp-format", &["legacy", "iso8601", "milliseconds"], "legacy"),
    text(LogFile, "logfile", "").keeps_empty().immutable(),
    choice(LogLevel, "loglevel", &["debug", "verbose", "notice", "warning", "nothing"], "notice"),
    flag(SyslogEnabled, "syslog-enabled", false).immutable(),
    choice(SyslogFacility, "syslog-facility", &["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"], "local0").immutable(),
    text(SyslogIdent, "syslog-ident", "valkey").keeps_empty().immutable(),
    flag(UseExitOnPanic, "use-exit-on-panic", false).hidden(),
    integer(WatchdogPeriod, "watchdog-period", 0, 0, INT_MAX).hidden(),
];
