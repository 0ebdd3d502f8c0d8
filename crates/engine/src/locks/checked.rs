//! parking_lot's locks, whose order is checked: builds with debug assertions have these.

use super::order::{Class, HeldLock};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::time::Duration;

/// A guard of parking_lot, and the record that the thread has its lock.
pub struct Guard<G>(G, #[expect(dead_code, reason = "held, not looked at")] HeldLock);

/// A mutex.
pub struct Mutex<T: ?Sized> {
    class: Class,
    lock: parking_lot::Mutex<T>,
}

/// A read-write lock.
pub struct RwLock<T: ?Sized> {
    class: Class,
    lock: parking_lot::RwLock<T>,
}

/// The guard of a [`Mutex`].
pub type MutexGuard<'a, T> = Guard<parking_lot::MutexGuard<'a, T>>;
/// The guard of an [`RwLock`] that other threads may read.
pub type RwLockReadGuard<'a, T> = Guard<parking_lot::RwLockReadGuard<'a, T>>;
/// The guard of an [`RwLock`] that no other thread has.
pub type RwLockWriteGuard<'a, T> = Guard<parking_lot::RwLockWriteGuard<'a, T>>;

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.0
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.0
    }
}

impl<T> Mutex<T> {
    /// Returns a lock around the value.
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Mutex { class: Class::of::<T>(), lock: parking_lot::Mutex::new(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.class.wait(Location::caller());
        self.guard(self.lock.lock())
    }

    /// Returns the guard if the lock is free.
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        Some(self.guard(self.lock.try_lock()?))
    }

    /// Waits for the lock, not longer than this.
    #[track_caller]
    pub fn try_lock_for(&self, time: Duration) -> Option<MutexGuard<'_, T>> {
        Some(self.guard(self.lock.try_lock_for(time)?))
    }

    #[track_caller]
    fn guard<'a>(&self, guard: parking_lot::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        Guard(guard, self.class.take(Location::caller()))
    }
}

impl<T> RwLock<T> {
    /// Returns a lock around the value.
    #[track_caller]
    pub const fn new(value: T) -> Self {
        RwLock { class: Class::of::<T>(), lock: parking_lot::RwLock::new(value) }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits for the lock, to read.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.class.wait(Location::caller());
        Guard(self.lock.read(), self.class.take(Location::caller()))
    }

    /// Returns the guard to read if no thread writes.
    #[track_caller]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        Some(Guard(self.lock.try_read()?, self.class.take(Location::caller())))
    }

    /// Waits for the lock to read, not longer than this.
    #[track_caller]
    pub fn try_read_for(&self, time: Duration) -> Option<RwLockReadGuard<'_, T>> {
        Some(Guard(self.lock.try_read_for(time)?, self.class.take(Location::caller())))
    }

    /// Waits for the lock, to write.
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.class.wait(Location::caller());
        Guard(self.lock.write(), self.class.take(Location::caller()))
    }

    /// Waits for the lock to write, not longer than this.
    #[track_caller]
    pub fn try_write_for(&self, time: Duration) -> Option<RwLockWriteGuard<'_, T>> {
        Some(Guard(self.lock.try_write_for(time)?, self.class.take(Location::caller())))
    }
}

impl<T: Default> Default for Mutex<T> {
    #[track_caller]
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T: Default> Default for RwLock<T> {
    #[track_caller]
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

/// Unlocks, and hands the lock to a waiting thread if there is one.
pub fn unlock_fairly<T>(guard: MutexGuard<'_, T>) {
    parking_lot::MutexGuard::unlock_fair(guard.0);
}
