//! The barrier: it has passed when no command runs any more that was admitted before a change.
//!
//! Commands are admitted by one word of the server ([`DenyReasons`](crate::status::deny_reasons::DenyReasons)), and
//! each change of it begins an [`Epoch`]. Each shard has the number of an epoch in the line of its lock. A command that
//! was admitted in an earlier epoch does not run under that lock: it has changed nothing yet, releases its locks, and
//! is admitted anew.
//!
//! ```text
//!   changer:  the word - the gate, taken and released - for each shard: lock, put the present epoch there, unlock
//!   runner:   look at the word, retain its epoch - locks - compare it in each shard - run - unlock
//! ```
//!
//! A command that has compared before the barrier reached one of its shards holds that lock until it has ended, and the
//! barrier waits there. A command that compares later sees the number. So when the barrier has passed, no older command
//! runs, and none begins. The rule holds for every way to locks:
//!
//! | way | where it compares |
//! |---|---|
//! | one shard, or several | in each of them, when it has all |
//! | escalated | with the server's word, when it has the gate: the barrier has been there before any shard |
//! | a script that takes more locks | as it began: one lock, or the gate, it has held since |
//! | a walk that locks one shard after the other | in each of them; it changes nothing but in one |
//! | clients that are served, eviction | in each shard, with the epoch in which that was decided |
//! | expiry, on access and in the background | it decides under the lock, by the word itself |
//!
//! Reasons that only measure (too little memory, full mailboxes) begin no epoch. A change that makes things milder
//! needs no barrier: a command that was admitted since also runs where the shard has seen an earlier epoch.

use crate::keyspace::Keyspace;
use crate::status::deny_reasons::Epoch;
use smallvec::SmallVec;

impl Keyspace {
    /// Returns the present epoch.
    pub fn epoch(&self) -> Epoch {
        self.persistence_status().deny_reasons().epoch()
    }

    /// Passes the barrier. Goes through the locks, the gate and then those of the shards from `next` on, puts the
    /// present epoch into each shard, and returns true when it has had all. No command is running then that was
    /// admitted before the epoch in which the first call was made. False: a lock is not free yet, and `give_up` says
    /// that it takes a while.
    pub fn pass_locks(&self, next: &mut usize, give_up: impl Fn() -> bool) -> bool {
        if self.locks().several_unless(&mut SmallVec::new(), || &give_up).is_none() {
            return false;
        }
        while *next < self.locks().len() {
            let Some(mut shard) = self.locks().one_unless(*next, &give_up) else { return false };
            shard.enter(self.epoch());
            *next += 1;
        }
        true
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod interleavings {
    use crate::data::event_class::EventClass;
    use crate::data::key_hash::KeyHash;
    use crate::data::value::{NewString, ValueExt};
    use crate::host::threads::Server;
    use crate::keyspace::Keyspace;
    use crate::keyspace::caller::ExecContext;
    use crate::keyspace::edit::Ttl;
    use crate::keyspace::held_locks::HeldLocks;
    use crate::keyspace::keys::Keys;
    use crate::status::deny_reasons::{Epoch, Paused};
    use crate::time::{SteadyMs, UnixMs};
    use crate::{Engine, NullHost, Options};
    use shuttle::thread;
    use std::sync::Arc;

    /// One in each shard. The last one has expired.
    const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    const EXPIRED: usize = 3;
    const FOREVER: SteadyMs = SteadyMs(i64::MAX);

    fn hash(keyspace: &Keyspace, key: usize) -> KeyHash {
        keyspace.hasher().hash(KEYS[key])
    }

    fn engine() -> Arc<Engine> {
        let options = Options { shards: KEYS.len(), databases: 1, hash_seed: 1, workers: 1, counts_slots: false };
        let engine = Arc::new(Engine::new(&options, Arc::new(NullHost)));
        let mut keys = Keys::new(&engine, HeldLocks::Nothing, 0, ExecContext::client(UnixMs(1)));
        keys.hold([hash(&engine, EXPIRED)].into_iter()).unwrap();
        let mut edit = keys.edit(keys.key(KEYS[EXPIRED]));
        edit.set_string(NewString::Bytes(b"v"), Ttl::At(UnixMs(2)));
        edit.commit(EventClass::STRING, "set");
        drop(keys.release());
        engine
    }

    /// The bytes of each key, read under the locks of all.
    fn lens(engine: &Engine) -> [usize; KEYS.len()] {
        let mut keys = Keys::new(engine, HeldLocks::Nothing, 0, ExecContext::client(UnixMs(1)));
        keys.hold((0..KEYS.len()).map(|key| hash(engine, key))).unwrap();
        KEYS.map(|name| {
            let found = keys.lookup_no_expire(keys.key(name));
            found.map_or(0, |found| found.value().as_string().unwrap().to_vec().len())
        })
    }

    fn append(keys: &mut Keys<'_>, key: usize) {
        thread::yield_now();
        let mut edit = keys.edit(keys.key(KEYS[key]));
        edit.with_bytes(0, |bytes| bytes.push(0)).unwrap();
        edit.commit(EventClass::STRING, "append");
    }

    /// A command as it is admitted and run, whatever it does. `looks`: whether it compares epochs.
    fn run(engine: &Engine, looks: bool, command: impl FnOnce(&mut Keys<'_>)) {
        let state = engine.persistence_status().deny_reasons();
        if state.paused() == Paused::Nothing {
            let mut keys = Keys::new(engine, HeldLocks::Nothing, 0, ExecContext::client(UnixMs(1)));
            keys.set_admitted(if looks { state.epoch() } else { Epoch::LAST });
            thread::yield_now();
            command(&mut keys);
            keys.unlock();
        }
    }

    /// A command whose keys are known.
    fn named(keys: &mut Keys<'_>, which: &[usize]) {
        let keyspace = keys.keyspace();
        if keys.hold(which.iter().map(|key| hash(keyspace, *key))).is_ok() {
            which.iter().for_each(|key| append(keys, *key));
        }
    }

    /// One that takes its locks as it needs them.
    fn escalated(keys: &mut Keys<'_>) {
        let keyspace = keys.keyspace();
        if keys.escalate_anew().is_ok() {
            for key in [2, 0] {
                assert!(keys.take(hash(keyspace, key).shard()));
                append(keys, key);
            }
        }
    }

    /// A script that meets another key after a change.
    fn script(keys: &mut Keys<'_>) {
        let keyspace = keys.keyspace();
        if keys.hold([hash(keyspace, 0)].into_iter()).is_ok()
            && let Some(claim) = keyspace.locks().claim()
        {
            append(keys, 0);
            keys.add(Some(&claim), hash(keyspace, 1).shard(), || {});
            append(keys, 1);
            keys.unlock();
        }
    }

    /// Ways to locks.
    const COMMANDS: [fn(&mut Keys<'_>); 4] = [|keys| named(keys, &[0]), |keys| named(keys, &[1, 2]), escalated, script];

    /// Commands on every way to their locks, and the background, beside a thread that passes the barrier: after that it
    /// sees no change. `blind`: the way whose command does not compare epochs.
    fn paused(blind: Option<usize>) {
        let engine = engine();
        let mut others = Vec::new();
        for (way, command) in COMMANDS.into_iter().enumerate() {
            let engine = Arc::clone(&engine);
            others.push(thread::spawn(move || run(&engine, blind != Some(way), command)));
        }
        let background = Arc::clone(&engine);
        others.push(thread::spawn(move || {
            background.expire_due(0..KEYS.len(), Server { worker: 0, now_us: UnixMs(3).us() }, 10);
        }));
        engine.begin_pause(Paused::All, FOREVER, SteadyMs(0));
        let mut next = 0;
        while !engine.pass_locks(&mut next, || false) {}
        let after = lens(&engine);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        let stayed = lens(&engine);
        assert_eq!(after, stayed, "something was changed after the barrier");
        engine.end_pause();
        run(&engine, true, COMMANDS[0]);
        assert_eq!(lens(&engine)[0], stayed[0] + 1, "who is admitted after a pause runs");
    }

    #[test]
    fn nothing_that_was_admitted_before_runs_after_the_barrier() {
        shuttle::check_random(|| paused(None), 10_000);
        shuttle::check_pct(|| paused(None), 10_000, 4);
    }

    #[test]
    fn a_command_that_does_not_compare_epochs_is_found() {
        for way in 0..COMMANDS.len() {
            // At random it seldom waits just there for as long as the barrier takes.
            let explored = std::panic::catch_unwind(|| shuttle::check_pct(move || paused(Some(way)), 10_000, 3));
            assert!(explored.is_err(), "way {way} changes something after the barrier");
        }
    }
}
