//! Options that exclude each other, and why: no option is ignored in silence.

use crate::cases::Case;
use crate::options::Options;

/// Checks the options by themselves; the error is a text for the user.
pub fn check(options: &Options) -> Result<(), String> {
    let given = Given::of(options);
    for Exclusive { is_given, name, others } in exclusives(options, &given) {
        if let Some((_, other)) = others.iter().find(|(other, _)| is_given && *other) {
            return Err(format!("Options {name} and {other} are mutually exclusive."));
        }
    }
    if given.zipf && options.range.is_none() {
        return Err("--zipf draws from a range: say how large it is with -r.".into());
    }
    if !given.compare && options.rounds.is_some() {
        return Err("--rounds are those of --compare.".into());
    }
    if !given.compare && options.ratio_min.is_some() {
        return Err("--min-ratio is that of --compare.".into());
    }
    Ok(())
}

/// An option, whether it was given, and the options that it excludes.
struct Exclusive {
    is_given: bool,
    name: &'static str,
    others: Vec<(bool, &'static str)>,
}

fn exclusives(options: &Options, given: &Given) -> [Exclusive; 7] {
    let of = |is_given, name, others: &[(bool, &'static str)]| Exclusive { is_given, name, others: others.to_vec() };
    [
        of(
            given.workload,
            "--workload",
            &[(given.tests, "-t"), (given.command, "a command"), (options.last_from_stdin, "-x")],
        ),
        of(given.zipf, "--zipf", &[(options.sequential, "--sequential")]),
        of(
            given.open_rate,
            "--rate",
            &[(options.rate.is_some(), "--rps"), (options.pipeline > 1, "-P"), (!options.keep_alive, "-k 0")],
        ),
        of(options.json, "--json", &[(options.csv, "--csv"), (options.quiet, "-q"), (options.forever, "-l")]),
        of(given.svg, "--svg", &[(options.forever, "-l")]),
        of(
            given.compare,
            "--compare",
            &[(options.csv, "--csv"), (options.forever, "-l"), (options.cluster, "--cluster")],
        ),
        of(
            options.idle,
            "-I",
            &[
                (given.workload, "--workload"),
                (given.open_rate, "--rate"),
                (given.svg, "--svg"),
                (options.json, "--json"),
                (given.compare, "--compare"),
                (given.zipf, "--zipf"),
            ],
        ),
    ]
}

struct Given {
    workload: bool,
    tests: bool,
    command: bool,
    zipf: bool,
    open_rate: bool,
    svg: bool,
    compare: bool,
}

impl Given {
    fn of(options: &Options) -> Given {
        Given {
            workload: options.workload.is_some(),
            tests: options.tests.is_some(),
            command: !options.command.is_empty(),
            zipf: options.zipf.is_some(),
            open_rate: options.open_rate.is_some(),
            svg: options.svg.is_some(),
            compare: options.compare.is_some(),
        }
    }
}

/// Checks the options together with the cases.
pub fn check_cases(options: &Options, cases: &[Case]) -> Result<(), String> {
    let sequences = || cases.iter().flat_map(|case| case.operations.iter().map(|operation| &operation.sequence));
    if options.open_rate.is_some() && sequences().any(|sequence| sequence.commands() > 1) {
        return Err("--rate sends single requests, not sequences of commands.".into());
    }
    if options.zipf.is_some() && !sequences().any(|sequence| sequence.has_places()) {
        return Err("--zipf: no command has a place for a number (__rand_int__).".into());
    }
    let is_new = options.svg.is_some() || options.json || options.compare.is_some() || options.open_rate.is_some();
    if is_new && cases.is_empty() {
        return Err("There is no test of that name.".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::option_reader::{UsageError, parse};

    fn refused(line: &str) -> String {
        match parse(line.split(' ').map(|word| word.as_bytes().to_vec())) {
            Err(UsageError::Value(text)) => text,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn options_that_exclude_each_other_are_refused() {
        for (line, expected) in [
            ("--workload get=1,set=1 -t get", "Options --workload and -t are mutually exclusive."),
            ("--workload get=1,set=1 ping", "Options --workload and a command are mutually exclusive."),
            ("--zipf 0.9 -r 5 --sequential", "Options --zipf and --sequential are mutually exclusive."),
            ("--zipf 0.9", "--zipf draws from a range: say how large it is with -r."),
            ("--rate 5 --rps 5", "Options --rate and --rps are mutually exclusive."),
            ("--rate 5 -P 2", "Options --rate and -P are mutually exclusive."),
            ("--rate 5 -k 0", "Options --rate and -k 0 are mutually exclusive."),
            ("--json --csv", "Options --json and --csv are mutually exclusive."),
            ("--json -q", "Options --json and -q are mutually exclusive."),
            ("--svg x -l", "Options --svg and -l are mutually exclusive."),
            ("--compare h:1 --csv", "Options --compare and --csv are mutually exclusive."),
            ("--compare h:1 --cluster", "Options --compare and --cluster are mutually exclusive."),
            ("-I --rate 5", "Options -I and --rate are mutually exclusive."),
            ("--rounds 3", "--rounds are those of --compare."),
            ("--min-ratio 1", "--min-ratio is that of --compare."),
        ] {
            assert_eq!(refused(line), expected, "{line}");
        }
    }

    #[test]
    fn values_that_make_no_sense_are_refused() {
        for line in [
            "--zipf 0 -r 5",
            "--zipf -1 -r 5",
            "--zipf nan -r 5",
            "--zipf x -r 5",
            "--rate 0",
            "--compare h",
            "--compare h:0",
            "--compare h:x",
            "--rounds 0 --compare h:1",
            "--min-ratio 0 --compare h:1",
            "--workload get=1",
        ] {
            assert!(!refused(line).is_empty());
        }
    }
}
