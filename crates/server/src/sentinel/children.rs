//! Running scripts.

use crate::system::files;
use ::sentinel::ScriptId;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};

/// Processes by their scripts.
#[derive(Default)]
pub(super) struct Scripts {
    running: BTreeMap<ScriptId, Child>,
}

/// A script that has ended: its status, and the signal that ended it or 0.
pub(super) struct Ended {
    pub script: ScriptId,
    pub status: i32,
    pub signal: i32,
}

impl Scripts {
    /// Starts a script; returns its process.
    pub fn start(
        &mut self,
        script: ScriptId,
        argv: &[Vec<u8>],
        environment: &[(OsString, OsString)],
    ) -> io::Result<u32> {
        let (path, words) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(files::path(path));
        command.args(words.iter().map(|word| OsStr::from_bytes(word)));
        command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
        let child = command.spawn()?;
        let pid = child.id();
        self.running.insert(script, child);
        Ok(pid)
    }

    /// Kills a script that runs for too long.
    pub fn kill(&mut self, script: ScriptId) {
        if let Some(child) = self.running.get_mut(&script) {
            // A script that has ended by itself meanwhile is collected as any other.
            let _ = child.kill();
        }
    }

    /// Returns the scripts that have ended.
    pub fn collect(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        self.running.retain(|&script, child| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                let (status, signal) = (status.code().unwrap_or(0), status.signal().unwrap_or(0));
                ended.push(Ended { script, status, signal });
                false
            }
            Err(_) => {
                ended.push(Ended { script, status: 0, signal: 0 });
                false
            }
        });
        ended
    }
}
