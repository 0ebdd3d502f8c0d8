//! The parts of INFO about commands: how often each was called, how long it took, which errors were replied.

use crate::core::command::CommandEntry;
use crate::core::command_table::CommandTable;
use engine::Engine;
use engine::config::Config;
use engine::stats::metrics::{self, CommandTotals};
use std::fmt::Write;

/// Visits commands and subcommands by name, with their counters.
pub fn each(engine: &Engine, mut visit: impl FnMut(&str, CommandTotals)) {
    let mut entries: Vec<&CommandEntry> =
        CommandTable::get().iter().flat_map(|entry| [entry].into_iter().chain(&entry.subcommands)).collect();
    entries.sort_by(|a, b| a.full_name.cmp(&b.full_name));
    for entry in entries {
        // A line of INFO ends its name with the first colon; no command's name has one.
        visit(&entry.full_name, metrics::command(engine.metrics(), entry.id));
    }
}

/// `cmdstat_get:calls=2,usec=3,usec_per_call=1.50,rejected_calls=0,failed_calls=0`
pub fn command_stats(text: &mut String, engine: &Engine) {
    each(engine, |name, totals| {
        let CommandTotals { calls, nanos, rejected, failed, .. } = totals;
        if calls == 0 && rejected == 0 && failed == 0 {
            return;
        }
        let per_call = if calls == 0 { 0.0 } else { nanos as f64 / 1000.0 / calls as f64 };
        let usec = nanos / 1000;
        let _ = write!(
            text,
            "cmdstat_{name}:calls={calls},usec={usec},usec_per_call={per_call:.2},\
             rejected_calls={rejected},failed_calls={failed}\r\n"
        );
    });
}

/// `latency_percentiles_usec_get:p50=1.003,p99=2.007,p99.9=2.007`, while latencies are tracked.
pub fn latency_stats(text: &mut String, engine: &Engine, config: &Config) {
    if !engine.tracks_latency() {
        return;
    }
    each(engine, |name, totals| {
        let durations = totals.durations;
        if durations.total() == 0 {
            return;
        }
        let shown =
            |percentile: &f64| format!("p{percentile}={:.3}", durations.percentile(*percentile) as f64 / 1000.0);
        let percentiles: Vec<String> = config.percentiles().iter().map(shown).collect();
        let _ = write!(text, "latency_percentiles_usec_{name}:{}\r\n", percentiles.join(","));
    });
}

/// `errorstat_WRONGTYPE:count=1`
pub fn error_stats(text: &mut String, engine: &Engine) {
    for (code, count) in metrics::errors(engine.metrics()) {
        // A colon would end the field's name.
        let code: String =
            String::from_utf8_lossy(&code).chars().map(|c| if c == ':' || c.is_control() { '_' } else { c }).collect();
        let _ = write!(text, "errorstat_{code}:count={count}\r\n");
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn calls_refusals_and_failures_are_told_apart() {
        let mut client = Client::new();
        client.is("SET k v", "+OK").run("SET k");
        client.run("INCR k");
        client.run("NOPE");
        client.is("CLIENT ID", ":0");
        let stats = client.run("INFO commandstats");
        for line in [
            "cmdstat_set:calls=1,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0\r\n",
            "cmdstat_incr:calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1\r\n",
            "cmdstat_client|id:calls=1,",
        ] {
            assert!(stats.contains(line), "{stats}");
        }
        assert_eq!(stats.lines().count(), 4);
        client.is("INFO errorstats", "# Errorstats\r\nerrorstat_ERR:count=3\r\n");
        assert!(client.run("INFO stats").contains("total_commands_processed:5\r\n"));
    }

    #[test]
    fn percentiles_are_those_that_are_asked_for() {
        let mut client = Client::new();
        client.is("CONFIG SET latency-tracking-info-percentiles 50", "+OK").is("GET k", "nil");
        let stats = client.run("INFO latencystats");
        assert!(stats.contains("latency_percentiles_usec_get:p50=0.001\r\n"), "{stats}");
        client.is("CONFIG SET latency-tracking no", "+OK");
        assert_eq!(client.run("INFO latencystats").lines().count(), 1, "none is shown while none is tracked");
        client.is("CONFIG SET latency-tracking yes", "+OK").is("CONFIG RESETSTAT", "+OK");
        assert!(!client.run("INFO latencystats").contains("_get:"));
    }
}
