//! The parts of INFO about commands: how often each was called, how long it took, which errors were replied.

use crate::core::command::CommandEntry;
use crate::core::command_table::CommandTable;
use crate::server::info::field::{Put, Value};
use crate::server::info::info_source::Source;
use engine::Engine;
use engine::stats::metrics::{self, CommandCounts, CommandTotals};

/// Visits commands and subcommands by name, with their counters.
pub fn each(engine: &Engine, mut visit: impl FnMut(&str, CommandTotals)) {
    for entry in CommandTable::get().by_name() {
        visit(&entry.full_name, metrics::command(engine.metrics(), entry.id));
    }
}

/// Returns the counters of the commands that were called, refused or failed, by name.
fn called(engine: &Engine) -> impl Iterator<Item = (&'static CommandEntry, CommandCounts)> {
    let counted = |entry: &&'static CommandEntry| (*entry, metrics::counts(engine.metrics(), entry.id));
    let all = CommandTable::get().by_name().iter().map(counted);
    all.filter(|(_, counts)| counts.calls > 0 || counts.rejected > 0 || counts.failed > 0)
}

/// `cmdstat_get:calls=2,usec=3,usec_per_call=1.50,rejected_calls=0,failed_calls=0`
pub(super) fn command_stats(s: &Source<'_>, put: Put<'_>) {
    let mut name = String::new();
    for (entry, counts) in called(s.engine) {
        let CommandCounts { calls, nanos, rejected, failed } = counts;
        let per_call = if calls == 0 { 0.0 } else { nanos as f64 / 1000.0 / calls as f64 };
        // A line of INFO ends its name with the first colon; no command's name has one.
        set_name(&mut name, "cmdstat_", entry);
        put(
            &name,
            Value::Parts(vec![
                ("calls", calls.into()),
                ("usec", (nanos / 1000).into()),
                ("usec_per_call", Value::Decimal(per_call, 2)),
                ("rejected_calls", rejected.into()),
                ("failed_calls", failed.into()),
            ]),
        );
    }
}

fn set_name(name: &mut String, prefix: &str, entry: &CommandEntry) {
    name.clear();
    name.push_str(prefix);
    name.push_str(&entry.full_name);
}

/// `latency_percentiles_usec_get:p50=1.003,p99=2.007,p99.9=2.007`, while latencies are tracked.
pub(super) fn latency_stats(s: &Source<'_>, put: Put<'_>) {
    if !s.engine.tracks_latency() {
        return;
    }
    let wanted = s.config.percentiles();
    let names: Vec<String> = wanted.iter().map(|percentile| format!("p{percentile}=")).collect();
    let mut name = String::new();
    for (entry, _) in called(s.engine) {
        let durations = metrics::durations(s.engine.metrics(), entry.id);
        if durations.total() == 0 {
            continue;
        }
        let mut text = String::new();
        for (index, (percentile, name)) in wanted.iter().zip(&names).enumerate() {
            text.push_str(if index == 0 { "" } else { "," });
            text.push_str(name);
            Value::Decimal(durations.percentile(*percentile) as f64 / 1000.0, 3).write(&mut text);
        }
        set_name(&mut name, "latency_percentiles_usec_", entry);
        put(&name, text.into());
    }
}

/// `errorstat_WRONGTYPE:count=1`
pub(super) fn error_stats(s: &Source<'_>, put: Put<'_>) {
    for (code, count) in metrics::errors(s.engine.metrics()) {
        // A colon would end the field's name.
        let code: String =
            String::from_utf8_lossy(&code).chars().map(|c| if c == ':' || c.is_control() { '_' } else { c }).collect();
        put(&format!("errorstat_{code}"), Value::Parts(vec![("count", count.into())]));
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
