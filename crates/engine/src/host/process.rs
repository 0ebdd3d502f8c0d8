//! The process.

use crate::config::{Config, ServerHook};
use crate::time::{SteadyMs, UnixMs};
use std::io;
use std::time::Duration;

/// The process.
pub trait Process: Send + Sync {
    /// Returns the process's description for INFO.
    fn process(&self) -> ProcessInfo {
        ProcessInfo::default()
    }

    /// Returns the processor time of the process.
    fn cpu_times(&self) -> CpuTimes {
        CpuTimes::default()
    }

    /// Ends the process the hard way (DEBUG SEGFAULT).
    fn crash(&self) {}

    /// Ends the server, after all its work has been done.
    fn stop(&self) {}

    /// Begins anew as another process with the same number, as the server was started; returns only when that fails.
    fn restart(&self) -> io::Error {
        io::ErrorKind::Unsupported.into()
    }

    /// Applies this configuration to the surroundings, as far as the hook names it.
    ///
    /// # Errors
    /// The text for the client: the configuration cannot be applied.
    fn apply(&self, _hook: ServerHook, _config: &Config) -> Result<(), String> {
        Ok(())
    }
}

/// The process, for INFO.
#[derive(Clone, Debug, Default)]
pub struct ProcessInfo {
    /// Its number.
    pub id: u32,
    /// Start of the process, as Unix time in milliseconds.
    pub started_at: UnixMs,
    /// Start of the process by the clock that never goes back.
    pub began: SteadyMs,
    /// Name, release and machine of the operating system.
    pub os: String,
    /// Absolute path of the program.
    pub executable: String,
    /// `no`, `systemd` or `upstart`.
    pub supervisor: &'static str,
    /// Absolute path of the configuration file; empty when there is none.
    pub config_file: Vec<u8>,
    /// 40 hexadecimal digits that identify this run.
    pub run_id: String,
}

/// Processor time so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTimes {
    /// Time that the process has used itself.
    pub user: Duration,
    /// Time that the system has used for it.
    pub system: Duration,
    /// `user` of the first worker.
    pub main_user: Duration,
    /// `system` of that thread.
    pub main_system: Duration,
}
