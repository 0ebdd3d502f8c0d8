//! `nodes.conf`: one node's, and kept as it says.

use crate::system::files;
use engine::config::os_message;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};

/// The file, locked as long as the process has it.
pub struct NodeFile {
    name: Vec<u8>,
    /// The one that has the name now.
    locked: File,
}

/// It could not be written.
#[derive(Debug)]
pub struct SaveError {
    what: &'static str,
    /// What the system said.
    pub cause: io::Error,
}

/// A line for the log.
impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, os_message(&self.cause))
    }
}

impl NodeFile {
    /// Opens it, and makes it if there is none. Returns what it says.
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

    /// Its name.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// Replaces what it says. The new file is locked before it has the name.
    ///
    /// # Errors
    /// See [`SaveError`]. It says what it said before, or what it was to say if it was only its folder that failed.
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
