//! The process.

use crate::config::{Config, ServerHook};
use std::io;
use std::time::Duration;

/// The process.
pub trait Process: Send + Sync {
    fn process(&self) -> ProcessInfo {
        ProcessInfo::default()
    }

    /// Ends the process the hard way (DEBUG SEGFAULT).
    fn crash(&self) {}

    /// Begins anew as another process with the same number, as the server was called; returns only when that fails.
    fn restart(&self) -> io::Error {
        io::ErrorKind::Unsupported.into()
    }

    /// Has the surroundings follow this configuration in what the hook names; the text of an error is for the client.
    fn apply(&self, _hook: ServerHook, _config: &Config) -> Result<(), String> {
        Ok(())
    }
}

/// The process, for INFO.
#[derive(Clone, Debug, Default)]
pub struct ProcessInfo {
    pub id: u32,
    /// Unix time in milliseconds.
    pub started_at: i64,
    /// Name, release and machine of the operating system.
    pub os: String,
    pub executable: String,
    /// `no`, `systemd` or `upstart`.
    pub supervisor: &'static str,
    /// Absolute path of the configuration file; empty when there is none.
    pub config_file: Vec<u8>,
    /// 40 hexadecimal digits that are this run's own.
    pub run_id: String,
    /// Processor time used so far.
    pub user: Duration,
    pub system: Duration,
    /// That of the thread that the process began with.
    pub main_user: Duration,
    pub main_system: Duration,
}
