//! Who asks for a command, and what that means for data whose time is over.
//!
//! | asker | data whose time is over |
//! | --- | --- |
//! | [`Client`](Asker::Client), [`Script`](Asker::Script) | is not there: hidden, and removed unless [the engine keeps it](crate::Engine::keeps_expired) |
//! | [`Replay`](Asker::Replay), [`Import`](Asker::Import) | is there: whoever recorded or sends the command found it, and tells of its removal |
//!
//! One value says that of a command's whole run ([`Keys::origin`](crate::keyspace::keys::Keys::origin)). What is over is judged by
//! [`Keys::expiry_now`](crate::keyspace::keys::Keys::expiry_now) and by no other clock.

/// Who asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asker {
    #[default]
    Client,
    /// A script or function that a client called.
    Script,
    /// The log, which is read again.
    Replay,
    /// A client that brings the data of another server (`import-mode`, CLIENT IMPORT-SOURCE).
    Import,
}

impl Asker {
    /// Whether it is told of the end of data instead of judging it by the time.
    pub fn sees_expired(self) -> bool {
        matches!(self, Asker::Replay | Asker::Import)
    }

    /// Whether its commands were accepted once and are not refused now.
    pub fn is_obeyed(self) -> bool {
        self == Asker::Replay
    }
}

/// Who asks, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub asker: Asker,
    /// The clock's Unix time in milliseconds; it stands still for the command.
    pub now: i64,
}

/// A time before all deadlines.
const NO_TIME: i64 = -1;

impl Origin {
    /// A client's command at a Unix time in milliseconds.
    #[inline(always)]
    pub fn client(now: i64) -> Origin {
        Origin { asker: Asker::Client, now }
    }

    /// The time that deadlines are compared with, Unix time in milliseconds; before all of them for who sees data
    /// whose time is over.
    #[inline(always)]
    pub fn expiry_now(self) -> i64 {
        if self.asker.sees_expired() { NO_TIME } else { self.now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_is_a_matter_of_who_asks() {
        for (asker, expected) in
            [(Asker::Client, 7), (Asker::Script, 7), (Asker::Replay, NO_TIME), (Asker::Import, NO_TIME)]
        {
            assert_eq!(Origin { asker, now: 7 }.expiry_now(), expected, "{asker:?}");
        }
    }
}
