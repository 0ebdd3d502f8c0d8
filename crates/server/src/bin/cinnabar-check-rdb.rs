//! cinnabar-check-rdb: checks whether an RDB file can be loaded, and counts its contents, with the output of
//! `valkey-check-rdb`.
//!
//! Ends with 0 if the file is sound, with 1 if it is not or there is none.
#![forbid(unsafe_code)]

use commands::version::{CINNABAR, VALKEY};
use engine::time::UnixMs;
use persistence::check::check;
use persistence::check_stats::StatsFormat;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

const HELP: &str = "\
Reads an RDB file as a server would and says whether it can be loaded.

  --stats          Print what the file has, by database and type
  --format <form>  Form of those figures: table (default), info or csv
  --output <file>  Write them to a file instead of standard output
  -v, --version    Print the version
  --help           Print this help

The status is 0 for a file that can be loaded, else 1.";

/// Options of the command line.
struct Options {
    file: OsString,
    stats: Option<StatsFormat>,
    /// File for the statistics instead of the standard output.
    output: Option<OsString>,
}

impl Options {
    /// Parses the arguments; None if they are wrong.
    fn parse(arguments: &[OsString]) -> Option<Options> {
        let (file, mut rest) = arguments.split_first()?;
        let (mut format, mut wants_stats, mut output) = (StatsFormat::Table, false, None);
        while let Some((option, more)) = rest.split_first() {
            rest = more;
            let mut value = || {
                let (value, more) = more.split_first()?;
                rest = more;
                Some(value.clone())
            };
            match option.to_str()? {
                "--stats" => wants_stats = true,
                "--output" => output = Some(value()?),
                "--format" => {
                    format = match value()?.to_str()? {
                        "table" => StatsFormat::Table,
                        "info" => StatsFormat::Info,
                        "csv" => StatsFormat::Csv,
                        _ => return None,
                    };
                }
                _ => return None,
            }
        }
        Some(Options { file: file.clone(), stats: wants_stats.then_some(format), output })
    }
}

fn main() -> ExitCode {
    commands::install_types(types::TYPES);
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let arguments: Vec<OsString> = arguments.collect();
    if let [name] = &arguments[..]
        && (name == "-v" || name == "--version")
    {
        println!("cinnabar-check-rdb v={VALKEY} cinnabar={CINNABAR} bits=64");
        return ExitCode::SUCCESS;
    }
    let usage = format!(
        "Usage: {} <rdb-file-name> [--format table|info|csv] [--stats] [--output <file>]",
        program.to_string_lossy()
    );
    if arguments.first().is_some_and(|name| name == "--help" || name == "-h") {
        println!("{usage}\n\n{HELP}");
        return ExitCode::SUCCESS;
    }
    let Some(options) = Options::parse(&arguments) else {
        eprintln!("{usage}");
        return ExitCode::FAILURE;
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the result. Returns whether the file is sound.
fn run(options: &Options) -> Result<bool, String> {
    let shown = options.file.to_string_lossy();
    let mut file = std::fs::File::open(&options.file).map_err(|error| {
        println!("[offset 0] Checking RDB file {shown}\n[offset 0] Check RDB returned error code 1 (0 means success)");
        error.to_string()
    })?;
    #[expect(clippy::disallowed_methods, reason = "expiries are compared with it")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64);
    let report = check(&shown, &mut file, UnixMs(now));
    print!("{}", report.text);
    if let Some(format) = options.stats {
        let mut out = BufWriter::new(stats_output(options)?);
        let written = report.stats.write(format, &mut out).and_then(|()| out.flush());
        written.map_err(|error| error.to_string())?;
    }
    Ok(report.is_sound)
}

fn stats_output(options: &Options) -> Result<Box<dyn Write>, String> {
    let Some(path) = &options.output else { return Ok(Box::new(io::stdout())) };
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path);
    let file = file.map_err(|error| format!("Cannot open output file: '{}': {error}", path.to_string_lossy()))?;
    Ok(Box::new(file))
}
