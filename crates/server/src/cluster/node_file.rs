//! `nodes.conf` of one node, which is read at the start and replaced at each change.

use crate::system::files;
use engine::config::os_message;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};

/// File of the node, locked as long as the process has it.
pub struct NodeFile {
    name: Vec<u8>,
    /// File that has the name now.
    locked: File,
}

/// Error of a write.
#[derive(Debug)]
pub struct SaveError {
    what: &'static str,
    /// The system's error.
    pub cause: io::Error,
}

/// Formats a line for the log.
impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, os_message(&self.cause))
    }
}

impl NodeFile {
    /// Opens the file, and makes it if there is none. Returns its content.
    ///
    /// # Errors
    /// A line for the log.
    pub fn open(name: &[u8]) -> Result<(NodeFile, Vec<u8>), String> {
        let shown = String::from_utf8_lossy(name).into_owned();
        let open = OpenOptions::new().read(true).append(true).create(true).open(files::path(name));
        let mut locked = open.map_err(|error| format!("Can't open {shown} in order to acquire a lock: {error}"))?;
        locked.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => format!(
                "Sorry, the cluster configuration file {shown} is already used by a different Cluster node. Please make \
                 sure that different nodes use different cluster configuration files."
            ),
            TryLockError::Error(error) => format!("Impossible to lock {shown}: {error}"),
        })?;
        let mut text = Vec::new();
        locked.read_to_end(&mut text).map_err(|error| format!("Can't read {shown}: {error}"))?;
        Ok((NodeFile { name: name.to_vec(), locked }, text))
    }

    /// Returns the file's name.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// Replaces the file's content. The new file is locked before it has the name.
    ///
    /// # Errors
    /// [`SaveError`]: the file has its former content, or the new one if only its folder failed.
    pub fn save(&mut self, text: &[u8], is_durable: bool) -> Result<(), SaveError> {
        let failed = |what: &'static str| move |cause: io::Error| SaveError { what, cause };
        let target = files::path(&self.name);
        let mut temporary = target.as_os_str().to_owned();
        temporary.push(format!(".tmp-{}", std::process::id()));
        let temporary = std::path::Path::new(&temporary);
        let write = || {
            let mut file = File::create(temporary).map_err(failed("Could not open temp cluster config file"))?;
            file.write_all(text).map_err(failed("Failed after writing of the tmp cluster config file"))?;
            if is_durable {
                file.sync_all().map_err(failed("Could not sync tmp cluster config file"))?;
            }
            file.try_lock().map_err(io::Error::from).map_err(failed("Could not lock tmp cluster config file"))?;
            std::fs::rename(temporary, target).map_err(failed("Could not rename tmp cluster config file"))?;
            if is_durable {
                files::sync_directory_of(target).map_err(failed("Could not sync cluster config file dir"))?;
            }
            Ok(file)
        };
        match write() {
            Ok(file) => {
                self.locked = file;
                Ok(())
            }
            Err(error) => {
                // The error that is reported is the one that came first.
                let _ = std::fs::remove_file(temporary);
                Err(error)
            }
        }
    }
}
