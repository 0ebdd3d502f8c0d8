//! An entry: name, kind, bounds, default and flags of one directive.
//!
//! ```text
//! /// Bytes of memory that ...                            documentation
//! MAXMEMORY = memory("maxmemory", 0, 0, i64::MAX).unit(Unit::UnsignedMemory);
//! |           |      |            |  |  '- upper bound, inclusive
//! |           |      |            |  '---- lower bound
//! |           |      |            '------- default
//! |           |      '-------------------- the name people write
//! |           '--------------------------- kind
//! '--------------------------------------- the name the code writes
//! ```
//!
//! Parsing, CONFIG GET, SET and REWRITE know kinds and flags only, never single directives.

use super::apply::Apply;
use super::directive::Directive;
use super::directive_value::DirectiveValue;

/// The greatest integer of directives that are an `int` in C.
pub const INT_MAX: i64 = i32::MAX as i64;
/// The least integer of these.
pub const INT_MIN: i64 = i32::MIN as i64;
/// The greatest integer of directives that are an `unsigned int` in C.
pub const UINT_MAX: i64 = u32::MAX as i64;
/// The greatest port.
pub const PORT_MAX: i64 = 65_535;

/// How an integer is written, and what its error text calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `42`
    Plain,
    /// `0700`
    Octal,
    /// `64mb`, at most `i64::MAX`
    Memory,
    /// `64mb`, the whole range of u64, kept as the same bits
    UnsignedMemory,
    /// `64mb` or a plain negative number
    SignedMemory,
    /// `64mb` or `5%`; a percentage is kept as a negative number
    MemoryOrPercent,
}

/// A check beyond the kind: the error text when the value is refused.
pub type TextCheck = fn(&[u8]) -> Result<(), &'static str>;

/// Values that a directive takes.
#[derive(Clone, Copy, Debug)]
pub enum DirectiveKind {
    /// `yes` or `no`.
    Flag,
    /// A number.
    Integer {
        /// The least value that is taken.
        min: i64,
        /// The greatest value that is taken.
        max: i64,
        /// How it is written.
        unit: Unit,
    },
    /// One of the names.
    Choice(&'static [&'static str]),
    /// Any of the names together; the first means none of them.
    Choices(&'static [&'static str]),
    /// Any text; an empty one is no value, unless [`DirectiveEntry::keeps_empty`] is set.
    Text,
    /// `save`: pairs of seconds and changes.
    Save,
    /// `bind`: addresses.
    Bind,
    /// `client-output-buffer-limit`: a class with its three limits, several times.
    OutputBufferLimits,
    /// `oom-score-adj-values`: three integers.
    OomScoreAdjValues,
    /// `notify-keyspace-events`: letters.
    KeyspaceEvents,
    /// `latency-tracking-info-percentiles`: numbers from 0 to 100.
    Percentiles,
    /// `replicaof`: host and port, or `no one`.
    ReplicaOf,
    /// `dir`: the working directory, which a change enters at once.
    Dir,
}

/// The default, in the form in which each kind reads it best.
#[derive(Clone, Copy, Debug)]
pub enum Preset {
    /// For [`DirectiveKind::Flag`].
    Flag(bool),
    /// For [`DirectiveKind::Integer`], in its unit.
    Integer(i64),
    /// Split at blanks for the kinds that take several words.
    Text(&'static str),
}

/// Treatment of a value that nothing here acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// CONFIG SET refuses it. A value from a file is not put in force, the log names it, and CONFIG REWRITE retains it.
    Ignored,
    /// It is in force for CONFIG GET, where that misleads no client; the log names it at the start.
    Shown,
    /// The server does not start, and CONFIG SET refuses it: to continue without it would break a promise.
    Refused,
}

/// Reason and treatment of a directive that nothing reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Why nothing reads it, as CONFIG SET answers it.
    pub reason: &'static str,
    /// Treatment of values other than the default.
    pub unmet: Unmet,
}

/// One directive.
#[derive(Clone, Copy, Debug)]
pub struct DirectiveEntry {
    /// The name by which the code reads it.
    pub directive: Directive,
    /// Its description in the reference: lines of one paragraph.
    pub documentation: &'static [&'static str],
    /// Its name, in lower case.
    pub name: &'static str,
    /// A second name, from older versions, that means the same.
    pub alias: Option<&'static str>,
    /// Values that it takes.
    pub kind: DirectiveKind,
    /// Its value where no configuration says another.
    pub default: Preset,
    /// Whether only the command line and the configuration file can set it.
    pub immutable: bool,
    /// Whether CONFIG SET takes the present value although it is immutable: tools that do not know the directive set
    /// everything that CONFIG GET shows.
    pub confirmed: bool,
    /// Whether CONFIG SET needs `enable-protected-configs`.
    pub protected: bool,
    /// Whether CONFIG GET shows it only when named in full, never for a pattern.
    pub hidden: bool,
    /// Whether the value must not appear in logs or MONITOR.
    pub sensitive: bool,
    /// Whether CONFIG SET replies LOADING while a data set is being loaded.
    pub denied_while_loading: bool,
    /// Whether the hook runs even when the value did not change: the file behind it may have.
    pub always_applied: bool,
    /// Whether an empty text is a value of its own, not the absence of one.
    pub keeps_empty: bool,
    /// Bounds to which values outside are brought instead of being refused.
    pub clamp: Option<(i64, i64)>,
    /// A choice that is read, and reported as the other.
    pub synonym: Option<(&'static str, &'static str)>,
    /// Check besides the kind.
    pub check: Option<TextCheck>,
    /// Effect of a change at once.
    pub apply: Apply,
    /// Reason and treatment if nothing reads it.
    pub unsupported: Option<Unsupported>,
}

impl DirectiveEntry {
    /// Whether a value is a list of words, each an argument of its own in the configuration file.
    pub const fn takes_words(&self) -> bool {
        matches!(
            self.kind,
            DirectiveKind::Choices(_)
                | DirectiveKind::Save
                | DirectiveKind::Bind
                | DirectiveKind::OutputBufferLimits
                | DirectiveKind::OomScoreAdjValues
                | DirectiveKind::Percentiles
                | DirectiveKind::ReplicaOf
        )
    }

    /// Adds the directive and the documentation, which `directives!` supplies. Does not compile when the constant has
    /// another name.
    pub(super) const fn declared(
        mut self,
        directive: Directive,
        constant: &str,
        documentation: &'static [&'static str],
    ) -> DirectiveEntry {
        assert!(is_constant_of(constant.as_bytes(), self.name.as_bytes()), "a constant is called like its directive");
        self.directive = directive;
        self.documentation = documentation;
        self
    }

    /// Sets [`alias`](Self#structfield.alias).
    pub const fn alias(mut self, name: &'static str) -> DirectiveEntry {
        self.alias = Some(name);
        self
    }

    /// Sets [`immutable`](Self#structfield.immutable).
    pub const fn immutable(mut self) -> DirectiveEntry {
        self.immutable = true;
        self
    }

    /// Sets [`confirmed`](Self#structfield.confirmed).
    pub const fn confirmed(mut self) -> DirectiveEntry {
        self.confirmed = true;
        self
    }

    /// Sets [`protected`](Self#structfield.protected).
    pub const fn protected(mut self) -> DirectiveEntry {
        self.protected = true;
        self
    }

    /// Sets [`hidden`](Self#structfield.hidden).
    pub const fn hidden(mut self) -> DirectiveEntry {
        self.hidden = true;
        self
    }

    /// Sets [`sensitive`](Self#structfield.sensitive).
    pub const fn sensitive(mut self) -> DirectiveEntry {
        self.sensitive = true;
        self
    }

    /// Sets [`denied_while_loading`](Self#structfield.denied_while_loading).
    pub const fn denied_while_loading(mut self) -> DirectiveEntry {
        self.denied_while_loading = true;
        self
    }

    /// Sets [`always_applied`](Self#structfield.always_applied).
    pub const fn always_applied(mut self) -> DirectiveEntry {
        self.always_applied = true;
        self
    }

    /// Sets [`keeps_empty`](Self#structfield.keeps_empty).
    pub const fn keeps_empty(mut self) -> DirectiveEntry {
        self.keeps_empty = true;
        self
    }

    /// Sets [`clamp`](Self#structfield.clamp) to these ends.
    pub const fn clamped(mut self, min: i64, max: i64) -> DirectiveEntry {
        self.clamp = Some((min, max));
        self
    }

    /// Sets [`synonym`](Self#structfield.synonym).
    pub const fn synonym(mut self, read: &'static str, reported: &'static str) -> DirectiveEntry {
        self.synonym = Some((read, reported));
        self
    }

    /// Sets [`check`](Self#structfield.check).
    pub const fn checked(mut self, check: TextCheck) -> DirectiveEntry {
        self.check = Some(check);
        self
    }

    /// Sets the hook, [`apply`](Self#structfield.apply).
    pub const fn applied(mut self, apply: Apply) -> DirectiveEntry {
        self.apply = apply;
        self
    }

    /// Marks the directive as one that nothing reads, for this reason.
    pub const fn unsupported(mut self, reason: &'static str) -> DirectiveEntry {
        self.unsupported = Some(Unsupported { reason, unmet: Unmet::Ignored });
        self
    }

    /// Sets how an unsupported directive treats values other than the default.
    pub const fn unmet(mut self, unmet: Unmet) -> DirectiveEntry {
        if let Some(unsupported) = &mut self.unsupported {
            unsupported.unmet = unmet;
        }
        self
    }

    /// Returns the reason for which this value cannot be in force, if it cannot.
    pub fn objection(&self, value: &DirectiveValue) -> Option<&'static str> {
        let unsupported = self.unsupported.filter(|unsupported| unsupported.unmet != Unmet::Shown)?;
        (*value != self.default_value()).then_some(unsupported.reason)
    }

    /// Returns the reason for which a server does not start with this value, if it does not.
    pub fn refusal(&self, value: &DirectiveValue) -> Option<&'static str> {
        let unsupported = self.unsupported.filter(|unsupported| unsupported.unmet == Unmet::Refused)?;
        (*value != self.default_value()).then_some(unsupported.reason)
    }

    /// Sets how a number is written. Other kinds stay as they are.
    pub const fn unit(mut self, unit: Unit) -> DirectiveEntry {
        if let DirectiveKind::Integer { min, max, .. } = self.kind {
            self.kind = DirectiveKind::Integer { min, max, unit };
        }
        self
    }
}

/// Whether `constant` is `name` in upper case, with `_` for `-`.
const fn is_constant_of(constant: &[u8], name: &[u8]) -> bool {
    let mut at = 0;
    while at < constant.len() && at < name.len() {
        let expected = if name[at] == b'-' { b'_' } else { name[at].to_ascii_uppercase() };
        if constant[at] != expected {
            return false;
        }
        at += 1;
    }
    constant.len() == name.len()
}

const fn entry(name: &'static str, kind: DirectiveKind, default: Preset) -> DirectiveEntry {
    DirectiveEntry {
        // Replaced when it is declared.
        directive: Directive::at(u16::MAX),
        documentation: &[],
        name,
        alias: None,
        kind,
        default,
        immutable: false,
        confirmed: false,
        protected: false,
        hidden: false,
        sensitive: false,
        denied_while_loading: false,
        always_applied: false,
        keeps_empty: false,
        clamp: None,
        synonym: None,
        check: None,
        apply: Apply::WhenRead,
        unsupported: None,
    }
}

/// Makes a directive that is `yes` or `no`.
pub const fn flag(name: &'static str, default: bool) -> DirectiveEntry {
    entry(name, DirectiveKind::Flag, Preset::Flag(default))
}

/// Makes a directive that is a plain decimal number.
pub const fn integer(name: &'static str, default: i64, min: i64, max: i64) -> DirectiveEntry {
    entry(name, DirectiveKind::Integer { min, max, unit: Unit::Plain }, Preset::Integer(default))
}

/// Makes a directive that is a number of bytes, with units.
pub const fn memory(name: &'static str, default: i64, min: i64, max: i64) -> DirectiveEntry {
    integer(name, default, min, max).unit(Unit::Memory)
}

/// Makes a directive that is a file mode.
pub const fn octal(name: &'static str, default: i64, min: i64, max: i64) -> DirectiveEntry {
    integer(name, default, min, max).unit(Unit::Octal)
}

/// Makes a directive that is one of `names`, in any case.
pub const fn choice(name: &'static str, names: &'static [&'static str], default: &'static str) -> DirectiveEntry {
    entry(name, DirectiveKind::Choice(names), Preset::Text(default))
}

/// Makes a directive that is any of `names` together; the first stands for none.
pub const fn choices(name: &'static str, names: &'static [&'static str], default: &'static str) -> DirectiveEntry {
    entry(name, DirectiveKind::Choices(names), Preset::Text(default))
}

/// Makes a directive that is any bytes.
pub const fn text(name: &'static str, default: &'static str) -> DirectiveEntry {
    entry(name, DirectiveKind::Text, Preset::Text(default))
}

/// Makes a directive with a syntax of its own.
pub const fn special(name: &'static str, kind: DirectiveKind, default: &'static str) -> DirectiveEntry {
    entry(name, kind, Preset::Text(default))
}
