//! The configuration in force: read without locks on hot paths, changed as a whole or not at all.
//!
//! A [`Config`] never changes. CONFIG SET builds a new one, runs the hooks on it and, when none objects, publishes it
//! and counts the generation up. A worker holds an `Arc<Config>` and its generation; once a loop turn it compares one
//! atomic and takes a new snapshot when they differ.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::directive::Directive;
use super::directive_entry::{DirectiveEntry, DirectiveKind, Unmet, Unsupported};
use super::directive_table::{self, FoundDirective};
use super::directive_value::{ClientClass, DirectiveValue, OutputBufferLimit, SavePoint, Upstream, words_of};
use crate::glob;
use crate::locks::sync::Mutex;
use crossbeam_utils::CachePadded;
use std::borrow::Cow;

/// Values of all directives. Asking a directive for another kind of value than its entry declares is a mistake in the
/// program and panics; a test asks each of them.
#[derive(Clone, Debug)]
pub struct Config {
    values: Box<[DirectiveValue]>,
    /// Values of unsupported directives from the file: their defaults are in force, but CONFIG REWRITE writes these.
    unmet: Vec<(Directive, DirectiveValue)>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            values: directive_table::entries().iter().map(|entry| entry.default_value()).collect(),
            unmet: Vec::new(),
        }
    }
}

impl Config {
    /// Returns the value in force.
    pub fn value(&self, directive: Directive) -> &DirectiveValue {
        &self.values[directive.index()]
    }

    pub(super) fn replace(&mut self, directive: Directive, value: DirectiveValue) {
        self.unmet.retain(|(unmet, _)| *unmet != directive);
        self.values[directive.index()] = value;
    }

    /// Replaces values that nothing here acts on by their defaults.
    pub(super) fn set_unmet_aside(&mut self) {
        for entry in directive_table::entries() {
            let value = self.value(entry.directive);
            if entry.unsupported.is_some_and(|unsupported| unsupported.unmet == Unmet::Ignored)
                && entry.objection(value).is_some()
            {
                let value = value.clone();
                self.replace(entry.directive, entry.default_value());
                self.unmet.push((entry.directive, value));
            }
        }
    }

    /// Returns the value that CONFIG REWRITE writes.
    pub(super) fn written(&self, directive: Directive) -> &DirectiveValue {
        let unmet = self.unmet.iter().find(|(unmet, _)| *unmet == directive);
        unmet.map_or_else(|| self.value(directive), |(_, value)| value)
    }

    /// Returns the unsupported directives that were given another value than their default, by name.
    pub fn unmet(&self) -> impl Iterator<Item = (&'static DirectiveEntry, Unsupported)> {
        let entries =
            directive_table::names().iter().filter(|found| found.name == found.entry.name).map(|found| found.entry);
        entries.filter_map(|entry| {
            let unsupported = entry.unsupported?;
            (*self.written(entry.directive) != entry.default_value()).then_some((entry, unsupported))
        })
    }

    /// Returns the value of a `yes`/`no` directive.
    pub fn flag(&self, directive: Directive) -> bool {
        match self.value(directive) {
            DirectiveValue::Flag(flag) => *flag,
            _ => wrong_kind(directive),
        }
    }

    /// Returns a number; a percentage is negative.
    pub fn int(&self, directive: Directive) -> i64 {
        match self.value(directive) {
            DirectiveValue::Integer(number) => *number,
            _ => wrong_kind(directive),
        }
    }

    /// Returns a number of bytes, over the whole range of u64.
    pub fn bytes(&self, directive: Directive) -> u64 {
        self.int(directive).cast_unsigned()
    }

    /// Returns a text, empty when there is none.
    pub fn text(&self, directive: Directive) -> &[u8] {
        match self.value(directive) {
            DirectiveValue::Text(text) => text.as_deref().unwrap_or_default(),
            _ => wrong_kind(directive),
        }
    }

    /// Returns the name chosen.
    pub fn choice(&self, directive: Directive) -> &'static str {
        match (self.value(directive), directive_table::entry(directive).kind) {
            (DirectiveValue::Choice(at), DirectiveKind::Choice(names)) => names[*at],
            _ => wrong_kind(directive),
        }
    }

    /// Whether `name` is among the names chosen.
    pub fn has_choice(&self, directive: Directive, name: &str) -> bool {
        match (self.value(directive), directive_table::entry(directive).kind) {
            (DirectiveValue::Choices(bits), DirectiveKind::Choices(names)) => {
                names.iter().skip(1).position(|known| *known == name).is_some_and(|at| bits & 1 << at != 0)
            }
            _ => wrong_kind(directive),
        }
    }

    /// Returns when to save, empty for never.
    pub fn save_points(&self) -> &[SavePoint] {
        match self.value(Directive::SAVE) {
            DirectiveValue::Save(points) => points,
            _ => wrong_kind(Directive::SAVE),
        }
    }

    /// Returns the addresses to listen on; one with a leading `-` may fail to bind.
    pub fn bind_addresses(&self) -> &[Arc<[u8]>] {
        self.addresses(Directive::BIND)
    }

    /// Returns the addresses that another such directive names.
    pub fn addresses(&self, directive: Directive) -> &[Arc<[u8]>] {
        match self.value(directive) {
            DirectiveValue::Bind(addresses) => addresses,
            _ => wrong_kind(directive),
        }
    }

    /// Returns the limits of this class, of `client-output-buffer-limit`.
    pub fn output_buffer_limit(&self, class: ClientClass) -> OutputBufferLimit {
        match self.value(Directive::CLIENT_OUTPUT_BUFFER_LIMIT) {
            DirectiveValue::OutputBufferLimits(limits) => limits[class as usize],
            _ => wrong_kind(Directive::CLIENT_OUTPUT_BUFFER_LIMIT),
        }
    }

    /// Returns the `oom_score_adj` of a primary, a replica, a child.
    pub fn oom_score_adj_values(&self) -> [i32; 3] {
        match self.value(Directive::OOM_SCORE_ADJ_VALUES) {
            DirectiveValue::OomScoreAdjValues(values) => *values,
            _ => wrong_kind(Directive::OOM_SCORE_ADJ_VALUES),
        }
    }

    /// Returns the bits of [`keyspace_events`](super::keyspace_events).
    pub fn keyspace_events(&self) -> u32 {
        match self.value(Directive::NOTIFY_KEYSPACE_EVENTS) {
            DirectiveValue::KeyspaceEvents(flags) => *flags,
            _ => wrong_kind(Directive::NOTIFY_KEYSPACE_EVENTS),
        }
    }

    /// Returns the percentiles that INFO shows, 0 to 100.
    pub fn percentiles(&self) -> &[f64] {
        match self.value(Directive::LATENCY_TRACKING_INFO_PERCENTILES) {
            DirectiveValue::Percentiles(values) => values,
            _ => wrong_kind(Directive::LATENCY_TRACKING_INFO_PERCENTILES),
        }
    }

    /// Returns the primary to follow from the start.
    pub fn upstream(&self) -> Option<&Upstream> {
        match self.value(Directive::REPLICAOF) {
            DirectiveValue::ReplicaOf(upstream) => upstream.as_ref(),
            _ => wrong_kind(Directive::REPLICAOF),
        }
    }

    /// Whether a client may do what `directive` (`enable-debug-command` and the like) guards.
    pub fn permits(&self, directive: Directive, client_is_local: bool) -> bool {
        match self.choice(directive) {
            "yes" => true,
            "local" => client_is_local,
            _ => false,
        }
    }

    /// Returns names and values for CONFIG GET: of every directive that one of the patterns names, once each. A name
    /// without wildcards is returned as it was written, and reaches hidden directives too.
    pub fn get(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut add = |name: &[u8], entry: &DirectiveEntry| {
            if !found.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                found.push((name.to_vec(), entry.print(self.value(entry.directive))));
            }
        };
        for pattern in patterns {
            if !pattern.iter().any(|c| b"[*?".contains(c)) {
                if let Some(FoundDirective { entry, .. }) = directive_table::find(pattern) {
                    add(pattern, entry);
                }
                continue;
            }
            for FoundDirective { entry, name } in directive_table::names() {
                if !entry.hidden && glob::matches_ignoring_case(pattern, name.as_bytes()) {
                    add(name.as_bytes(), entry);
                }
            }
        }
        found
    }
}

fn wrong_kind(directive: Directive) -> ! {
    panic!("{} is of another kind", directive_table::entry(directive).name)
}

/// Effects of a change of the configuration on the running server.
pub trait ApplyHooks {
    /// Makes `changed` take effect with the values of `config`, which is not published yet.
    ///
    /// # Errors
    /// The text for the client: the values cannot take effect. All changes are undone then: the hooks that ran are
    /// called again with the old configuration.
    fn apply(&self, changed: Directive, config: &Config) -> Result<(), String>;

    /// Changes the working directory and returns its absolute path.
    ///
    /// # Errors
    /// The folder is missing or may not be entered: the text for the client.
    fn change_dir(&self, path: &[u8]) -> Result<Vec<u8>, String>;
}

/// The client that asks for a change.
#[derive(Clone, Copy, Debug)]
pub struct ConfigCaller {
    /// Whether it is connected over a Unix socket or the loopback address.
    pub local: bool,
    /// Whether a data set is being loaded.
    pub loading: bool,
}

/// Reason for which CONFIG SET changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// The LOADING reply.
    Loading,
    /// A directive of this name does not exist.
    Unknown(Box<[u8]>),
    /// The text after `ERR `.
    Refused(String),
}

/// The configuration in force, shared by all threads.
#[derive(Debug)]
pub struct ConfigStore {
    generation: AtomicU64,
    current: CachePadded<RwLock<Arc<Config>>>,
    /// One change at a time: hooks run between building and publishing.
    changing: Mutex<Changing>,
    /// One rewrite of the configuration's file at a time.
    pub rewriting: Mutex<Rewriting>,
}

/// The right to change the configuration.
#[derive(Debug)]
struct Changing;

/// The right to write the configuration's file.
#[derive(Debug)]
pub struct Rewriting;

impl ConfigStore {
    /// Makes a store with this configuration in force. The locks' order is that of the caller's own locks: the store of
    /// a Sentinel within the server changes while the server's does.
    #[track_caller]
    pub fn new(config: Config) -> ConfigStore {
        ConfigStore {
            generation: AtomicU64::new(1),
            current: CachePadded::new(RwLock::new(Arc::new(config))),
            changing: Mutex::new(Changing),
            rewriting: Mutex::new(Rewriting),
        }
    }

    /// Returns the number of changes. Compare it first, then take a snapshot.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the configuration in force. A snapshot never changes; a change makes a new one.
    pub fn snapshot(&self) -> Arc<Config> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `derive` with the configuration in force, which does not change until it returns, to set something that
    /// follows from the configuration and from something else. (With a snapshot alone it might undo the work of a later
    /// hook.) Hooks have the configuration already and must not call this.
    pub fn settled<T>(&self, derive: impl FnOnce(&Config) -> T) -> T {
        let _turn = self.changing.lock();
        derive(&self.snapshot())
    }

    /// See [`Config::get`].
    pub fn get(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.snapshot().get(patterns)
    }

    /// Sets all of `pairs` (name, value), or nothing (CONFIG SET).
    ///
    /// # Errors
    /// See [`SetError`]; nothing was changed.
    pub fn set(&self, pairs: &[(&[u8], &[u8])], caller: ConfigCaller, hooks: &dyn ApplyHooks) -> Result<(), SetError> {
        let _turn = self.changing.lock();
        let old = self.snapshot();
        let wanted = admit(pairs, caller, &old)?;
        let (new, changed) = evaluate(&wanted, &old, hooks)?;
        if let Err((at, text)) = apply(&changed, &new, &old, hooks) {
            restore_dir(&new, &old, hooks);
            return Err(failed(changed[at].name, &text));
        }
        // Without a new value the configuration stays as it is, and no copy was made.
        if let Cow::Owned(new) = new {
            self.publish(new);
        }
        Ok(())
    }

    /// Changes values without asking hooks or looking at flags: for the server itself, when it must do with another
    /// value than it was given.
    pub fn update(&self, change: impl FnOnce(&mut ConfigEdit)) {
        let _turn = self.changing.lock();
        let mut edit = ConfigEdit { config: Config::clone(&self.snapshot()) };
        change(&mut edit);
        self.publish(edit.config);
    }

    /// Takes another configuration's place, without asking hooks.
    pub fn replace_all(&self, make: impl FnOnce(&Config) -> Config) {
        let _turn = self.changing.lock();
        self.publish(make(&self.snapshot()));
    }

    fn publish(&self, config: Config) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        self.generation.fetch_add(1, Ordering::Release);
    }
}

/// A configuration being changed by the server itself.
#[derive(Debug)]
pub struct ConfigEdit {
    config: Config,
}

impl ConfigEdit {
    /// Puts this number in force, whatever the entry's limits are.
    pub fn set_int(&mut self, directive: Directive, number: i64) {
        self.config.replace(directive, DirectiveValue::Integer(number));
    }

    /// Puts the choice of this name in force; a name that the directive does not have changes nothing.
    pub fn choose(&mut self, directive: Directive, name: &[u8]) {
        let entry = directive_table::entry(directive);
        if let Ok(value) = entry.parse(&[name], self.config.value(directive)) {
            self.config.replace(directive, value);
        }
    }

    /// Sets the primary that the server follows; None: it follows none.
    pub fn set_upstream(&mut self, upstream: Option<Upstream>) {
        self.config.replace(Directive::REPLICAOF, DirectiveValue::ReplicaOf(upstream));
    }

    /// Puts this flag in force.
    #[cfg(any(test, feature = "testing"))]
    pub fn set_flag(&mut self, directive: Directive, flag: bool) {
        self.config.replace(directive, DirectiveValue::Flag(flag));
    }

    /// Puts this text in force, read as the directive reads it.
    #[cfg(any(test, feature = "testing"))]
    pub fn set_text(&mut self, directive: Directive, text: &[u8]) {
        let text =
            if text.is_empty() && !directive_table::entry(directive).keeps_empty { None } else { Some(text.into()) };
        self.config.replace(directive, DirectiveValue::Text(text));
    }
}

/// Returns the pairs with their entries, when the caller may set all of them.
fn admit<'p>(
    pairs: &[(&[u8], &'p [u8])],
    caller: ConfigCaller,
    old: &Config,
) -> Result<Vec<(FoundDirective, &'p [u8])>, SetError> {
    let mut wanted: Vec<(FoundDirective, &[u8])> = Vec::with_capacity(pairs.len());
    for (name, value) in pairs {
        let Some(found) = directive_table::find(name) else { return Err(SetError::Unknown((*name).into())) };
        let shown = String::from_utf8_lossy(name);
        let confirms = || found.entry.confirmed && found.entry.print(old.value(found.entry.directive)) == *value;
        if found.entry.immutable && !confirms() {
            return Err(failed(&shown, "can't set immutable config"));
        }
        if found.entry.protected && !old.permits(Directive::ENABLE_PROTECTED_CONFIGS, caller.local) {
            return Err(failed(&shown, "can't set protected config"));
        }
        if found.entry.denied_while_loading && caller.loading {
            return Err(SetError::Loading);
        }
        // A directive and its alias count as two: the later value wins.
        if wanted.iter().any(|(other, _)| other.name == found.name) {
            return Err(failed(&shown, "duplicate parameter"));
        }
        wanted.push((found, value));
    }
    Ok(wanted)
}

/// Returns the new configuration, and the directives whose hooks must run.
fn evaluate<'c>(
    wanted: &[(FoundDirective, &[u8])],
    old: &'c Config,
    hooks: &dyn ApplyHooks,
) -> Result<(Cow<'c, Config>, Vec<FoundDirective>), SetError> {
    let mut new = Cow::Borrowed(old);
    let put = |new: &mut Cow<'_, Config>, directive, value: DirectiveValue| {
        if value != *new.value(directive) || new.unmet.iter().any(|(unmet, _)| *unmet == directive) {
            new.to_mut().replace(directive, value);
        }
    };
    let mut changed = Vec::with_capacity(wanted.len());
    for (found, text) in wanted {
        let entry = found.entry;
        let value = entry.parse(&words_of(entry, text), new.value(entry.directive)).and_then(|value| {
            // The directory changes right away: later values may be relative to it.
            let moved = match (&value, entry.kind) {
                (DirectiveValue::Text(Some(path)), DirectiveKind::Dir) => Some(hooks.change_dir(path)?),
                _ => None,
            };
            Ok(moved.map_or(value, |path| DirectiveValue::Text(Some(path.into()))))
        });
        let value = value.and_then(|value| entry.objection(&value).map_or(Ok(value), |reason| Err(reason.to_owned())));
        let value = value.map_err(|text| {
            restore_dir(&new, old, hooks);
            failed(found.name, &text)
        })?;
        if entry.always_applied || value != *new.value(entry.directive) || matches!(entry.kind, DirectiveKind::Bind) {
            changed.push(*found);
        }
        if entry.directive == Directive::IO_THREADS
            && wanted.iter().all(|(it, _)| it.entry.directive != Directive::THREADS)
        {
            put(&mut new, Directive::THREADS, value.clone());
        }
        put(&mut new, entry.directive, value);
    }
    Ok((new, changed))
}

/// Runs the hooks, each once; on an error, those that ran run again with the old values, and the answer says which one
/// failed.
fn apply(
    changed: &[FoundDirective],
    new: &Config,
    old: &Config,
    hooks: &dyn ApplyHooks,
) -> Result<(), (usize, String)> {
    for (at, found) in changed.iter().enumerate() {
        if changed[..at].iter().any(|before| before.entry.apply.is_same(found.entry.apply)) {
            continue;
        }
        if let Err(text) = hooks.apply(found.entry.directive, new) {
            for undone in &changed[..=at] {
                // The old values were in force a moment ago; when they fail now, there is nothing to fall back to.
                let _ = hooks.apply(undone.entry.directive, old);
            }
            return Err((at, text));
        }
    }
    Ok(())
}

fn restore_dir(new: &Config, old: &Config, hooks: &dyn ApplyHooks) {
    if new.text(Directive::DIR) != old.text(Directive::DIR) {
        // As above: the old directory may be gone by now.
        let _ = hooks.change_dir(old.text(Directive::DIR));
    }
}

fn failed(name: &str, text: &str) -> SetError {
    SetError::Refused(format!("CONFIG SET failed (possibly related to argument '{name}') - {text}"))
}
