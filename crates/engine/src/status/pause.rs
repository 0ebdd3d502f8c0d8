//! Times in which clients do not write, or do nothing at all, and neither do expiry and eviction: CLIENT PAUSE, and
//! holds of the server itself.
//!
//! Every command looks at one word ([`DenyReasons`](crate::status::deny_reasons::DenyReasons)), which says which
//! commands have to wait; this module has the causes and the end.

use crate::locks::sync::Mutex;
use crate::status::deny_reasons::Paused;
use crate::status::persistence_status::PersistenceStatus;
use crate::time::SteadyMs;
use std::sync::atomic::{AtomicI64, Ordering};

/// Reason for which the server itself holds writes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The server is about to end, and replicas get the changes that they lack.
    Shutdown,
    /// The server hands its role to a replica.
    Failover,
    /// The server begins to follow another one: all changes become part of the stream first.
    StepDown,
    /// A node takes slots, and gets the changes of them that it lacks.
    SlotMigration,
    /// The data set is replaced by a file's: it is saved before, or the log written.
    Reload,
    /// Keys are sent to another server that change otherwise.
    Migrate,
    /// The log is far behind.
    Log,
    /// The stream for replicas is far behind.
    Stream,
}

impl Hold {
    const ALL: [Hold; 8] = [
        Hold::Shutdown,
        Hold::Failover,
        Hold::StepDown,
        Hold::SlotMigration,
        Hold::Reload,
        Hold::Migrate,
        Hold::Log,
        Hold::Stream,
    ];

    /// As INFO shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Hold::Shutdown => "shutdown_in_progress",
            Hold::Failover => "failover_in_progress",
            Hold::StepDown => "step_down",
            Hold::SlotMigration => "slot_migration_in_progress",
            Hold::Reload => "reload",
            Hold::Migrate => "migrate",
            Hold::Log => "log",
            Hold::Stream => "stream",
        }
    }

    /// Whether nothing may be written then, for any reason: other servers, or a file, get all of the data.
    fn is_strict(self) -> bool {
        matches!(self, Hold::Shutdown | Hold::Failover | Hold::StepDown | Hold::SlotMigration | Hold::Reload)
    }
}

/// The pause of a server.
pub struct Pause {
    /// [`SteadyMs`]
    until: AtomicI64,
    causes: Mutex<Causes>,
}

/// Causes of a pause.
struct Causes {
    /// Commands that clients have paused.
    called: Paused,
    /// Number of holders of writes, for each reason.
    holds: [usize; Hold::ALL.len()],
}

impl Default for Pause {
    fn default() -> Self {
        let causes = Causes { called: Paused::Nothing, holds: [0; Hold::ALL.len()] };
        Pause { until: AtomicI64::new(0), causes: Mutex::new(causes) }
    }
}

impl Causes {
    fn held(&self) -> impl Iterator<Item = Hold> {
        Hold::ALL.into_iter().filter(|hold| self.holds[*hold as usize] > 0)
    }
}

impl Pause {
    /// Whether a client has asked for it.
    pub fn is_called(&self) -> bool {
        self.causes.lock().called != Paused::Nothing
    }

    /// Returns the reason for which the server itself holds writes back, the first of several.
    pub fn held(&self) -> Option<Hold> {
        self.causes.lock().held().next()
    }

    /// Whether nothing at all may be written: a client has paused all, or replicas or a file get the data.
    pub fn is_strict(&self) -> bool {
        let causes = self.causes.lock();
        causes.called != Paused::Nothing || causes.held().any(Hold::is_strict)
    }

    /// Returns the end of the clients' pause, the greatest moment while writes are only held.
    pub fn until(&self) -> SteadyMs {
        SteadyMs(self.until.load(Ordering::Acquire))
    }

    pub(crate) fn begin(&self, saves: &PersistenceStatus, paused: Paused, until: SteadyMs, now: SteadyMs) {
        let mut causes = self.causes.lock();
        let (old, old_until) = (causes.called, self.until());
        let on = old != Paused::Nothing && old_until > now;
        causes.called = if on { paused.max(old) } else { paused };
        self.publish(saves, &causes, if on { until.max(old_until) } else { until });
    }

    pub(crate) fn end(&self, saves: &PersistenceStatus) {
        let mut causes = self.causes.lock();
        causes.called = Paused::Nothing;
        self.publish(saves, &causes, SteadyMs(i64::MAX));
    }

    pub(crate) fn end_if_over(&self, saves: &PersistenceStatus, now: SteadyMs) -> bool {
        let mut causes = self.causes.lock();
        let over = causes.called != Paused::Nothing && now >= self.until();
        if over {
            causes.called = Paused::Nothing;
            self.publish(saves, &causes, SteadyMs(i64::MAX));
        }
        over
    }

    /// Makes a pause of writes end by that moment. A pause of all commands keeps its end.
    pub(crate) fn limit(&self, saves: &PersistenceStatus, until: SteadyMs) {
        let causes = self.causes.lock();
        if causes.called == Paused::Writes && self.until() > until {
            self.publish(saves, &causes, until);
        }
    }

    pub(crate) fn hold(&self, saves: &PersistenceStatus, hold: Hold, on: bool) {
        let mut causes = self.causes.lock();
        let count = &mut causes.holds[hold as usize];
        *count = if on { *count + 1 } else { *count - 1 };
        let until = if causes.called == Paused::Nothing { SteadyMs(i64::MAX) } else { self.until() };
        self.publish(saves, &causes, until);
    }

    /// Publishes the pause. The causes are locked: one thread at a time.
    fn publish(&self, saves: &PersistenceStatus, causes: &Causes, until: SteadyMs) {
        let held = if causes.held().next().is_some() { Paused::Writes } else { Paused::Nothing };
        self.until.store(until.0, Ordering::Release);
        saves.set_paused(causes.called.max(held));
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_not_made_milder_or_shorter_while_it_is_on() {
        let (pause, saves) = (Pause::default(), PersistenceStatus::default());
        let paused = || saves.deny_reasons().paused();
        pause.begin(&saves, Paused::All, SteadyMs(200), SteadyMs(0));
        pause.begin(&saves, Paused::Writes, SteadyMs(20), SteadyMs(10));
        assert_eq!((paused(), pause.until()), (Paused::All, SteadyMs(200)));
        assert!(
            !pause.end_if_over(&saves, SteadyMs(199))
                && pause.end_if_over(&saves, SteadyMs(200))
                && !pause.end_if_over(&saves, SteadyMs(201))
        );
        assert_eq!(paused(), Paused::Nothing);
        pause.begin(&saves, Paused::Writes, SteadyMs(300), SteadyMs(210));
        pause.begin(&saves, Paused::Writes, SteadyMs(400), SteadyMs(220));
        assert_eq!((paused(), pause.until()), (Paused::Writes, SteadyMs(400)));
        pause.end(&saves);
        assert_eq!(paused(), Paused::Nothing);
    }

    #[test]
    fn a_pause_of_writes_can_be_limited_and_one_of_all_commands_cannot() {
        let (pause, saves) = (Pause::default(), PersistenceStatus::default());
        pause.limit(&saves, SteadyMs(10));
        assert!(saves.deny_reasons().paused() == Paused::Nothing && !pause.is_called());
        pause.begin(&saves, Paused::Writes, SteadyMs(300), SteadyMs(0));
        pause.limit(&saves, SteadyMs(400));
        assert_eq!(pause.until(), SteadyMs(300), "it ends before");
        pause.limit(&saves, SteadyMs(20));
        assert!(!pause.end_if_over(&saves, SteadyMs(19)) && pause.end_if_over(&saves, SteadyMs(20)));
        pause.begin(&saves, Paused::All, SteadyMs(300), SteadyMs(30));
        pause.limit(&saves, SteadyMs(40));
        assert_eq!(pause.until(), SteadyMs(300));
    }

    #[test]
    fn writes_that_are_held_back_wait_for_all_who_do_that() {
        let (pause, saves) = (Pause::default(), PersistenceStatus::default());
        let paused = || saves.deny_reasons().paused();
        pause.hold(&saves, Hold::Migrate, true);
        pause.hold(&saves, Hold::Failover, true);
        assert!(pause.is_strict() && pause.held() == Some(Hold::Failover));
        pause.begin(&saves, Paused::All, SteadyMs(200), SteadyMs(0));
        assert_eq!((paused(), pause.until(), pause.is_called()), (Paused::All, SteadyMs(200), true));
        pause.hold(&saves, Hold::Failover, false);
        assert!(
            pause.end_if_over(&saves, SteadyMs(200)) && !pause.end_if_over(&saves, SteadyMs(200)) && !pause.is_called()
        );
        assert_eq!((paused(), pause.until()), (Paused::Writes, SteadyMs(i64::MAX)));
        pause.begin(&saves, Paused::Writes, SteadyMs(20), SteadyMs(0));
        pause.end(&saves);
        assert_eq!(paused(), Paused::Writes);
        assert!(!pause.is_strict() && pause.held() == Some(Hold::Migrate));
        pause.hold(&saves, Hold::Migrate, false);
        assert_eq!(paused(), Paused::Nothing);
    }
}
