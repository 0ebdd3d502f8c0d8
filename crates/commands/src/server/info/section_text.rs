//! The source and the text of the sections of INFO.

use crate::server::info::absent;
use crate::server::memory::{difference, ratio};
use engine::Engine;
use engine::config::Config;
use engine::host::memory::MemoryStats;
use engine::host::process::ProcessInfo;
use engine::keyspace::keyspace_stats::Overview;
use engine::time::UnixUs;
use std::fmt::{Display, Write};
use std::sync::Arc;

/// Source of the sections.
pub struct Source<'e> {
    pub engine: &'e Engine,
    pub config: Arc<Config>,
    pub process: ProcessInfo,
    pub overview: Overview,
    pub memory: MemoryStats,
    pub now_us: UnixUs,
    /// Fields of the iteration over all keys, if there was one.
    pub key_sizes: String,
}

impl<'e> Source<'e> {
    pub fn new(engine: &'e Engine, memory: MemoryStats, overview: Overview, now_us: UnixUs) -> Source<'e> {
        let (config, process) = (engine.config().snapshot(), engine.host().process());
        Source { engine, config, process, overview, memory, now_us, key_sizes: String::new() }
    }
}

/// The text while it is written.
#[derive(Default)]
pub struct Text(pub String);

impl Text {
    pub fn title(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push_str("\r\n");
        }
        let _ = write!(self.0, "# {name}\r\n");
    }

    pub fn field(&mut self, name: &str, value: impl Display) {
        let _ = write!(self.0, "{name}:{value}\r\n");
    }

    /// Writes fields of features that this server lacks.
    pub fn absent(&mut self, names: &[&str]) {
        for name in names {
            self.field(name, absent::value(name).unwrap_or_default());
        }
    }

    pub fn percent(&mut self, name: &str, part: f64) {
        self.field(name, format_args!("{:.2}%", part * 100.0));
    }

    /// Writes how many times larger the first number is, and by how much.
    pub fn compared(&mut self, name: &str, whole: u64, part: u64) {
        let _ = write!(self.0, "{name}_ratio:{:.2}\r\n", ratio(whole, part));
        let _ = write!(self.0, "{name}_bytes:{}\r\n", difference(whole, part));
    }

    /// Writes a number of bytes, and again in the form for people.
    pub fn bytes(&mut self, name: &str, bytes: u64) {
        self.field(name, bytes);
        let _ = write!(self.0, "{name}_human:{}\r\n", human(bytes));
    }
}

/// `1.18M`: bytes in the largest unit that leaves at least one.
pub fn human(bytes: u64) -> String {
    if bytes < 1 << 10 {
        return format!("{bytes}B");
    }
    let (shift, unit) = match bytes {
        n if n < 1 << 20 => (10, 'K'),
        n if n < 1 << 30 => (20, 'M'),
        n if n < 1 << 40 => (30, 'G'),
        n if n < 1 << 50 => (40, 'T'),
        _ => (50, 'P'),
    };
    format!("{:.2}{unit}", bytes as f64 / (1u64 << shift) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_people_read_them() {
        for (bytes, text) in
            [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (1_233_056, "1.18M"), (u64::MAX, "16384.00P")]
        {
            assert_eq!(human(bytes), text);
        }
    }
}
