//! A walk over the whole keyspace, for modes that look at each key: to its end, or to Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use resp::Value;

use super::progress_bar::ProgressBar;
use super::scan_keys::Scan;
use crate::protocol_client::ClientFailure;
use crate::resp_session::RespSession;
use crate::transport::print;

/// Text before each walk that looks for records.
const INTRODUCTION: &str = "
# Scanning the entire keyspace to find {what} as well as
# average sizes per key type.  You can use -i 0.1 to sleep 0.1 sec
# per 100 SCAN commands (not usually needed).

";

/// Returns the lines that describe the purpose of a walk.
pub fn introduction(what: &str) -> String {
    INTRODUCTION.replace("{what}", what)
}

/// Position of a walk.
#[derive(Debug)]
pub struct WalkProgress {
    bar: ProgressBar,
    /// Share of the keyspace before this step, in percent.
    pub percent: f64,
    /// Number of keys before this step.
    seen: u64,
}

impl WalkProgress {
    /// Prints a text, and clears the bar first.
    pub fn print(&mut self, text: &str) {
        self.bar.clear();
        print(text.as_bytes());
    }
}

/// End of a walk.
#[derive(Debug, PartialEq, Eq)]
pub struct WalkEnd {
    /// The cursor to continue with after Ctrl-C.
    pub interrupted_at: Option<Vec<u8>>,
    pub seen: u64,
    /// Number of keys at the start.
    pub total: u64,
}

/// Prints `introduction` once the server answers, and calls `look` with the keys of every step. Sleeps as the options
/// say, and ends early at Ctrl-C.
pub fn walk(
    session: &mut RespSession,
    introduction: &str,
    mut look: impl FnMut(&mut RespSession, &[Vec<u8>], &mut WalkProgress) -> Result<(), ClientFailure>,
) -> Result<WalkEnd, ClientFailure> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop))
        .map_err(|error| ClientFailure::Lost(error.to_string()))?;
    // A replica of a cluster accepts reads only after READONLY; elsewhere it changes nothing.
    session.ask(&["READONLY"])?;
    let total = match session.ask(&["DBSIZE"])? {
        Value::Int(count) => u64::try_from(count).unwrap_or(0),
        Value::Error(text) => return Err(refused("Couldn't determine DBSIZE", &text)),
        _ => 0,
    };
    if !session.options().output.is_json() {
        print(introduction.as_bytes());
    }
    let mut progress = WalkProgress { bar: ProgressBar::new(), percent: 0.0, seen: 0 };
    let (mut scan, mut steps) = (Scan::from(session.options().cursor), 0);
    while !stop.load(Ordering::Relaxed)
        && let Some(keys) = scan.next(session)?
    {
        progress.percent = (100.0 * progress.seen as f64 / total.max(1) as f64).min(100.0);
        progress.bar.show(progress.percent, progress.seen);
        look(session, &keys, &mut progress)?;
        progress.seen += keys.len() as u64;
        steps += 1;
        if steps % 100 == 0 {
            thread::sleep(session.options().interval);
        }
    }
    progress.bar.clear();
    Ok(WalkEnd { interrupted_at: scan.into_cursor(), seen: progress.seen, total })
}

pub fn refused(what: &str, text: &[u8]) -> ClientFailure {
    ClientFailure::ErrorReply(format!("{what}: {}", String::from_utf8_lossy(text)))
}
