//! The directives that workers look at all the time, read once for each change of the configuration.

use crate::aof::kept_log::configured_need;
use crate::connection::connection_limits::ClientLimits;
use engine::config::{Config, ConfigStore, Directive};
use engine::status::acknowledgement::AckNeed;
use resp::RequestLimits;

/// Milliseconds between two looks at timers when nothing else happens, at most: `hz` can only ask for more of them.
/// Half of what expiry is allowed to be late.
const TIMER_INTERVAL_MAX: i64 = 50;
/// Keys that expire in one tick with the least effort, so that clients are served in between; each further step of
/// `active-expire-effort` adds a quarter.
const EXPIRE_BUDGET: usize = 256;

/// A worker's copy.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    generation: u64,
    /// Bytes of an argument, at most.
    pub max_bulk_len: i64,
    /// Milliseconds without input after which a client is disconnected; 0 = never.
    pub timeout: i64,
    /// Milliseconds without input after which a client of the book protocol is disconnected.
    pub book_timeout: i64,
    /// Milliseconds between two looks at due work.
    pub timer_interval: i64,
    /// Keys that may expire at once.
    pub expire_budget: usize,
    /// Acknowledgement that replies wait for if their client has not chosen one.
    pub acknowledge: AckNeed,
    /// Milliseconds that these replies wait.
    pub acknowledge_timeout: u64,
    /// Milliseconds that other nodes of the cluster may take to answer.
    pub node_timeout: i64,
    /// Limits of clients' memory.
    pub clients: ClientLimits,
}

impl Settings {
    /// Returns the settings of the present configuration.
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
            max_bulk_len: config.int(Directive::PROTO_MAX_BULK_LEN),
            timeout: config.int(Directive::TIMEOUT).saturating_mul(1000),
            book_timeout: config.int(Directive::BOOK_IDLE_TIMEOUT).saturating_mul(1000),
            acknowledge: configured_need(config),
            acknowledge_timeout: config.int(Directive::ACKNOWLEDGE_TIMEOUT).unsigned_abs(),
            node_timeout: config.int(Directive::CLUSTER_NODE_TIMEOUT),
            clients: ClientLimits::of(config),
            timer_interval: (1000 / config.int(Directive::HZ).max(1)).min(TIMER_INTERVAL_MAX),
            expire_budget: EXPIRE_BUDGET
                + EXPIRE_BUDGET / 4 * (config.int(Directive::ACTIVE_EXPIRE_EFFORT) - 1) as usize,
        }
    }

    /// Returns the limits of the parser.
    pub fn limits(&self, authenticated: bool) -> RequestLimits {
        RequestLimits { max_bulk_len: self.max_bulk_len, authenticated }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_done_in_the_background_when_more_is_asked_for() {
        for (hz, effort, tick, budget) in [(1, 1, 50, 256), (10, 2, 50, 320), (100, 10, 10, 832), (500, 5, 2, 512)] {
            let store = ConfigStore::new(Config::default());
            store.update(|config| {
                config.set_int(Directive::HZ, hz);
                config.set_int(Directive::ACTIVE_EXPIRE_EFFORT, effort);
            });
            let settings = Settings::new(&store);
            assert_eq!((settings.timer_interval, settings.expire_budget), (tick, budget), "{hz} {effort}");
        }
    }
}
