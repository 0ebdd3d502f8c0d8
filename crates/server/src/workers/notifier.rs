//! How the thread that writes the log is woken.

use crossbeam_channel::{Receiver, Sender, bounded};

/// Wakes the thread.
#[derive(Clone)]
pub struct Notifier(Sender<()>);

impl Notifier {
    /// The notifier, and what its thread waits for.
    pub fn new() -> (Notifier, Receiver<()>) {
        let (sender, receiver) = bounded(1);
        (Notifier(sender), receiver)
    }

    /// Has the thread look for work.
    pub fn ring(&self) {
        // A ring that was not heard yet is enough.
        let _ = self.0.try_send(());
    }
}
