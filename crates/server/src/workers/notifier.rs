//! The notifier of the thread that writes the log.

use crossbeam_channel::{Receiver, Sender, bounded};

/// Wakes the thread.
#[derive(Clone)]
pub struct Notifier(Sender<()>);

impl Notifier {
    /// Creates the notifier, and the receiver that its thread waits for.
    pub fn new() -> (Notifier, Receiver<()>) {
        let (sender, receiver) = bounded(1);
        (Notifier(sender), receiver)
    }

    /// Wakes the thread to look for work.
    pub fn ring(&self) {
        // A ring that was not taken yet is enough.
        let _ = self.0.try_send(());
    }
}
