//! What is said while a cluster is worked on: on standard output, in colors on terminals of a kind that has them.

use crate::transport::print;

/// How to say things.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    in_color: bool,
    /// A program reads standard output: what is wrong goes to standard error, and nothing else is said.
    is_silent: bool,
    /// A person watches: moves are shown as a bar.
    pub for_people: bool,
}

/// The user has been told what went wrong.
#[derive(Debug)]
pub struct Reported;

/// What was done, or that it could not be, which was said.
pub type Outcome<T = ()> = Result<T, Reported>;

impl Console {
    pub fn new(for_people: bool) -> Console {
        // The kind of terminal decides, whatever standard output is: so it is with valkey-cli, for those who read it.
        let in_color = std::env::var("TERM").is_ok_and(|term| term.contains("xterm"));
        Console { in_color, is_silent: false, for_people }
    }

    /// For a report that a program reads.
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

    /// Says an error; the outcome of what had it.
    pub fn refuse<T>(self, text: &str) -> Outcome<T> {
        self.error(text);
        Err(Reported)
    }
}

/// Says on standard error why nothing can be done.
pub fn give_up<T>(text: &str) -> Outcome<T> {
    eprintln!("{text}");
    Err(Reported)
}
