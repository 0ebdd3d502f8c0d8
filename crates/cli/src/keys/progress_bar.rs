//! Progress of a walk, as a bar on the terminal.
//!
//! It is drawn on standard error and only on a terminal that can erase a line, so that output for programs never
//! contains it. Any other output clears it first; it is drawn again at the next step.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Columns of the bar.
const WIDTH: usize = 40;
/// Time between two drawings: more often would be unreadable.
const DRAWN_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct ProgressBar {
    is_shown: bool,
    /// Time of the last drawing, unless it was cleared since.
    drawn: Option<Instant>,
}

impl ProgressBar {
    pub fn new() -> ProgressBar {
        let can_erase = std::env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb");
        ProgressBar { is_shown: can_erase && std::io::stderr().is_terminal(), drawn: None }
    }

    pub fn show(&mut self, percent: f64, keys: u64) {
        let is_fresh = self.drawn.is_some_and(|drawn| drawn.elapsed() < DRAWN_EVERY);
        if self.is_shown && !is_fresh {
            self.put(&format!("\r{}\x1b[K", line(percent, keys)));
            self.drawn = Some(Instant::now());
        }
    }

    /// Clears the bar before other output.
    pub fn clear(&mut self) {
        if self.drawn.take().is_some() {
            self.put("\r\x1b[K");
        }
    }

    fn put(&self, text: &str) {
        // A terminal that has gone away needs no bar.
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.clear();
    }
}

fn line(percent: f64, keys: u64) -> String {
    let percent = percent.clamp(0.0, 100.0);
    let filled = (percent / 100.0 * WIDTH as f64) as usize;
    format!("{percent:6.2}% [{}{}] {keys} keys", "|".repeat(filled), " ".repeat(WIDTH - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_from_the_left() {
        assert_eq!(line(0.0, 0), format!("  0.00% [{}] 0 keys", " ".repeat(40)));
        assert_eq!(line(51.0, 7), format!(" 51.00% [{}{}] 7 keys", "|".repeat(20), " ".repeat(20)));
        assert_eq!(line(250.0, 9), format!("100.00% [{}] 9 keys", "|".repeat(40)));
    }

    #[test]
    fn without_a_terminal_there_is_none() {
        let mut bar = ProgressBar { is_shown: false, drawn: None };
        bar.show(50.0, 1);
        assert!(bar.drawn.is_none());
    }
}
