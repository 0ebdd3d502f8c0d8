//! The start of a Sentinel: from the configuration to a state that answers clients.

use super::sentinel_console::SentinelConsole;
use super::sentinel_host::SentinelHost;
use crate::system::files;
use ::sentinel::{Sentinel, load_order};
use engine::config::{LoadError, LoadedConfig};
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Returns whether a program of this name is a Sentinel without an option.
pub fn is_meant(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().map_or(&b""[..], OsStrExt::as_bytes);
    name.windows(b"-sentinel".len()).any(|part| part == b"-sentinel")
}

/// Checks the prerequisites of a Sentinel, and reads its statements.
///
/// # Errors
/// A line for the log, or a report for standard error: the Sentinel must not start.
pub fn begin(loaded: &mut LoadedConfig, config_file: &[u8]) -> Result<Arc<SentinelConsole>, LoadError> {
    let log = |message: String| LoadError::File { message };
    if config_file.is_empty() {
        return Err(log("Sentinel needs config file on disk to save state. Exiting...".to_owned()));
    }
    if let Err(error) = OpenOptions::new().append(true).open(files::path(config_file)) {
        let (file, why) = (String::from_utf8_lossy(config_file), engine::config::os_message(&error));
        return Err(log(format!("Sentinel config file {file} is not writable: {why}. Exiting...")));
    }
    let host = SentinelHost::new();
    let seed = fresh_seed();
    let mut sentinel = Sentinel::new(Box::new(host.clone()), seed, super::sentinel_console::now());
    let mut statements = std::mem::take(&mut loaded.sentinel);
    load_order(&mut statements, |statement| statement.words.first().map_or(&b""[..], Vec::as_slice));
    for statement in statements {
        let line = Some((statement.number, statement.line));
        sentinel.statement(&statement.words).map_err(|message| LoadError::Text { line, message })?;
    }
    Ok(Arc::new(SentinelConsole::new(sentinel, host)))
}

/// Returns a fresh seed: two Sentinels must not do the same at the same time.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
