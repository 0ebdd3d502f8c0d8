//! The ways by which a replica loads its snapshot.

use engine::Engine;
use engine::config::{Config, Directive};
use engine::status::persistence_status::ReplaceTurn;
use std::thread;
use std::time::Duration;

/// Time between two checks whether another thread still replaces the data set.
const LOOK: Duration = Duration::from_millis(10);

/// Way of a snapshot into the keyspace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LoadWay {
    /// Through a file.
    File,
    /// As it comes, in the place of the former data.
    InPlace,
    /// As it comes, beside the present data.
    Beside,
}

impl LoadWay {
    /// Returns the way that the configuration asks for.
    pub fn of(engine: &Engine, config: &Config) -> LoadWay {
        let is_empty = || (0..engine.databases()).all(|db| engine.len(db as u32) == 0);
        match config.choice(Directive::REPL_DISKLESS_LOAD) {
            "flush-before-load" => LoadWay::InPlace,
            "on-empty-db" if is_empty() => LoadWay::InPlace,
            "swapdb" => LoadWay::Beside,
            _ => LoadWay::File,
        }
    }
}

/// Returns the right to replace the data set, which a client's DEBUG RELOAD may have for a while. None: the primary is
/// wanted no more.
pub(super) fn replace_turn(engine: &Engine, is_wanted: impl Fn() -> bool) -> Option<ReplaceTurn<'_>> {
    loop {
        if let Some(turn) = engine.persistence_status().replace_turn() {
            return Some(turn);
        }
        if !is_wanted() {
            return None;
        }
        thread::sleep(LOOK);
    }
}
