//! What a Sentinel wants done, and what it asks of its surroundings.

/// Milliseconds since 1970 by the wall clock; a jump of it is a reason not to trust what was measured.
pub type Millis = i64;

/// A connection that the Sentinel asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A run of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScriptId(pub u64);

/// How important a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Details.
    Debug,
    /// Much of what happens.
    Verbose,
    /// What is worth to know.
    Notice,
    /// What must be known.
    Warning,
}

/// Something to be done, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Opens a connection. What is sent before it is open goes out then.
    Connect {
        /// Its number from now on.
        connection: ConnectionId,
        /// Numeric address.
        ip: String,
        /// Port.
        port: u16,
    },
    /// Sends bytes on a connection that was asked for and not closed.
    Send {
        /// On which.
        connection: ConnectionId,
        /// What.
        bytes: Vec<u8>,
    },
    /// Closes a connection; nothing is reported of it any more.
    Close {
        /// Which.
        connection: ConnectionId,
    },
    /// A message to the Sentinel's own subscribers.
    Publish {
        /// The event's name.
        channel: String,
        /// What is said of it.
        message: String,
    },
    /// A line for the log.
    Log {
        /// How important it is.
        level: Level,
        /// The line.
        text: String,
    },
    /// Starts a script; [`Sentinel::script_started`](crate::Sentinel::script_started) and
    /// [`Sentinel::script_ended`](crate::Sentinel::script_ended) tell what became of it.
    RunScript {
        /// Its number.
        script: ScriptId,
        /// Path and arguments.
        argv: Vec<Vec<u8>>,
    },
    /// Ends a script that runs for too long.
    KillScript {
        /// Which.
        script: ScriptId,
    },
    /// Ends the process with this status: a failure that SENTINEL SIMULATE-FAILURE asked for.
    Exit(u8),
}

/// A line of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigLine {
    /// `sentinel` and the statement's name: where there are lines of that name the new one takes their place.
    pub option: &'static str,
    /// The whole line.
    pub line: Vec<u8>,
    /// Whether it is written though there was none.
    pub needed: bool,
}

/// What a Sentinel has to know at once.
pub trait Host {
    /// The numeric address of a host's name.
    fn resolve(&mut self, name: &str) -> Option<String>;
    /// Whether a file is there and may be executed.
    fn is_executable(&mut self, path: &[u8]) -> bool;
    /// Writes the configuration and has it on the disk before it answers: a vote that is forgotten may be given twice.
    ///
    /// # Errors
    /// What kept it from being written.
    fn save(&mut self, lines: Vec<ConfigLine>) -> Result<(), String>;
    /// The least important lines that are logged: `debug`, `verbose`, `notice`, `warning` or `nothing`.
    fn log_level(&self) -> String;
    /// Changes that.
    fn set_log_level(&mut self, level: &str);
    /// The password that this Sentinel asks of its clients.
    fn requirepass(&self) -> Option<Vec<u8>>;
    /// The port that other Sentinels reach this one at.
    fn port(&self) -> u16;
}
