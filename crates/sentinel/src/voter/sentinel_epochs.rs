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

use crate::model::effect::Millis;

/// Failovers that a Sentinel may have missed, or a group has had before a Sentinel joins it: attempts of half a year,
/// one each second.
const AHEAD_MAX: u64 = 1 << 24;
/// The time in which an epoch advances once: well above the period of hello messages.
const STEP_PERIOD: Millis = 60_000;
/// The largest epoch of all; no group reaches the numbers beyond it.
const EPOCH_MAX: u64 = 3 << 61;
/// The time between two lines of the log about rejected epochs.
const REFUSAL_LOG_PERIOD: Millis = 10_000;

/// This Sentinel's epoch, and the bounds of the epochs that it believes.
#[derive(Debug, Default)]
pub(crate) struct Epochs {
    current: u64,
    /// Time of the log's last line about a rejected epoch.
    refusal_logged: Millis,
    /// The beginning of a minute, and the epoch then: others' epochs are measured from it.
    step: Option<(Millis, u64)>,
}

/// An epoch that is too far ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unbelievable {
    /// Whether the log is to have a line about it.
    pub is_logged: bool,
}

impl Epochs {
    /// Returns this Sentinel's epoch.
    pub fn current(&self) -> u64 {
        self.current
    }

    /// Begins an epoch.
    pub fn begin_next(&mut self) -> u64 {
        self.current += 1;
        self.current
    }

    /// Makes a later epoch this Sentinel's own. Returns whether it is later.
    pub fn advance(&mut self, epoch: u64) -> bool {
        let is_later = epoch > self.current;
        self.current = self.current.max(epoch);
        is_later
    }

    /// Checks that another Sentinel's epoch is possible.
    pub fn check(&mut self, epoch: u64, now: Millis) -> Result<(), Unbelievable> {
        let from = match self.step {
            Some((at, from)) if (0..STEP_PERIOD).contains(&(now - at)) => from,
            _ => self.step.insert((now, self.current)).1,
        };
        let highest = from.saturating_add(AHEAD_MAX).min(EPOCH_MAX);
        if epoch <= highest.max(self.current) {
            return Ok(());
        }
        let since = now - self.refusal_logged;
        let is_logged = !(0..REFUSAL_LOG_PERIOD).contains(&since);
        if is_logged {
            self.refusal_logged = now;
        }
        Err(Unbelievable { is_logged })
    }
}

/// Returns an epoch of the configuration file, if a group can reach it.
pub(super) fn reachable(epoch: u64) -> Option<u64> {
    (epoch <= EPOCH_MAX).then_some(epoch)
}
