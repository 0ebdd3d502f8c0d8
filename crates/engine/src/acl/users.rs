//! All users, and numbers about them that commands read without a lock.

use crate::acl::denial_log::DenialLog;
use crate::acl::prefix_memory::PrefixMemory;
use crate::acl::rule_error::RuleError;
use crate::acl::user::{DEFAULT_USER, RuleContext, User, merge_selectors};
use crate::locks::sync::Mutex;
use crossbeam_utils::CachePadded;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Weak};

/// All users of a server.
pub struct Users {
    /// None until the commands are known.
    state: Mutex<Option<State>>,
    /// Number of changes so far. Written under the lock of the users, read by every command.
    generation: CachePadded<AtomicU64>,
    /// Whether a new connection has to log in first.
    asks: AtomicBool,
    /// Whether a quota limits the memory of keys by prefix, or did lately.
    measures: AtomicBool,
    /// Requests that were refused.
    pub log: DenialLog,
    /// Lock of the save of the users' file.
    pub saving: Mutex<()>,
}

struct State {
    by_name: BTreeMap<Box<[u8]>, Arc<User>>,
    /// Memory by prefix, as far as a quota limits it.
    memory: BTreeMap<Box<[u8]>, Weak<PrefixMemory>>,
    last_id: u64,
    last_change: u64,
}

/// A user before and after a change.
#[derive(Clone, Debug)]
pub struct UserChange {
    /// The user before it.
    pub old: Arc<User>,
    /// The user after it; None: it was removed.
    pub new: Option<Arc<User>>,
}

/// Why a user was not changed.
#[derive(Debug, PartialEq, Eq)]
pub enum SetUserError {
    /// A parenthesis that this word begins with is not closed.
    Unmatched(Vec<u8>),
    /// This rule is refused.
    Rule(Vec<u8>, RuleError),
}

impl Default for Users {
    fn default() -> Users {
        let (state, generation) = (Mutex::new(None), CachePadded::new(AtomicU64::new(1)));
        let (asks, measures, log, saving) = Default::default();
        Users { state, generation, asks, measures, log, saving }
    }
}

impl State {
    fn new(context: RuleContext<'_>) -> State {
        let mut state = State { by_name: BTreeMap::new(), memory: BTreeMap::new(), last_id: 0, last_change: 0 };
        _ = state.put(User::default_user(context), None);
        state
    }

    /// Puts a user in the place of the one of its name, and gives it that one's number. `old` supplies the user where
    /// there is none yet.
    fn put(&mut self, mut user: User, old: Option<&State>) -> Option<UserChange> {
        let known = self.by_name.get(user.name()).or_else(|| old?.by_name.get(user.name())).cloned();
        user.id = known.as_ref().map_or_else(
            || {
                self.last_id += 1;
                self.last_id
            },
            |known| known.id,
        );
        self.last_change += 1;
        user.changed_at = self.last_change;
        if let Some(known) = &known {
            user.usage = Arc::clone(&known.usage);
        }
        user.quota.memory.iter_mut().for_each(|limit| self.share(&mut limit.used));
        let user = Arc::new(user);
        self.by_name.insert(user.name().into(), Arc::clone(&user));
        known.map(|old| UserChange { old, new: Some(user) })
    }

    /// Makes all quotas of a prefix share one count.
    fn share(&mut self, used: &mut Arc<PrefixMemory>) {
        match self.memory.get(used.prefix()).and_then(Weak::upgrade) {
            Some(known) => *used = known,
            None => _ = self.memory.insert(used.prefix().into(), Arc::downgrade(used)),
        }
    }
}

impl Users {
    fn with<R>(&self, context: RuleContext<'_>, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let state = state.get_or_insert_with(|| State::new(context));
        let result = change(state);
        let default = &state.by_name[DEFAULT_USER];
        self.asks.store(!default.is_enabled() || !default.needs_no_password(), Release);
        self.measures.store(!state.memory.is_empty(), Relaxed);
        result
    }

    /// Returns the number of changes so far. A session with this number has the present users.
    #[inline(always)]
    pub fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    /// Whether a new connection has to log in before anything else.
    pub fn asks(&self) -> bool {
        self.asks.load(Acquire)
    }

    /// Whether a quota limits the memory of keys by prefix.
    pub fn measures_memory(&self) -> bool {
        self.measures.load(Relaxed)
    }

    /// Returns the prefixes that quotas limit.
    pub(crate) fn measured_prefixes(&self) -> Vec<Arc<PrefixMemory>> {
        let mut state = self.state.lock();
        let Some(state) = &mut *state else { return Vec::new() };
        state.memory.retain(|_, known| known.strong_count() > 0);
        self.measures.store(!state.memory.is_empty(), Relaxed);
        state.memory.values().filter_map(Weak::upgrade).collect()
    }

    fn changed(&self) {
        self.generation.fetch_add(1, AcqRel);
    }

    /// Returns the user of this name.
    pub fn get(&self, name: &[u8], context: RuleContext<'_>) -> Option<Arc<User>> {
        self.with(context, |state| state.by_name.get(name).cloned())
    }

    /// Returns the user of connections that have not logged in.
    pub fn default_user(&self, context: RuleContext<'_>) -> Arc<User> {
        self.with(context, |state| Arc::clone(&state.by_name[DEFAULT_USER]))
    }

    /// Returns all users by name.
    pub fn all(&self, context: RuleContext<'_>) -> Vec<Arc<User>> {
        self.with(context, |state| state.by_name.values().cloned().collect())
    }

    /// Makes a user, or changes one, by all rules or by none. Returns the change of a user that was there.
    ///
    /// # Errors
    /// [`SetUserError`]: a rule is refused, and the user stays as it is.
    pub fn set(
        &self,
        name: &[u8],
        words: &[Vec<u8>],
        context: RuleContext<'_>,
    ) -> Result<Option<UserChange>, SetUserError> {
        let rules = merge_selectors(words).map_err(|at| SetUserError::Unmatched(words[at].clone()))?;
        let change = self.with(context, |state| {
            let known = state.by_name.get(name);
            let mut user = known.map_or_else(|| User::new(name, context), |user| User::clone(user));
            for rule in &rules {
                user.apply(rule, context).map_err(|error| SetUserError::Rule(rule.clone(), error))?;
            }
            Ok(state.put(user, None))
        })?;
        self.changed();
        Ok(change)
    }

    /// Sets the password of the default user (`requirepass`); empty for none.
    pub fn set_default_password(&self, password: &[u8], context: RuleContext<'_>) -> UserChange {
        let change = self.with(context, |state| {
            let old = Arc::clone(&state.by_name[DEFAULT_USER]);
            let mut user = User::clone(&old);
            user.set_only_password(password);
            state.put(user, None).unwrap_or(UserChange { old, new: None })
        });
        self.changed();
        change
    }

    /// Removes a user, which must not be the default one.
    pub fn remove(&self, name: &[u8], context: RuleContext<'_>) -> Option<UserChange> {
        let old = self.with(context, |state| state.by_name.remove(name))?;
        self.changed();
        Some(UserChange { old, new: None })
    }

    /// Replaces all users by these. The default user may do everything if it is not among them. The last of several
    /// users of one name counts.
    pub fn replace_all(&self, users: Vec<User>, context: RuleContext<'_>) -> Vec<UserChange> {
        let changes = self.with(context, |old| {
            let memory = std::mem::take(&mut old.memory);
            let (last_id, last_change) = (old.last_id, old.last_change);
            let mut state = State { by_name: BTreeMap::new(), memory, last_id, last_change };
            _ = state.put(User::default_user(context), Some(old));
            users.into_iter().for_each(|user| _ = state.put(user, Some(old)));
            let new = |user: &Arc<User>| state.by_name.get(user.name()).cloned();
            let changes = old.by_name.values().map(|user| UserChange { old: Arc::clone(user), new: new(user) });
            let changes = changes.collect();
            *old = state;
            changes
        });
        self.changed();
        changes
    }
}
