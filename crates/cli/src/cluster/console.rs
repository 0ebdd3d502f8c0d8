//! Messages of a cluster operation: on standard output, in colors on terminals of a kind that has them.

use crate::transport::print;

/// How messages are printed.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    in_color: bool,
    /// A program reads standard output: errors go to standard error, and no other message is printed.
    is_silent: bool,
    /// A person watches: moves are shown as a bar.
    pub for_people: bool,
}

/// Marks an error that has been printed.
#[derive(Debug)]
pub struct Reported;

/// Result of an operation, or the mark of an error that has been printed.
pub type Outcome<T = ()> = Result<T, Reported>;

impl Console {
    pub fn new(for_people: bool) -> Console {
        // As in valkey-cli, the kind of terminal decides, even where standard output is none: scripts depend on it.
        let in_color = std::env::var("TERM").is_ok_and(|term| term.contains("xterm"));
        Console { in_color, is_silent: false, for_people }
    }

    /// Returns a console for a report that a program reads.
    pub fn silent() -> Console {
        Console { in_color: false, is_silent: true, for_people: false }
    }

    pub fn plain(self, text: &str) {
        if !self.is_silent {
            print(text.as_bytes());
        }
    }

    pub fn info(self, text: &str) {
        self.colored("29;1m", text);
    }

    pub fn warn(self, text: &str) {
        self.wrong("33;1m", text);
    }

    pub fn error(self, text: &str) {
        self.wrong("31;1m", text);
    }

    pub fn ok(self, text: &str) {
        self.colored("32;1m", text);
    }

    fn wrong(self, color: &str, text: &str) {
        if self.is_silent {
            eprint!("{text}");
        } else {
            self.colored(color, text);
        }
    }

    fn colored(self, color: &str, text: &str) {
        if self.is_silent {
            return;
        }
        if self.in_color {
            print(format!("\x1b[{color}{text}\x1b[0m").as_bytes());
        } else {
            print(text.as_bytes());
        }
    }

    /// Prints an error; returns the outcome of the operation that failed.
    pub fn refuse<T>(self, text: &str) -> Outcome<T> {
        self.error(text);
        Err(Reported)
    }
}

/// Prints on standard error why nothing can be done.
pub fn give_up<T>(text: &str) -> Outcome<T> {
    eprintln!("{text}");
    Err(Reported)
}
