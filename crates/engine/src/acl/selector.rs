//! A set of rights: which commands, on which keys, channels and databases.

use crate::acl::catalog::{CommandCatalog, CommandNumber};
use crate::acl::pattern::Pattern;
use crate::acl::rule_error::RuleError;
use std::collections::BTreeSet;

/// Use that a command makes of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyAccess {
    /// The command returns something of its value.
    pub reads: bool,
    /// The command changes it.
    pub writes: bool,
}

/// A pattern of keys, and the access that it grants.
#[derive(Clone, Debug)]
struct KeyPattern {
    pattern: Pattern,
    allows: KeyAccess,
}

/// A set of rights. A command is allowed only if one selector of the user allows all of it.
#[derive(Clone, Debug)]
pub struct Selector {
    /// One bit for each command.
    commands: Box<[u64]>,
    /// Whether all commands are allowed and none was taken away.
    all_commands: bool,
    /// Whether it began with all commands.
    from_all: bool,
    /// First arguments with which a command is allowed that is not allowed otherwise.
    first_args: Vec<(usize, Box<[u8]>)>,
    /// The rules that made it of all or no commands, in order: `+get`, `-@admin`.
    rules: Vec<String>,
    /// None: all.
    keys: Option<Vec<KeyPattern>>,
    /// None: all.
    channels: Option<Vec<Pattern>>,
    /// None: all.
    dbs: Option<BTreeSet<u32>>,
}

impl Selector {
    /// Allows nothing but all databases, and all channels if that is so configured.
    pub fn new(catalog: &dyn CommandCatalog, all_channels: bool) -> Selector {
        Selector {
            commands: vec![0; catalog.count().div_ceil(64)].into(),
            all_commands: false,
            from_all: false,
            first_args: Vec::new(),
            rules: Vec::new(),
            keys: Some(Vec::new()),
            channels: if all_channels { None } else { Some(Vec::new()) },
            dbs: None,
        }
    }

    /// Changes the rights by one rule.
    ///
    /// # Errors
    /// A [`RuleError`]: the text is no rule, or cannot follow the rules before it; nothing has changed.
    pub fn apply(&mut self, rule: &[u8], catalog: &dyn CommandCatalog) -> Result<(), RuleError> {
        match (rule.to_ascii_lowercase().as_slice(), rule) {
            (b"allkeys" | b"~*", _) => self.keys = None,
            (b"resetkeys", _) => self.keys = Some(Vec::new()),
            (b"allchannels" | b"&*", _) => self.channels = None,
            (b"resetchannels", _) => self.channels = Some(Vec::new()),
            (b"alldbs", _) => self.dbs = None,
            (b"resetdbs", _) => self.dbs = Some(BTreeSet::new()),
            (b"allcommands" | b"+@all", _) => self.set_all(true),
            (b"nocommands" | b"-@all", _) => self.set_all(false),
            ([b'd', b'b', b'=', list @ ..], _) => self.dbs = Some(parse_databases(list)?),
            (_, [b'~', pattern @ ..]) => self.add_keys(pattern, KeyAccess { reads: true, writes: true })?,
            (_, [b'%', ..]) if self.keys.is_none() => return Err(RuleError::KeysAfterAll),
            (_, [b'%', rest @ ..]) => {
                let (access, pattern) = parse_access(rest)?;
                self.add_keys(pattern, access)?;
            }
            (_, [b'&', pattern @ ..]) => self.add_channels(pattern)?,
            ([sign @ (b'+' | b'-'), b'@', category @ ..], _) => self.set_category(category, *sign == b'+', catalog)?,
            (_, [b'+', name @ ..]) => self.allow(name, catalog)?,
            (_, [b'-', name @ ..]) => {
                let command = catalog.find(name).ok_or(RuleError::UnknownCommand)?;
                self.set_command(&command, false);
                self.note(&command.full_name, false);
            }
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn set_all(&mut self, allowed: bool) {
        self.commands.fill(if allowed { u64::MAX } else { 0 });
        (self.all_commands, self.from_all) = (allowed, allowed);
        self.rules.clear();
        self.first_args.clear();
    }

    fn set_bit(&mut self, id: usize, allowed: bool) {
        let bit = 1 << (id % 64);
        if allowed {
            self.commands[id / 64] |= bit;
        } else {
            self.commands[id / 64] &= !bit;
            self.all_commands = false;
        }
    }

    /// Allows or forbids a command, and its subcommands with it.
    fn set_command(&mut self, command: &CommandNumber, allowed: bool) {
        self.first_args.retain(|(id, _)| *id != command.id);
        self.set_bit(command.id, allowed);
        command.subcommands.clone().for_each(|id| self.set_bit(id, allowed));
    }

    fn set_category(&mut self, category: &[u8], allowed: bool, catalog: &dyn CommandCatalog) -> Result<(), RuleError> {
        let commands = catalog.of_category(category).ok_or(RuleError::UnknownCommand)?;
        commands.iter().for_each(|command| self.set_command(command, allowed));
        self.note(&format!("@{}", String::from_utf8_lossy(category)), allowed);
        Ok(())
    }

    /// Parses `command`, `container|subcommand`, or `command|argument`.
    fn allow(&mut self, name: &[u8], catalog: &dyn CommandCatalog) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|byte| *byte == b'|') else {
            let command = catalog.find(name).ok_or(RuleError::UnknownCommand)?;
            self.set_command(&command, true);
            self.note(&command.full_name, true);
            return Ok(());
        };
        let (outer, inner) = (&name[..bar], &name[bar + 1..]);
        let command = catalog.find(outer).ok_or(RuleError::UnknownCommand)?;
        if command.is_inner {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if inner.is_empty() {
            return Err(RuleError::Syntax);
        }
        if command.subcommands.is_empty() {
            let known = |(id, arg): &(usize, Box<[u8]>)| *id == command.id && arg.eq_ignore_ascii_case(inner);
            if !self.first_args.iter().any(known) {
                self.first_args.push((command.id, inner.into()));
            }
        } else {
            let sub = catalog.find(name).ok_or(RuleError::UnknownCommand)?;
            self.set_command(&sub, true);
        }
        self.note(&String::from_utf8_lossy(name).to_lowercase(), true);
        Ok(())
    }

    /// Records a rule about a command: the last one counts; one about a container replaces the rules about its
    /// subcommands.
    fn note(&mut self, name: &str, allowed: bool) {
        let is_replaced =
            |rule: &String| rule[1..].strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('|'));
        self.rules.retain(|rule| !is_replaced(rule));
        self.rules.push(format!("{}{name}", if allowed { '+' } else { '-' }));
    }

    fn add_keys(&mut self, text: &[u8], allows: KeyAccess) -> Result<(), RuleError> {
        let patterns = self.keys.as_mut().ok_or(RuleError::KeysAfterAll)?;
        if has_spaces(text) {
            return Err(RuleError::Syntax);
        }
        match patterns.iter_mut().find(|known| known.pattern.text() == text) {
            Some(known) => {
                known.allows.reads |= allows.reads;
                known.allows.writes |= allows.writes;
            }
            None => patterns.push(KeyPattern { pattern: Pattern::new(text), allows }),
        }
        Ok(())
    }

    fn add_channels(&mut self, text: &[u8]) -> Result<(), RuleError> {
        let patterns = self.channels.as_mut().ok_or(RuleError::ChannelsAfterAll)?;
        if has_spaces(text) {
            return Err(RuleError::Syntax);
        }
        if !patterns.iter().any(|known| known.text() == text) {
            patterns.push(Pattern::new(text));
        }
        Ok(())
    }

    /// Whether everything is allowed.
    pub fn is_unrestricted(&self) -> bool {
        self.all_commands && self.keys.is_none() && self.channels.is_none() && self.dbs.is_none()
    }

    /// Whether it allows a command with this first argument (after the subcommand's name).
    pub fn allows_command(&self, id: usize, first_arg: Option<&[u8]>) -> bool {
        let is_set = self.all_commands || self.commands[id / 64] >> (id % 64) & 1 == 1;
        let is_arg = |arg: &[u8]| self.first_args.iter().any(|(of, it)| *of == id && it.eq_ignore_ascii_case(arg));
        is_set || first_arg.is_some_and(is_arg)
    }

    /// Whether it allows this access to a key.
    pub fn allows_key(&self, key: &[u8], access: KeyAccess) -> bool {
        self.allowing(access).is_none_or(|mut patterns| patterns.any(|it| it.matches(key)))
    }

    /// Whether it allows every access to every key, the empty one included.
    pub fn has_all_keys(&self) -> bool {
        self.keys.is_none()
    }

    /// Whether it allows this access to every key.
    pub fn allows_all_keys(&self, access: KeyAccess) -> bool {
        self.allowing(access).is_none_or(|mut patterns| patterns.any(Pattern::is_everything))
    }

    /// Whether it allows this access to every key with this prefix.
    pub fn allows_beginning(&self, beginning: &[u8], access: KeyAccess) -> bool {
        self.allowing(access).is_none_or(|mut patterns| patterns.any(|it| it.covers(beginning)))
    }

    /// Returns the patterns that grant this access; None: it is granted for every key.
    fn allowing(&self, access: KeyAccess) -> Option<impl Iterator<Item = &Pattern>> {
        let allows = move |it: &&KeyPattern| (it.allows.reads || !access.reads) && (it.allows.writes || !access.writes);
        self.keys.as_ref().map(|patterns| patterns.iter().filter(allows).map(|it| &it.pattern))
    }

    /// Returns the patterns of channels that it allows; None: all channels.
    pub fn channels(&self) -> Option<&[Pattern]> {
        self.channels.as_deref()
    }

    /// Whether it allows a database; all of them if none is given.
    pub fn allows_db(&self, db: Option<u32>) -> bool {
        match (&self.dbs, db) {
            (None, _) => true,
            (Some(dbs), Some(db)) => dbs.contains(&db),
            (Some(_), None) => false,
        }
    }

    /// Returns the rules about commands that make it.
    pub fn command_rules(&self) -> String {
        let all = if self.from_all { "+@all" } else { "-@all" };
        [all].into_iter().chain(self.rules.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
    }

    /// Returns the same rights over the commands of another catalog. A rule about a command that it does not have says
    /// nothing there.
    pub(super) fn translated(&self, catalog: &dyn CommandCatalog) -> Selector {
        let commands = vec![0; catalog.count().div_ceil(64)].into();
        let mut selector = Selector { commands, ..self.clone() };
        for rule in self.command_rules().split(' ') {
            // The rule was accepted before, so it can only fail because a command is missing from this catalog.
            let _ = selector.apply(rule.as_bytes(), catalog);
        }
        selector
    }

    /// Returns the rules about keys that make it.
    pub fn key_rules(&self) -> Vec<u8> {
        let Some(patterns) = &self.keys else { return b"~*".to_vec() };
        let rule = |it: &KeyPattern| {
            let sign: &[u8] = match (it.allows.reads, it.allows.writes) {
                (true, true) => b"~",
                (true, false) => b"%R~",
                _ => b"%W~",
            };
            [sign, it.pattern.text()].concat()
        };
        patterns.iter().map(rule).collect::<Vec<_>>().join(&b' ')
    }

    /// Returns the rules about channels that make it.
    pub fn channel_rules(&self) -> Vec<u8> {
        let Some(patterns) = &self.channels else { return b"&*".to_vec() };
        patterns.iter().map(|it| [b"&", it.text()].concat()).collect::<Vec<_>>().join(&b' ')
    }

    /// Returns the rule about databases that makes it; empty where it allows none.
    pub fn database_rule(&self) -> String {
        match &self.dbs {
            None => "alldbs".to_owned(),
            Some(dbs) if dbs.is_empty() => String::new(),
            Some(dbs) => format!("db={}", dbs.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
        }
    }

    /// Returns all rules that make it.
    pub fn describe(&self) -> Vec<u8> {
        let mut text = self.key_rules();
        if !text.is_empty() {
            text.push(b' ');
        }
        if self.channels.is_some() {
            text.extend_from_slice(b"resetchannels ");
        }
        let channels = self.channel_rules();
        text.extend_from_slice(&channels);
        if !channels.is_empty() {
            text.push(b' ');
        }
        // The default, all databases, is left out: servers without these rules may have to read the file.
        if let Some(dbs) = &self.dbs {
            let rule = if dbs.is_empty() { "resetdbs".to_owned() } else { self.database_rule() };
            text.extend_from_slice(rule.as_bytes());
            text.push(b' ');
        }
        text.extend_from_slice(self.command_rules().as_bytes());
        text
    }
}

/// Splits `R~pattern`, `W~pattern` or `RW~pattern` at the `~`. Without a `~` the pattern is empty.
fn parse_access(rest: &[u8]) -> Result<(KeyAccess, &[u8]), RuleError> {
    let end = rest.iter().position(|byte| *byte == b'~').unwrap_or(rest.len());
    let mut access = KeyAccess::default();
    for letter in &rest[..end] {
        let flag = match letter.to_ascii_uppercase() {
            b'R' => &mut access.reads,
            b'W' => &mut access.writes,
            _ => return Err(RuleError::Syntax),
        };
        if std::mem::replace(flag, true) {
            return Err(RuleError::Syntax);
        }
    }
    if access == KeyAccess::default() {
        Err(RuleError::Syntax)
    } else {
        Ok((access, rest.get(end + 1..).unwrap_or_default()))
    }
}

fn parse_databases(list: &[u8]) -> Result<BTreeSet<u32>, RuleError> {
    let number = |text: &[u8]| {
        let text = std::str::from_utf8(text).map_err(|_| RuleError::Syntax)?;
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(RuleError::Syntax);
        }
        let number = text.parse().ok().filter(|number| i32::try_from(*number).is_ok());
        number.ok_or(RuleError::DatabaseRange)
    };
    list.split(|byte| *byte == b',').map(number).collect()
}

/// Whether a text has spaces, which separate rules in a description.
pub fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0))
}
