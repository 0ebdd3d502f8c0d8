//! A command: one entry of the table, from which everything else derives.
//!
//! ```text
//! Command {
//!     name: "getex", group: Group::String, since: "6.2.0", arity: -2, flags: WRITE.and(FAST),
//!     keys: &[key(1).rw().access().update()],
//!     syntax: "key [expiration: EX seconds:int | PX milliseconds:int | ... | PERSIST]",
//!     summary: "...", complexity: "O(1)", run: getex, ..Command::DEFAULT
//! }
//! ```
//!
//! Arity checks, COMMAND INFO and DOCS, GETKEYS, ACL categories, locking and prefetching all read the entry. The texts
//! for clients (syntax, summary, complexity, history, tips) are to equal those of other servers: `fixtures/docs.tsv`
//! has `syntax` ready to be copied for every command that Valkey knows, and the test in `command_docs.rs` names each
//! entry that differs.

pub use self::command_group::Group;
use crate::core::args::Args;
use crate::core::cluster_proxy::routing_policy::Routing;
use crate::core::context::Context;
use engine::config::Directive;
use engine::{Engine, Error, Word};
use smallvec::SmallVec;

mod command_group;

/// Runs a command. An error that is returned is the reply; a handler that replied returns Ok.
pub type Handler = fn(&mut Context<'_>, &mut Args<'_>) -> Result<(), Error>;

/// A set of command flags, named as COMMAND INFO prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u64);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $text:literal;)*) => {
        $($(#[$doc])* pub const $name: Flags = Flags(1 << $bit);)*
        /// Every flag with its name, in the order in which COMMAND INFO lists them.
        pub const FLAG_NAMES: &[(Flags, &str)] = &[$(($name, $text)),*];
    };
}

flags! {
    /// The command may change data.
    WRITE = 0, "write";
    /// The command reads data and changes none.
    READONLY = 1, "readonly";
    /// The command may need memory: refused while there is too little.
    DENY_OOM = 2, "denyoom";
    /// The command comes from a module.
    MODULE = 3, "module";
    /// The command is for operators of the server.
    ADMIN = 4, "admin";
    /// The command is about channels.
    PUBSUB = 5, "pubsub";
    /// Scripts may not call it.
    NO_SCRIPT = 6, "noscript";
    /// The command may wait for a key.
    BLOCKING = 7, "blocking";
    /// The command runs while the data set is being read.
    LOADING = 8, "loading";
    /// The command runs on a replica that has lost its primary.
    STALE = 9, "stale";
    /// Monitors are not shown it.
    SKIP_MONITOR = 10, "skip_monitor";
    /// SLOWLOG and COMMANDLOG leave it out.
    SKIP_COMMANDLOG = 11, "skip_commandlog";
    /// A cluster's node runs it for a slot that is being imported.
    ASKING = 12, "asking";
    /// The command's time is constant or logarithmic.
    FAST = 13, "fast";
    /// The command runs before AUTH.
    NO_AUTH = 14, "no_auth";
    /// The command may be logged though it changes no key.
    MAY_REPLICATE = 15, "may_replicate";
    /// The command may have keys, and need not.
    NO_MANDATORY_KEYS = 16, "no_mandatory_keys";
    /// A directive must allow it.
    PROTECTED = 17, "protected";
    /// The command does not run while a replica reads its primary's data set.
    NO_ASYNC_LOADING = 18, "no_async_loading";
    /// MULTI cannot queue the command.
    NO_MULTI = 19, "no_multi";
    /// The command runs while a script keeps the server busy.
    ALLOW_BUSY = 20, "allow_busy";
    /// The command works on all databases.
    ALL_DBS = 21, "all_dbs";
    /// The command may touch keys that its arguments do not name.
    TOUCHES_ARBITRARY_KEYS = 22, "touches_arbitrary_keys";
}

/// A flag of COMMAND DOCS, not of COMMAND INFO: for commands among servers and for debugging them.
pub const SYSTEM: Flags = Flags(1 << 23);

// Only the server knows the flags from here on.

/// The command replies when no command that ran before is under way any more, so a transaction with it takes all locks.
pub const SETTLES: Flags = Flags(1 << 24);
/// The command may run a script, and then for long.
pub const RUNS_SCRIPTS: Flags = Flags(1 << 25);
/// The command runs at once where other commands are queued.
pub const NOT_QUEUED: Flags = Flags(1 << 26);
/// The command runs queued commands: they count when it is admitted, and nothing is queued any more if it is refused.
pub const RUNS_QUEUED: Flags = Flags(1 << 27);
/// A client that speaks RESP2 may call it while it has a subscription.
pub const ALLOW_SUBSCRIBED: Flags = Flags(1 << 28);
/// The command is refused while the disk fails though it does not write: clients that check the server's health learn
/// of it.
pub const TELLS_DISK_ERRORS: Flags = Flags(1 << 29);
/// The command's only effect is a message for others.
pub const PUBLISHES: Flags = Flags(1 << 30);
/// CLIENT CACHING applies to the command after it, too. A container's flag covers its subcommands.
pub const KEEPS_CACHING: Flags = Flags(1 << 31);

/// A flag of COMMAND INFO that derives from the key specs: some keys are outside the legacy range.
pub const MOVABLE_KEYS_NAME: &str = "movablekeys";

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);

    /// Returns the flags of both.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Returns these flags but those.
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// Returns all flags but these.
    pub const fn complement(self) -> Flags {
        Flags(!self.0)
    }

    /// Returns whether one of these flags is set.
    #[inline]
    pub const fn has(self, flag: Flags) -> bool {
        self.0 & flag.0 != 0
    }
}

/// A command's use of a key, and the key's place among the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// The use of the keys.
    pub flags: KeyFlags,
    /// The search for the first key.
    pub begin: Begin,
    /// The way from there to the others.
    pub find: FindKeys,
    /// The notes of COMMAND INFO about it.
    pub notes: Option<&'static str>,
}

/// A set of key flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFlags(pub u16);

impl KeyFlags {
    /// The value is read and changed.
    pub const RW: KeyFlags = KeyFlags(1 << 0);
    /// The value is read.
    pub const RO: KeyFlags = KeyFlags(1 << 1);
    /// The value is overwritten, whatever it was.
    pub const OW: KeyFlags = KeyFlags(1 << 2);
    /// The key is removed, whatever its value was.
    pub const RM: KeyFlags = KeyFlags(1 << 3);
    /// The content of the value goes to the client, or to another key.
    pub const ACCESS: KeyFlags = KeyFlags(1 << 4);
    /// Parts of the value are changed.
    pub const UPDATE: KeyFlags = KeyFlags(1 << 5);
    /// Something is added to the value.
    pub const INSERT: KeyFlags = KeyFlags(1 << 6);
    /// Something is taken out of the value, or the key is removed.
    pub const DELETE: KeyFlags = KeyFlags(1 << 7);
    /// The argument is no key, but is routed by as one.
    pub const NOT_KEY: KeyFlags = KeyFlags(1 << 8);
    /// There may be keys that the spec does not cover.
    pub const INCOMPLETE: KeyFlags = KeyFlags(1 << 9);
    /// The use depends on other arguments.
    pub const VARIABLE: KeyFlags = KeyFlags(1 << 10);

    /// Names in the order in which COMMAND INFO prints them.
    pub const NAMES: &'static [(KeyFlags, &'static str)] = &[
        (KeyFlags::RW, "RW"),
        (KeyFlags::RO, "RO"),
        (KeyFlags::OW, "OW"),
        (KeyFlags::RM, "RM"),
        (KeyFlags::ACCESS, "access"),
        (KeyFlags::UPDATE, "update"),
        (KeyFlags::INSERT, "insert"),
        (KeyFlags::DELETE, "delete"),
        (KeyFlags::NOT_KEY, "not_key"),
        (KeyFlags::INCOMPLETE, "incomplete"),
        (KeyFlags::VARIABLE, "variable_flags"),
    ];

    /// Returns whether one of these flags is set.
    pub const fn has(self, flag: KeyFlags) -> bool {
        self.0 & flag.0 != 0
    }
}

/// The beginning of the search for keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The search begins at this argument.
    Index(usize),
    /// The argument after this word, looked for from argument `from` on (negative: from the end backwards).
    Keyword {
        /// The word, in any case.
        word: &'static str,
        /// Argument at which the search for it begins.
        from: i32,
    },
    /// The arguments do not show it.
    Unknown,
}

/// The way from the first key to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindKeys {
    /// Up to `last`, counted from the first (negative: from the end of the arguments, divided by `limit`).
    Range {
        /// The last key.
        last: i32,
        /// Keys are so many arguments apart.
        step: usize,
        /// 2: only the first half of the arguments; 0 and 1: all.
        limit: usize,
    },
    /// The number of keys stands at `count`, the first key at `first`, both counted from the beginning.
    Counted {
        /// Argument with the number of keys.
        count: usize,
        /// Argument of the first key.
        first: usize,
        /// Keys are so many arguments apart.
        step: usize,
    },
    /// The arguments do not show it.
    Unknown,
}

/// Returns the spec of a key at argument `index`.
pub const fn key(index: usize) -> KeySpec {
    KeySpec {
        flags: KeyFlags(0),
        begin: Begin::Index(index),
        find: FindKeys::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }
}

/// Returns the spec of keys after a word.
pub const fn keyword(word: &'static str, from: i32) -> KeySpec {
    KeySpec { begin: Begin::Keyword { word, from }, ..key(0) }
}

impl KeySpec {
    const fn with(mut self, flag: KeyFlags) -> Self {
        self.flags = KeyFlags(self.flags.0 | flag.0);
        self
    }
    /// Adds [`KeyFlags::RW`].
    pub const fn rw(self) -> Self {
        self.with(KeyFlags::RW)
    }
    /// Adds [`KeyFlags::RO`].
    pub const fn ro(self) -> Self {
        self.with(KeyFlags::RO)
    }
    /// Adds [`KeyFlags::OW`].
    pub const fn ow(self) -> Self {
        self.with(KeyFlags::OW)
    }
    /// Adds [`KeyFlags::RM`].
    pub const fn rm(self) -> Self {
        self.with(KeyFlags::RM)
    }
    /// Adds [`KeyFlags::ACCESS`].
    pub const fn access(self) -> Self {
        self.with(KeyFlags::ACCESS)
    }
    /// Adds [`KeyFlags::UPDATE`].
    pub const fn update(self) -> Self {
        self.with(KeyFlags::UPDATE)
    }
    /// Adds [`KeyFlags::INSERT`].
    pub const fn insert(self) -> Self {
        self.with(KeyFlags::INSERT)
    }
    /// Adds [`KeyFlags::DELETE`].
    pub const fn delete(self) -> Self {
        self.with(KeyFlags::DELETE)
    }
    /// Adds [`KeyFlags::NOT_KEY`].
    pub const fn not_key(self) -> Self {
        self.with(KeyFlags::NOT_KEY)
    }
    /// Adds [`KeyFlags::INCOMPLETE`].
    pub const fn incomplete(self) -> Self {
        self.with(KeyFlags::INCOMPLETE)
    }
    /// Adds [`KeyFlags::VARIABLE`].
    pub const fn variable(self) -> Self {
        self.with(KeyFlags::VARIABLE)
    }
    /// Continues the keys to `last` (counted from the first; negative: from the end), every `step`-th argument.
    pub const fn to(mut self, last: i32, step: usize) -> Self {
        self.find = FindKeys::Range { last, step, limit: 0 };
        self
    }
    /// Reads the number of keys at the beginning of the search; the first key is `first` places after it.
    pub const fn counted(mut self, count: usize, first: usize, step: usize) -> Self {
        self.find = FindKeys::Counted { count, first, step };
        self
    }
    /// Sets the notes of COMMAND INFO.
    pub const fn notes(mut self, notes: &'static str) -> Self {
        self.notes = Some(notes);
        self
    }
}

/// A command, or a subcommand of one.
#[derive(Debug)]
pub struct Command {
    /// In lower case, without the container's name.
    pub name: &'static str,
    /// The group that the documentation puts it in.
    pub group: Group,
    /// The version that had it first.
    pub since: &'static str,
    /// Number of arguments with the name (and the subcommand's); negative: at least that many.
    pub arity: i32,
    /// Its possible effects, and the conditions under which it may run.
    pub flags: Flags,
    /// ACL categories beyond those that group and flags imply, by name without `@`.
    pub categories: &'static [&'static str],
    /// Its keys, and their use.
    pub keys: &'static [KeySpec],
    /// The argument that names an element of the key's collection, the first if there are several; 0: none does.
    pub element: usize,
    /// Arguments after the name, in the notation of `commands::server::command::syntax`.
    pub syntax: &'static str,
    /// One sentence for COMMAND DOCS.
    pub summary: &'static str,
    /// The growth of its time, for COMMAND DOCS.
    pub complexity: &'static str,
    /// Version and change, oldest first.
    pub history: &'static [(&'static str, &'static str)],
    /// The version that deprecated it, and its replacement.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Tips of COMMAND INFO (`nondeterministic_output`, `request_policy:...`).
    pub tips: &'static [&'static str],
    /// The nodes of a cluster that a proxy sends it to.
    pub routing: Routing,
    /// The subcommands of a container.
    pub subcommands: &'static [Command],
    /// The command has no keys and waits for no lock, so that other commands never delay its reply.
    pub takes_no_lock: bool,
    /// The command changes the primary of a replica, which no command may do while the primary's stream is applied or
    /// its snapshot is loaded.
    pub changes_primary: bool,
    /// The flags of a call with these arguments, where they depend on these.
    pub flags_of_call: Option<FlagsOfCall>,
    /// Corrects which arguments of a call are keys and their use, if the specifications cannot express it.
    pub keys_of_call: Option<KeysOfCall>,
    /// The channels that it names.
    pub channels: Channels,
    /// The prefix of all keys that it may remove, if its arguments name none: its client's user needs the right to
    /// write all keys with it.
    pub beginning_of_keys: Option<BeginningOfKeys>,
    /// The databases that its arguments name, where some do.
    pub dbs_of_call: Option<DbsOfCall>,
    /// Whether this argument is a secret, besides those that [follow a word for them](crate::core::redact::is_secret).
    pub is_secret: fn(&Args<'_>, usize) -> bool,
    /// The directive that decides whether the removed values are freed in the background. None: it has decided that
    /// itself, or the commands within it have.
    pub lazy_free: Option<Directive>,
    /// Its handler.
    pub run: Handler,
}

/// Returns the flags of a call, from the flags of the entry.
pub type FlagsOfCall = fn(&Engine, Flags, &Args<'_>) -> Flags;

/// Numbers of arguments that are keys, and the use of each.
pub type CallKeys = SmallVec<[(usize, KeyFlags); 4]>;

/// Corrects the keys that the specifications found.
pub type KeysOfCall = fn(&Args<'_>, &mut CallKeys);

/// The first bytes of names, from the arguments of a call.
pub type BeginningOfKeys = for<'a> fn(&'a Args<'_>) -> &'a [u8];

/// Returns numbers of arguments that are databases, with their values.
pub type DbsOfCall = fn(&Args<'_>) -> Vec<(usize, i64)>;

/// The arguments of a command that are channels to publish or listen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// None.
    None,
    /// The first.
    One,
    /// All arguments.
    All,
    /// All arguments, which are patterns.
    Patterns,
}

/// Refuses a container by itself; its arity keeps this from being reached.
fn needs_subcommand(_: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    Err(Error::WrongArity(Word::of(String::from_utf8_lossy(&args[0]).to_lowercase())))
}

impl Command {
    /// Returns the database that a call selects for the commands after it: it names one, and has no keys in it.
    pub fn selects(&self, args: &Args<'_>) -> Option<u32> {
        let named = self.dbs_of_call.filter(|_| self.keys.is_empty())?(args);
        if let [(_, db)] = named[..] { u32::try_from(db).ok() } else { None }
    }

    /// The defaults of entries.
    pub const DEFAULT: Command = Command {
        name: "",
        group: Group::Generic,
        since: "1.0.0",
        arity: 1,
        flags: Flags::NONE,
        categories: &[],
        keys: &[],
        element: 0,
        syntax: "",
        summary: "",
        complexity: "",
        history: &[],
        deprecated: None,
        tips: &[],
        routing: Routing::Slot,
        subcommands: &[],
        takes_no_lock: false,
        changes_primary: false,
        flags_of_call: None,
        keys_of_call: None,
        channels: Channels::None,
        beginning_of_keys: None,
        dbs_of_call: None,
        is_secret: |_, _| false,
        lazy_free: Some(Directive::LAZYFREE_LAZY_SERVER_DEL),
        run: needs_subcommand,
    };

    /// Returns whether it takes so many arguments, with its name.
    pub fn accepts_arity(&self, arguments: usize) -> bool {
        let given = i32::try_from(arguments).unwrap_or(i32::MAX);
        if self.arity >= 0 { given == self.arity } else { given >= -self.arity }
    }

    /// Returns the flags of a call with these arguments.
    pub fn flags_of(&self, engine: &Engine, args: &Args<'_>) -> Flags {
        self.flags_of_call.map_or(self.flags, |of_call| of_call(engine, self.flags, args))
    }
}

/// The places of a command's keys, in the form that the dispatcher wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlan {
    /// No keys, or keys that the command finds itself.
    None,
    /// One key, at this argument.
    One(usize),
    /// Keys from `first` on, every `step`-th argument, up to `last` (negative: from the end).
    Range {
        /// Argument of the first key.
        first: usize,
        /// Argument of the last key; negative: from the end.
        last: i32,
        /// Arguments from one key to the next.
        step: usize,
    },
    /// As many keys as this argument states, after it.
    Counted(usize),
    /// The specs have to be followed.
    Specs,
}

/// An entry with the data derived from it once.
#[derive(Debug)]
pub struct CommandEntry {
    /// The command.
    pub command: &'static Command,
    /// Its name, or the new name if it was renamed.
    called: Box<[u8]>,
    /// `container|subcommand`, or the name.
    pub full_name: String,
    /// Position among all commands and subcommands, for tables of statistics.
    pub id: usize,
    /// Places of its keys.
    pub plan: KeyPlan,
    /// Fewest and most arguments, the name included.
    least: usize,
    most: usize,
    /// The name has at most eight letters, so that its packed form is unique.
    short_letters: bool,
    /// CLIENT CACHING applies to the command after it, too.
    pub keeps_caching: bool,
    /// The command's arguments do not show all keys that it touches.
    pub may_touch_more: bool,
    /// The command works on one key and changes nothing of its client. It may be chunked.
    pub is_plain: bool,
    /// The entries of its subcommands.
    pub subcommands: Vec<CommandEntry>,
}

impl CommandEntry {
    pub(super) fn new(
        command: &'static Command,
        called: &[u8],
        container: Option<&'static Command>,
        count: &mut usize,
    ) -> CommandEntry {
        let id = *count;
        *count += 1;
        let full_name = match container {
            None => command.name.to_owned(),
            Some(container) => format!("{}|{}", container.name, command.name),
        };
        let inner = |sub: &'static Command| CommandEntry::new(sub, sub.name.as_bytes(), Some(command), count);
        let subcommands = command.subcommands.iter().map(inner).collect();
        let keeps_caching = container.unwrap_or(command).flags.has(KEEPS_CACHING);
        let short_letters = called.len() <= 8 && called.iter().all(u8::is_ascii_alphabetic);
        let least = command.arity.unsigned_abs() as usize;
        let most = if command.arity < 0 { usize::MAX } else { least };
        let plan = KeyPlan::of(command);
        let is_plain = matches!(plan, KeyPlan::One(_)) && works_on_keys(command);
        CommandEntry {
            command,
            called: called.into(),
            full_name,
            id,
            plan,
            least,
            most,
            short_letters,
            keeps_caching,
            may_touch_more: may_touch_more(command),
            is_plain,
            subcommands,
        }
    }

    /// Returns the argument that is its only key, if it has one.
    #[inline(always)]
    pub fn only_key(&self) -> Option<usize> {
        if let KeyPlan::One(index) = self.plan { Some(index) } else { None }
    }

    /// Returns whether each of its calls has keys, by their places alone.
    #[inline]
    pub fn names_its_keys(&self) -> bool {
        matches!(self.plan, KeyPlan::One(_) | KeyPlan::Range { .. })
    }

    /// Returns whether a call may have so many arguments, the name included.
    #[inline]
    pub fn accepts(&self, args: usize) -> bool {
        (self.least..=self.most).contains(&args)
    }

    /// Returns whether it may run a script.
    #[inline]
    pub fn runs_scripts(&self) -> bool {
        self.command.flags.has(RUNS_SCRIPTS)
    }

    /// Returns whether this is its name, for a name with the same [packed](super::command_table::pack) form.
    #[inline]
    pub(super) fn is_named(&self, name: &[u8]) -> bool {
        name.len() == self.called.len() && (self.short_letters || self.called.eq_ignore_ascii_case(name))
    }

    /// Returns the subcommand of this name, in any case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&CommandEntry> {
        self.subcommands.iter().find(|entry| entry.command.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

/// Returns whether its only effects are on keys.
fn works_on_keys(command: &Command) -> bool {
    let elsewhere = matches!(
        command.group,
        Group::PubSub | Group::Transactions | Group::Connection | Group::Server | Group::Scripting | Group::Cluster
    );
    !elsewhere && command.flags.has(READONLY.and(WRITE)) && !command.flags.has(BLOCKING)
}

/// Returns whether a command's arguments do not show which keys it touches.
fn may_touch_more(command: &Command) -> bool {
    if command.flags.has(SETTLES) {
        return true;
    }
    if command.keys.is_empty() {
        let harmless = matches!(command.group, Group::Connection | Group::PubSub | Group::Transactions);
        // TIME and its like.
        return !harmless && (!command.flags.has(FAST) || command.flags.has(READONLY.and(WRITE)));
    }
    let vague = |spec: &KeySpec| {
        spec.flags.has(KeyFlags::INCOMPLETE) || spec.begin == Begin::Unknown || spec.find == FindKeys::Unknown
    };
    command.group == Group::Scripting || command.keys.iter().any(vague)
}

impl KeyPlan {
    fn of(command: &Command) -> KeyPlan {
        match command.keys {
            [] => KeyPlan::None,
            [only] if only.flags.has(KeyFlags::NOT_KEY) => KeyPlan::None,
            [only] => match (only.begin, only.find) {
                (Begin::Index(index), FindKeys::Range { last: 0, .. }) => KeyPlan::One(index),
                (Begin::Index(first), FindKeys::Range { last, step, limit: 0 }) => KeyPlan::Range { first, last, step },
                (Begin::Index(index), FindKeys::Counted { count: 0, first: 1, step: 1 }) => KeyPlan::Counted(index),
                _ => KeyPlan::Specs,
            },
            _ => KeyPlan::Specs,
        }
    }
}
