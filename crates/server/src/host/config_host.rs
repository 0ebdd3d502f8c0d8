//! The surroundings that loading a configuration needs.

use crate::system::files::{self, path};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;

/// Files and folders for the configuration.
pub struct ConfigHost;

impl engine::config::ConfigFiles for ConfigHost {
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
        files::change_dir(name)
    }

    fn can_append(&self, name: &[u8]) -> io::Result<()> {
        std::fs::OpenOptions::new().append(true).create(true).open(path(name)).map(drop)
    }

    fn command_exists(&self, name: &[u8]) -> bool {
        commands::is_built_in(name)
    }

    fn check_user(&self, words: &[Vec<u8>], earlier: &[Vec<Vec<u8>>]) -> Result<(), (usize, String)> {
        commands::check_user(words, earlier)
    }
}
