//! The log of a run with random commands: lines with their time, errors on standard error.

use super::fuzz_options::FuzzLevel;
use std::fmt::Arguments;
use std::time::SystemTime;

/// See the module's documentation.
#[derive(Debug, Clone, Copy)]
pub struct FuzzLog {
    level: FuzzLevel,
}

impl FuzzLog {
    pub fn new(level: FuzzLevel) -> FuzzLog {
        FuzzLog { level }
    }

    /// Returns whether lines of this level are shown.
    pub fn shows(self, level: FuzzLevel) -> bool {
        level <= self.level
    }

    pub fn error(self, line: Arguments<'_>) {
        if self.shows(FuzzLevel::Error) {
            eprintln!("[{}] [ERROR] {line}", time_of_day());
        }
    }

    pub fn info(self, line: Arguments<'_>) {
        if self.shows(FuzzLevel::Info) {
            println!("[{}] [INFO ] {line}", time_of_day());
        }
    }

    pub fn debug(self, line: Arguments<'_>) {
        if self.shows(FuzzLevel::Debug) {
            println!("[{}] [DEBUG] {line}", time_of_day());
        }
    }
}

/// Returns hours, minutes and seconds of the day, in UTC.
fn time_of_day() -> String {
    #[expect(clippy::disallowed_methods, reason = "the time of day, for people")]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = now.as_secs() % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
