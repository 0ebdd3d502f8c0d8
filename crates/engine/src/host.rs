//! What the engine asks of whoever runs it.

use crate::effects::{Event, Garbage};

/// The engine starts no thread and opens no socket; what needs either goes through here. Called without
/// locks held.
pub trait Host: Send + Sync {
    /// Frees what is dear to free, preferably on another thread.
    fn free(&self, garbage: Vec<Garbage>);

    /// Something happened to keys, and `notify-keyspace-events` asks for it.
    fn events(&self, events: Vec<Event>);
}

/// A host without threads and listeners: frees on the spot, tells nobody.
#[derive(Debug, Default)]
pub struct Alone;

impl Host for Alone {
    fn free(&self, garbage: Vec<Garbage>) {
        drop(garbage);
    }

    fn events(&self, _: Vec<Event>) {}
}
