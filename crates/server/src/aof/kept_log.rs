//! The part of the log that is kept: by the disk, by replicas, or by both. Replies wait for it, and so does a node that
//! takes slots over.

use engine::Engine;
use engine::config::{Config, Directive};
use engine::status::acknowledgement::{AckNeed, Acknowledgement, REPLICAS_MAX};
use persistence::aof::of;

/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// Returns how many replicas replies wait for, to clients that have not chosen a number themselves.
pub fn configured_need(config: &Config) -> AckNeed {
    let replicas = config.int(Directive::MIN_REPLICAS_TO_ACKNOWLEDGE).clamp(0, REPLICAS_MAX as i64) as u8;
    AckNeed { replicas, durable: false }
}

/// See the module's documentation.
pub struct KeptLog<'e> {
    /// Length that the disk has, and whether it takes no more; None: nothing waits for the disk.
    disk: Option<(u64, bool)>,
    replicas: &'e Acknowledgement,
    /// Whether no other server can have acknowledged.
    is_leased: bool,
}

impl<'e> KeptLog<'e> {
    /// Looks at the part that is kept by now.
    pub fn of(engine: &'e Engine) -> KeptLog<'e> {
        let aof = of(engine).filter(|aof| aof.keeps_replies());
        let replicas = &engine.replication().acknowledgement;
        let is_leased = replicas.is_asked() && replicas.is_leased(engine.host().nanos().0 / MILLISECOND);
        KeptLog { disk: aof.map(|aof| (aof.journal.released(), aof.has_failed())), replicas, is_leased }
    }

    /// Returns whether the disk has enough for a client that has seen the log up to `seen_to`, and whose last write is
    /// at `logged_at`. A disk that takes no more delays only clients whose writes it lacks.
    pub fn is_on_disk(&self, seen_to: u64, logged_at: u64) -> bool {
        match self.disk {
            None => true,
            Some((released, has_failed)) => seen_to <= released || has_failed && logged_at <= released,
        }
    }

    /// Returns whether a reply may go that shows the log up to `seen_to`, to a client whose last write is at
    /// `logged_at`.
    pub fn lets_go(&self, seen_to: u64, logged_at: u64, need: AckNeed) -> bool {
        self.is_on_disk(seen_to, logged_at)
            && (need.replicas == 0 || self.is_leased && self.replicas.is_held(need, seen_to))
    }
}
