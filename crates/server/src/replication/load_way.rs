//! The ways by which a replica loads its snapshot.

use crate::system::log;
use engine::Engine;
use engine::config::{Config, Directive};
use engine::status::persistence_status::{HeldSaves, ReplaceTurn};
use std::thread;
use std::time::Duration;

/// Time between two checks whether another thread still replaces the data set.
const LOOK: Duration = Duration::from_millis(10);
/// Time between two checks whether a save that was given up has ended.
const SAVE_LOOK: Duration = Duration::from_millis(1);

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

/// Prevents saves from beginning, and waits for the end of the one under way, which would put the former data in the
/// place of the primary's: one in the background is given up. None: the primary is wanted no more. A save may need the
/// right to apply the stream, so the caller must not hold it.
pub(super) fn hold_saves<'e>(
    engine: &'e Engine,
    turn: &ReplaceTurn<'_>,
    is_wanted: impl Fn() -> bool,
) -> Option<HeldSaves<'e>> {
    let saves = engine.persistence_status();
    let held = saves.hold_saves(turn);
    if saves.is_running_in_background() {
        log::notice("The background save under way is given up: the primary's data set takes the place of its data");
    }
    while saves.is_running() {
        if saves.is_running_in_background() {
            saves.cancel();
        }
        if !is_wanted() {
            return None;
        }
        thread::sleep(SAVE_LOOK);
    }
    Some(held)
}
