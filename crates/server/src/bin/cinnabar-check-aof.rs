//! cinnabar-check-aof: checks whether the append-only file can be read, with the output of `valkey-check-aof`; an
//! incomplete end is cut off.
//!
//! ```text
//!   cinnabar-check-aof [--fix | --truncate-to-timestamp SECONDS] FILE.manifest | FILE.aof
//! ```
//!
//! Ends with 0 if all of it is sound, or is now; with 1 if not. Only the last file of several is ever cut off.
#![forbid(unsafe_code)]

use commands::version::{CINNABAR, VALKEY};
use engine::time::UnixMs;
use persistence::aof::check::{Analysis, analyze};
use persistence::aof::manifest::Manifest;
use persistence::check::check_beginning;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// The reason for the end has been printed.
struct Ended;

/// Actions besides printing.
#[derive(Clone, Copy)]
struct Options {
    fix: bool,
    /// Unix seconds after which everything is removed.
    until: Option<i64>,
}

fn main() -> ExitCode {
    commands::install_types(types::TYPES);
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let program = arguments.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let words: Vec<&OsStr> = arguments.iter().skip(1).map(OsString::as_os_str).collect();
    let none = Options { fix: false, until: None };
    let (name, options) = match words[..] {
        [word] if word == "-v" || word == "--version" => {
            println!("cinnabar-check-aof v={VALKEY} cinnabar={CINNABAR} bits=64");
            return ExitCode::SUCCESS;
        }
        [name] => (name, none),
        [option, name] if option == "--fix" => (name, Options { fix: true, ..none }),
        [option, seconds, name] if option == "--truncate-to-timestamp" => {
            match seconds.to_str().and_then(|digits| digits.parse().ok()) {
                // The beginning of time is no limit.
                Some(seconds) => (name, Options { until: Some(seconds).filter(|seconds| *seconds != 0), ..none }),
                None => {
                    println!("Invalid timestamp, aborting...");
                    return ExitCode::FAILURE;
                }
            }
        }
        _ => {
            println!("Usage: {program} [--fix|--truncate-to-timestamp $timestamp] <file.manifest|file.aof>");
            return ExitCode::FAILURE;
        }
    };
    match run(Path::new(name), options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Ended) => ExitCode::FAILURE,
    }
}

fn run(path: &Path, options: Options) -> Result<(), Ended> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| end(&format!("Cannot open file {shown}: {}", reason(&error))))?;
    let is_manifest = is_manifest(BufReader::new(file)).map_err(|_| end(&format!("Cannot read file: {shown}")))?;
    let mut tool = Tool { options, lines: 1 };
    if is_manifest {
        println!("Start checking Multi Part AOF");
        return tool.check_all(path);
    }
    println!("Start checking Old-Style AOF");
    tool.check(&Part { what: "AOF", name: &shown.to_string(), path, is_last: true })
}

fn end(text: &str) -> Ended {
    println!("{text}");
    Ended
}

/// Returns the system's text of an error.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Returns whether the first line that is no comment is one of a manifest.
fn is_manifest(mut file: BufReader<File>) -> io::Result<bool> {
    loop {
        let start = file.fill_buf()?;
        if start.first() != Some(&b'#') {
            return Ok(start.starts_with(b"file"));
        }
        file.skip_until(b'\n')?;
    }
}

/// A file that is to be checked.
struct Part<'p> {
    what: &'static str,
    /// Name in most lines.
    name: &'p str,
    path: &'p Path,
    is_last: bool,
}

struct Tool {
    options: Options,
    /// Number of the line in all files together, from 1 on.
    lines: u64,
}

impl Tool {
    fn check_all(&mut self, manifest: &Path) -> Result<(), Ended> {
        let text = fs::read(manifest).map_err(|error| end(&format!("Cannot read file: {}", reason(&error))))?;
        let found = Manifest::parse(&text).map_err(|mistake| {
            println!("\n*** FATAL AOF MANIFEST FILE ERROR ***\n");
            if let Some((number, line)) = &mistake.line {
                println!("Reading the manifest file, at line {number}\n");
                println!(">>> '{}'\n", String::from_utf8_lossy(line));
            }
            end(&format!("{}\n", mistake.text))
        })?;
        let directory = match manifest.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let path = |name: &[u8]| -> PathBuf { directory.join(OsStr::from_bytes(name)) };
        if let Some(base) = &found.base {
            let path = path(&base.name);
            let format = if preamble(&path)? { "RDB" } else { "RESP" };
            println!("Start to check BASE AOF ({format} format).");
            let name = String::from_utf8_lossy(&base.name);
            self.check(&Part { what: "BASE AOF", name: &name, path: &path, is_last: found.incr.is_empty() })?;
        }
        if !found.incr.is_empty() {
            println!("Start to check INCR files.");
        }
        for (index, entry) in found.incr.iter().enumerate() {
            let (name, path) = (String::from_utf8_lossy(&entry.name), path(&entry.name));
            let is_last = index + 1 == found.incr.len();
            self.check(&Part { what: "INCR AOF", name: &name, path: &path, is_last })?;
        }
        println!("All AOF files and manifest are valid");
        Ok(())
    }

    fn check(&mut self, part: &Part<'_>) -> Result<(), Ended> {
        let (mut file, size) = open(part.path)?;
        let name = part.name;
        if size == 0 {
            println!("{} {name} is empty", part.what);
            return Ok(());
        }
        let broken = |error: io::Error| end(&format!("Cannot read file: {}: {}", part.path.display(), reason(&error)));
        let offset = check_preamble(part.path, &mut file)?;
        file.seek(SeekFrom::Start(offset)).map_err(broken)?;
        let until = self.options.until;
        let found = analyze(&mut BufReader::new(file), offset, name, until, &mut self.lines).map_err(broken)?;
        if found.has_bad_stamp {
            return Err(end("Invalid timestamp annotation"));
        }
        if let (Some(late), Some(until)) = (found.late, until) {
            return cut_late(part, late, until);
        }
        self.judge(part, &found, size)
    }

    /// Prints the result, and cuts the file off where that is wanted.
    fn judge(&self, part: &Part<'_>, found: &Analysis, size: u64) -> Result<(), Ended> {
        let name = part.name;
        if let Some(complaint) = &found.complaint {
            println!("{complaint}");
        }
        let (good, bad) = (found.good, size.saturating_sub(found.good));
        match self.options.until.filter(|_| bad == 0) {
            Some(until) => println!("Truncate nothing in AOF {name} to timestamp {until}"),
            None => println!(
                "AOF analyzed: filename={name}, size={size}, ok_up_to={good}, ok_up_to_line={}, diff={bad}",
                self.lines
            ),
        }
        if bad == 0 {
            println!("{} {name} is valid", part.what);
            return Ok(());
        }
        if !self.options.fix {
            return Err(end(&format!("AOF {name} is not valid. Use the --fix option to try fixing it.")));
        }
        if !part.is_last {
            return Err(end(&format!("Failed to truncate AOF {name} because it is not the last file")));
        }
        println!("This will shrink the AOF {name} from {size} bytes, with {bad} bytes, to {good} bytes");
        if !is_confirmed() {
            return Err(end("Aborting..."));
        }
        truncate(part.path, good).map_err(|_| end(&format!("Failed to truncate AOF {name}")))?;
        println!("Successfully truncated AOF {name}");
        Ok(())
    }
}

fn open(path: &Path) -> Result<(File, u64), Ended> {
    let shown = path.display();
    let opened = File::open(path).and_then(|file| file.metadata().map(|data| (file, data.len())));
    opened.map_err(|error| end(&format!("Cannot open file {shown}: {}, aborting...", reason(&error))))
}

/// Returns whether a file begins in the snapshots' format.
fn preamble(path: &Path) -> Result<bool, Ended> {
    let file = File::open(path);
    let file = file.map_err(|error| end(&format!("Cannot open file {}: {}", path.display(), reason(&error))))?;
    let mut file = BufReader::new(file);
    let start = file.fill_buf().map_err(|_| end(&format!("Cannot read file: {}", path.display())))?;
    Ok(start.starts_with(b"REDIS") || start.starts_with(b"VALKEY"))
}

/// Checks a preamble, if there is one. Returns its end.
fn check_preamble(path: &Path, file: &mut File) -> Result<u64, Ended> {
    if !preamble(path)? {
        return Ok(0);
    }
    #[expect(clippy::disallowed_methods, reason = "expiries are compared with it")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64);
    let (report, end_of_it) = check_beginning(&path.display().to_string(), file, UnixMs(now));
    print!("{}", report.text);
    if !report.is_sound {
        return Err(end("RDB preamble of AOF file is not sane, aborting."));
    }
    println!("RDB preamble is OK, proceeding with AOF tail...");
    Ok(end_of_it)
}

/// Cuts off commands after a time.
fn cut_late(part: &Part<'_>, late: u64, until: i64) -> Result<(), Ended> {
    let (name, path) = (part.name, part.path);
    if late == 0 {
        return Err(end(&format!("AOF {name} has nothing before timestamp {until}, aborting...")));
    }
    if !part.is_last {
        let shown = path.display();
        println!(
            "Failed to truncate AOF {shown} to timestamp {until} to offset {late} because it is not the last file."
        );
        return Err(end(
            "If you insist, please delete all files after this file according to the manifest file and delete the corresponding records in manifest file manually. Then re-run cinnabar-check-aof.",
        ));
    }
    truncate(path, late).map_err(|_| end(&format!("Failed to truncate AOF {name} to timestamp {until}")))?;
    println!("Successfully truncated AOF {name} to timestamp {until}");
    Ok(())
}

fn truncate(path: &Path, len: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(len)?;
    file.sync_all()
}

/// Asks the operator; no answer counts as no.
fn is_confirmed() -> bool {
    print!("Continue? [y/N]: ");
    // If the question cannot be shown, no answer comes.
    let _ = io::stdout().flush();
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).is_ok() && answer.starts_with(['y', 'Y'])
}
