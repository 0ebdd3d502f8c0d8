//! `--latency`, `--latency-history`, `--latency-dist`: how long PING takes, measured every ten milliseconds; and
//! `--intrinsic-latency`: how long the system keeps a busy program from running, without any server.
//!
//! On a terminal one line is overwritten again and again; raw or CSV output has one record `min max avg samples`, in
//! milliseconds, after the interval. The distribution is a line of characters, a bucket of durations each, whose
//! background shows the share of samples in it. All of this is drawn as valkey-cli draws it.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use resp::Value;
use resp::json::{decimal, integer, object};

use crate::keys::keyspace_walk::refused;
use crate::options::{Mode, Options};
use crate::protocol_client::ClientFailure;
use crate::reply_format::{self, OutputFormat};
use crate::resp_session::RespSession;
use crate::transport::print;

/// Time between two samples.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// Colors of a share of the samples, from none to all of them.
const PALETTE: [u8; 19] = [0, 233, 234, 235, 237, 239, 241, 243, 245, 247, 144, 143, 142, 184, 226, 214, 208, 202, 196];

/// Buckets of the distribution: the upper bound in microseconds, and the character.
const BUCKETS: [(u64, char); 31] = [
    (10, '.'),
    (125, '-'),
    (250, '*'),
    (500, '#'),
    (1_000, '1'),
    (2_000, '2'),
    (3_000, '3'),
    (4_000, '4'),
    (5_000, '5'),
    (6_000, '6'),
    (7_000, '7'),
    (8_000, '8'),
    (9_000, '9'),
    (10_000, 'A'),
    (20_000, 'B'),
    (30_000, 'C'),
    (40_000, 'D'),
    (50_000, 'E'),
    (100_000, 'F'),
    (200_000, 'G'),
    (300_000, 'H'),
    (400_000, 'I'),
    (500_000, 'J'),
    (1_000_000, 'K'),
    (2_000_000, 'L'),
    (4_000_000, 'M'),
    (8_000_000, 'N'),
    (16_000_000, 'O'),
    (30_000_000, 'P'),
    (60_000_000, 'Q'),
    (u64::MAX, '?'),
];

/// Lines of the distribution between two legends.
const LINES_A_PAGE: u32 = 20;

/// Samples in milliseconds.
#[derive(Debug, Default)]
struct Samples {
    min: u128,
    max: u128,
    sum: u128,
    count: u128,
}

/// Runs `--latency` and `--latency-history`; on a terminal and with a history, until the program is ended.
pub fn run(session: &mut RespSession) -> Result<(), ClientFailure> {
    let has_history = session.options().mode == Mode::LatencyHistory;
    let output = session.options().output;
    let interval = interval(session, Duration::from_secs(if has_history { 15 } else { 1 }));
    let (mut samples, mut start) = (Samples::default(), Instant::now());
    loop {
        samples.note(ping(session)?.as_millis());
        let is_over = start.elapsed() > interval;
        if output == OutputFormat::Formatted {
            print(format!("\x1b[0G\x1b[2K{}", samples.report(output)).as_bytes());
        } else if has_history || is_over {
            print(format!("{}\n", samples.report(output)).as_bytes());
        }
        if is_over && has_history {
            print(format!(" -- {:.2} seconds range\n", start.elapsed().as_secs_f64()).as_bytes());
            (samples, start) = (Samples::default(), Instant::now());
        } else if is_over && output != OutputFormat::Formatted {
            return Ok(());
        }
        thread::sleep(SAMPLE_EVERY);
    }
}

/// Runs `--latency-dist`, until the program is ended.
pub fn run_distribution(session: &mut RespSession) -> Result<(), ClientFailure> {
    let interval = interval(session, Duration::from_secs(1));
    let mut lines = 0;
    loop {
        let (mut counts, start) = ([0; BUCKETS.len()], Instant::now());
        while start.elapsed() < interval {
            counts[bucket(ping(session)?.as_micros().try_into().unwrap_or(u64::MAX))] += 1;
            thread::sleep(SAMPLE_EVERY);
        }
        if session.options().output.is_json() {
            print(&reply_format::reply(&distribution(&counts), session.options()));
            continue;
        }
        if lines % LINES_A_PAGE == 0 {
            print(legend().as_bytes());
        }
        print(spectrum(&counts).as_bytes());
        lines += 1;
    }
}

/// Runs `--intrinsic-latency`, which needs no server.
pub fn run_intrinsic(seconds: u64, options: &Options) {
    let is_json = options.output.is_json();
    let (start, length) = (Instant::now(), Duration::from_secs(seconds));
    let (mut worst, mut runs, mut now) = (Duration::ZERO, 0u64, Instant::now());
    while now.duration_since(start) < length {
        work();
        let then = Instant::now();
        let run = then.duration_since(now);
        (now, runs) = (then, runs + 1);
        if run.as_micros() > worst.as_micros() {
            worst = run;
            if is_json {
                continue;
            }
            print(format!("Max latency so far: {} microseconds.\n", worst.as_micros()).as_bytes());
        }
    }
    let average = now.duration_since(start).as_secs_f64() * 1e6 / runs.max(1) as f64;
    if is_json {
        let report = object([
            ("runs", integer(runs)),
            ("average_us", decimal(average, 4)),
            ("worst_us", decimal(worst.as_secs_f64() * 1e6, 3)),
        ]);
        print(&reply_format::reply(&report, options));
        return;
    }
    let text = format!(
        "\n{runs} total runs (avg latency: {average:.4} microseconds / {:.2} nanoseconds per run).\n\
         Worst run took {:.0}x longer than the average latency.\n",
        average * 1000.0,
        worst.as_secs_f64() * 1e6 / average.max(f64::MIN_POSITIVE)
    );
    print(text.as_bytes());
}

/// Occupies a core for a short and constant time.
fn work() {
    let mut state = 0x9e37_79b9_u32;
    for step in 0..16 {
        state = black_box(state.rotate_left(5) ^ step);
    }
}

fn interval(session: &RespSession, default: Duration) -> Duration {
    Some(session.options().interval).filter(|interval| !interval.is_zero()).unwrap_or(default)
}

fn ping(session: &mut RespSession) -> Result<Duration, ClientFailure> {
    let start = Instant::now();
    match session.ask_patiently(&["PING"])? {
        Value::Error(text) => Err(refused("PING", &text)),
        _ => Ok(start.elapsed()),
    }
}

impl Samples {
    fn note(&mut self, latency: u128) {
        self.min = if self.count == 0 { latency } else { self.min.min(latency) };
        self.max = self.max.max(latency);
        self.sum += latency;
        self.count += 1;
    }

    fn report(&self, output: OutputFormat) -> String {
        let Samples { min, max, sum, count } = self;
        let average = *sum as f64 / (*count).max(1) as f64;
        match output {
            OutputFormat::Formatted => format!("min: {min}, max: {max}, avg: {average:.2} ({count} samples)"),
            OutputFormat::Csv => format!("{min},{max},{average:.2},{count}"),
            OutputFormat::Json | OutputFormat::QuotedJson => {
                format!("{{\"min\": {min}, \"max\": {max}, \"avg\": {average:.2}, \"count\": {count}}}")
            }
            OutputFormat::Raw => format!("{min} {max} {average:.2} {count}"),
        }
    }
}

fn bucket(microseconds: u64) -> usize {
    BUCKETS.partition_point(|(limit, _)| *limit < microseconds).min(BUCKETS.len() - 1)
}

fn legend() -> String {
    let colors: String = PALETTE.iter().map(|color| format!("\x1b[48;5;{color}m ")).collect();
    format!(
        "---------------------------------------------\n\
         . - * #          .01 .125 .25 .5 milliseconds\n\
         1,2,3,...,9      from 1 to 9     milliseconds\n\
         A,B,C,D,E        10,20,30,40,50  milliseconds\n\
         F,G,H,I,J        .1,.2,.3,.4,.5       seconds\n\
         K,L,M,N,O,P,Q,?  1,2,4,8,16,30,60,>60 seconds\n\
         From 0 to 100%: {colors}\x1b[0m\n\
         ---------------------------------------------\n"
    )
}

/// Returns the buckets that have samples, for programs.
fn distribution(counts: &[u64; BUCKETS.len()]) -> Value {
    let filled = counts.iter().zip(BUCKETS).filter(|(count, _)| **count > 0);
    let buckets = filled.map(|(count, (upto, _))| {
        let upto = if upto == u64::MAX { Value::Null } else { integer(upto) };
        object([("up_to_us", upto), ("count", integer(*count))])
    });
    object([("samples", integer(counts.iter().sum())), ("buckets", Value::Array(buckets.collect()))])
}

fn spectrum(counts: &[u64; BUCKETS.len()]) -> String {
    let all = counts.iter().sum::<u64>().max(1);
    let mut line = "\x1b[38;5;0m".to_owned();
    for (count, (_, character)) in counts.iter().zip(BUCKETS) {
        let share = (count * (PALETTE.len() as u64 - 1)).div_ceil(all) as usize;
        line.push_str(&format!("\x1b[48;5;{}m{character}", PALETTE[share.min(PALETTE.len() - 1)]));
    }
    line + "\x1b[0m\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_those_of_valkey_cli() {
        let mut samples = Samples::default();
        for latency in [2, 0, 1, 1] {
            samples.note(latency);
        }
        assert_eq!(samples.report(OutputFormat::Formatted), "min: 0, max: 2, avg: 1.00 (4 samples)");
        assert_eq!(samples.report(OutputFormat::Raw), "0 2 1.00 4");
        assert_eq!(samples.report(OutputFormat::Csv), "0,2,1.00,4");
    }

    #[test]
    fn every_duration_has_a_bucket() {
        let character = |microseconds| BUCKETS[bucket(microseconds)].1;
        let cases = [(0, '.'), (10, '.'), (11, '-'), (1_000, '1'), (1_001, '2'), (60_000_000, 'Q'), (u64::MAX, '?')];
        for (microseconds, expected) in cases {
            assert_eq!(character(microseconds), expected);
        }
        assert!(BUCKETS.is_sorted());
    }

    #[test]
    fn the_background_tells_the_share() {
        let mut counts = [0; BUCKETS.len()];
        (counts[1], counts[2]) = (9, 1);
        let line = spectrum(&counts);
        assert!(line.starts_with("\x1b[38;5;0m\x1b[48;5;0m.\x1b[48;5;202m-\x1b[48;5;234m*\x1b[48;5;0m#"), "{line:?}");
    }
}
