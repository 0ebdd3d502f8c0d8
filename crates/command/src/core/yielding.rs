//! Long commands lend their worker to others.
//!
//! A command that is about to work on many elements states their number, before it has changed anything
//! ([`Context::yielding`]). If they are few, it runs to its end, and all of this costs no more than a count. If they
//! are many, it ends without an effect, and its worker runs it again *apart*: with its session and its reply in its own
//! hands, as a script is run. From then on it [counts](Yielding::step) the elements that it works on, and looks at the
//! clock now and then. Once it is long the worker does a small tick for its other clients, every time it looks.
//!
//! ```text
//!   quick    handler - lending(n): n is small - work - reply
//!   long     handler - lending(n): Requested  =>  apart: handler - lending(n) - work .. work .. work - reply
//!                                                                                   |       |
//!                                                                              small tick  small tick
//! ```
//!
//! The command holds its locks meanwhile: a command that needs one of them is retried later, as with a script. So the
//! long command is one moment for all others. Commands of transactions and scripts, which run apart anyway, lend their
//! worker the same way.

use crate::core::context::{Blocking, Context};
use crate::core::session::LendingMode;
use engine::data::value::{Object, Value};
use engine::keyspace::keys::Key;
use engine::time::Nanos;
use engine::{Engine, Error};
use std::cell::Cell;

/// Elements of a command that needs no look at the clock: some milliseconds at most.
pub const AT_ONCE: usize = 10_000;
/// Bytes that count as one element where bytes are worked on in bulk.
pub const BULK: usize = 256;
/// Elements from one look at the clock to the next.
const BETWEEN_LOOKS: usize = 500;
/// Nanoseconds that a command runs before it lends its worker, and from one time to the next.
const BETWEEN: u64 = 500_000;

/// The lending of a worker by a running command.
pub struct Yielding<'e> {
    engine: Option<&'e Engine>,
    holds_locks: bool,
    /// Elements up to the next look at the clock.
    left: Cell<usize>,
    /// Time of the next lending.
    next: Cell<Nanos>,
    is_long: Cell<bool>,
}

impl<'c> Context<'c> {
    /// Returns the number of elements that a command reads of the value at a key: `count` computes it for an object.
    /// Leaves no trace.
    pub fn elements(&self, key: Key<'_>, count: impl Fn(&Object) -> usize) -> usize {
        match self.keys.together(key) {
            Some(Value::Payload(object)) => count(object),
            _ => 0,
        }
    }

    /// Decides on lending, before any change, for a command that is about to work on so many elements.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]: the command is to be run again, apart.
    pub fn yielding(&mut self, elements: usize) -> Result<Yielding<'c>, Error> {
        if elements <= AT_ONCE {
            return Ok(Yielding::never());
        }
        if self.session.yielding == LendingMode::OnRequest && self.blocking == Blocking::Allowed {
            self.session.yielding = LendingMode::Requested;
            return Err(Error::WouldBlock);
        }
        Ok(self.lending_at_once())
    }

    /// Decides on lending for a command that draws so many elements of the value at a key: it may walk through all.
    ///
    /// # Errors
    /// As [`Context::yielding`].
    pub fn yielding_to_draw(
        &mut self,
        key: Key<'_>,
        wanted: usize,
        len: impl Fn(&Object) -> usize,
    ) -> Result<Yielding<'c>, Error> {
        // A few elements need no look-up.
        if wanted <= AT_ONCE { Ok(Yielding::never()) } else { self.yielding(self.elements(key, len)) }
    }

    /// Decides on lending for work that cannot begin again: the worker is lent if the command runs apart.
    pub fn lending_at_once(&self) -> Yielding<'c> {
        if self.session.yielding == LendingMode::Apart { Yielding::of(self.engine, true) } else { Yielding::never() }
    }
}

impl<'e> Yielding<'e> {
    /// Returns the lending of a command that ends soon.
    pub fn never() -> Yielding<'e> {
        let (left, next) = (Cell::new(usize::MAX), Cell::default());
        Yielding { engine: None, holds_locks: false, left, next, is_long: Cell::default() }
    }

    /// Returns the lending of work that holds no lock that others may wait for.
    pub fn without_locks(engine: &'e Engine) -> Yielding<'e> {
        Yielding::of(engine, false)
    }

    fn of(engine: &'e Engine, holds_locks: bool) -> Yielding<'e> {
        let (left, next) = (Cell::new(BETWEEN_LOOKS), Cell::new(engine.host().nanos().after(BETWEEN)));
        Yielding { engine: Some(engine), holds_locks, left, next, is_long: Cell::default() }
    }

    /// Counts one element.
    #[inline(always)]
    pub fn step(&self) {
        self.steps(1);
    }

    /// Counts so many elements.
    #[inline(always)]
    pub fn steps(&self, elements: usize) {
        match self.left.get().checked_sub(elements) {
            Some(left) => self.left.set(left),
            None => self.check_clock(),
        }
    }

    /// Counts the items of an iterator as they are taken.
    #[inline(always)]
    pub fn over<I: Iterator>(&self, items: I) -> impl Iterator<Item = I::Item> {
        items.inspect(|_| self.step())
    }

    #[cold]
    fn check_clock(&self) {
        let Some(engine) = self.engine else { return self.left.set(usize::MAX) };
        self.left.set(BETWEEN_LOOKS);
        let host = engine.host();
        if host.nanos() < self.next.get() {
            return;
        }
        if self.holds_locks && !self.is_long.replace(true) {
            engine.scripts().begin_long();
        }
        host.serve_clients();
        self.next.set(host.nanos().after(BETWEEN));
    }
}

impl Drop for Yielding<'_> {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.filter(|_| self.is_long.get()) {
            engine.scripts().end_long();
        }
    }
}
