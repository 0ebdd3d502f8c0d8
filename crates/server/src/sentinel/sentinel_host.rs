//! Facts that the Sentinel has to know at once.

use crate::system::{files, log};
use ::sentinel::{ConfigLine, Host};
use engine::Engine;
use engine::config::Directive;
use std::net::ToSocketAddrs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, OnceLock};

/// Answers from the process; the engine is set when there is one.
#[derive(Clone, Default)]
pub(super) struct SentinelHost {
    engine: Arc<OnceLock<Arc<Engine>>>,
    /// Engine of the server that the Sentinel is within.
    server: Arc<OnceLock<Arc<Engine>>>,
}

impl SentinelHost {
    pub fn new() -> SentinelHost {
        SentinelHost::default()
    }

    pub fn set_engine(&self, engine: &Arc<Engine>) {
        // There is one engine.
        let _ = self.engine.set(Arc::clone(engine));
    }

    pub fn set_server(&self, engine: &Arc<Engine>) {
        // The Sentinel is within one server.
        let _ = self.server.set(Arc::clone(engine));
    }

    fn read<T>(&self, what: impl FnOnce(&engine::config::Config) -> T) -> Option<T> {
        self.engine.get().map(|engine| what(&engine.config().snapshot()))
    }
}

impl Host for SentinelHost {
    fn resolve(&mut self, name: &str) -> Option<String> {
        (name, 0).to_socket_addrs().ok()?.next().map(|address| address.ip().to_string())
    }

    fn is_executable(&mut self, path: &[u8]) -> bool {
        std::fs::metadata(files::path(path)).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    }

    fn save(&mut self, lines: Vec<ConfigLine>) -> Result<(), String> {
        let engine = self.engine.get().ok_or("the server has not started")?;
        commands::sentinel::save(engine, lines)
    }

    fn log_level(&self) -> String {
        self.read(|config| config.choice(Directive::LOGLEVEL).to_owned()).unwrap_or_default()
    }

    fn set_log_level(&mut self, level: &str) {
        if let Some(engine) = self.engine.get() {
            engine.config().update(|config| config.choose(Directive::LOGLEVEL, level.as_bytes()));
            log::follow(&engine.config().snapshot());
        }
    }

    fn requirepass(&self) -> Option<Vec<u8>> {
        let engine = self.server.get().or_else(|| self.engine.get())?;
        let password = engine.config().snapshot().text(Directive::REQUIREPASS).to_vec();
        Some(password).filter(|password| !password.is_empty())
    }

    fn port(&self) -> u16 {
        let port = self.read(|config| match config.int(Directive::TLS_PORT) {
            port if port != 0 && config.flag(Directive::TLS_REPLICATION) => port,
            _ => config.int(Directive::PORT),
        });
        port.and_then(|port| u16::try_from(port).ok()).unwrap_or_default()
    }
}
