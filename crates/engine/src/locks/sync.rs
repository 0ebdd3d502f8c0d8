//! The primitives that the lock protocol is written in: parking_lot's in the server, shuttle's when a
//! test explores the interleavings (`--features shuttle`). With debug assertions parking_lot's check their order.

#[cfg(not(feature = "shuttle"))]
mod primitives {
    #[cfg(debug_assertions)]
    pub use crate::locks::checked::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, unlock_fairly};
    #[cfg(debug_assertions)]
    pub use crate::locks::order::assert_unlocked;
    #[cfg(not(debug_assertions))]
    pub use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub use std::sync::atomic::{AtomicBool, AtomicU8};
    use std::time::Duration;

    /// How long a wait lasts before the thread looks around: much longer than commands hold locks.
    const SOON: Duration = Duration::from_micros(250);
    /// As long as a short command takes.
    const BRIEFLY: Duration = Duration::from_micros(20);

    /// Returns the lock, unless it is not free for a while.
    pub fn lock_soon<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        mutex.try_lock_for(SOON)
    }

    /// Returns the lock, unless it is not free for the time of a short command.
    pub fn lock_briefly<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        mutex.try_lock_for(BRIEFLY)
    }

    /// As [`lock_soon`], for a read-write lock, to read.
    pub fn read_soon<T>(lock: &RwLock<T>) -> Option<RwLockReadGuard<'_, T>> {
        lock.try_read_for(SOON)
    }

    /// As [`lock_soon`], for a read-write lock, to write.
    pub fn write_soon<T>(lock: &RwLock<T>) -> Option<RwLockWriteGuard<'_, T>> {
        lock.try_write_for(SOON)
    }

    /// As [`lock_briefly`], for a read-write lock, to write.
    pub fn write_briefly<T>(lock: &RwLock<T>) -> Option<RwLockWriteGuard<'_, T>> {
        lock.try_write_for(BRIEFLY)
    }

    /// Unlocks, and hands the lock to a waiting thread if there is one.
    #[cfg(not(debug_assertions))]
    pub fn unlock_fairly<T>(guard: MutexGuard<'_, T>) {
        MutexGuard::unlock_fair(guard);
    }

    /// Checks, in builds with debug assertions, that the thread, which is about to wait for another one, holds no lock.
    #[cfg(not(debug_assertions))]
    #[inline(always)]
    pub fn assert_unlocked() {}

    /// Lets other threads run in tests, between two steps that nothing else divides.
    #[inline(always)]
    pub fn interleave() {}

    /// Waits a moment for another thread.
    pub fn spin() {
        std::thread::yield_now();
    }
}

/// The functions are documented above: these are for tests only.
#[cfg(feature = "shuttle")]
#[allow(missing_docs)]
mod primitives {
    pub use shuttle::sync::atomic::{AtomicBool, AtomicU8};
    pub use shuttle::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
    pub use shuttle::thread::{yield_now as interleave, yield_now as spin};

    pub fn lock_soon<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        let guard = mutex.try_lock();
        if guard.is_none() {
            spin();
        }
        guard
    }

    pub fn lock_briefly<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        lock_soon(mutex)
    }

    pub fn read_soon<T>(lock: &RwLock<T>) -> Option<RwLockReadGuard<'_, T>> {
        let guard = lock.try_read();
        if guard.is_none() {
            spin();
        }
        guard
    }

    pub fn write_soon<T>(lock: &RwLock<T>) -> Option<RwLockWriteGuard<'_, T>> {
        let guard = lock.try_write();
        if guard.is_none() {
            spin();
        }
        guard
    }

    pub fn write_briefly<T>(lock: &RwLock<T>) -> Option<RwLockWriteGuard<'_, T>> {
        write_soon(lock)
    }

    pub fn unlock_fairly<T>(guard: MutexGuard<'_, T>) {
        drop(guard);
    }

    /// Schedules find threads that wait for good.
    pub fn assert_unlocked() {}

    /// shuttle's mutex with parking_lot's signatures: no poisoning.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("no test panics under a lock")
        }
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
        pub fn try_lock_for(&self, _: std::time::Duration) -> Option<MutexGuard<'_, T>> {
            lock_soon(self)
        }
    }

    /// shuttle's read-write lock with parking_lot's signatures.
    #[derive(Default)]
    pub struct RwLock<T>(shuttle::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub fn new(value: T) -> Self {
            RwLock(shuttle::sync::RwLock::new(value))
        }
        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().expect("no test panics under a lock")
        }
        pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
            self.0.try_read().ok()
        }
        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().expect("no test panics under a lock")
        }
        pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
            self.0.try_write().ok()
        }
    }
}

pub use primitives::*;
