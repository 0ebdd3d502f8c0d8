//! The sleep of the server (DEBUG SLEEP, DEBUG PAUSE-AFTER-FORK): its threads wait for the thread that has begun it.

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use std::convert::Infallible;

/// Threads sleep until this is dropped.
pub struct Alarm {
    _open: Sender<Infallible>,
}

/// A thread's side.
#[derive(Clone)]
pub struct Slumber(Receiver<Infallible>);

/// Begins a sleep.
pub fn begin() -> (Alarm, Slumber) {
    let (open, end) = bounded(0);
    (Alarm { _open: open }, Slumber(end))
}

impl Slumber {
    /// Waits until the sleep has ended.
    pub fn wait(&self) {
        // Nothing is ever sent: the other side ends.
        let _ = self.0.recv();
    }

    /// Returns whether the sleep lasts.
    pub fn goes_on(&self) -> bool {
        self.0.try_recv() == Err(TryRecvError::Empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn threads_sleep_until_the_alarm_is_dropped() {
        let (alarm, slumber) = begin();
        let sleepers: Vec<_> = (0..3)
            .map(|_| {
                let slumber = slumber.clone();
                thread::spawn(move || slumber.wait())
            })
            .collect();
        assert!(slumber.goes_on());
        assert!(sleepers.iter().all(|sleeper| !sleeper.is_finished()));
        drop(alarm);
        assert!(sleepers.into_iter().all(|sleeper| sleeper.join().is_ok()));
        assert!(!slumber.goes_on());
        slumber.wait();
    }
}
