//! This Sentinel among the others: its id and its epochs, its votes, the messages by which Sentinels find each other,
//! and the configuration file, which remembers all of it.
//!
//! In: messages and questions of other Sentinels, statements of the file. Out: votes, changed instances, and lines of
//! the file. The steps of a failover are unknown here.

mod config_lines;
mod config_load;
mod hello;
mod sentinel_epochs;
mod votes;

pub use config_lines::REWRITTEN;
pub use config_load::{load_order, statement_place};

use crate::model::effect::{Level, Millis};
use crate::model::instance::InstanceId;
use crate::voter::config_lines::config_lines;
use crate::voter::sentinel_epochs::{Epochs, reachable};
use crate::watch::Watch;

/// Characters of a Sentinel's id.
const ID_LENGTH: usize = 40;
/// Failovers of several Sentinels are desynchronized by up to so much.
const DESYNC_MAX: Millis = 1000;

/// A Sentinel's id, its epochs, and its source of random numbers.
pub(crate) struct Voter {
    my_id: String,
    epochs: Epochs,
    random: fastrand::Rng,
}

impl Voter {
    /// Returns a Sentinel without an id. Its random numbers follow from `seed`.
    pub fn new(seed: u64) -> Voter {
        Voter { my_id: String::new(), epochs: Epochs::default(), random: fastrand::Rng::with_seed(seed) }
    }

    /// Returns this Sentinel's id.
    pub fn my_id(&self) -> &str {
        &self.my_id
    }

    /// Returns this Sentinel's epoch.
    pub fn current_epoch(&self) -> u64 {
        self.epochs.current()
    }

    /// Begins an epoch.
    pub fn begin_epoch(&mut self) -> u64 {
        self.epochs.begin_next()
    }

    /// Returns a time up to `most`, another one each time.
    pub fn random_time(&mut self, most: Millis) -> Millis {
        self.random.i64(0..=most)
    }

    /// Returns the delay by which this Sentinel's failovers differ from those of others.
    pub fn desynchronization(&mut self) -> Millis {
        self.random.i64(0..DESYNC_MAX)
    }

    /// Takes an id if the configuration has none.
    pub fn take_id(&mut self, watch: &mut Watch) {
        if self.my_id.is_empty() {
            self.my_id = (0..ID_LENGTH).map(|_| self.random.digit(16)).collect();
            self.save(watch);
        }
    }

    /// Saves the configuration; returns whether it is on the disk now.
    pub fn save(&self, watch: &mut Watch) -> bool {
        let lines = config_lines(&self.my_id, self.epochs.current(), watch);
        match watch.host_mut().save(lines) {
            Ok(()) => {
                watch.log(Level::Notice, "Sentinel new configuration saved on disk".to_string());
                true
            }
            Err(why) => {
                let text = format!("WARNING: Sentinel was not able to save the new configuration on disk!!!: {why}");
                watch.log(Level::Warning, text);
                false
            }
        }
    }

    /// Returns whether an epoch from `sender` is possible. An impossible one is logged.
    fn believes(&mut self, epoch: u64, sender: &str, watch: &mut Watch) -> bool {
        let checked = self.epochs.check(epoch, watch.now());
        if checked.is_err_and(|refused| refused.is_logged) {
            let (sender, current) = (sender.escape_debug(), self.epochs.current());
            let text = format!("Epoch {epoch} of {sender} is too far ahead of {current}: it is refused");
            watch.log(Level::Warning, text);
        }
        checked.is_ok()
    }

    /// Adopts an epoch that is later than this Sentinel's own.
    fn adopt_epoch(&mut self, epoch: u64, primary: InstanceId, watch: &mut Watch) {
        if self.epochs.advance(epoch) {
            self.save(watch);
            watch.event_text(Level::Warning, "+new-epoch", Some(primary), &epoch.to_string());
        }
    }

    /// Returns an epoch of the configuration file. An epoch that no group reaches counts as none: a Sentinel that once
    /// believed it takes part again after a restart.
    fn epoch_of_file(text: &str, watch: &mut Watch) -> u64 {
        let epoch = text.trim().parse().unwrap_or_default();
        reachable(epoch).unwrap_or_else(|| {
            watch.log(Level::Warning, format!("Epoch {epoch} of the configuration file is too large: it is refused"));
            0
        })
    }
}
