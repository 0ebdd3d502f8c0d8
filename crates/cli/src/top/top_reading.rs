//! Changes between two samples: counters as rates, histograms as percentiles of that time alone.

use std::collections::{BTreeMap, VecDeque};

use super::server_sample::{CommandCounts, HotKeys, ServerSample};

/// Number of rates that are kept for the line of blocks.
pub const HISTORY: usize = 60;

/// The samples so far, as far as they are needed.
#[derive(Debug, Default)]
pub struct TopModel {
    last: Option<ServerSample>,
    pub reading: Option<TopReading>,
    /// Operations a second, the newest last.
    pub history: VecDeque<f64>,
}

/// A server at one moment, and its activity since the moment before.
#[derive(Debug, Default, Clone)]
pub struct TopReading {
    pub info: BTreeMap<String, String>,
    /// None at the first sample, and after a restart.
    pub rates: Option<Rates>,
    pub commands: Vec<CommandReading>,
    /// None: the server does not report them.
    pub clients: Option<Vec<ClientReading>>,
    pub hot_keys: HotKeys,
}

/// Rates, per second except for the hits.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Rates {
    pub operations: f64,
    /// Share of the reads that found their key, in percent; None without reads.
    pub hits: Option<f64>,
    pub bytes_in: f64,
    pub bytes_out: f64,
    pub connections: f64,
    pub rejected: f64,
    pub expired: f64,
    pub evicted: f64,
    /// Processor time, in percent of one processor.
    pub cpu: Option<f64>,
}

#[derive(Debug, Default, Clone, PartialEq)]
pub struct CommandReading {
    pub name: String,
    /// Calls per second.
    pub calls: f64,
    /// Share of the commands' whole time, in percent.
    pub share: f64,
    pub usec_per_call: f64,
    /// Microseconds below which half and nearly all calls stayed; None if the server has no histograms.
    pub p50: Option<u64>,
    pub p99: Option<u64>,
    /// Calls that failed or were refused, per second.
    pub failed: f64,
}

#[derive(Debug, Default, Clone, PartialEq)]
pub struct ClientReading {
    pub id: u64,
    pub address: String,
    pub name: String,
    pub user: String,
    pub database: String,
    pub command: String,
    pub age: u64,
    pub idle: u64,
    /// Bytes that wait to be sent to it.
    pub output: u64,
    /// Bytes per second; None if the server does not count them, or the client is new.
    pub bytes_in: Option<f64>,
    pub bytes_out: Option<f64>,
}

impl TopModel {
    pub fn take(&mut self, sample: ServerSample) {
        // Counters of another run of the server cannot be compared with this one's.
        let uptime = |sample: &ServerSample| sample.number("uptime_in_seconds").unwrap_or(0.0);
        let run = |sample: &ServerSample| sample.info.get("run_id").cloned();
        let before = self.last.take().filter(|last| run(last) == run(&sample) && uptime(last) <= uptime(&sample));
        let reading = TopReading::of(before.as_ref(), &sample);
        if let Some(rates) = &reading.rates {
            self.history.push_back(rates.operations);
            if self.history.len() > HISTORY {
                self.history.pop_front();
            }
        }
        self.reading = Some(reading);
        self.last = Some(sample);
    }
}

impl TopReading {
    fn of(before: Option<&ServerSample>, now: &ServerSample) -> TopReading {
        let since = before.filter(|before| now.at > before.at);
        TopReading {
            info: now.info.clone(),
            rates: since.map(|before| rates(before, now)),
            commands: since.map(|before| commands(before, now)).unwrap_or_default(),
            clients: clients(before, now),
            hot_keys: now.hot_keys.clone(),
        }
    }
}

fn rates(before: &ServerSample, now: &ServerSample) -> Rates {
    let seconds = (now.at - before.at).as_secs_f64();
    let growth = |name: &str| Some((now.number(name)? - before.number(name)?).max(0.0));
    let rate = |name: &str| growth(name).unwrap_or(0.0) / seconds;
    let (hits, misses) = (growth("keyspace_hits").unwrap_or(0.0), growth("keyspace_misses").unwrap_or(0.0));
    let cpu = growth("used_cpu_user").zip(growth("used_cpu_sys"));
    Rates {
        operations: rate("total_commands_processed"),
        hits: (hits + misses > 0.0).then(|| 100.0 * hits / (hits + misses)),
        bytes_in: rate("total_net_input_bytes"),
        bytes_out: rate("total_net_output_bytes"),
        connections: rate("total_connections_received"),
        rejected: rate("rejected_connections"),
        expired: rate("expired_keys"),
        evicted: rate("evicted_keys"),
        cpu: cpu.map(|(user, system)| 100.0 * (user + system) / seconds),
    }
}

fn commands(before: &ServerSample, now: &ServerSample) -> Vec<CommandReading> {
    let seconds = (now.at - before.at).as_secs_f64();
    let growth = |name: &str, counts: &CommandCounts| {
        let old = before.commands.get(name).copied().unwrap_or_default();
        CommandCounts {
            calls: counts.calls.saturating_sub(old.calls),
            usec: counts.usec.saturating_sub(old.usec),
            failed: counts.failed.saturating_sub(old.failed),
        }
    };
    let grown: Vec<_> = now.commands.iter().map(|(name, counts)| (name, growth(name, counts))).collect();
    let all: u64 = grown.iter().map(|(_, counts)| counts.usec).sum();
    let active = grown.into_iter().filter(|(_, counts)| counts.calls > 0 || counts.failed > 0);
    let reading = |(name, counts): (&String, CommandCounts)| {
        let percentile = |share: f64| {
            let old = before.histograms.as_ref().and_then(|all| all.get(name)).map_or(&[][..], Vec::as_slice);
            percentile_since(old, now.histograms.as_ref()?.get(name)?, share)
        };
        CommandReading {
            name: name.clone(),
            calls: counts.calls as f64 / seconds,
            share: 100.0 * counts.usec as f64 / all.max(1) as f64,
            usec_per_call: counts.usec as f64 / counts.calls.max(1) as f64,
            p50: percentile(0.5),
            p99: percentile(0.99),
            failed: counts.failed as f64 / seconds,
        }
    };
    active.map(reading).collect()
}

/// Returns the bound of a share of the calls between two cumulative histograms; None without calls.
fn percentile_since(before: &[(u64, u64)], now: &[(u64, u64)], share: f64) -> Option<u64> {
    // A bucket that did not exist yet held as many calls as the one below it.
    let upto =
        |bound: u64| before.iter().take_while(|(other, _)| *other <= bound).last().map_or(0, |(_, count)| *count);
    let since = |(bound, count): &(u64, u64)| count.saturating_sub(upto(*bound));
    let all = now.last().map(since).filter(|all| *all > 0)?;
    let wanted = ((all as f64 * share).ceil() as u64).max(1);
    now.iter().find(|bucket| since(bucket) >= wanted).map(|(bound, _)| *bound)
}

fn clients(before: Option<&ServerSample>, now: &ServerSample) -> Option<Vec<ClientReading>> {
    let old: BTreeMap<&str, &BTreeMap<String, String>> = before
        .and_then(|before| before.clients.as_ref())
        .into_iter()
        .flatten()
        .filter_map(|client| Some((client.get("id")?.as_str(), client)))
        .collect();
    let seconds = before.map_or(0.0, |before| now.at.saturating_sub(before.at).as_secs_f64());
    let reading = |client: &BTreeMap<String, String>| {
        let word = |name: &str| client.get(name).cloned().unwrap_or_default();
        let number = |name: &str| client.get(name).and_then(|value| value.parse::<u64>().ok());
        let rate = |name: &str| {
            let then = old.get(word("id").as_str())?.get(name)?.parse::<u64>().ok()?;
            (seconds > 0.0).then_some(number(name)?.saturating_sub(then) as f64 / seconds)
        };
        ClientReading {
            id: number("id").unwrap_or(0),
            address: word("addr"),
            name: word("name"),
            user: word("user"),
            database: word("db"),
            command: word("cmd").replace('|', " "),
            age: number("age").unwrap_or(0),
            idle: number("idle").unwrap_or(0),
            output: number("omem").unwrap_or(0),
            bytes_in: rate("tot-net-in"),
            bytes_out: rate("tot-net-out"),
        }
    };
    Some(now.clients.as_ref()?.iter().map(reading).collect())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::time::Duration;

    /// A sample with these lines of INFO and of CLIENT LIST.
    pub fn sample(seconds: u64, info: &str, clients: &str) -> ServerSample {
        use resp::Value;
        let bulk = |text: &str| Value::Bulk(text.into());
        let no = || Value::Error(b"ERR".to_vec());
        let replies = [bulk(&info.replace(' ', "\r\n")), no(), bulk(clients), no()];
        ServerSample::read(Duration::from_secs(seconds), &replies).unwrap()
    }

    #[test]
    fn counters_become_rates() {
        let mut model = TopModel::default();
        let first = "run_id:a uptime_in_seconds:10 total_commands_processed:100 keyspace_hits:5 keyspace_misses:0 \
            used_cpu_user:1.0 used_cpu_sys:0.5 cmdstat_get:calls=10,usec=50 cmdstat_set:calls=1,usec=1";
        let second = "run_id:a uptime_in_seconds:12 total_commands_processed:300 keyspace_hits:8 keyspace_misses:1 \
            used_cpu_user:2.0 used_cpu_sys:1.5 cmdstat_get:calls=30,usec=80,failed_calls=4 cmdstat_set:calls=1,usec=1 \
            cmdstat_del:calls=2,usec=10";
        model.take(sample(1, first, "id=3 addr=h:1 tot-net-out=10"));
        assert_eq!(model.reading.as_ref().unwrap().rates, None);
        model.take(sample(3, second, "id=3 addr=h:1 tot-net-out=110\nid=4 addr=h:2 tot-net-out=9"));
        let reading = model.reading.unwrap();
        let rates = reading.rates.unwrap();
        assert_eq!((rates.operations, rates.hits, rates.cpu), (100.0, Some(75.0), Some(100.0)));
        let told: Vec<_> =
            reading.commands.iter().map(|c| (c.name.as_str(), c.calls, c.usec_per_call, c.failed)).collect();
        assert_eq!(told, [("del", 1.0, 5.0, 0.0), ("get", 10.0, 1.5, 2.0)]);
        assert_eq!((reading.commands[1].share, reading.commands[1].p99), (75.0, None));
        let out: Vec<_> = reading.clients.unwrap().iter().map(|client| (client.id, client.bytes_out)).collect();
        assert_eq!(out, [(3, Some(50.0)), (4, None)]);
        assert_eq!(model.history, [100.0]);
    }

    #[test]
    fn a_restart_begins_anew() {
        let mut model = TopModel::default();
        model.take(sample(1, "run_id:a uptime_in_seconds:10 total_commands_processed:100", ""));
        model.take(sample(2, "run_id:b uptime_in_seconds:11 total_commands_processed:900", ""));
        assert_eq!(model.reading.as_ref().unwrap().rates, None);
        model.take(sample(3, "run_id:b uptime_in_seconds:12 total_commands_processed:905", ""));
        assert_eq!(model.reading.unwrap().rates.unwrap().operations, 5.0);
        // Two samples of the same moment have no time between them.
        let mut model = TopModel::default();
        model.take(sample(1, "total_commands_processed:1", ""));
        model.take(sample(1, "total_commands_processed:2", ""));
        assert_eq!(model.reading.unwrap().rates, None);
    }

    #[test]
    fn percentiles_are_those_of_the_time_between() {
        let before = [(1, 90), (4, 100)];
        let now = [(1, 90), (2, 140), (4, 190), (1024, 200)];
        // Between them 100 calls: 50 up to 2, 40 more up to 4, 10 more up to 1024.
        let percentile = |share| percentile_since(&before, &now, share);
        assert_eq!([0.5, 0.9, 0.91, 1.0].map(percentile), [Some(2), Some(4), Some(1024), Some(1024)]);
        assert_eq!(percentile_since(&[], &before, 0.5), Some(1));
        assert_eq!((percentile_since(&now, &now, 0.5), percentile_since(&now, &[], 0.5)), (None, None));
        assert_eq!(percentile_since(&now, &before, 0.5), None);
    }
}
