//! The present settings of connections with TLS, and their changes.

use crate::system::log::{self, Level};
use crate::tls::tls_settings::{Materials, TlsSettings, is_wanted};
use engine::config::{Config, Directive};
use engine::locks::sync::{Mutex, RwLock};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The settings in force; None while nothing is encrypted.
#[derive(Default)]
pub struct TlsState {
    settings: RwLock<Option<Arc<TlsSettings>>>,
    /// Time at which files were looked at last. One reading at a time: the later one stays.
    looked_at: Mutex<Option<Instant>>,
}

impl TlsState {
    /// Returns the settings of new connections.
    pub fn settings(&self) -> Option<Arc<TlsSettings>> {
        self.settings.read().clone()
    }

    /// Reads directives and files anew. An error is a line for the log, and leaves all as it was.
    pub fn configure(&self, config: &Config) -> Result<(), String> {
        let mut looked_at = self.looked_at.lock();
        let new = if is_wanted(config) { Some(Arc::new(TlsSettings::read(config)?)) } else { None };
        if new.is_some() && !config.text(Directive::TLS_DH_PARAMS_FILE).is_empty() {
            log::notice("tls-dh-params-file is not used: ciphers agree on keys by elliptic curves only");
        }
        *self.settings.write() = new;
        *looked_at = Some(Instant::now());
        Ok(())
    }

    /// Reads changed files, if that is due (`tls-auto-reload-interval`).
    pub fn reload_if_due(&self, config: &Config) {
        let interval = Duration::from_secs(config.int(Directive::TLS_AUTO_RELOAD_INTERVAL).max(0) as u64);
        let mut looked_at = self.looked_at.lock();
        let is_due = !interval.is_zero() && looked_at.is_none_or(|at| at.elapsed() >= interval);
        let Some(settings) = self.settings().filter(|_| is_due) else { return };
        *looked_at = Some(Instant::now());
        if Materials::read(config) == settings.materials {
            return log::log(Level::Debug, "TLS reload skipped: materials unchanged");
        }
        log::notice("TLS materials changed, reloading in background");
        match TlsSettings::read(config) {
            Ok(new) => {
                *self.settings.write() = Some(Arc::new(new));
                log::notice("TLS materials reloaded successfully");
            }
            Err(why) => {
                log::warning(why);
                log::warning("Background TLS reload failed");
            }
        }
    }
}
