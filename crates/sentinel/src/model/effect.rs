//! Effects that a Sentinel requests, and its questions to its surroundings.

pub use engine::host::log::Level;

/// Milliseconds since 1970 by the wall clock; after a jump of it measurements are not trusted.
pub type Millis = i64;

/// A connection that the Sentinel asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A run of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScriptId(pub u64);

/// An action, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Opens a connection. Bytes sent before it is open are delivered then.
    Connect {
        /// Its number from now on.
        connection: ConnectionId,
        /// Numeric address.
        ip: String,
        /// Port.
        port: u16,
    },
    /// Sends bytes on a connection that was requested and not closed.
    Send {
        /// The connection.
        connection: ConnectionId,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Closes a connection; nothing is reported of it any more.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
    /// A message to the Sentinel's own subscribers.
    Publish {
        /// The event's name.
        channel: String,
        /// The event's text.
        message: String,
    },
    /// A line for the log.
    Log {
        /// Its importance.
        level: Level,
        /// The line.
        text: String,
    },
    /// Starts a script; [`Sentinel::script_started`](crate::Sentinel::script_started) and
    /// [`Sentinel::script_ended`](crate::Sentinel::script_ended) report its fate.
    RunScript {
        /// Its number.
        script: ScriptId,
        /// Path and arguments.
        argv: Vec<Vec<u8>>,
    },
    /// Ends a script that runs for too long.
    KillScript {
        /// The script.
        script: ScriptId,
    },
    /// Ends the process with this status: a failure that SENTINEL SIMULATE-FAILURE requested.
    Exit(u8),
}

/// A line of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigLine {
    /// `sentinel` and the statement's name: the new line takes the place of lines of that name.
    pub option: &'static str,
    /// The whole line.
    pub line: Vec<u8>,
    /// Whether the line is written even if there was none.
    pub needed: bool,
}

/// Facts that a Sentinel has to know at once.
pub trait Host {
    /// Returns the numeric address of a host's name.
    fn resolve(&mut self, name: &str) -> Option<String>;
    /// Returns whether a file exists and may be executed.
    fn is_executable(&mut self, path: &[u8]) -> bool;
    /// Writes the configuration, which is on the disk when this returns: a vote that is forgotten may be given twice.
    ///
    /// # Errors
    /// The error that prevented the write.
    fn save(&mut self, lines: Vec<ConfigLine>) -> Result<(), String>;
    /// Returns the least important lines that are logged: `debug`, `verbose`, `notice`, `warning` or `nothing`.
    fn log_level(&self) -> String;
    /// Sets the least important lines that are logged.
    fn set_log_level(&mut self, level: &str);
    /// Returns the password that this Sentinel requires of its clients.
    fn requirepass(&self) -> Option<Vec<u8>>;
    /// Returns the port at which other Sentinels reach this one.
    fn port(&self) -> u16;
}
