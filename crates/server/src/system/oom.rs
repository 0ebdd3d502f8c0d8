//! `oom-score-adj`: how willing the kernel is to end this process when it has no memory left.

use crate::system::log;
use engine::config::{Config, Directive};
use engine::locks::sync::Mutex;
use std::fs;

const FILE: &str = "/proc/self/oom_score_adj";

/// The score that the process had before we changed it, while it is ours.
static BASE: Mutex<Option<i32>> = Mutex::new(None);

/// Sets the score that the configuration asks for, or puts the original one back.
pub fn apply(config: &Config) -> Result<(), String> {
    let mut base = BASE.lock();
    let score = match config.choice(Directive::OOM_SCORE_ADJ) {
        "no" => match base.take() {
            Some(original) => original,
            None => return Ok(()),
        },
        way => {
            let original = *base.get_or_insert_with(read);
            // The third value is for child processes, which the server does not have.
            let [primary, replica, ..] = config.oom_score_adj_values();
            let wanted = if config.upstream().is_some() { replica } else { primary };
            let wanted = if way == "absolute" { wanted } else { original.saturating_add(wanted) };
            wanted.clamp(-1000, 1000)
        }
    };
    fs::write(FILE, score.to_string()).map_err(|error| {
        log::warning(format_args!("Unable to write oom_score_adj: {error}"));
        "Failed to set current oom_score_adj. Check server logs.".to_owned()
    })
}

fn read() -> i32 {
    fs::read_to_string(FILE).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
