//! Epochs of others: the ones that this Sentinel believes.
//!
//! An epoch grows by one with each attempt of a failover. A believed epoch becomes this Sentinel's own, is on the disk
//! and in its hello messages. The largest possible number would leave no epoch for any failover after it, in the whole
//! group and for good. So an epoch may be ahead of the last one by as many failovers as a Sentinel can have missed, and
//! no further; in such steps there are always numbers left.
//!
//! A Sentinel that has seen no epoch believes no more than any other, or one message would part it from a group that
//! does not believe it then. For the same reason all epochs of one [`STEP_PERIOD`] are measured from that at its
//! beginning: the group learns of a step before the next one.

use crate::model::effect::{Level, Millis};
use crate::model::instance::InstanceId;
use crate::sentinel::Sentinel;

/// Failovers that a Sentinel may have missed, or a group has had before a Sentinel joins it: attempts of half a year,
/// one each second.
const AHEAD_MAX: u64 = 1 << 24;
/// The time in which an epoch advances once: well above the period of hello messages.
const STEP_PERIOD: Millis = 60_000;
/// The largest epoch of all; no group reaches the numbers beyond it.
const EPOCH_MAX: u64 = 3 << 61;
/// The time between two lines of the log about rejected epochs.
const REFUSAL_LOG_PERIOD: Millis = 10_000;

impl Sentinel {
    /// Returns whether an epoch from `sender` is possible. An impossible one is logged.
    pub(crate) fn believes(&mut self, epoch: u64, sender: &str) -> bool {
        let from = match self.epoch_step {
            Some((at, from)) if (0..STEP_PERIOD).contains(&(self.now - at)) => from,
            _ => self.epoch_step.insert((self.now, self.current_epoch)).1,
        };
        let highest = from.saturating_add(AHEAD_MAX).min(EPOCH_MAX);
        if epoch <= highest.max(self.current_epoch) {
            return true;
        }
        let since = self.now - self.epoch_refused;
        if !(0..REFUSAL_LOG_PERIOD).contains(&since) {
            self.epoch_refused = self.now;
            let (sender, current) = (sender.escape_debug(), self.current_epoch);
            let text = format!("Epoch {epoch} of {sender} is too far ahead of {current}: it is refused");
            self.log(Level::Warning, text);
        }
        false
    }

    /// Adopts an epoch that is later than this Sentinel's own.
    pub(crate) fn adopt_epoch(&mut self, epoch: u64, primary: InstanceId) {
        if epoch > self.current_epoch {
            self.current_epoch = epoch;
            self.save();
            self.event_text(Level::Warning, "+new-epoch", Some(primary), &epoch.to_string());
        }
    }

    /// Returns an epoch of the configuration file. An epoch that no group reaches counts as none: a Sentinel that once
    /// believed it takes part again after a restart.
    pub(crate) fn epoch_of_file(&mut self, text: &str) -> u64 {
        let epoch = text.trim().parse().unwrap_or_default();
        if epoch > EPOCH_MAX {
            self.log(Level::Warning, format!("Epoch {epoch} of the configuration file is too large: it is refused"));
            return 0;
        }
        epoch
    }
}
