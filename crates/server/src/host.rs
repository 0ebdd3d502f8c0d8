//! What the server does for the engine and for loading a configuration.

use crate::reaper::Reaper;
use engine::effects::{Event, Garbage};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The engine's host: frees in the background.
pub struct EngineHost {
    pub reaper: Reaper,
}

impl engine::host::Host for EngineHost {
    fn free(&self, garbage: Vec<Garbage>) {
        self.reaper.take(garbage);
    }

    fn events(&self, _: Vec<Event>) {}
}

/// Files and folders for the configuration.
pub struct ConfigHost;

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

impl engine::config::Host for ConfigHost {
    fn read_file(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        std::fs::read(path(name))
    }

    fn read_stdin(&self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        io::stdin().lock().read_to_end(&mut text)?;
        Ok(text)
    }

    fn glob(&self, pattern: &[u8]) -> Vec<Vec<u8>> {
        let Ok(paths) = glob::glob(&String::from_utf8_lossy(pattern)) else { return Vec::new() };
        paths.flatten().map(|path| path.into_os_string().into_vec()).collect()
    }

    fn change_dir(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        std::env::set_current_dir(path(name))?;
        Ok(std::env::current_dir()?.into_os_string().into_vec())
    }

    fn can_append(&self, name: &[u8]) -> io::Result<()> {
        std::fs::OpenOptions::new().append(true).create(true).open(path(name)).map(drop)
    }

    fn command_exists(&self, name: &[u8]) -> bool {
        commands::table::Table::get().find(name).is_some()
    }

    fn check_user(&self, _: &[Vec<u8>]) -> Result<(), (usize, String)> {
        Ok(())
    }
}
