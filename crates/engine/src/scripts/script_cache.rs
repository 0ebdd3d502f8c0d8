//! Scripts and functions as all workers share them: their texts and flags, and the present runs.
//!
//! No interpreter is here. Each worker compiles the scripts that it runs from these texts and retains them until the
//! text is gone ([`Script::is_gone`], [`SeenLibraries::version`]). Scripts of EVAL are evicted when there are more than
//! [`EVAL_SCRIPTS_MAX`], the one that was used longest ago first; scripts of SCRIPT LOAD stay until SCRIPT FLUSH.
//!
//! A script that runs for longer than `busy-reply-threshold` makes the whole server busy: [`Scripts::is_busy`] is one
//! flag that every worker reads before a command.

use crate::locks::sync::Mutex;
use crate::scripts::function_libraries::{Function, Libraries, Library, LibraryChange};
use crate::scripts::run_slot::{Run, RunSlot};
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Weak};

/// Scripts of EVAL that are remembered.
pub const EVAL_SCRIPTS_MAX: usize = 500;
/// Bytes that each remembered script takes besides its text, as reported.
const OVERHEAD: usize = 120;

/// A script's SHA-1 in lower-case hexadecimal digits.
pub type Sha = [u8; 40];

/// A script's text, with its flags and use.
#[derive(Debug)]
pub struct Script {
    /// Its name.
    pub sha: Sha,
    /// Its text, as it came.
    pub text: Box<[u8]>,
    /// Flags that its first line declares; the commands know the bits.
    pub flags: u32,
    /// Whether it stays until the scripts are flushed.
    pinned: AtomicBool,
    gone: AtomicBool,
    used_at: AtomicU64,
}

impl Script {
    /// Whether it was flushed or evicted: a worker that has compiled it drops it.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }
}

/// A script or function that has run for longer than `busy-reply-threshold`.
#[derive(Debug)]
pub struct Running {
    /// The SHA or the function's name.
    pub name: Box<[u8]>,
    /// The command that it was called with.
    pub command: Vec<Vec<u8>>,
    /// The run, which can be ended.
    pub run: Run,
}

/// The libraries, and a command's changed copy of them whose change is not in the log yet.
#[derive(Default)]
struct SharedLibraries {
    known: Arc<Libraries>,
    changed: Option<Arc<Libraries>>,
    /// Number of their changes.
    changes: u64,
}

/// The libraries as one command sees them.
#[derive(Clone, Copy)]
pub struct SeenLibraries<'s> {
    scripts: &'s Scripts,
    /// Whether the command has changed them.
    changes: bool,
}

impl SeenLibraries<'_> {
    /// Returns the libraries themselves.
    pub fn all(self) -> Arc<Libraries> {
        let shared = self.scripts.libraries.lock();
        Arc::clone(shared.changed.as_ref().filter(|_| self.changes).unwrap_or(&shared.known))
    }

    /// Differs after every change of the libraries.
    #[inline]
    pub fn version(self) -> u64 {
        match self.changes {
            true => self.scripts.libraries.lock().changes,
            false => self.scripts.functions_version.load(Acquire),
        }
    }
}

#[derive(Default)]
struct Store {
    scripts: HashMap<Sha, Arc<Script>>,
    /// Number of scripts that are not pinned.
    passing: usize,
    evicted: u64,
}

/// The shared scripts.
pub struct Scripts {
    store: CachePadded<Mutex<Store>>,
    generation: AtomicU64,
    /// Whether there are so many scripts of EVAL that the order of their use begins to matter.
    crowded: AtomicBool,
    libraries: Mutex<SharedLibraries>,
    functions_version: AtomicU64,
    /// The change log's length after the last change of the libraries that is in it.
    libraries_logged_to: AtomicU64,
    next_library: AtomicU64,
    /// The run of each thread that has an interpreter.
    run_slots: Mutex<Vec<Weak<RunSlot>>>,
    /// Scripts that have run for longer than the threshold.
    busy: Mutex<Vec<Arc<Running>>>,
    busy_count: AtomicUsize,
    /// Scripts that have run for so long that no command waits for their locks.
    long_count: AtomicUsize,
    /// Bytes of each worker's interpreter, together.
    interpreters: CachePadded<AtomicUsize>,
    /// DEBUG SET-DISABLE-DENY-SCRIPTS.
    deny_disabled: AtomicBool,
    /// `lua-enable-insecure-api`.
    insecure_api: AtomicBool,
}

/// Generations of scripts, of all engines.
static GENERATIONS: AtomicU64 = AtomicU64::new(0);

impl Default for Scripts {
    fn default() -> Self {
        Scripts {
            store: CachePadded::default(),
            generation: next_generation().into(),
            crowded: false.into(),
            libraries: Mutex::default(),
            functions_version: 0.into(),
            libraries_logged_to: 0.into(),
            next_library: 0.into(),
            run_slots: Mutex::default(),
            busy: Mutex::default(),
            busy_count: 0.into(),
            long_count: 0.into(),
            interpreters: CachePadded::default(),
            deny_disabled: false.into(),
            insecure_api: false.into(),
        }
    }
}

fn next_generation() -> u64 {
    GENERATIONS.fetch_add(1, Relaxed) + 1
}

impl Scripts {
    /// Returns a number that changes when the scripts are flushed, and that no other engine's scripts have.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// Returns the script of this SHA, used at `now`.
    pub fn find(&self, sha: &Sha, now: Nanos) -> Option<Arc<Script>> {
        let found = self.store.lock().scripts.get(sha).cloned();
        found.inspect(|script| self.touch(script, now))
    }

    /// Returns the flags of the script of this SHA. This does not count as a use.
    pub fn flags(&self, sha: &Sha) -> Option<u32> {
        self.store.lock().scripts.get(sha).map(|script| script.flags)
    }

    /// Whether the script is remembered (SCRIPT EXISTS).
    pub fn contains(&self, sha: &Sha) -> bool {
        self.store.lock().scripts.contains_key(sha)
    }

    /// Marks a script as used. Written only when it matters, since all workers read it.
    #[inline]
    pub fn touch(&self, script: &Script, now: Nanos) {
        if self.crowded.load(Relaxed) {
            script.used_at.store(now.0, Relaxed);
        }
    }

    /// Adds a script, or pins it if it is there already.
    pub fn add(&self, sha: Sha, text: &[u8], flags: u32, pinned: bool, now: Nanos) -> Arc<Script> {
        let mut store = self.store.lock();
        if let Some(script) = store.scripts.get(&sha).cloned() {
            if pinned && !script.pinned.swap(true, Relaxed) {
                store.passing -= 1;
            }
            return script;
        }
        if !pinned && store.passing >= EVAL_SCRIPTS_MAX {
            store.evict();
        }
        let script = Arc::new(Script {
            sha,
            text: text.into(),
            flags,
            pinned: pinned.into(),
            gone: false.into(),
            used_at: now.0.into(),
        });
        store.scripts.insert(sha, Arc::clone(&script));
        store.passing += usize::from(!pinned);
        self.crowded.store(store.passing > EVAL_SCRIPTS_MAX / 2, Relaxed);
        script
    }

    /// Removes all scripts, and returns them.
    pub fn flush(&self) -> Vec<Arc<Script>> {
        let mut store = self.store.lock();
        let scripts: Vec<_> = store.scripts.drain().map(|(_, script)| script).collect();
        scripts.iter().for_each(|script| script.gone.store(true, Relaxed));
        store.passing = 0;
        self.generation.store(next_generation(), Relaxed);
        self.interpreters.store(0, Relaxed);
        self.crowded.store(false, Relaxed);
        scripts
    }

    /// Sets whether scripts have `getfenv` and its kin. Interpreters are made anew for a change.
    pub fn set_insecure_api(&self, enabled: bool) {
        if self.insecure_api.swap(enabled, Relaxed) != enabled {
            drop(self.flush());
        }
    }

    /// Whether new interpreters have `getfenv` and its kin.
    pub fn has_insecure_api(&self) -> bool {
        self.insecure_api.load(Relaxed)
    }

    /// Returns the number of scripts, and the bytes that they take up.
    pub fn totals(&self) -> (usize, usize) {
        let store = self.store.lock();
        (store.scripts.len(), store.scripts.values().map(|script| script.text.len() + OVERHEAD).sum())
    }

    /// Returns the number of scripts of EVAL that were evicted.
    pub fn evicted(&self) -> u64 {
        self.store.lock().evicted
    }

    /// Resets the count of evicted scripts (CONFIG RESETSTAT).
    pub fn reset_evicted(&self) {
        self.store.lock().evicted = 0;
    }

    /// Returns the bytes that the libraries take up.
    pub fn library_bytes(&self) -> usize {
        let function = |function: &Function| {
            OVERHEAD + function.name.len() + function.description.as_ref().map_or(0, |text| text.len())
        };
        let library = |library: &Arc<Library>| {
            OVERHEAD + library.name.len() + library.code.len() + library.functions.iter().map(function).sum::<usize>()
        };
        self.libraries().iter().map(library).sum()
    }

    /// Returns the libraries as they are now.
    pub fn libraries(&self) -> Arc<Libraries> {
        Arc::clone(&self.libraries.lock().known)
    }

    /// Returns the libraries as a command sees them; `changes`: it has changed them itself.
    #[inline]
    pub fn libraries_seen(&self, changes: bool) -> SeenLibraries<'_> {
        SeenLibraries { scripts: self, changes }
    }

    /// Returns the change log's length after the last change of the libraries that is in it.
    pub fn libraries_logged_to(&self) -> u64 {
        self.libraries_logged_to.load(Acquire)
    }

    /// Records the log's length after a change of the libraries.
    pub(crate) fn libraries_are_logged(&self, length: u64) {
        self.libraries_logged_to.fetch_max(length, Release);
    }

    /// Returns a number for a new library that no other has had.
    pub fn next_library_id(&self) -> u64 {
        self.next_library.fetch_add(1, Relaxed) + 1
    }

    /// Makes the change that `plan` finds to be possible, which other commands see when it is
    /// [published](Self::publish_libraries). Only for [`Keys::change_libraries`].
    ///
    /// [`Keys::change_libraries`]: crate::keyspace::keys::Keys::change_libraries
    pub(crate) fn change_libraries<E>(
        &self,
        plan: impl FnOnce(&Libraries) -> Result<LibraryChange, E>,
    ) -> Result<(), E> {
        let mut shared = self.libraries.lock();
        let shared = &mut *shared;
        let latest = shared.changed.as_ref().unwrap_or(&shared.known);
        let change = plan(latest)?;
        let mut changed = if change.clear { Arc::default() } else { Arc::clone(latest) };
        Arc::make_mut(&mut changed).apply(change);
        shared.changed = Some(changed);
        shared.changes += 1;
        Ok(())
    }

    /// Publishes the change, which is in the log if there is one.
    pub(crate) fn publish_libraries(&self) {
        let mut shared = self.libraries.lock();
        if let Some(changed) = shared.changed.take() {
            shared.known = changed;
            self.functions_version.store(shared.changes, Release);
        }
    }

    /// Whether some script has run for so long that clients get an error instead of waiting silently.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.busy_count.load(Relaxed) > 0
    }

    /// Whether some script, or another command, has run for so long that a thread that wants its locks had better do
    /// something else meanwhile.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.long_count.load(Relaxed) > 0
    }

    /// Marks that a script, or another command, has run for a while: threads that want its locks do something else.
    pub fn begin_long(&self) {
        self.long_count.fetch_add(1, Relaxed);
    }

    /// Ends one [`begin_long`](Self::begin_long).
    pub fn end_long(&self) {
        self.long_count.fetch_sub(1, Relaxed);
    }

    /// Marks that `running` has passed the threshold.
    pub fn begin_busy(&self, running: &Arc<Running>) {
        self.busy.lock().push(Arc::clone(running));
        self.busy_count.fetch_add(1, Relaxed);
    }

    /// Marks that `running` has ended.
    pub fn end_busy(&self, running: &Arc<Running>) {
        let mut busy = self.busy.lock();
        let before = busy.len();
        busy.retain(|other| !Arc::ptr_eq(other, running));
        self.busy_count.fetch_sub(before - busy.len(), Relaxed);
    }

    /// Returns a slot for the runs of a new interpreter.
    pub fn new_run_slot(&self) -> Arc<RunSlot> {
        let slot = Arc::default();
        let mut slots = self.run_slots.lock();
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        slot
    }

    /// Returns the runs that have lasted for so many nanoseconds at `now`, and those that make the server busy. A run
    /// that is in a long call of a native function is among them, though it cannot look at the clock.
    pub fn lasting(&self, now: Nanos, nanos: u64) -> Vec<Run> {
        let mut runs: Vec<Run> = self.busy.lock().iter().map(|running| running.run.clone()).collect();
        let slots = self.run_slots.lock();
        let present = slots.iter().filter_map(Weak::upgrade).filter_map(|slot| slot.run());
        let lasting = present.filter(|run| now.since(run.began()) >= nanos);
        for run in lasting {
            if !runs.contains(&run) {
                runs.push(run);
            }
        }
        runs
    }

    /// Returns the scripts that make the server busy, in the order in which they passed the threshold.
    pub fn busy(&self) -> Vec<Arc<Running>> {
        self.busy.lock().clone()
    }

    /// Records that an interpreter of this generation takes `now` bytes where it took `before`. Interpreters of former
    /// generations do not count any more.
    pub fn note_interpreter(&self, generation: u64, before: usize, now: usize) {
        let _store = self.store.lock();
        if generation == self.generation() {
            self.interpreters.fetch_add(now.wrapping_sub(before), Relaxed);
        }
    }

    /// Returns the bytes that the interpreters of all workers take up.
    pub fn interpreter_bytes(&self) -> usize {
        self.interpreters.load(Relaxed)
    }

    /// Sets whether scripts may call commands that are not for scripts (DEBUG SET-DISABLE-DENY-SCRIPTS).
    pub fn allow_all(&self, on: bool) {
        self.deny_disabled.store(on, Relaxed);
    }

    /// Whether scripts may call all commands, see [`allow_all`](Self::allow_all).
    pub fn allows_all(&self) -> bool {
        self.deny_disabled.load(Relaxed)
    }
}

impl Store {
    fn evict(&mut self) {
        let passing = self.scripts.values().filter(|script| !script.pinned.load(Relaxed));
        let Some(oldest) = passing.min_by_key(|script| script.used_at.load(Relaxed)).map(|script| script.sha) else {
            return;
        };
        if let Some(script) = self.scripts.remove(&oldest) {
            script.gone.store(true, Relaxed);
            self.passing -= 1;
            self.evicted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha(n: usize) -> Sha {
        let mut sha = [b'0'; 40];
        sha[..8].copy_from_slice(format!("{n:08}").as_bytes());
        sha
    }

    #[test]
    fn the_script_that_was_used_longest_ago_is_forgotten() {
        let scripts = Scripts::default();
        for n in 0..EVAL_SCRIPTS_MAX {
            scripts.add(sha(n), b"text", 0, n == 7, Nanos(n as u64));
        }
        let first = scripts.add(sha(EVAL_SCRIPTS_MAX), b"text", 0, false, Nanos(1000));
        assert_eq!((scripts.evicted(), first.is_gone()), (0, false), "the pinned one does not count");
        assert!(scripts.find(&sha(0), Nanos(2000)).is_some());
        scripts.add(sha(EVAL_SCRIPTS_MAX + 1), b"text", 0, false, Nanos(2001));
        assert_eq!(scripts.evicted(), 1);
        assert!(scripts.contains(&sha(0)) && !scripts.contains(&sha(1)) && scripts.contains(&sha(7)));
        assert_eq!(scripts.flush().len(), EVAL_SCRIPTS_MAX + 1);
        assert!(first.is_gone() && scripts.totals() == (0, 0));
    }

    #[test]
    fn the_server_is_busy_while_a_long_script_runs() {
        let scripts = Scripts::default();
        let run = scripts.new_run_slot().begin(Nanos(1), true);
        let running = Arc::new(Running { name: b"f"[..].into(), command: Vec::new(), run });
        scripts.begin_busy(&running);
        assert!(scripts.is_busy() && Arc::ptr_eq(&scripts.busy()[0], &running));
        scripts.end_busy(&running);
        scripts.end_busy(&running);
        assert!(!scripts.is_busy() && scripts.busy().is_empty());
    }
}
