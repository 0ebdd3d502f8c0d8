//! cinnabar-cli: commands for a Cinnabar, Valkey or Redis server from a terminal or a script.
//!
//! | module | its one idea |
//! | --- | --- |
//! | [`options`] | the command line |
//! | [`words`] | text into arguments, with quotes and escapes, and back |
//! | [`format`] | replies into text: formatted, raw, CSV, JSON |
//! | [`link`] | the byte stream, and waiting for it and for Ctrl-C |
//! | [`client`] | what both protocols offer to the program |
//! | [`session`] | RESP, with login, database, transaction and subscriptions |
//! | [`book`] | the small length-prefixed protocol |
//! | [`interactive`] | commands typed or piped in, one a line |
//! | [`history`] | what was typed before |
//!
//! Exit status: 0, also after an error reply; 1 when there is no connection or no reply, for a bad command line, and
//! with `-e` after an error reply.

#![forbid(unsafe_code)]

mod book;
mod client;
mod format;
mod history;
mod interactive;
mod link;
mod options;
mod session;
mod words;

use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use crate::client::Client;
use crate::format::Output;
use crate::link::{Interrupts, print};
use crate::options::{Options, Request, StdinArgument, Surroundings, UsageError};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).map(OsStringExt::into_vec).collect();
    let request = options::parse(&arguments, surroundings());
    match request {
        Ok(Request::Help) => {
            print(options::help().as_bytes());
            ExitCode::SUCCESS
        }
        Ok(Request::Version) => {
            print(concat!("cinnabar-cli ", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
            ExitCode::SUCCESS
        }
        Ok(Request::Run(options)) => run(*options),
        Err(UsageError(text)) => fail(&text),
    }
}

fn surroundings() -> Surroundings {
    let password = std::env::var_os("VALKEYCLI_AUTH").or_else(|| std::env::var_os("REDISCLI_AUTH"));
    Surroundings {
        // FAKETTY is how test suites ask for a terminal's output without one.
        stdout_is_terminal: std::io::stdout().is_terminal() || std::env::var_os("FAKETTY").is_some(),
        environment_password: password.map(OsStringExt::into_vec),
    }
}

fn run(options: Options) -> ExitCode {
    if options.warn_of_password {
        eprintln!("Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe.");
    }
    if !options.command.is_empty() {
        return run_one(options);
    }
    let show_times = options.output == Output::Formatted;
    let interrupts = match Interrupts::catch() {
        Ok(interrupts) => Some(interrupts),
        Err(error) => return fail(&format!("Error: {}", link::reason(&error))),
    };
    interactive::run(&mut *client(options, interrupts), show_times)
        .unwrap_or_else(|error| fail(&format!("Error: {}", link::reason(&error))))
}

/// Sends the command of the command line.
fn run_one(options: Options) -> ExitCode {
    let Some(arguments) = typed_words(&options) else {
        // On standard output, where valkey-cli says it.
        print(b"Invalid quoted string\n");
        return ExitCode::FAILURE;
    };
    let arguments = match with_standard_input(arguments, &options.stdin_argument) {
        Ok(arguments) => arguments,
        Err(UsageError(text)) => return fail(&text),
    };
    if arguments.first().is_some_and(|name| name.eq_ignore_ascii_case(b"help") || name == b"?") {
        print(interactive::HELP.as_bytes());
        return ExitCode::SUCCESS;
    }
    let repeat = options.repeat;
    let mut client = client(options, None);
    match client.run(&arguments, repeat).and_then(|()| client.print_messages(None)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure.to_string()),
    }
}

fn client(options: Options, interrupts: Option<Interrupts>) -> Box<dyn Client> {
    if options.book {
        Box::new(book::BookSession::new(options, interrupts))
    } else {
        Box::new(session::Session::new(options, interrupts))
    }
}

/// The command's words, their quotes read if they are to be; `None` when those are unbalanced.
fn typed_words(options: &Options) -> Option<Vec<Vec<u8>>> {
    if !options.quoted_input {
        return Some(options.command.clone());
    }
    let words = options.command.iter();
    words.map(|text| words::unquote(text)).collect()
}

/// The command with the argument from standard input in its place.
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
        Err(error) => Err(UsageError(format!("Reading from standard input: {}", link::reason(&error)))),
    }
}

fn fail(text: &str) -> ExitCode {
    eprintln!("{text}");
    ExitCode::FAILURE
}
