//! cinnabar-server: the commands of Redis and Valkey behind sockets, executed on every core.
#![forbid(unsafe_code)]

mod allocator;
mod aof;
mod banner;
mod client_limits;
mod clock;
mod connection;
mod crash;
mod daemon;
mod front;
mod host;
mod kept;
mod limits;
mod listener;
mod log;
mod mailbox;
mod meanwhile;
mod oom;
mod outbox;
mod pushes;
mod reaper;
mod replies;
mod settings;
mod shared;
mod start;
mod stream;
mod title;
mod turn;
mod worker;

use commands::table::Table;
use commands::version::CINNABAR;
use daemon::Daemon;
use engine::config::{Invocation, LoadError, Loaded, load, parse_command_line};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments: Vec<Vec<u8>> = std::env::args_os().skip(1).map(OsStringExt::into_vec).collect();
    let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
    let command_line = match parse_command_line(&arguments) {
        Invocation::Serve(command_line) => command_line,
        Invocation::Version => {
            println!("Cinnabar server v={CINNABAR} malloc={} bits=64", *allocator::VERSION);
            return ExitCode::SUCCESS;
        }
        Invocation::Help => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Invocation::TestMemory(_) | Invocation::CheckSystem => {
            eprintln!(
                "Cinnabar has no memory test and no system check of its own; use memtest86 or your distribution's tools."
            );
            return ExitCode::FAILURE;
        }
    };
    // Loading may change the working directory, which the names may be relative to.
    let config_file = command_line.config_file.as_deref().map(host::absolute).unwrap_or_default();
    let executable = host::executable();
    let loaded = match load(&command_line, &host::ConfigHost) {
        Ok(loaded) => loaded,
        Err(error @ LoadError::Text { .. }) => {
            eprint!("{}", error.report(CINNABAR));
            return ExitCode::FAILURE;
        }
        Err(LoadError::File { message }) => {
            log::warning(message);
            return ExitCode::FAILURE;
        }
    };
    log::open(&loaded.config);
    crash::catch_panics();
    banner::starting(!arguments.is_empty());
    match run(loaded, config_file, executable) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            log::warning(message);
            ExitCode::FAILURE
        }
    }
}

fn run(loaded: Loaded, config_file: Vec<u8>, executable: String) -> Result<(), String> {
    let Loaded { config, renames, .. } = loaded;
    if !renames.is_empty() {
        Table::rename(&renames);
    }
    let daemon = Daemon::start(&config)?;
    // The last to read the environment came before.
    title::take(&config, &executable, &config_file);
    start::serve(config, config_file, executable, &daemon)
}

const USAGE: &str = "\
Usage: cinnabar-server [/path/to/cinnabar.conf] [options] [-]
       cinnabar-server - (read the configuration from standard input)
       cinnabar-server -v or --version
       cinnabar-server -h or --help

Every directive of the configuration file is an option too:
       cinnabar-server --port 7777 --threads 4
       cinnabar-server /etc/redis.conf --loglevel verbose";
