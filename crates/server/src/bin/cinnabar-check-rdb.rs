//! cinnabar-check-rdb: whether an RDB file can be loaded, told as `valkey-check-rdb` tells it.
//!
//! Ends with 0 if the file is sound, with 1 if it is not or there is none.
#![forbid(unsafe_code)]

use commands::version::CINNABAR;
use engine::time::UnixMs;
use persistence::check::check;
use std::ffi::OsString;
use std::fs::File;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let [_, name] = &arguments[..] else {
        let program = arguments.first().map(|name| name.to_string_lossy()).unwrap_or_default();
        eprintln!("Usage: {program} <rdb-file-name>");
        return ExitCode::FAILURE;
    };
    if name == "-v" || name == "--version" {
        println!("cinnabar-check-rdb v={CINNABAR} bits=64");
        return ExitCode::SUCCESS;
    }
    let shown = name.to_string_lossy();
    let mut file = match File::open(name) {
        Ok(file) => file,
        Err(error) => {
            println!("[offset 0] Checking RDB file {shown}");
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64);
    let report = check(&shown, &mut file, UnixMs(now));
    print!("{}", report.text);
    if report.is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
