//! The terminal while a program has all of it: the alternate screen, keys one by one, no cursor.
//!
//! The terminal's state is restored however the program ends, a panic included, because dropping restores it. The loop
//! that owns the screen waits for signals that end the program, so dropping is first there, too.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::top_layout::{Look, ScreenLine};

/// Alternate screen, and no cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";
/// Size of a terminal that does not report it.
const SIZE: (usize, usize) = (80, 24);

#[derive(Debug)]
pub struct FullScreen {
    before: Termios,
}

impl FullScreen {
    /// Returns whether there is a terminal for keys and for lines.
    pub fn is_possible() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    pub fn enter() -> io::Result<FullScreen> {
        let before = tcgetattr(io::stdin())?;
        let screen = FullScreen { before };
        screen.take()?;
        Ok(screen)
    }

    /// Takes the terminal, for the first time or after [`FullScreen::give_back`].
    pub fn take(&self) -> io::Result<()> {
        let mut modes = self.before.clone();
        // Ctrl-C and Ctrl-Z arrive as bytes: the program decides their effect.
        modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG | LocalModes::IEXTEN);
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
        put(ENTER)
    }

    pub fn give_back(&self) {
        // A terminal that has gone away needs no restoring.
        let _ = put(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }

    /// Returns columns and rows.
    pub fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(io::stdout().as_fd()).ok();
        size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)))
            .filter(|(columns, rows)| *columns > 0 && *rows > 0)
            .unwrap_or(SIZE)
    }

    pub fn draw(&self, lines: &[ScreenLine]) -> io::Result<()> {
        put(&frame(lines))
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        self.give_back();
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Returns the bytes that draw lines over the present ones, without a blank screen in between.
fn frame(lines: &[ScreenLine]) -> String {
    let mut frame = String::from("\x1b[H");
    for (number, line) in lines.iter().enumerate() {
        if number > 0 {
            frame.push_str("\r\n");
        }
        let look = match line.look {
            Look::Plain => "",
            Look::Title => "\x1b[1m",
            Look::Heading => "\x1b[4m",
            Look::Chosen => "\x1b[7m",
            Look::Dim => "\x1b[2m",
            Look::Warning => "\x1b[1;33m",
        };
        let end = if look.is_empty() { "" } else { "\x1b[0m" };
        frame.push_str(&format!("{look}{}{end}\x1b[K", line.text));
    }
    frame + "\x1b[J"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_drawn_over_the_one_before() {
        let line = |look, text: &str| ScreenLine { look, text: text.to_owned() };
        let lines = [line(Look::Title, "a"), line(Look::Plain, "b")];
        assert_eq!(frame(&lines), "\x1b[H\x1b[1ma\x1b[0m\x1b[K\r\nb\x1b[K\x1b[J");
    }
}
