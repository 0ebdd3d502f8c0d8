//! Writes that are held back while a reader of the change log is too far behind.

use crate::locks::sync::Mutex;
use crate::status::pause::{Hold, Pause};
use crate::status::persistence_status::PersistenceStatus;

/// Bytes of the change log that may wait for the thread that makes the stream of it.
pub const UNFRAMED_MAX: u64 = 8 << 20;

/// See the module's documentation.
#[derive(Debug)]
pub struct LagHold {
    hold: Hold,
    /// Bytes that may wait. Writes that were held back resume when there are at most half as many.
    most: u64,
    holds: Mutex<bool>,
}

impl LagHold {
    /// Makes the hold of a reader that may be so many bytes behind.
    pub fn new(hold: Hold, most: u64) -> LagHold {
        LagHold { hold, most, holds: Mutex::new(false) }
    }

    /// Returns the bytes that the reader may be behind.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Holds writes back, or releases them. To be called when the log has grown and when it has been read; `behind`
    /// returns how many bytes wait. Returns whether that has changed, so that workers must be notified.
    pub(crate) fn regulate(&self, pause: &Pause, saves: &PersistenceStatus, behind: impl FnOnce() -> u64) -> bool {
        let mut holds = self.holds.lock();
        let wanted = behind() > if *holds { self.most / 2 } else { self.most };
        let has_changed = wanted != *holds;
        if has_changed {
            *holds = wanted;
            pause.hold(saves, self.hold, wanted);
        }
        has_changed
    }
}
