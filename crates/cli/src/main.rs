//! cinnabar-cli: commands for a Cinnabar, Valkey or Redis server from a terminal or a script.
//!
//! | module | its one idea |
//! | --- | --- |
//! | [`command_line`], [`options`] | the user's request: its parser, and its values |
//! | [`reply_format`] | replies as text: formatted, raw, CSV, JSON |
//! | [`transport`] | the byte stream, and waiting for it and for Ctrl-C |
//! | [`protocol_client`] | the interface of both protocols to the program |
//! | [`resp_session`] | RESP, with login, database, transaction and subscriptions |
//! | [`redirect`] | redirection of a command by a node of a cluster |
//! | [`book`] | the small length-prefixed protocol |
//! | [`docs`] | the commands, as the server documents them |
//! | [`argument_tree`] | words of a line matched with a command's syntax |
//! | [`hint`], [`next_word`], [`help_text`] | the hint behind a line; words for Tab; descriptions of commands |
//! | [`completion`] | hints and completion on a terminal; preferences |
//! | [`interactive`] | commands typed or piped in, one a line |
//! | [`history`], [`paste`] | lines typed before; pasted text |
//! | [`password`] | input that is not shown |
//! | [`pipe`] | requests from standard input as they are |
//! | [`scripts`] | scripts from files, and a debugger for one |
//! | [`keys`] | walks over the keyspace, and their results |
//! | [`primary_feed`] | the stream of a primary: its data set, and then its commands |
//! | [`stat`], [`ping_latency`] | the server over time |
//! | [`top`] | the server on the full screen |
//! | [`human_bytes`] | sizes as people read them |
//! | [`cluster`] | operations on a whole cluster |
//!
//! Exit status: 0, also after an error reply; 1 when there is no connection or no reply, for a bad command line, and
//! with `-e` after an error reply.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

mod argument_tree;
mod book;
mod cluster;
mod command_line;
mod completion;
mod docs;
mod help_text;
mod hint;
mod history;
mod human_bytes;
mod interactive;
mod keys;
mod next_word;
mod options;
mod password;
mod paste;
mod ping_latency;
mod pipe;
mod primary_feed;
mod protocol_client;
mod redirect;
mod reply_format;
mod resp_session;
mod scripts;
mod stat;
mod top;
mod transport;

use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use crate::command_line::{Request, Surroundings, UsageError};
use crate::docs::Docs;
use crate::keys::{big_keys, hot_keys, key_stats, lru_test, scan_keys};
use crate::options::{Mode, Options, StdinArgument};
use crate::protocol_client::{Client, ClientFailure};
use crate::reply_format::OutputFormat;
use crate::resp_session::RespSession;
use crate::scripts::debug_session::ScriptDebugger;
use crate::scripts::eval_file;
use crate::transport::{Interrupts, print};
use resp::words;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).map(OsStringExt::into_vec).collect();
    let request = command_line::parse(&arguments, surroundings());
    match request {
        Ok(Request::Help) => {
            print(command_line::help().as_bytes());
            ExitCode::SUCCESS
        }
        Ok(Request::Version) => {
            print(format!("cinnabar-cli {}\n", resp::served_version::NAMES).as_bytes());
            ExitCode::SUCCESS
        }
        Ok(Request::Run(options)) => run(*options),
        Err(UsageError(text)) => fail(&text),
    }
}

fn surroundings() -> Surroundings {
    let password = std::env::var_os("VALKEYCLI_AUTH").or_else(|| std::env::var_os("REDISCLI_AUTH"));
    let cluster_yes = std::env::var_os("VALKEYCLI_CLUSTER_YES").or_else(|| std::env::var_os("REDISCLI_CLUSTER_YES"));
    Surroundings {
        // Test suites set FAKETTY to get a terminal's output without one.
        stdout_is_terminal: std::io::stdout().is_terminal() || std::env::var_os("FAKETTY").is_some(),
        environment_password: password.map(OsStringExt::into_vec),
        cluster_yes: cluster_yes.is_some_and(|value| value == "1"),
    }
}

fn run(mut options: Options) -> ExitCode {
    if options.warn_of_password {
        eprintln!("Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe.");
    }
    if options.ask_password {
        match password::ask("Please input password: ") {
            Ok(password) => options.password = Some(password),
            Err(error) => return fail(&format!("Error: {}", transport::reason(&error))),
        }
    }
    match &options.mode {
        Mode::Cluster(_) => return run_cluster(options),
        Mode::Commands if options.command.is_empty() => {}
        Mode::Commands => return run_one(options),
        Mode::Eval(_) if options.stepping.is_some() => {}
        Mode::Eval(file) => match eval_file::command(file, &options.command) {
            Ok(command) => return run_command(options, &command),
            Err(text) => return fail(&text),
        },
        Mode::IntrinsicLatency(seconds) => {
            ping_latency::run_intrinsic(*seconds, &options);
            return ExitCode::SUCCESS;
        }
        Mode::Hint(_) | Mode::HintFile(_) => return show_hints(options),
        Mode::Top => return top::run(options).unwrap_or_else(|failure| fail(&failure.to_string())),
        _ => return run_mode(options).unwrap_or_else(|failure| fail(&failure.to_string())),
    }
    let show_times = options.output == OutputFormat::Formatted;
    let debugger = script_debugger(&options);
    let interrupts = match Interrupts::catch() {
        Ok(interrupts) => Some(interrupts),
        Err(error) => return fail(&format!("Error: {}", transport::reason(&error))),
    };
    interactive::run(&mut *client(options, interrupts), show_times, debugger)
        .unwrap_or_else(|error| fail(&format!("Error: {}", transport::reason(&error))))
}

/// Returns the debugger of the script that `--eval` names, with `--ldb` or `--ldb-sync-mode`.
fn script_debugger(options: &Options) -> Option<ScriptDebugger> {
    let (Some(stepping), Mode::Eval(file)) = (options.stepping, &options.mode) else { return None };
    let (file, words) = (file.clone(), options.command.clone());
    Some(ScriptDebugger::new(stepping, move || eval_file::command(&file, &words)))
}

/// Returns the commands of the server; without one, those that are known.
fn learn(options: Options) -> Docs {
    let mut client = client(options, None);
    // Without a connection the known commands suffice.
    let _ = client.connect(None);
    completion::learn(&mut *client)
}

/// Runs `--test_hint` and `--test_hint_file`.
fn show_hints(options: Options) -> ExitCode {
    let mode = options.mode.clone();
    let docs = learn(options);
    match mode {
        Mode::HintFile(file) => match std::fs::read(&file) {
            Ok(text) => {
                let (verdict, failures, failed) = hint::check_file(&docs, &text);
                eprint!("{failures}");
                print(verdict.as_bytes());
                if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
            }
            Err(error) => fail(&format!("Can't open file '{file}': {}", transport::reason(&error))),
        },
        Mode::Hint(line) => {
            if let Some(hint) = hint::hint(&docs, &line) {
                print((hint + "\n").as_bytes());
            }
            ExitCode::SUCCESS
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Runs a mode that works over one connection.
fn run_mode(options: Options) -> Result<ExitCode, ClientFailure> {
    let mode = options.mode.clone();
    let mut session = RespSession::open(options)?;
    match mode {
        Mode::Pipe => {
            let all_well = pipe::run(session)?;
            return Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Mode::Replica => return primary_feed::follow(session),
        Mode::Rdb(file) => return primary_feed::dump(session, &file, false),
        Mode::FunctionsRdb(file) => return primary_feed::dump(session, &file, true),
        Mode::Scan => scan_keys::run(&mut session)?,
        Mode::BigKeys | Mode::MemoryKeys => big_keys::run(&mut session)?,
        Mode::HotKeys => hot_keys::run(&mut session)?,
        Mode::KeyStats => key_stats::run(&mut session)?,
        Mode::LruTest(keys) => lru_test::run(&mut session, keys)?,
        Mode::Stat => stat::run(&mut session)?,
        Mode::Latency | Mode::LatencyHistory => ping_latency::run(&mut session)?,
        Mode::LatencyDistribution => ping_latency::run_distribution(&mut session)?,
        Mode::Commands | Mode::Eval(_) | Mode::IntrinsicLatency(_) | Mode::Hint(_) | Mode::HintFile(_) => {}
        Mode::Cluster(_) | Mode::Top => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `--cluster`.
fn run_cluster(mut options: Options) -> ExitCode {
    if options.cluster.ask_from_password {
        match password::ask("Please input import source node password: ") {
            Ok(password) => options.cluster.from_password = Some(password),
            Err(error) => return fail(&format!("Error: {}", transport::reason(&error))),
        }
    }
    match with_standard_input(options.cluster.arguments, &options.stdin_argument) {
        Ok(arguments) => options.cluster.arguments = arguments,
        Err(UsageError(text)) => return fail(&text),
    }
    cluster::run(&options)
}

/// Sends the command of the command line.
fn run_one(options: Options) -> ExitCode {
    let Some(arguments) = typed_words(&options) else {
        // The message goes to standard output, as in valkey-cli.
        print(b"Invalid quoted string\n");
        return ExitCode::FAILURE;
    };
    let arguments = match with_standard_input(arguments, &options.stdin_argument) {
        Ok(arguments) => arguments,
        Err(UsageError(text)) => return fail(&text),
    };
    if arguments.first().is_some_and(|name| name.eq_ignore_ascii_case(b"help") || name == b"?") {
        print(help_text::help(&learn(options), &arguments[1..]).as_bytes());
        return ExitCode::SUCCESS;
    }
    run_command(options, &arguments)
}

fn run_command(options: Options, arguments: &[Vec<u8>]) -> ExitCode {
    let repeat = options.repeat;
    let mut client = client(options, None);
    match client.run(arguments, repeat).and_then(|()| client.print_messages(None)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure.to_string()),
    }
}

fn client(options: Options, interrupts: Option<Interrupts>) -> Box<dyn Client> {
    if options.book {
        Box::new(book::BookSession::new(options, interrupts))
    } else {
        Box::new(resp_session::RespSession::new(options, interrupts))
    }
}

/// Returns the command's words, unquoted if the options ask for it; `None` if quotes are unbalanced.
fn typed_words(options: &Options) -> Option<Vec<Vec<u8>>> {
    if !options.quoted_input {
        return Some(options.command.clone());
    }
    let words = options.command.iter();
    words.map(|text| words::unquote(text)).collect()
}

/// Returns the command with the argument from standard input in its place.
fn with_standard_input(mut arguments: Vec<Vec<u8>>, place: &Option<StdinArgument>) -> Result<Vec<Vec<u8>>, UsageError> {
    match place {
        None => {}
        Some(StdinArgument::Last) => arguments.push(standard_input()?),
        Some(StdinArgument::Tagged(tag)) => {
            let unmatched = || UsageError("Using -X option but stdin tag not match.".to_owned());
            let tagged = arguments.iter_mut().find(|argument| *argument == tag);
            *tagged.ok_or_else(unmatched)? = standard_input()?;
        }
    }
    Ok(arguments)
}

fn standard_input() -> Result<Vec<u8>, UsageError> {
    let mut bytes = Vec::new();
    match std::io::stdin().read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(UsageError(format!("Reading from standard input: {}", transport::reason(&error)))),
    }
}

fn fail(text: &str) -> ExitCode {
    eprintln!("{text}");
    ExitCode::FAILURE
}
