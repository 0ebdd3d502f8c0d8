//! The user's choices: the table, its order, the interval, or a pause.

use std::time::Duration;

/// A table of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Panel {
    Commands,
    Clients,
    HotKeys,
}

/// Action that a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Nothing,
    Redraw,
    Quit,
    /// Leave the terminal to the shell until it is given back.
    Suspend,
    /// Have the server begin or end to track hot keys.
    TrackHotKeys,
}

/// Columns by which a table can be ordered, the default first.
pub const ORDERS: [(Panel, &[&str]); 3] = [
    (Panel::Commands, &["calls/s", "share", "usec", "p99", "command"]),
    (Panel::Clients, &["out/s", "in/s", "omem", "idle", "age", "id"]),
    (Panel::HotKeys, &["usec", "bytes", "key"]),
];

const INTERVALS: [Duration; 6] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopView {
    pub panel: Panel,
    /// Order of each panel, by its place in [`ORDERS`].
    order: [usize; 3],
    pub is_reversed: bool,
    pub is_paused: bool,
    pub interval: Duration,
}

impl TopView {
    pub fn new(interval: Duration) -> TopView {
        let interval = if interval.is_zero() { Duration::from_secs(1) } else { interval };
        TopView { panel: Panel::Commands, order: [0; 3], is_reversed: false, is_paused: false, interval }
    }

    /// Returns the column by which a table is ordered.
    pub fn order_of(&self, panel: Panel) -> &'static str {
        let at = place(panel);
        ORDERS[at].1[self.order[at]]
    }

    /// Applies a key to the view; returns the action that it asks for.
    pub fn press(&mut self, key: u8) -> Action {
        match key {
            // Ctrl-C and Ctrl-D have the same effect: the terminal delivers them as bytes.
            b'q' | b'Q' | 0x03 | 0x04 => return Action::Quit,
            0x1a => return Action::Suspend,
            b'p' | b' ' => self.is_paused = !self.is_paused,
            b'\t' => self.panel = ORDERS[(place(self.panel) + 1) % ORDERS.len()].0,
            b'1'..=b'3' => self.panel = ORDERS[usize::from(key - b'1')].0,
            b's' => {
                let at = place(self.panel);
                self.order[at] = (self.order[at] + 1) % ORDERS[at].1.len();
                self.is_reversed = false;
            }
            b'r' => self.is_reversed = !self.is_reversed,
            b'+' => self.interval = INTERVALS.into_iter().find(|i| *i > self.interval).unwrap_or(self.interval),
            b'-' => self.interval = INTERVALS.into_iter().rev().find(|i| *i < self.interval).unwrap_or(self.interval),
            b'h' => return Action::TrackHotKeys,
            0x0c => {}
            _ => return Action::Nothing,
        }
        Action::Redraw
    }
}

fn place(panel: Panel) -> usize {
    ORDERS.iter().position(|(known, _)| *known == panel).unwrap_or(0)
}

/// Returns the keys among the bytes that a terminal sent: escape sequences, as arrows send them, are skipped.
pub fn keys(bytes: &[u8]) -> Vec<u8> {
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != 0x1b {
            keys.push(*first);
            continue;
        }
        if let [b'[' | b'O', sequence @ ..] = tail {
            let end = sequence.iter().position(|byte| (0x40..=0x7e).contains(byte)).map_or(sequence.len(), |at| at + 1);
            rest = &sequence[end..];
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_change_what_is_seen() {
        let mut view = TopView::new(Duration::ZERO);
        assert_eq!(view.order_of(Panel::Commands), "calls/s");
        assert_eq!((view.press(b's'), view.order_of(Panel::Commands)), (Action::Redraw, "share"));
        assert_eq!((view.press(b'\t'), view.panel), (Action::Redraw, Panel::Clients));
        view.press(b's');
        view.press(b'r');
        assert_eq!((view.order_of(Panel::Clients), view.order_of(Panel::Commands)), ("in/s", "share"));
        assert!(view.is_reversed && !view.is_paused);
        view.press(b' ');
        assert!(view.is_paused);
        view.press(b'3');
        assert_eq!(view.panel, Panel::HotKeys);
        view.press(b'\t');
        assert_eq!(view.panel, Panel::Commands);
        (0..5).for_each(|_| _ = view.press(b's'));
        assert_eq!(view.order_of(Panel::Commands), "share");
        assert_eq!(
            [b'q', 3, 0x1a, b'h', b'x'].map(|key| view.press(key)),
            [Action::Quit, Action::Quit, Action::Suspend, Action::TrackHotKeys, Action::Nothing]
        );
    }

    #[test]
    fn the_interval_has_steps() {
        let mut view = TopView::new(Duration::from_millis(1500));
        view.press(b'-');
        assert_eq!(view.interval, Duration::from_secs(1));
        (0..9).for_each(|_| _ = view.press(b'+'));
        assert_eq!(view.interval, Duration::from_secs(10));
        (0..9).for_each(|_| _ = view.press(b'-'));
        assert_eq!(view.interval, Duration::from_millis(250));
    }

    #[test]
    fn arrows_are_no_keys() {
        assert_eq!(keys(b"a\x1b[Ab\x1bOBc\x1b[1;5Cd\x1b"), b"abcd");
        assert_eq!(keys(b"\x1b["), b"");
    }
}
