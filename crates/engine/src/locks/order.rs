//! The order of locks, checked while they are taken: builds with debug assertions only.
//!
//! A lock's class is the place where it is made and the type of its value. A thread that waits for a lock of one class
//! while it holds one of another has shown an order of the two. The thread that shows the opposite panics, even where
//! neither has to wait: the two together may wait for each other for good. A thread that waits for a lock for a limited
//! time shows no order for it, but for locks that it takes while it holds it.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

type Place = &'static Location<'static>;

/// A class of locks: all that are made at one place around values of one type.
pub struct Class {
    made: Place,
    guards: fn() -> &'static str,
    /// One more than its index in the list of classes; 0 until the first use.
    number: AtomicU32,
}

/// A lock that this thread has.
pub struct HeldLock(u32, PhantomData<*const ()>);

#[derive(Default)]
struct Orders {
    classes: Vec<(Place, &'static str)>,
    /// Pairs of which a thread that had the first waited for the second.
    shown: BTreeSet<(u32, u32)>,
}

struct Taken {
    class: u32,
    at: Place,
    times: usize,
}

static ORDERS: Mutex<Orders> = Mutex::new(Orders { classes: Vec::new(), shown: BTreeSet::new() });

thread_local! {
    static HELD: RefCell<Vec<Taken>> = const { RefCell::new(Vec::new()) };
    /// Orders that this thread has shown before.
    static KNOWN: RefCell<HashSet<(u32, u32)>> = RefCell::new(HashSet::new());
}

impl Class {
    /// Returns the class of locks that the caller makes around a `T`.
    #[track_caller]
    pub const fn of<T: ?Sized>() -> Self {
        Class { made: Location::caller(), guards: std::any::type_name::<T>, number: AtomicU32::new(0) }
    }

    fn number(&self) -> u32 {
        let known = self.number.load(Relaxed);
        if known > 0 {
            return known;
        }
        let class = (self.made, (self.guards)());
        let mut orders = ORDERS.lock().unwrap_or_else(PoisonError::into_inner);
        let index = orders.classes.iter().position(|it| *it == class).unwrap_or_else(|| {
            orders.classes.push(class);
            orders.classes.len() - 1
        });
        let number = index as u32 + 1;
        self.number.store(number, Relaxed);
        number
    }

    /// Records that the thread waits for a lock of this class, however long that takes.
    ///
    /// # Panics
    /// If a lock that the thread holds was waited for by another one that held a lock of this class.
    pub fn wait(&self, at: Place) {
        let wanted = self.number();
        let _ = HELD.try_with(|held| {
            for taken in held.borrow().iter().filter(|taken| taken.class != wanted) {
                let is_new = KNOWN.try_with(|known| known.borrow_mut().insert((taken.class, wanted)));
                if is_new == Ok(true) {
                    show(taken, wanted, at);
                }
            }
        });
    }

    /// Records that the thread has a lock of this class until the result is dropped.
    pub fn take(&self, at: Place) -> HeldLock {
        let class = self.number();
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            match held.iter_mut().find(|taken| taken.class == class) {
                Some(taken) => taken.times += 1,
                None => held.push(Taken { class, at, times: 1 }),
            }
        });
        HeldLock(class, PhantomData)
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            let Some(index) = held.iter().position(|taken| taken.class == self.0) else { return };
            held[index].times -= 1;
            if held[index].times == 0 {
                held.swap_remove(index);
            }
        });
    }
}

/// Checks that the thread, which is about to wait for another one, holds no lock.
///
/// # Panics
/// If it does.
#[track_caller]
pub fn assert_unlocked() {
    let first = HELD.try_with(|held| held.borrow().first().map(|taken| (taken.class, taken.at)));
    if let Ok(Some((class, at))) = first {
        let orders = ORDERS.lock().unwrap_or_else(PoisonError::into_inner);
        panic!("a thread waits for another one with {}, which it took at {at}", orders.name(class));
    }
}

fn show(held: &Taken, wanted: u32, at: Place) {
    let mut orders = ORDERS.lock().unwrap_or_else(PoisonError::into_inner);
    orders.shown.insert((held.class, wanted));
    if orders.leads(wanted, held.class) {
        let (has, wants) = (orders.name(held.class), orders.name(wanted));
        panic!("locks are taken in two orders: a thread with {has} (taken at {}) waits for {wants} at {at}", held.at);
    }
}

impl Orders {
    fn name(&self, class: u32) -> String {
        let (made, guards) = self.classes[class as usize - 1];
        format!("the lock of {guards}, made at {made},")
    }

    /// Whether threads have shown that one comes before the other, by way of others, too.
    fn leads(&self, from: u32, to: u32) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(class) = next.pop() {
            if class == to {
                return true;
            }
            if seen.insert(class) {
                next.extend(self.shown.range((class, 0)..=(class, u32::MAX)).map(|(_, after)| *after));
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::assert_unlocked;
    use crate::locks::sync::{Mutex, RwLock, lock_soon};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn panics(act: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(act)).is_err()
    }

    #[test]
    fn two_orders_of_two_locks_are_found_without_a_wait() {
        let (first, second) = (Mutex::new(1u8), Mutex::new(2u16));
        drop((first.lock(), second.lock()));
        drop((first.lock(), second.lock()));
        assert!(panics(|| drop((second.lock(), first.lock()))));
    }

    #[test]
    fn an_order_by_way_of_a_third_lock_counts() {
        let (first, second, third) = (Mutex::new(1u32), RwLock::new(2u64), Mutex::new(3i8));
        drop((first.lock(), second.read()));
        drop((second.write(), third.lock()));
        assert!(panics(|| drop((third.lock(), first.lock()))));
    }

    #[test]
    fn a_wait_for_a_limited_time_may_go_against_the_order() {
        let (first, second) = (Mutex::new(1i16), Mutex::new(2i32));
        drop((first.lock(), second.lock()));
        drop((second.lock(), lock_soon(&first), first.try_lock()));
    }

    #[test]
    fn a_thread_with_a_lock_waits_for_no_other_thread() {
        let lock = Mutex::new(1i64);
        assert_unlocked();
        let held = lock.lock();
        assert!(panics(assert_unlocked));
        drop(held);
        assert_unlocked();
    }
}
