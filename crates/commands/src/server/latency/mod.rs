//! LATENCY, SLOWLOG and COMMANDLOG: slow commands, and how long commands take.
//!
//! LATENCY and its subcommands are here, its DOCTOR's and GRAPH's texts in `latency_report.rs`; `slowlog.rs` and
//! `commandlog.rs` show the logs of single commands. In: the engine's measurements. Out: replies; nothing is measured
//! here.

pub mod commandlog;
pub mod latency_report;
pub mod slowlog;

use crate::core::args::Args;
use crate::core::command::CommandEntry;
use crate::core::command::{ADMIN, Command, Group, LOADING, NO_SCRIPT, STALE};
use crate::core::command_table::CommandTable;
use crate::core::context::Context;
use crate::core::help::HELP;
use crate::server::command::by_name;
use engine::stats::metrics;
use engine::{Error, Word};

pub const COMMANDS: &[Command] = &[Command {
    name: "latency",
    group: Group::Server,
    since: "2.8.13",
    arity: -2,
    summary: "A container for latency diagnostics commands.",
    complexity: "Depends on subcommand.",
    subcommands: &[
        Command {
            name: "doctor",
            group: Group::Server,
            since: "2.8.13",
            arity: 2,
            flags: ADMIN.and(NO_SCRIPT).and(LOADING).and(STALE),
            summary: "Returns a human-readable latency analysis report.",
            complexity: "O(1)",
            tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
            run: doctor,
            ..Command::DEFAULT
        },
        Command {
            name: "graph",
            group: Group::Server,
            since: "2.8.13",
            arity: 3,
            flags: ADMIN.and(NO_SCRIPT).and(LOADING).and(STALE),
            syntax: "event",
            summary: "Returns a latency graph for an event.",
            complexity: "O(1)",
            tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
            run: graph,
            ..Command::DEFAULT
        },
        Command { group: Group::Server, since: "2.8.13", ..HELP },
        Command {
            name: "histogram",
            group: Group::Server,
            since: "7.0.0",
            arity: -2,
            flags: ADMIN.and(NO_SCRIPT).and(LOADING).and(STALE),
            syntax: "[command]...",
            summary: "Returns the cumulative distribution of latencies of a subset or all commands.",
            complexity: "O(N) where N is the number of commands with latency information being retrieved.",
            tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
            run: histogram,
            ..Command::DEFAULT
        },
        Command {
            name: "history",
            group: Group::Server,
            since: "2.8.13",
            arity: 3,
            flags: ADMIN.and(NO_SCRIPT).and(LOADING).and(STALE),
            syntax: "event",
            summary: "Returns timestamp-latency samples for an event.",
            complexity: "O(1)",
            tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
            run: history,
            ..Command::DEFAULT
        },
        Command {
            name: "latest",
            group: Group::Server,
            since: "2.8.13",
            arity: 2,
            flags: ADMIN.and(NO_SCRIPT).and(LOADING).and(STALE),
            summary: "Returns the latest latency samples for all events.",
            complexity: "O(1)",
            tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
            run: latest,
            ..Command::DEFAULT
        },
        Command {
            name: "reset",
            group: Group::Server,
            since: "2.8.13",
            arity: -2,
            flags: ADMIN.and(NO_SCRIPT).and(LOADING).and(STALE),
            syntax: "[event]...",
            summary: "Resets the latency data for one or more events.",
            complexity: "O(1)",
            tips: &["request_policy:all_nodes", "response_policy:agg_sum"],
            run: reset,
            ..Command::DEFAULT
        },
    ],
    ..Command::DEFAULT
}];
fn history(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let series = cx.engine.latency().get(&args[2]).unwrap_or_default();
    cx.reply.array(series.samples.len());
    for sample in series.samples {
        cx.reply.array(2);
        cx.reply.int(sample.at);
        cx.reply.int(sample.ms as i64);
    }
    Ok(())
}

fn latest(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let events = cx.engine.latency().all();
    cx.reply.array(events.len());
    for (name, series) in events {
        cx.reply.array(6);
        cx.reply.bulk(name.as_bytes());
        let (at, ms) = series.samples.back().map_or((0, 0), |last| (last.at, last.ms));
        cx.reply.int(at);
        [ms, series.max, series.sum, series.count].iter().for_each(|number| cx.reply.int(*number as i64));
    }
    Ok(())
}

fn reset(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let names: Vec<&[u8]> = args.from(2).collect();
    let count = cx.engine.latency().reset((!names.is_empty()).then_some(&names));
    cx.reply.int(count as i64);
    Ok(())
}

fn graph(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let event = String::from_utf8_lossy(&args[2]);
    let Some(series) = cx.engine.latency().get(&args[2]) else {
        return Err(Error::NoLatencySamples(Word::of(&*event)));
    };
    cx.reply.verbatim(b"txt", latency_report::graph(&event, &series, cx.now_ms().seconds()).as_bytes());
    Ok(())
}

fn doctor(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let on = cx.engine.latency().threshold() != u64::MAX;
    let text = latency_report::doctor(on, &cx.engine.latency().all());
    cx.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// Replies the distribution of durations of these commands (of a container: of its subcommands), or of all. Commands
/// that were not called or do not exist are left out.
fn histogram(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut count = 0;
    let mark = cx.reply.begin_map();
    let named: Vec<&'static CommandEntry> = args.from(2).filter_map(by_name).collect();
    let entries = if args.len() == 2 { CommandTable::get().iter().collect() } else { named };
    for entry in entries {
        count += usize::from(reply_histogram(cx, entry));
        for entry in &entry.subcommands {
            count += usize::from(reply_histogram(cx, entry));
        }
    }
    cx.reply.end_map(mark, count);
    Ok(())
}

fn reply_histogram(cx: &mut Context<'_>, entry: &CommandEntry) -> bool {
    let durations = metrics::durations(cx.engine.metrics(), entry.id);
    if durations.total() == 0 {
        return false;
    }
    cx.reply.bulk(entry.full_name.as_bytes());
    cx.reply.map(2);
    cx.reply.bulk(b"calls");
    cx.reply.int(durations.total() as i64);
    cx.reply.bulk(b"histogram_usec");
    let steps = durations.distribution();
    cx.reply.map(steps.len());
    for (limit, count) in steps {
        cx.reply.int(limit as i64);
        cx.reply.int(count as i64);
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;
    use engine::time::UnixMs;

    #[test]
    fn histograms_are_answered_by_command() {
        let mut client = Client::new();
        client.is("GET k", "nil").is("GET k", "nil").is("CLIENT ID", ":0").is("CLIENT GETNAME", "nil");
        client.is("LATENCY HISTOGRAM get nope zadd", "[get [calls :2 histogram_usec [:1 :2]]]");
        client.is("LATENCY HISTOGRAM client|id", "[client|id [calls :1 histogram_usec [:1 :1]]]");
        let all = client.run("LATENCY HISTOGRAM client");
        assert!(all.contains("client|id") && all.contains("client|getname"), "{all}");
        client.is("CONFIG SET latency-tracking no", "+OK").is("GET k", "nil").is("CONFIG RESETSTAT", "+OK");
        client.is("LATENCY HISTOGRAM", "[]");
    }

    #[test]
    fn events_are_told_and_forgotten() {
        let mut client = Client::new();
        client.is("LATENCY LATEST", "[]").is("LATENCY HISTORY command", "[]");
        client.is("LATENCY GRAPH command", "-ERR No samples available for event 'command'");
        assert!(client.run("LATENCY DOCTOR").contains("latency-monitor-threshold"));
        client.is("CONFIG SET latency-monitor-threshold 10", "+OK");
        let latency = client.engine().latency();
        latency.note("command", 9_000_000, UnixMs(5000));
        latency.note("command", 30_000_000, UnixMs(5000));
        latency.note("command", 20_000_000, UnixMs(6000));
        client.is("LATENCY LATEST", "[[command :6 :20 :30 :50 :2]]");
        client.is("LATENCY HISTORY command", "[[:5 :30] [:6 :20]]");
        assert!(client.run("LATENCY DOCTOR").contains("command"));
        client.is("LATENCY RESET nope", ":0").is("LATENCY RESET", ":1").is("LATENCY LATEST", "[]");
    }
}
