//! cinnabar-benchmark: loads a server of Redis's protocol and reports throughput and latency.
//!
//! `options` reads the command line, `cases` says which commands there are to measure, `batch` holds them ready as
//! bytes, `load_generator` sends them and counts replies (`reply_counter`), `report` prints. The options and texts are
//! those of valkey-benchmark.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

mod batch;
mod cases;
mod load_generator;
mod options;
mod reply_counter;
mod report;

use batch::Numbers;
use cases::Case;
use cinnabar_tls::client_stream::ClientStream;
use load_generator::{Encryption, LoadCounts, Plan, RunFailure};
use options::{Options, Request, UsageError};
use report::{ReportProgress, RunOutcome};
use resp::address::Target;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// How often the progress line is written anew.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

const KEEPALIVE_WARNING: &str = "WARNING: Keepalive disabled. You probably need 'echo 1 > /proc/sys/net/ipv4/tcp_tw_reuse' \
    for Linux and 'sudo sysctl -w net.inet.tcp.msl=1000' for Mac OS X in order to use a lot of clients/requests";

fn main() -> ExitCode {
    let words = std::env::args_os().skip(1).map(|word| word.into_vec());
    let options = match options::parse(words) {
        Ok(Request::Run(options)) => *options,
        Ok(Request::Help) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Ok(Request::Version) => {
            println!("cinnabar-benchmark {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Err(UsageError::Invalid(message)) => {
            print!("{message}\n\n{}", options::HELP);
            return ExitCode::FAILURE;
        }
        Err(UsageError::Value(message)) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut options: Options) -> Result<(), String> {
    let seed = options.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.as_nanos() as u64
    });
    let encryption = encryption(&options)?;
    let title = cases::title(&options.command);
    if options.last_from_stdin {
        let mut last = Vec::new();
        std::io::stdin().read_to_end(&mut last).map_err(|error| format!("Standard input: {error}"))?;
        options.command.push(last);
    }
    if !options.keep_alive {
        eprintln!("{KEEPALIVE_WARNING}");
    }
    if options.idle {
        println!("Creating {} idle connections and waiting forever (Ctrl+C when done)", options.clients);
        let case = Case { title: String::new(), sequence: batch::CommandSequence::default() };
        return load_generator::idle(&plan(&options, &case, encryption.as_ref()), options.clients)
            .map_err(|failure| explain(failure, &options));
    }
    let data = payload(options.data_size, seed);
    let cases = if options.command.is_empty() {
        cases::cases(&options, &data)
    } else {
        vec![cases::given(&options, title, &data)]
    };
    let server = ask_configuration(&options)?;
    if options.csv {
        println!("{}", report::CSV_HEADER);
    }
    loop {
        for case in &cases {
            if case.title == "FCALL" && options.command.is_empty() {
                ask(&options, &[cases::library()])?;
            }
            run_case(&options, case, seed, server.as_ref(), encryption.as_ref())?;
        }
        if !options.forever {
            if options.quiet && !options.csv {
                println!();
            }
            return Ok(());
        }
    }
}

/// Loads the server with one case and prints how it went.
fn run_case(
    options: &Options,
    case: &Case,
    seed: u64,
    server: Option<&(String, String)>,
    tls: Option<&Encryption>,
) -> Result<(), String> {
    let plan = plan(options, case, tls);
    let shared = LoadCounts::new();
    let threads = options.threads.unwrap_or(1).min(options.clients);
    let mut progress = (!options.csv).then(|| ReportProgress::new(&case.title, options));
    let results = std::thread::scope(|scope| {
        let loaders: Vec<_> = (0..threads)
            .map(|thread| {
                let connections = options.clients / threads + usize::from(thread < options.clients % threads);
                let numbers = numbers(options, seed, thread, threads);
                let (plan, shared) = (&plan, &shared);
                scope.spawn(move || load_generator::run(plan, shared, connections, numbers))
            })
            .collect();
        while let Some(progress) = &mut progress
            && !loaders.iter().all(|loader| loader.is_finished())
        {
            progress.show(&shared);
            wait(PROGRESS_EVERY, || loaders.iter().all(|loader| loader.is_finished()));
        }
        loaders.into_iter().map(|loader| loader.join()).collect::<Vec<_>>()
    });
    let took = shared.took().saturating_sub(options.warmup);
    if let Some(progress) = &progress {
        progress.clear();
    }
    let mut latencies = load_generator::new_histogram();
    for result in results {
        let recorded = result.map_err(|_| "A loading thread ended unexpectedly".to_string())?;
        let recorded = recorded.map_err(|failure| explain(failure, options))?;
        latencies.add(&recorded).map_err(|error| error.to_string())?;
    }
    let payload = if options.command.is_empty() { options.data_size } else { case.sequence.size() };
    let outcome = RunOutcome { title: &case.title, took, payload, latencies: &latencies, server };
    print!("{}", report::render(&outcome, options));
    std::io::stdout().flush().map_err(|error| error.to_string())
}

/// Sleeps, but no longer than until `over`.
fn wait(time: Duration, over: impl Fn() -> bool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !over() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn numbers(options: &Options, seed: u64, thread: usize, threads: usize) -> Numbers {
    let range = options.range.unwrap_or(1);
    if options.sequential {
        // Threads count through parts of the range, so that together they meet every number.
        Numbers::sequential(range, range / threads as u64 * thread as u64)
    } else {
        Numbers::random(range, seed.wrapping_add(thread as u64))
    }
}

/// What connections are encrypted with, if they are.
fn encryption(options: &Options) -> Result<Option<Encryption>, String> {
    let tls = &options.tls;
    Ok(if tls.enabled { Some((tls.settings()?, tls.server_name()?)) } else { None })
}

fn plan<'p>(options: &'p Options, case: &'p Case, tls: Option<&'p Encryption>) -> Plan<'p> {
    let commands = greeting(options);
    let mut greeting = Vec::new();
    for command in &commands {
        resp::reply_value::encode_command(&mut greeting, command);
    }
    Plan {
        target: &options.target,
        tls,
        greeting,
        greeting_replies: commands.len() as u64,
        sequence: &case.sequence,
        pipeline: options.pipeline,
        keep_alive: options.keep_alive,
        extent: options.extent,
        warmup: options.warmup,
        rate: options.rate,
    }
}

/// What every connection sends first.
fn greeting(options: &Options) -> Vec<Vec<Vec<u8>>> {
    let command = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect();
    let mut commands = Vec::new();
    match (&options.user, &options.password) {
        (Some(user), Some(password)) => commands.push(command(&[&b"AUTH"[..], user, password])),
        (None, Some(password)) => commands.push(command(&[&b"AUTH"[..], password])),
        _ => {}
    }
    if options.resp3 {
        commands.push(command(&[&b"HELLO"[..], b"3"]));
    }
    if options.tracking {
        commands.push(command(&[&b"CLIENT"[..], b"TRACKING", b"ON"]));
    }
    if options.database != 0 {
        commands.push(command(&[&b"SELECT"[..], options.database.to_string().as_bytes()]));
    }
    commands
}

/// What the server says of its durability; None when it does not want to. A server that cannot be talked to is an
/// error.
fn ask_configuration(options: &Options) -> Result<Option<(String, String)>, String> {
    let get = |name: &str| [&b"CONFIG"[..], b"GET", name.as_bytes()].map(<[u8]>::to_vec).to_vec();
    let answers = ask(options, &[get("save"), get("appendonly")])?;
    let value = |answer: &resp::reply_value::Value| match answer {
        resp::reply_value::Value::Array(items) | resp::reply_value::Value::Push(items) => {
            items.get(1).and_then(text_of)
        }
        resp::reply_value::Value::Map(pairs) => pairs.first().and_then(|(_, value)| text_of(value)),
        _ => None,
    };
    Ok(answers.first().and_then(value).zip(answers.get(1).and_then(value)))
}

fn text_of(value: &resp::reply_value::Value) -> Option<String> {
    match value {
        resp::reply_value::Value::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

/// Sends commands over a connection of their own and answers the replies.
fn ask(options: &Options, commands: &[Vec<Vec<u8>>]) -> Result<Vec<resp::reply_value::Value>, String> {
    let cannot =
        |error: std::io::Error| format!("Could not connect to server at {}: {}", options.target, reason(&error));
    let mut stream: Box<dyn ReadWrite> = match &options.target {
        Target::Tcp { host, port } => {
            let stream = std::net::TcpStream::connect((host.as_str(), *port)).map_err(cannot)?;
            match encryption(options)? {
                Some((settings, name)) => Box::new(ClientStream::connect(stream, settings, name).map_err(cannot)?),
                None => Box::new(stream),
            }
        }
        Target::Unix(path) => Box::new(std::os::unix::net::UnixStream::connect(path).map_err(cannot)?),
    };
    let greeting = greeting(options);
    let mut bytes = Vec::new();
    for command in greeting.iter().chain(commands) {
        resp::reply_value::encode_command(&mut bytes, command);
    }
    stream.write_all(&bytes).map_err(cannot)?;
    let mut answers = Vec::new();
    let mut decoder = resp::reply_value::Decoder::new();
    let (mut pending, mut buffer) = (Vec::new(), [0; 4096]);
    while answers.len() < greeting.len() + commands.len() {
        let count = stream.read(&mut buffer).map_err(cannot)?;
        if count == 0 {
            return Err(format!("{} closed the connection", options.target));
        }
        pending.extend_from_slice(&buffer[..count]);
        while let Some((value, used)) = decoder.decode(&pending).map_err(|error| error.to_string())? {
            pending.drain(..used);
            if let resp::reply_value::Value::Error(text) = &value
                && answers.len() < greeting.len()
            {
                return Err(format!("Node {} replied with error:\n{}", options.target, String::from_utf8_lossy(text)));
            }
            answers.push(value);
        }
    }
    Ok(answers.split_off(greeting.len()))
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

fn explain(failure: RunFailure, options: &Options) -> String {
    match failure {
        RunFailure::Connect(error) => format!("Could not connect to server at {}: {}", options.target, reason(&error)),
        RunFailure::Lost(error) => format!("Error: connection to {}: {}", options.target, reason(&error)),
        RunFailure::Server(text) => format!("Error from server: {text}"),
        RunFailure::Protocol => format!("Error: {} does not speak RESP", options.target),
    }
}

/// The system's words without what Rust puts around them.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.strip_prefix("failed to lookup address information: ").unwrap_or(text).to_owned()
}

/// Letters, the same for the same seed.
fn payload(size: usize, seed: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..size).map(|_| rng.alphanumeric() as u8).collect()
}
