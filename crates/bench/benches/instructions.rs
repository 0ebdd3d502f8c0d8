//! Instructions of a command on its way through a batch, from bytes to bytes: they are the same however busy the
//! machine is.
//!
//! The program runs itself under callgrind, each command at pipeline 1 and 16, for two numbers of requests: the longer
//! run's surplus is theirs, and the start cancels out. Keys, values and the seed of the hash are fixed. The figures are
//! compared with those in `instructions.txt`; more than 3 % above one is an error.
//!
//! ```text
//!   cargo bench -p cinnabar-bench --bench instructions             compare
//!   cargo bench -p cinnabar-bench --bench instructions -- write    write the figures down
//! ```
#![forbid(unsafe_code)]

#[path = "common/discarded_log.rs"]
mod discarded_log;
#[path = "common/pipelined_client.rs"]
mod pipelined_client;
#[path = "common/proxied_client.rs"]
mod proxied_client;

use cinnabar_allocator as _;
use discarded_log::DiscardedLog;
use engine::keyspace::record::LogUser;
use engine::{Engine, NullHost, Options};
use persistence::aof::journal::{Journal, JournalTarget};
use pipelined_client::Client;
use proxied_client::ProxiedClient;
use resp::encode_command;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::{Command, ExitCode};
use std::sync::Arc;

const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.txt");
const HEAD: &str = "\
# Instructions of a command through a batch, at pipeline 1 and 16. `cargo bench -p cinnabar-bench --bench instructions`
# compares with these figures, and with `-- write` writes them.
";
/// Excess over the checked-in figure that is an error.
const TOLERANCE: f64 = 0.03;

/// Commands that are measured; SET-LOG is SET with the log on, whose file swallows a worker's writes after each
/// pipeline, and SET-ASK is SET at a node that asks another one for it.
const COMMANDS: [&str; 8] = ["GET", "SET", "INCR", "HSET", "ZADD", "LPUSH", "SET-LOG", "SET-ASK"];
const PIPELINES: [usize; 2] = [1, 16];
/// Requests of the shorter and of the longer run: both go over all keys, twice or more often.
const REQUESTS: [usize; 2] = [8_000, 24_000];
/// Keys, fields and members.
const KEYS: usize = 2_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    if let [run, command, pipeline, requests] = &words[..]
        && run == "run"
        && let (Ok(pipeline), Ok(requests)) = (pipeline.parse(), requests.parse())
    {
        run_requests(command, pipeline, requests);
        return ExitCode::SUCCESS;
    }
    if has("--list") {
        return ExitCode::SUCCESS;
    }
    if !has("--bench") || has("--test") {
        COMMANDS.iter().for_each(|command| run_requests(command, PIPELINES[1], KEYS));
        return ExitCode::SUCCESS;
    }
    let counted: Vec<_> = COMMANDS
        .iter()
        .flat_map(|command| PIPELINES.map(|pipeline| (*command, pipeline)))
        .map(|(command, pipeline)| (command, pipeline, instructions(command, pipeline)))
        .collect();
    let is_good = compare(&counted);
    if has("write") {
        write(&counted);
    }
    if is_good || has("write") { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the figures beside the checked-in ones; false if one is too high.
fn compare(counted: &[(&str, usize, f64)]) -> bool {
    let text = std::fs::read_to_string(CHECKED_IN).unwrap_or_default();
    let known: BTreeMap<(&str, usize), f64> = text
        .lines()
        .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [command, pipeline, figure] => Some(((command, pipeline.parse().ok()?), figure.parse().ok()?)),
            _ => None,
        })
        .collect();
    let mut is_good = true;
    println!("| instructions | pipeline | now | checked in | change |\n|---|--:|--:|--:|--:|");
    for (command, pipeline, now) in counted {
        let figure = known.get(&(*command, *pipeline)).copied();
        let change = figure.map_or(f64::INFINITY, |figure| now / figure - 1.0);
        let verdict = match change {
            change if change > TOLERANCE => " TOO MANY",
            change if change < -TOLERANCE => " (write them down)",
            _ => "",
        };
        is_good &= change <= TOLERANCE;
        let figure = figure.unwrap_or_default();
        println!("| {command} | {pipeline} | {now:.0} | {figure:.0} | {:+.1} %{verdict} |", 100.0 * change);
    }
    is_good
}

fn write(counted: &[(&str, usize, f64)]) {
    let mut text = HEAD.to_owned();
    for (command, pipeline, now) in counted {
        let _ = writeln!(text, "{command:<7} {pipeline:>2} {now:>6.0}");
    }
    std::fs::write(CHECKED_IN, text).expect("the folder of the sources can be written to");
}

/// Returns the instructions of one request of this command.
fn instructions(command: &str, pipeline: usize) -> f64 {
    let [shorter, longer] = REQUESTS.map(|requests| collected(command, pipeline, requests));
    (longer - shorter) as f64 / (REQUESTS[1] - REQUESTS[0]) as f64
}

/// Returns callgrind's count for a whole run.
fn collected(command: &str, pipeline: usize, requests: usize) -> u64 {
    let program = std::env::current_exe().expect("the program's path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["run", command, &pipeline.to_string(), &requests.to_string()])
        // The work of the allocator's own threads is not the command's.
        .env("MALLOC_CONF", "background_thread:false,dirty_decay_ms:-1")
        .output()
        .expect("valgrind is installed");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let count = told.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    count.unwrap_or_else(|| panic!("callgrind tells how much it has collected: {told}"))
}

fn run_requests(command: &str, pipeline: usize, requests: usize) {
    let engine = Engine::new(&Options::default(), Arc::new(NullHost));
    let pipelines: Vec<Vec<u8>> = (0..2 * KEYS / pipeline)
        .map(|first| (0..pipeline).map(move |n| first * pipeline + n))
        .map(|numbers| numbers.flat_map(|n| request(command, n % KEYS, n / KEYS)).collect())
        .collect();
    let pipelines = pipelines.iter().cycle().take(requests / pipeline);
    if command == "SET-ASK" {
        let mut client = ProxiedClient::new(&engine);
        pipelines.for_each(|bytes| client.run(bytes, pipeline));
        return;
    }
    let mut client = Client::new(&engine, 0);
    let journal = (command == "SET-LOG").then(|| {
        let journal = Journal::new(Arc::clone(engine.change_log()));
        journal.begin(JournalTarget { file: Arc::new(DiscardedLog), name: Vec::new(), len: 0 });
        engine.set_logging(LogUser::File, true);
        journal
    });
    // The measured commands find their keys, fields and members there.
    let first = if command == "GET" { "SET" } else { command };
    (0..KEYS).for_each(|n| {
        client.run(&request(first, n, 0));
    });
    for bytes in pipelines {
        client.run(bytes);
        if let Some(journal) = &journal {
            journal.write().expect("the file takes all");
        }
    }
}

/// Returns the request for the `n`th of [`KEYS`]; another `turn` gives a sorted set's members other scores.
fn request(command: &str, n: usize, turn: usize) -> Vec<u8> {
    let (name, value) = (format!("key:{n:012}"), "v".repeat(64));
    let score = (n * [7_919, 104_729][turn % 2] % KEYS).to_string();
    let words: &[&str] = match command {
        "GET" => &["GET", &name],
        "SET" | "SET-LOG" | "SET-ASK" => &["SET", &name, &value],
        "INCR" => &["INCR", &name],
        "HSET" => &["HSET", "hash", &name, &value],
        "ZADD" => &["ZADD", "sorted set", &score, &name],
        _ => &["LPUSH", "list", &name],
    };
    let mut bytes = Vec::new();
    encode_command(&mut bytes, words);
    bytes
}
