//! The surroundings of a virtual Sentinel; its disk outlives it.

use sentinel::{ConfigLine, Host};
use std::sync::{Arc, Mutex};

/// The lines of the last write.
pub type Disk = Arc<Mutex<Vec<ConfigLine>>>;

pub struct VirtualHost {
    pub disk: Disk,
    pub port: u16,
}

impl Host for VirtualHost {
    fn resolve(&mut self, _name: &str) -> Option<String> {
        None
    }

    fn is_executable(&mut self, _path: &[u8]) -> bool {
        false
    }

    fn save(&mut self, lines: Vec<ConfigLine>) -> Result<(), String> {
        *self.disk.lock().expect("nobody panicked") = lines;
        Ok(())
    }

    fn log_level(&self) -> String {
        "notice".to_string()
    }

    fn set_log_level(&mut self, _level: &str) {}

    fn requirepass(&self) -> Option<Vec<u8>> {
        None
    }

    fn port(&self) -> u16 {
        self.port
    }
}
