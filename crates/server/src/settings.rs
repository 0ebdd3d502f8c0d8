//! The directives that workers look at all the time, read once for each change of the configuration.

use crate::client_limits::ClientLimits;
use engine::config::{Config, ConfigStore, Directive};
use resp::Limits;

/// A worker's copy.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    generation: u64,
    pub max_bulk_len: i64,
    /// Milliseconds without input after which a client is disconnected; 0 = never.
    pub timeout: i64,
    /// The same for connections of the book protocol.
    pub book_timeout: i64,
    pub password_set: bool,
    pub clients: ClientLimits,
}

impl Settings {
    pub fn new(store: &ConfigStore) -> Settings {
        let generation = store.generation();
        Settings::of(generation, &store.snapshot())
    }

    /// Reads the configuration again when it has changed; true if it has.
    #[inline]
    pub fn refresh(&mut self, store: &ConfigStore) -> bool {
        let changed = store.generation() != self.generation;
        if changed {
            *self = Settings::new(store);
        }
        changed
    }

    fn of(generation: u64, config: &Config) -> Settings {
        Settings {
            generation,
            max_bulk_len: config.int(Directive::ProtoMaxBulkLen),
            timeout: config.int(Directive::Timeout).saturating_mul(1000),
            book_timeout: config.int(Directive::BookIdleTimeout).saturating_mul(1000),
            clients: ClientLimits::of(config),
            password_set: !config.text(Directive::RequirePass).is_empty(),
        }
    }

    pub fn limits(&self, authenticated: bool) -> Limits {
        Limits { max_bulk_len: self.max_bulk_len, authenticated }
    }
}
