//! The ways by which a replica loads its snapshot.

use engine::Engine;
use engine::config::{Config, Directive};

/// How a snapshot gets into the keyspace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LoadWay {
    /// By a file.
    File,
    /// As it comes, in the place of what there was.
    InPlace,
    /// As it comes, beside what is there.
    Beside,
}

impl LoadWay {
    /// The way that the configuration asks for.
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
