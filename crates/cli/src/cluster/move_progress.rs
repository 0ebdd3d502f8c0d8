//! Progress of moves: a dot for each key and a `#` for each slot, as valkey-cli prints them, or a bar for people.

use std::time::{Duration, Instant};

use crate::transport::print;

/// Time between two drawings of a bar.
const REDRAW: Duration = Duration::from_millis(50);
const WIDTH: usize = 30;

#[derive(Debug)]
enum Look {
    /// Output that scripts read. Quiet: single slots and keys are not shown.
    Marks {
        is_quiet: bool,
    },
    Bar {
        total: usize,
        unit: &'static str,
        drawn: Option<Instant>,
    },
}

#[derive(Debug)]
pub struct MoveProgress {
    look: Look,
    done: usize,
    keys: usize,
    begun: Instant,
}

impl MoveProgress {
    pub fn marks() -> MoveProgress {
        MoveProgress::new(Look::Marks { is_quiet: false })
    }

    pub fn quiet_marks() -> MoveProgress {
        MoveProgress::new(Look::Marks { is_quiet: true })
    }

    pub fn bar(total: usize, unit: &'static str) -> MoveProgress {
        MoveProgress::new(Look::Bar { total, unit, drawn: None })
    }

    fn new(look: Look) -> MoveProgress {
        MoveProgress { look, done: 0, keys: 0, begun: Instant::now() }
    }

    /// Begins a move; `text` describes it.
    pub fn begin(&mut self, text: &str) {
        self.mark(text);
        self.draw(false);
    }

    /// Counts keys that have arrived.
    pub fn keys(&mut self, count: usize) {
        self.keys += count;
        self.mark(&".".repeat(count));
        self.draw(false);
    }

    /// Redraws the bar as time passes.
    pub fn tick(&mut self) {
        self.mark(".");
        self.draw(false);
    }

    /// Marks that the keys of a slot have arrived.
    pub fn end_of_keys(&mut self) {
        self.mark("\n");
    }

    /// Counts slots that have arrived.
    pub fn done(&mut self, count: usize) {
        self.done += count;
        match &self.look {
            Look::Marks { .. } => print("#".repeat(count).as_bytes()),
            Look::Bar { .. } => self.draw(false),
        }
    }

    /// Ends the progress, so that the next output is on a line of its own.
    pub fn finish(&mut self) {
        if matches!(self.look, Look::Bar { drawn: Some(_), .. }) {
            self.draw(true);
            print(b"\n");
        }
    }

    fn mark(&self, text: &str) {
        if matches!(self.look, Look::Marks { is_quiet: false }) {
            print(text.as_bytes());
        }
    }

    fn draw(&mut self, at_once: bool) {
        let (done, keys, seconds) = (self.done, self.keys, self.begun.elapsed().as_secs());
        let Look::Bar { total, unit, drawn } = &mut self.look else { return };
        if at_once || drawn.is_none_or(|at| at.elapsed() >= REDRAW) {
            *drawn = Some(Instant::now());
            print(format!("\r\x1b[K{}", bar(done, *total, unit, (keys, seconds))).as_bytes());
        }
    }
}

/// `[==========>                   ]  35% 5734/16384 slots, 1200 keys, 9 s`
fn bar(done: usize, total: usize, unit: &str, (keys, seconds): (usize, u64)) -> String {
    let parts = (done * WIDTH).checked_div(total).unwrap_or(WIDTH).min(WIDTH);
    let head = if parts < WIDTH { ">" } else { "" };
    let filled = format!("{}{head}", "=".repeat(parts));
    let percent = (done * 100).checked_div(total).unwrap_or(100);
    let keys = if keys > 0 { format!(", {keys} keys") } else { String::new() };
    format!("[{filled:<WIDTH$}] {percent:3}% {done}/{total} {unit}{keys}, {seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills() {
        assert_eq!(bar(0, 10, "slots", (0, 0)), format!("[>{}]   0% 0/10 slots, 0 s", " ".repeat(29)));
        let (full, empty) = ("=".repeat(15), " ".repeat(14));
        assert_eq!(bar(5, 10, "slots", (7, 12)), format!("[{full}>{empty}]  50% 5/10 slots, 7 keys, 12 s"));
        assert_eq!(bar(11, 10, "keys", (0, 1)), format!("[{}] 110% 11/10 keys, 1 s", "=".repeat(30)));
        assert_eq!(bar(0, 0, "keys", (0, 1)), format!("[{}] 100% 0/0 keys, 1 s", "=".repeat(30)));
    }
}
