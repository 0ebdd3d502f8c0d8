//! What a command is: one entry of the table, from which everything else derives.
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
//! Arity checks, COMMAND INFO and DOCS, GETKEYS, ACL categories, locking and prefetching all read the entry. What
//! clients are told (syntax, summary, complexity, history, tips) is to be what other servers tell them:
//! `fixtures/docs.tsv` has `syntax` ready to be copied for every command that Valkey knows, and the test in `docs.rs`
//! names each entry that differs.

use crate::core::args::Args;
use crate::core::context::Cx;
use engine::{Error, Word};

/// Runs a command. An error that is returned is the reply; a handler that replied returns Ok.
pub type Handler = fn(&mut Cx<'_>, &mut Args<'_>) -> Result<(), Error>;

/// A set of command flags, named as COMMAND INFO prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);

macro_rules! flags {
    ($($name:ident = $bit:literal, $text:literal;)*) => {
        $(pub const $name: Flags = Flags(1 << $bit);)*
        /// Every flag with its name, in the order in which COMMAND INFO lists them.
        pub const FLAG_NAMES: &[(Flags, &str)] = &[$(($name, $text)),*];
    };
}

flags! {
    WRITE = 0, "write";
    READONLY = 1, "readonly";
    DENY_OOM = 2, "denyoom";
    MODULE = 3, "module";
    ADMIN = 4, "admin";
    PUBSUB = 5, "pubsub";
    NO_SCRIPT = 6, "noscript";
    BLOCKING = 7, "blocking";
    LOADING = 8, "loading";
    STALE = 9, "stale";
    SKIP_MONITOR = 10, "skip_monitor";
    SKIP_COMMANDLOG = 11, "skip_commandlog";
    ASKING = 12, "asking";
    FAST = 13, "fast";
    NO_AUTH = 14, "no_auth";
    MAY_REPLICATE = 15, "may_replicate";
    NO_MANDATORY_KEYS = 16, "no_mandatory_keys";
    PROTECTED = 17, "protected";
    NO_ASYNC_LOADING = 18, "no_async_loading";
    NO_MULTI = 19, "no_multi";
    ALLOW_BUSY = 20, "allow_busy";
    ALL_DBS = 21, "all_dbs";
    TOUCHES_ARBITRARY_KEYS = 22, "touches_arbitrary_keys";
}

/// Not a flag of COMMAND INFO but of COMMAND DOCS: for servers among themselves and those who look into them.
pub const SYSTEM: Flags = Flags(1 << 23);

/// Nor this one: when it replies no command is under way any more that ran before it, so a transaction that has it
/// takes all locks.
pub const SETTLES: Flags = Flags(1 << 24);

/// A flag of COMMAND INFO that derives from the key specs: keys are not all where the legacy range says.
pub const MOVABLE_KEYS_NAME: &str = "movablekeys";

impl Flags {
    pub const NONE: Flags = Flags(0);

    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// All flags but these.
    pub const fn complement(self) -> Flags {
        Flags(!self.0)
    }

    #[inline]
    pub const fn has(self, flag: Flags) -> bool {
        self.0 & flag.0 != 0
    }
}

/// The group that the documentation puts a command in; it implies an ACL category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Generic,
    String,
    List,
    Set,
    SortedSet,
    Hash,
    PubSub,
    Transactions,
    Connection,
    Server,
    Scripting,
    HyperLogLog,
    Cluster,
    Geo,
    Stream,
    Bitmap,
}

/// What a command does with a key, and where the key is among the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    pub flags: KeyFlags,
    pub begin: Begin,
    pub find: FindKeys,
    pub notes: Option<&'static str>,
}

/// A set of key flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFlags(pub u16);

impl KeyFlags {
    pub const RW: KeyFlags = KeyFlags(1 << 0);
    pub const RO: KeyFlags = KeyFlags(1 << 1);
    pub const OW: KeyFlags = KeyFlags(1 << 2);
    pub const RM: KeyFlags = KeyFlags(1 << 3);
    pub const ACCESS: KeyFlags = KeyFlags(1 << 4);
    pub const UPDATE: KeyFlags = KeyFlags(1 << 5);
    pub const INSERT: KeyFlags = KeyFlags(1 << 6);
    pub const DELETE: KeyFlags = KeyFlags(1 << 7);
    pub const NOT_KEY: KeyFlags = KeyFlags(1 << 8);
    pub const INCOMPLETE: KeyFlags = KeyFlags(1 << 9);
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

    pub const fn has(self, flag: KeyFlags) -> bool {
        self.0 & flag.0 != 0
    }
}

/// Where the search for keys begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    Index(usize),
    /// The argument after this word, looked for from argument `from` on (negative: from the end backwards).
    Keyword {
        word: &'static str,
        from: i32,
    },
    Unknown,
}

/// How the keys go on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindKeys {
    /// Up to `last`, counted from the first (negative: from the end of the arguments, divided by `limit`).
    Range {
        last: i32,
        step: usize,
        limit: usize,
    },
    /// The number of keys stands at `count`, the first key at `first`, both counted from the beginning.
    Counted {
        count: usize,
        first: usize,
        step: usize,
    },
    Unknown,
}

/// A key at argument `index`.
pub const fn key(index: usize) -> KeySpec {
    KeySpec {
        flags: KeyFlags(0),
        begin: Begin::Index(index),
        find: FindKeys::Range { last: 0, step: 1, limit: 0 },
        notes: None,
    }
}

/// Keys after a word.
pub const fn keyword(word: &'static str, from: i32) -> KeySpec {
    KeySpec { begin: Begin::Keyword { word, from }, ..key(0) }
}

impl KeySpec {
    const fn with(mut self, flag: KeyFlags) -> Self {
        self.flags = KeyFlags(self.flags.0 | flag.0);
        self
    }
    pub const fn rw(self) -> Self {
        self.with(KeyFlags::RW)
    }
    pub const fn ro(self) -> Self {
        self.with(KeyFlags::RO)
    }
    pub const fn ow(self) -> Self {
        self.with(KeyFlags::OW)
    }
    pub const fn rm(self) -> Self {
        self.with(KeyFlags::RM)
    }
    pub const fn access(self) -> Self {
        self.with(KeyFlags::ACCESS)
    }
    pub const fn update(self) -> Self {
        self.with(KeyFlags::UPDATE)
    }
    pub const fn insert(self) -> Self {
        self.with(KeyFlags::INSERT)
    }
    pub const fn delete(self) -> Self {
        self.with(KeyFlags::DELETE)
    }
    pub const fn not_key(self) -> Self {
        self.with(KeyFlags::NOT_KEY)
    }
    pub const fn incomplete(self) -> Self {
        self.with(KeyFlags::INCOMPLETE)
    }
    pub const fn variable(self) -> Self {
        self.with(KeyFlags::VARIABLE)
    }
    /// The keys go on to `last` (counted from the first; negative: from the end), every `step`-th argument.
    pub const fn to(mut self, last: i32, step: usize) -> Self {
        self.find = FindKeys::Range { last, step, limit: 0 };
        self
    }
    /// The number of keys stands at the beginning of the search, the first key `first` places after it.
    pub const fn counted(mut self, count: usize, first: usize, step: usize) -> Self {
        self.find = FindKeys::Counted { count, first, step };
        self
    }
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
    pub group: Group,
    pub since: &'static str,
    /// Number of arguments with the name (and the subcommand's); negative: at least that many.
    pub arity: i32,
    pub flags: Flags,
    /// ACL categories beyond those that group and flags imply, by name without `@`.
    pub categories: &'static [&'static str],
    pub keys: &'static [KeySpec],
    /// The argument that names an element of the key's collection, the first if there are several; 0: none does.
    pub element: usize,
    /// Arguments after the name, in the notation of [`crate::server::syntax`].
    pub syntax: &'static str,
    pub summary: &'static str,
    pub complexity: &'static str,
    /// Version and change, oldest first.
    pub history: &'static [(&'static str, &'static str)],
    /// Since when, and what to use in its place.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Tips of COMMAND INFO (`nondeterministic_output`, `request_policy:...`).
    pub tips: &'static [&'static str],
    pub subcommands: &'static [Command],
    pub run: Handler,
}

/// Containers do nothing by themselves; their arity keeps this from being reached.
fn needs_subcommand(_: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    Err(Error::WrongArity(Word::of(String::from_utf8_lossy(&args[0]).to_lowercase())))
}

impl Command {
    /// What entries do not say.
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
        subcommands: &[],
        run: needs_subcommand,
    };

    pub fn accepts_arity(&self, arguments: usize) -> bool {
        let given = i32::try_from(arguments).unwrap_or(i32::MAX);
        if self.arity >= 0 { given == self.arity } else { given >= -self.arity }
    }
}
