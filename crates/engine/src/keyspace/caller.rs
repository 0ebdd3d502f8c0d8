//! The caller of a command, and its view of expired data.
//!
//! Expired data, by caller:
//!
//! - [`Client`](Caller::Client), [`Script`](Caller::Script): it is not there: hidden, and removed unless
//!   [the engine keeps it](crate::keyspace::Keyspace::keeps_expired).
//! - [`Replay`](Caller::Replay), [`Import`](Caller::Import), [`Primary`](Caller::Primary),
//!   [`Migration`](Caller::Migration): it is there: the server that ran the command first found it, and announces its
//!   removal.
//!
//! One value holds for a command's whole run ([`Keys::origin`](crate::keyspace::keys::Keys::origin)). Only
//! [`Keys::expiry_now`](crate::keyspace::keys::Keys::expiry_now), and no other clock, decides whether a key has
//! expired.

use crate::time::UnixMs;
/// The caller of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caller {
    /// A client, by itself or in a transaction.
    #[default]
    Client,
    /// A script or function that a client called.
    Script,
    /// The log, which is replayed.
    Replay,
    /// A client that brings the data of another server (`import-mode`, CLIENT IMPORT-SOURCE).
    Import,
    /// The server that this one follows.
    Primary,
    /// The node from which slots come.
    Migration,
}

impl Caller {
    /// Whether it learns of removals instead of judging by the time.
    pub fn sees_expired(self) -> bool {
        matches!(self, Caller::Replay | Caller::Import | Caller::Primary | Caller::Migration)
    }

    /// Whether it is a client of this server, directly or through a script.
    pub fn is_client(self) -> bool {
        matches!(self, Caller::Client | Caller::Script)
    }

    /// Whether its commands were accepted once and are not refused now.
    pub fn is_obeyed(self) -> bool {
        matches!(self, Caller::Replay | Caller::Primary | Caller::Migration)
    }
}

/// The caller of a command, and the time of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecContext {
    /// The caller.
    pub caller: Caller,
    /// Unix time of the clock in milliseconds; it stands still for the command.
    pub now: UnixMs,
}

/// A time before all expiries.
const NO_TIME: UnixMs = UnixMs(-1);

impl ExecContext {
    /// Makes the origin of a client's command at a Unix time in milliseconds.
    #[inline(always)]
    pub fn client(now: UnixMs) -> ExecContext {
        ExecContext { caller: Caller::Client, now }
    }

    /// Returns the time that expiries are compared with, Unix time in milliseconds; before all of them for a caller
    /// that sees expired data.
    #[inline(always)]
    pub fn expiry_now(self) -> UnixMs {
        if self.caller.sees_expired() { NO_TIME } else { self.now }
    }
}

/// Whether a key has expired: it lives up to its expiry and not through it.
#[inline]
pub fn is_due(expiry: u64, now: UnixMs) -> bool {
    (expiry as i64) < now.0.saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_asker_decides_whether_a_key_has_expired() {
        for (caller, expected) in [
            (Caller::Client, UnixMs(7)),
            (Caller::Script, UnixMs(7)),
            (Caller::Replay, NO_TIME),
            (Caller::Import, NO_TIME),
            (Caller::Primary, NO_TIME),
            (Caller::Migration, NO_TIME),
        ] {
            assert_eq!(ExecContext { caller, now: UnixMs(7) }.expiry_now(), expected, "{caller:?}");
        }
    }
}
