//! Two servers in one run: rounds against both in turns, so that whatever else the machine does meets both.
//!
//! ```text
//!   round 1   first  second        who begins changes from round to round: a machine that slows down or
//!   round 2   second first         speeds up meanwhile favors neither
//!   round 3   first  second
//! ```
//!
//! Throughput is the median of a server's rounds, latencies are those of all its rounds together. The ratio is the
//! first server's figure (`-h`, `-p`) by the second's (`--compare`): above 1 the first does more requests, below 1 it
//! takes less time.

use crate::cases::Case;
use crate::json_report;
use crate::measured_run::{self, Measured};
use crate::options::Options;
use crate::percentile_plot::{self, Line};
use resp::Value;
use resp::json::{decimal, object, text};
use std::process::ExitCode;

/// Status when the throughput's ratio is below `--min-ratio`; 1 means that nothing could be measured.
const BELOW: u8 = 2;
const ROUNDS: usize = 3;

/// Percentiles of latencies that are reported, with their names.
pub const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99)];

/// One server's rounds of a case.
struct Side {
    all: Measured,
    rates: Vec<f64>,
}

impl Side {
    /// Returns the median of its rounds.
    fn rate(&self) -> f64 {
        median(&self.rates)
    }
}

/// A case measured on both servers.
struct Compared<'c> {
    case: &'c Case,
    sides: [Side; 2],
}

impl Compared<'_> {
    fn ratio(&self) -> f64 {
        self.sides[0].rate() / self.sides[1].rate()
    }
}

/// Runs all cases against both servers, and reports. The status tells whether each ratio reaches the required one.
pub fn run(options: &Options, cases: &[Case], seed: u64) -> Result<ExitCode, String> {
    let Some(other) = &options.compare else { return Ok(ExitCode::FAILURE) };
    let both = [options.clone(), options.against(other)];
    for options in &both {
        crate::setup::ask_configuration(options)?;
    }
    let names = [both[0].target.to_string(), both[1].target.to_string()];
    let mut compared = Vec::new();
    for case in cases {
        let one = compare(&both, &names, case, seed)?;
        if !options.json {
            crate::show(&if options.quiet { line(&one) } else { table(&one, &names, options) })?;
        }
        compared.push(one);
    }
    if let Some(file) = &options.svg {
        crate::write_plot(file, plot(&compared, &names))?;
    }
    if options.json {
        crate::show(&report(options, &compared, &names))?;
    }
    let least = options.ratio_min.unwrap_or(0.0);
    // A ratio that is no number does not reach the required one.
    let is_enough = compared.iter().all(|one| one.ratio() >= least);
    Ok(if is_enough { ExitCode::SUCCESS } else { ExitCode::from(BELOW) })
}

fn compare<'c>(both: &[Options; 2], names: &[String; 2], case: &'c Case, seed: u64) -> Result<Compared<'c>, String> {
    let nothing = || Side { all: Measured::nothing(case.operations.len()), rates: Vec::new() };
    let mut sides = [nothing(), nothing()];
    for options in both {
        crate::prepare(options, case)?;
    }
    for round in 0..both[0].rounds.unwrap_or(ROUNDS) {
        for turn in order(round) {
            let label = format!("{} at {}, round {}", case.title, names[turn], round + 1);
            // Both servers get the same numbers.
            let measured = measured_run::run(&both[turn], case, seed.wrapping_add(round as u64), &label)?;
            sides[turn].rates.push(measured.rate());
            sides[turn].all.add(&measured)?;
        }
    }
    Ok(Compared { case, sides })
}

fn order(round: usize) -> [usize; 2] {
    if round.is_multiple_of(2) { [0, 1] } else { [1, 0] }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

/// Returns the figures of both servers, with their names; the first is the throughput, the last are those of a mix's
/// parts.
fn figures(case: &Case, sides: &[Side; 2]) -> Vec<(String, [f64; 2])> {
    let of = |figure: &dyn Fn(&Side) -> f64| [figure(&sides[0]), figure(&sides[1])];
    let mut figures = vec![("requests per second".to_owned(), of(&Side::rate))];
    figures.push(("avg msec".to_owned(), of(&|side| side.all.latencies.mean() / 1000.0)));
    for (name, percent) in PERCENTILES {
        let value = |side: &Side| side.all.latencies.value_at_percentile(percent) as f64 / 1000.0;
        figures.push((format!("{name} msec"), of(&value)));
    }
    figures.push(("max msec".to_owned(), of(&|side| side.all.latencies.max() as f64 / 1000.0)));
    for (at, operation) in case.operations.iter().enumerate().filter(|_| case.operations.len() > 1) {
        for (name, percent) in [("p50", 50.0), ("p99", 99.0)] {
            let value = |side: &Side| side.all.operations[at].value_at_percentile(percent) as f64 / 1000.0;
            figures.push((format!("{} {name} msec", operation.name), of(&value)));
        }
    }
    figures
}

/// Returns the width of a column that holds an address.
fn width(names: &[String; 2]) -> usize {
    names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(14)
}

fn table(one: &Compared<'_>, names: &[String; 2], options: &Options) -> String {
    let (sides, width) = (&one.sides, width(names));
    let mut text = format!("====== {} ======\n", one.case.title);
    text.push_str(&format!(
        "  {} rounds in turns, {} and {} requests, {} parallel clients\n\n",
        sides[0].rates.len(),
        sides[0].all.latencies.len(),
        sides[1].all.latencies.len(),
        options.clients
    ));
    let [first, second] = names;
    let figures = figures(one.case, sides);
    let label = figures.iter().map(|(name, _)| name.chars().count() + 1).max().unwrap_or(0).max(20);
    text.push_str(&format!("  {:<label$}{first:>width$}  {second:>width$}  {:>8}\n", "", "ratio"));
    for (name, [first, second]) in figures {
        let places = if name.ends_with("msec") { 3 } else { 2 };
        let ratio = ratio(first, second);
        text.push_str(&format!("  {name:<label$}{first:>width$.places$}  {second:>width$.places$}  {ratio:>8}\n"));
    }
    let range = |side: &Side| {
        let ends = side.rates.iter().fold((f64::INFINITY, 0f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
        format!("{:.0}-{:.0}", ends.0, ends.1)
    };
    let (first, second) = (range(&sides[0]), range(&sides[1]));
    text.push_str(&format!("  {:<label$}{first:>width$}  {second:>width$}\n\n", "rounds"));
    text
}

fn ratio(first: f64, second: f64) -> String {
    let ratio = first / second;
    if ratio.is_finite() { format!("{ratio:.2}") } else { "-".to_owned() }
}

fn line(one: &Compared<'_>) -> String {
    let [first, second] = &one.sides;
    let p99 = |side: &Side| side.all.latencies.value_at_percentile(99.0) as f64 / 1000.0;
    format!(
        "{}: {:.2} and {:.2} requests per second, ratio {}; p99 {:.3} and {:.3} msec, ratio {}\n",
        one.case.title,
        first.rate(),
        second.rate(),
        ratio(first.rate(), second.rate()),
        p99(first),
        p99(second),
        ratio(p99(first), p99(second))
    )
}

/// Both lines of a case have one color; the second server's are dashed.
fn plot(compared: &[Compared<'_>], names: &[String; 2]) -> String {
    let mut lines = Vec::new();
    for (color, one) in compared.iter().enumerate() {
        for (dash, side) in one.sides.iter().enumerate() {
            let name = format!("{} {}", one.case.title, names[dash]);
            lines.push(Line::new(name, (color, dash), &side.all.latencies));
        }
    }
    percentile_plot::plot(&format!("Latency by percentile: {} and {}", names[0], names[1]), &lines)
}

fn report(options: &Options, compared: &[Compared<'_>], names: &[String; 2]) -> String {
    let tests = compared.iter().map(|one| {
        let side = |at: usize| {
            let side = &one.sides[at];
            let rates = side.rates.iter().map(|rate| decimal(*rate, 2)).collect();
            let mut fields = vec![("server", text(&names[at])), ("rps", decimal(side.rate(), 2))];
            fields.push(("rounds_rps", Value::Array(rates)));
            fields.extend(json_report::latency_fields(&side.all));
            object(fields)
        };
        object([
            ("title", text(&one.case.title)),
            ("rps_ratio", decimal(one.ratio(), 4)),
            ("servers", Value::Array(vec![side(0), side(1)])),
        ])
    });
    json_report::document(options, tests.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{CommandSequence, Operation};
    use crate::svg::is_well_formed;
    use std::time::Duration;

    fn side(rates: &[f64], latency: u64) -> Side {
        let mut all = Measured::nothing(1);
        all.took = Duration::from_secs(1);
        (0..1000).for_each(|_| all.latencies.record(latency).unwrap());
        Side { all, rates: rates.to_vec() }
    }

    fn names() -> [String; 2] {
        ["127.0.0.1:6379".to_owned(), "10.0.0.17:7000".to_owned()]
    }

    #[test]
    fn servers_take_turns_at_going_first() {
        assert_eq!([order(0), order(1), order(2)], [[0, 1], [1, 0], [0, 1]]);
    }

    #[test]
    fn the_median_leaves_out_what_stands_out() {
        assert_eq!(median(&[10.0, 1.0, 11.0]), 10.0);
        assert_eq!(median(&[4.0, 2.0]), 3.0);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn a_table_has_both_and_their_ratio() {
        let case = Case::of("SET".to_owned(), CommandSequence::default());
        let one = Compared { case: &case, sides: [side(&[200.0, 300.0, 250.0], 500), side(&[100.0; 3], 1000)] };
        let text = table(&one, &names(), &Options::default());
        let expected = "\
====== SET ======
  3 rounds in turns, 1000 and 1000 requests, 50 parallel clients

                      127.0.0.1:6379  10.0.0.17:7000     ratio
  requests per second         250.00          100.00      2.50
  avg msec                     0.500           1.000      0.50
  p50 msec                     0.500           1.000      0.50
  p95 msec                     0.500           1.000      0.50
  p99 msec                     0.500           1.000      0.50
  p99.9 msec                   0.500           1.000      0.50
  p99.99 msec                  0.500           1.000      0.50
  max msec                     0.500           1.000      0.50
  rounds                     200-300         100-100

";
        assert_eq!(text, expected);
        let expected = "SET: 250.00 and 100.00 requests per second, ratio 2.50; p99 0.500 and 1.000 msec, ratio 0.50\n";
        assert_eq!(line(&one), expected);
        let picture = plot(&[one], &names());
        assert!(is_well_formed(&picture) && picture.contains("SET 10.0.0.17:7000"), "{picture}");
        assert!(picture.contains("color0 dash0") && picture.contains("color0 dash1"));
    }

    #[test]
    fn a_mix_has_the_figures_of_its_parts() {
        let operation = |name: &str| Operation { name: name.into(), weight: 1, sequence: CommandSequence::default() };
        let case = Case { title: "mix".into(), operations: vec![operation("GET"), operation("hgetall a long name")] };
        let mut sides = [side(&[1.0], 500), side(&[1.0], 500)];
        for (side, latency) in sides.iter_mut().zip([1000, 500]) {
            side.all.operations = vec![side.all.latencies.clone(), side.all.latencies.clone()];
            side.all.operations[1].record_n(latency, 5000).unwrap();
        }
        let text = table(&Compared { case: &case, sides }, &names(), &Options::default());
        let lines: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for expected in ["GET p99 msec 0.500 0.500 1.00", "hgetall a long name p50 msec 1.000 0.500 2.00"] {
            assert!(lines.iter().any(|line| line == expected), "{text}");
        }
        let ends = text.lines().filter(|line| line.contains("msec")).map(str::len);
        assert_eq!(ends.collect::<std::collections::BTreeSet<_>>().len(), 1, "columns are straight");
    }

    #[test]
    fn nothing_measured_has_no_ratio() {
        assert_eq!((ratio(1.0, 0.0), ratio(0.0, 0.0), ratio(0.0, 1.0)), ("-".into(), "-".into(), "0.00".into()));
    }
}
