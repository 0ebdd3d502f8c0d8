//! cinnabar-benchmark: loads a server of Redis's protocol and reports throughput and latency.
//!
//! | module | its one idea |
//! | --- | --- |
//! | [`options`], [`option_reader`], [`usage`] | the user's request, its parser, and `--help` |
//! | [`combinations`] | options that exclude each other |
//! | [`known_commands`], [`cases`], [`workload`] | the commands to measure; several at once |
//! | [`batch`], [`key_numbers`], [`zipf`] | encoded commands; their numbers; a skewed distribution |
//! | [`arrivals`] | when requests of an open loop are due |
//! | [`load_generator`], [`load_connection`], [`load_socket`], [`load_counts`], [`reply_counter`] | sends them and counts replies |
//! | [`cluster_slots`] | the nodes of a cluster, and tags that route commands to them |
//! | [`setup`], [`measured_run`] | commands besides the load; one run |
//! | [`fuzz`] | random commands instead of a load |
//! | [`report`], [`json_report`], [`percentile_plot`], [`svg`] | the results: texts, JSON, a picture |
//! | [`comparison`] | two servers in turns |
//!
//! Without the options that only this program has, options and texts are those of valkey-benchmark.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

mod arrivals;
mod batch;
mod cases;
mod cluster_slots;
mod combinations;
mod comparison;
mod fuzz;
mod json_report;
mod key_numbers;
mod known_commands;
mod load_connection;
mod load_counts;
mod load_generator;
mod load_socket;
mod measured_run;
mod option_reader;
mod options;
mod percentile_plot;
mod reply_counter;
mod report;
mod setup;
mod svg;
mod usage;
mod workload;
mod zipf;

use cases::Case;
use option_reader::{Request, UsageError};
use options::Options;
use report::RunOutcome;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use std::time::SystemTime;

const KEEPALIVE_WARNING: &str = "WARNING: Keepalive disabled. You probably need 'echo 1 > /proc/sys/net/ipv4/tcp_tw_reuse' \
    for Linux and 'sudo sysctl -w net.inet.tcp.msl=1000' for Mac OS X in order to use a lot of clients/requests";

fn main() -> ExitCode {
    let words = std::env::args_os().skip(1).map(|word| word.into_vec());
    let options = match option_reader::parse(words) {
        Ok(Request::Run(options)) => *options,
        Ok(Request::Help) => {
            print!("{}", usage::HELP);
            return ExitCode::SUCCESS;
        }
        Ok(Request::Version) => {
            println!("cinnabar-benchmark {}", resp::served_version::NAMES);
            return ExitCode::SUCCESS;
        }
        Err(UsageError::Invalid(message) | UsageError::Value(message)) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    run(options).unwrap_or_else(|message| {
        eprintln!("{message}");
        ExitCode::FAILURE
    })
}

fn run(mut options: Options) -> Result<ExitCode, String> {
    let seed = options.seed.unwrap_or_else(|| {
        #[expect(clippy::disallowed_methods, reason = "a seed")]
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.as_nanos() as u64
    });
    let title = cases::title(&options.command);
    if options.last_from_stdin {
        let mut last = Vec::new();
        std::io::stdin().read_to_end(&mut last).map_err(|error| format!("Standard input: {error}"))?;
        options.command.push(last);
    }
    if !options.keep_alive {
        eprintln!("{KEEPALIVE_WARNING}");
    }
    if options.cluster {
        options.nodes = setup::ask_nodes(&options)?;
        options.threads = options.threads.or(Some(options.nodes.len()));
        if !options.json {
            show(&cluster_slots::listing(&options.nodes, options.read_from))?;
        }
    }
    if options.idle {
        return idle(&options);
    }
    if options.fuzz.is_wanted {
        return fuzz::run(&options, seed);
    }
    let data = payload(options.data_size, seed);
    let cases = match &options.workload {
        Some(parts) => vec![cases::mixed(parts, &options, &data)],
        None if options.command.is_empty() => cases::cases(&options, &data),
        None => vec![cases::given(&options, title, &data)],
    };
    combinations::check_cases(&options, &cases)?;
    match &options.compare {
        Some(_) => comparison::run(&options, &cases, seed),
        None => measure(&options, &cases, seed).map(|()| ExitCode::SUCCESS),
    }
}

fn idle(options: &Options) -> Result<ExitCode, String> {
    println!("Creating {} idle connections and waiting forever (Ctrl+C when done)", options.clients);
    let (case, encryption) = (Case::of(String::new(), batch::CommandSequence::default()), setup::encryption(options)?);
    load_generator::idle(&measured_run::plan(options, &case, encryption.as_ref()), options.clients)
        .map_err(|failure| setup::explain(failure, options))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the cases one after the other and reports each.
fn measure(options: &Options, cases: &[Case], seed: u64) -> Result<(), String> {
    let servers: Vec<_> = setup::servers(options).iter().map(setup::ask_configuration).collect::<Result<_, _>>()?;
    if options.csv {
        println!("{}", report::CSV_HEADER);
    }
    loop {
        let mut all = Vec::new();
        for case in cases {
            prepare(options, case)?;
            let measured = measured_run::run(options, case, seed, &case.title)?;
            if !options.json {
                let outcome = RunOutcome::new(case, &measured, options, &servers);
                show(&report::render(&outcome, options))?;
            }
            all.push((case, measured));
        }
        if let Some(file) = &options.svg {
            write_plot(file, percentile_plot::of_cases(&all))?;
        }
        if options.json {
            show(&json_report::measured(options, &all))?;
        }
        if !options.forever {
            // A line ends the list of the tests; one command is no list.
            if options.quiet && !options.csv && options.command.is_empty() && options.workload.is_none() {
                println!();
            }
            return Ok(());
        }
    }
}

/// Prepares the server for a case.
fn prepare(options: &Options, case: &Case) -> Result<(), String> {
    if case.title == "FCALL" && options.command.is_empty() {
        let has_primary =
            |server: &Options| options.nodes.iter().all(|node| node.is_primary || node.target != server.target);
        for server in setup::servers(options).iter().filter(|server| has_primary(server)) {
            setup::ask(server, &[cases::library()])?;
        }
    }
    Ok(())
}

fn show(text: &str) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| error.to_string())
}

fn write_plot(file: &str, plot: String) -> Result<(), String> {
    std::fs::write(file, plot).map_err(|error| format!("{file}: {}", setup::reason(&error)))
}

/// Returns random letters, the same for the same seed.
fn payload(size: usize, seed: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..size).map(|_| rng.alphanumeric() as u8).collect()
}
