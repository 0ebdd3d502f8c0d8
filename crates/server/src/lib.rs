//! The server: the commands of Redis and Valkey behind sockets, executed on every core.
//!
//! A program is a `main` that calls [`start`] with its value types.
#![deny(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

mod admin;
mod aof;
mod cluster;
mod connection;
mod event_loop;
mod host;
mod listener;
mod migration;
mod process;
mod replication;
mod schedule;
mod sentinel;
mod sentinel_within;
mod startup;
mod system;
mod tls;
mod workers;

use cinnabar_allocator as _;
use commands::InstalledType;
use commands::version::{self, CINNABAR, Commit, build_id};
use engine::config::{Directive, Invocation, LoadError, LoadedConfig, load, parse_command_line};
use process::daemon::Daemon;
use sentinel::sentinel_console::SentinelConsole;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::sync::Arc;

/// Features in `--version`: protocols that the program speaks and roles that it can have.
const FEATURES: &str = "book,cluster,lua,sentinel,tls";

/// Runs the program of this command line, with these value types beside the built-in ones, to its end.
pub fn start(types: &'static [InstalledType]) -> ExitCode {
    commands::install_types(types);
    let changed_files = env!("CINNABAR_CHANGED_FILES").parse().unwrap_or(0);
    version::set_commit(Commit { hash: env!("CINNABAR_COMMIT"), changed_files });
    let arguments: Vec<&[u8]> = host::engine_host::arguments().iter().map(|argument| argument.as_bytes()).collect();
    let mut command_line = match parse_command_line(&arguments) {
        Invocation::Serve(command_line) => command_line,
        other => return answer(&other),
    };
    command_line.sentinel |= std::env::args_os().next().is_some_and(|program| sentinel::begin::is_meant(&program));
    if command_line.sentinel {
        commands::core::mode::become_sentinel();
    }
    // The working directory, to which the names may be relative, may change in loading.
    command_line.config_file = command_line.config_file.as_deref().map(system::files::absolute);
    let config_file = command_line.config_file.clone().unwrap_or_default();
    let executable = host::engine_host::executable();
    let mut loaded = match load(&command_line, &host::config_host::ConfigHost) {
        Ok(loaded) => loaded,
        Err(error) => return refuse(&error),
    };
    system::log::open(&loaded.config);
    process::crash::catch_panics();
    let wants_sentinel = command_line.sentinel || loaded.config.int(Directive::SENTINEL_PORT) != 0;
    let sentinel = match wants_sentinel.then(|| sentinel::begin::begin(&mut loaded, &config_file)).transpose() {
        Ok(sentinel) => sentinel,
        Err(error) => return refuse(&error),
    };
    process::banner::starting(!arguments.is_empty());
    match run(loaded, config_file, executable, sentinel) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => refuse(&LoadError::File { message }),
    }
}

/// Reports why the server does not start.
fn refuse(error: &LoadError) -> ExitCode {
    match error {
        // Standard error may have no reader.
        LoadError::Text { .. } => _ = std::io::stderr().write_all(&error.report(CINNABAR)),
        LoadError::File { message } => system::log::warning(message),
    }
    ExitCode::FAILURE
}

/// Answers an invocation other than serving.
fn answer(invocation: &Invocation) -> ExitCode {
    let well = match invocation {
        Invocation::Version => {
            let (malloc, build) = (&*system::allocator::VERSION, build_id());
            let Commit { hash, changed_files } = version::commit();
            println!(
                "Cinnabar server v={} sha={hash}:{changed_files} malloc={malloc} bits=64 build={build:016x} \
                 cinnabar={CINNABAR} valkey={} redis={} features={FEATURES}",
                version::VALKEY,
                version::VALKEY,
                version::REDIS
            );
            true
        }
        Invocation::TestMemory(Some(megabytes)) => process::self_test::test_memory(*megabytes, std::io::stdout())
            .unwrap_or_else(|why| {
                eprintln!("{why}");
                false
            }),
        Invocation::TestMemory(None) => {
            eprintln!("Please specify the amount of memory to test in megabytes.");
            eprintln!("Example: ./cinnabar-server --test-memory 4096\n");
            false
        }
        Invocation::CheckSystem => process::self_test::check_system(std::io::stdout()).unwrap_or(false),
        Invocation::Help | Invocation::Serve(_) => {
            println!("{USAGE}");
            true
        }
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(
    loaded: LoadedConfig,
    config_file: Vec<u8>,
    executable: String,
    sentinel: Option<Arc<SentinelConsole>>,
) -> Result<(), String> {
    process::unsupported::refuse(&loaded, sentinel.is_some())?;
    let LoadedConfig { config, renames, users, .. } = loaded;
    commands::install(&renames);
    let daemon = Daemon::start(&config)?;
    // The environment has been read for the last time.
    process::title::take(&config, &executable, &config_file);
    startup::serve(config, &users, config_file, executable, &daemon, sentinel)
}

const USAGE: &str = "\
Usage: ./cinnabar-server [/path/to/cinnabar.conf] [options] [-]
       ./cinnabar-server - (read config from stdin)
       ./cinnabar-server -v or --version
       ./cinnabar-server -h or --help
       ./cinnabar-server --test-memory <megabytes>
       ./cinnabar-server --check-system
       ./cinnabar-server /path/to/sentinel.conf --sentinel

Examples:
       ./cinnabar-server --port 7777 --threads 4
       ./cinnabar-server /etc/redis.conf --loglevel verbose";
