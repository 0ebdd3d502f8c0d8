//! A user: its passwords, its rights and its quota.

use crate::acl::catalog::CommandCatalog;
use crate::acl::pattern::Pattern;
use crate::acl::quota::Quota;
use crate::acl::quota_usage::QuotaUsage;
use crate::acl::rule_error::RuleError;
use crate::acl::selector::Selector;
#[cfg(any(test, feature = "fuzzing"))]
use crate::acl::{catalog::CommandNumber, selector::KeyAccess};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The user of connections that have not logged in.
pub const DEFAULT_USER: &[u8] = b"default";

/// A user at one moment.
#[derive(Clone, Debug)]
pub struct User {
    /// Number that no other user of this server ever has; a changed user retains its number.
    pub(super) id: u64,
    name: Box<[u8]>,
    enabled: bool,
    /// Whether any password is accepted.
    no_password: bool,
    /// SHA-256 of each password, in hexadecimal digits.
    passwords: Vec<String>,
    /// Sets of rights; the first has the rules outside of parentheses.
    selectors: Vec<Selector>,
    /// Number of the change that made it so.
    pub(super) changed_at: u64,
    /// Its limits.
    pub(super) quota: Quota,
    /// Its use of the limits; a changed user retains it.
    pub(super) usage: Arc<QuotaUsage>,
}

/// Context that rules need besides the user.
#[derive(Clone, Copy)]
pub struct RuleContext<'c> {
    /// All commands.
    pub catalog: &'c dyn CommandCatalog,
    /// `acl-pubsub-default`: whether new users may use all channels.
    pub all_channels: bool,
}

impl User {
    /// Makes a new user, who may neither log in nor do anything.
    pub fn new(name: &[u8], context: RuleContext<'_>) -> User {
        let root = Selector::new(context.catalog, context.all_channels);
        let (enabled, no_password, passwords, quota, usage) = Default::default();
        let (name, selectors) = (name.into(), vec![root]);
        User { id: 0, name, enabled, no_password, passwords, selectors, changed_at: 0, quota, usage }
    }

    /// Makes the user of connections that have not logged in, who may do everything until it is changed.
    pub fn default_user(context: RuleContext<'_>) -> User {
        let mut user = User::new(DEFAULT_USER, context);
        (user.enabled, user.no_password) = (true, true);
        for rule in [&b"+@all"[..], b"~*", b"&*", b"alldbs"] {
            user.selectors[0].apply(rule, context.catalog).expect("a rule about everything can come after any");
        }
        user
    }

    /// Changes the user by one rule.
    ///
    /// # Errors
    /// A [`RuleError`]: the text is no rule, or cannot follow the rules before it.
    pub fn apply(&mut self, rule: &[u8], context: RuleContext<'_>) -> Result<(), RuleError> {
        match (rule.to_ascii_lowercase().as_slice(), rule) {
            // Old words that chose whether dumps from this user are checked; dumps always are.
            (b"" | b"sanitize-payload" | b"skip-sanitize-payload", _) => {}
            (b"on", _) => self.enabled = true,
            (b"off", _) => self.enabled = false,
            (b"nopass", _) => {
                self.no_password = true;
                self.passwords.clear();
            }
            (b"resetpass", _) => {
                self.no_password = false;
                self.passwords.clear();
            }
            (_, [b'>', password @ ..]) => self.add_password(hash_password(password)),
            (_, [b'#', hash @ ..]) => self.add_password(checked_hash(hash)?),
            (_, [b'<', password @ ..]) => self.remove_password(&hash_password(password))?,
            (_, [b'!', hash @ ..]) => self.remove_password(&checked_hash(hash)?)?,
            (_, [b'(', rules @ .., b')']) => {
                let mut selector = Selector::new(context.catalog, context.all_channels);
                for rule in resp::words::split(rules).unwrap_or_default() {
                    selector.apply(&rule, context.catalog)?;
                }
                self.selectors.push(selector);
            }
            (b"clearselectors", _) => self.selectors.truncate(1),
            (b"resetquota", _) => self.quota = Quota::default(),
            ([b'q', b'u', b'o', b't', b'a', b':', ..], _) => self.quota.apply(&rule[b"quota:".len()..])?,
            (b"reset", _) => {
                let (id, name) = (self.id, std::mem::take(&mut self.name));
                *self = User { id, ..User::new(&name, context) };
            }
            _ => self.selectors[0].apply(rule, context.catalog)?,
        }
        Ok(())
    }

    fn add_password(&mut self, hash: String) {
        self.no_password = false;
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
    }

    fn remove_password(&mut self, hash: &str) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| known == hash).ok_or(RuleError::NoSuchPassword)?;
        self.passwords.remove(at);
        Ok(())
    }

    /// Gives the user this one password, or none if it is empty (`requirepass`).
    pub fn set_only_password(&mut self, password: &[u8]) {
        self.no_password = password.is_empty();
        self.passwords = if password.is_empty() { Vec::new() } else { vec![hash_password(password)] };
    }

    /// Returns the user with the same passwords and rights over the commands of another catalog, and without quotas.
    pub fn translated(&self, catalog: &dyn CommandCatalog) -> User {
        let selectors = self.selectors.iter().map(|selector| selector.translated(catalog)).collect();
        let (quota, usage) = Default::default();
        User { id: 0, selectors, quota, usage, ..self.clone() }
    }

    /// Returns its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether this is the same user at another moment.
    pub fn is_same(&self, other: &User) -> bool {
        self.id == other.id
    }

    /// Returns the number of the change that made it so: no other user, and no other moment of this one, has it.
    pub fn changed_at(&self) -> u64 {
        self.changed_at
    }

    /// Whether both have the same rights.
    pub fn has_same_rights(&self, other: &User) -> bool {
        self.selectors.iter().map(Selector::describe).eq(other.selectors.iter().map(Selector::describe))
    }

    /// Whether it may log in.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether any password is accepted.
    pub fn needs_no_password(&self) -> bool {
        self.no_password
    }

    /// Returns the SHA-256 of each password, in hexadecimal digits.
    pub fn passwords(&self) -> &[String] {
        &self.passwords
    }

    /// Returns its sets of rights; a command is allowed if one of them allows all of it.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// Returns its limits.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Returns its use of the limits.
    pub fn usage(&self) -> &Arc<QuotaUsage> {
        &self.usage
    }

    /// Whether one selector allows everything.
    pub fn is_unrestricted(&self) -> bool {
        self.selectors.iter().any(Selector::is_unrestricted)
    }

    /// Whether it may log in with this password. A wrong one takes as long as a right one.
    pub fn takes_password(&self, password: &[u8]) -> bool {
        let hash = hash_password(password);
        let same = |known: &String| known.bytes().zip(hash.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0;
        self.enabled && (self.no_password || self.passwords.iter().fold(false, |found, known| found | same(known)))
    }

    /// Returns its flags by name.
    pub fn flags(&self) -> Vec<&'static str> {
        let enabled = if self.enabled { "on" } else { "off" };
        if self.no_password { vec![enabled, "nopass"] } else { vec![enabled] }
    }

    /// Returns the patterns of channels that one of its selectors allows; None: all channels.
    pub fn channels(&self) -> Option<Vec<&Pattern>> {
        let each = self.selectors.iter().map(Selector::channels);
        each.collect::<Option<Vec<_>>>().map(|lists| lists.into_iter().flatten().collect())
    }

    /// Returns all rules that make it, one after the other.
    pub fn describe(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for flag in self.flags() {
            text.extend_from_slice(flag.as_bytes());
            text.push(b' ');
        }
        for hash in &self.passwords {
            text.push(b'#');
            text.extend_from_slice(hash.as_bytes());
            text.push(b' ');
        }
        text.extend(self.selectors[0].describe());
        for rule in self.quota.rules() {
            text.push(b' ');
            text.extend(rule);
        }
        for selector in &self.selectors[1..] {
            text.extend_from_slice(b" (");
            text.extend(selector.describe());
            text.push(b')');
        }
        text
    }
}

fn hash_password(password: &[u8]) -> String {
    Sha256::digest(password).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn checked_hash(hash: &[u8]) -> Result<String, RuleError> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let hash = String::from_utf8(hash.to_vec()).ok().filter(|it| it.len() == 64 && it.bytes().all(|it| is_digit(&it)));
    hash.ok_or(RuleError::BadHash)
}

/// Joins rules within parentheses that were given as several words.
///
/// # Errors
/// The number of the word with a parenthesis that is not closed.
pub fn merge_selectors(words: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, usize> {
    let mut merged: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (index, word) in words.iter().enumerate() {
        match open.take() {
            Some((start, mut text)) => {
                text.push(b' ');
                text.extend_from_slice(word);
                if word.ends_with(b")") { merged.push(text) } else { open = Some((start, text)) }
            }
            None if word.starts_with(b"(") && !word.ends_with(b")") => open = Some((index, word.clone())),
            None => merged.push(word.clone()),
        }
    }
    open.map_or(Ok(merged), |(start, _)| Err(start))
}

/// A few commands, for rules about them.
#[cfg(any(test, feature = "fuzzing"))]
struct FewCommands;

#[cfg(any(test, feature = "fuzzing"))]
impl FewCommands {
    const NAMES: [&str; 6] = ["get", "set", "config", "config|get", "config|set", "select"];

    fn number(id: usize) -> CommandNumber {
        let full_name = Self::NAMES[id].to_owned();
        let subcommands = if full_name == "config" { id + 1..id + 3 } else { 0..0 };
        CommandNumber { id, is_inner: full_name.contains('|'), full_name, subcommands }
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl CommandCatalog for FewCommands {
    fn count(&self) -> usize {
        Self::NAMES.len()
    }

    fn find(&self, full_name: &[u8]) -> Option<CommandNumber> {
        Self::NAMES.iter().position(|name| name.as_bytes().eq_ignore_ascii_case(full_name)).map(Self::number)
    }

    fn of_category(&self, category: &[u8]) -> Option<Vec<CommandNumber>> {
        let ids = match &*category.to_ascii_lowercase() {
            b"read" => 0..1,
            b"write" => 1..2,
            b"admin" => 2..5,
            _ => return None,
        };
        Some(ids.map(Self::number).collect())
    }
}

/// Returns the user's rights over a few commands, keys and databases.
#[cfg(any(test, feature = "fuzzing"))]
fn rights(user: &User) -> impl PartialEq + std::fmt::Debug {
    let of = |selector: &Selector| {
        let commands = (0..FewCommands::NAMES.len()).flat_map(|id| [None, Some(&b"0"[..])].map(|arg| (id, arg)));
        let commands: Vec<bool> = commands.map(|(id, arg)| selector.allows_command(id, arg)).collect();
        let access = [(true, false), (false, true), (true, true)];
        let access = access.map(|(reads, writes)| KeyAccess { reads, writes });
        let keys = [&b"a"[..], b"k1", b"other"].map(|key| access.map(|access| selector.allows_key(key, access)));
        (commands, keys, [None, Some(0), Some(3)].map(|db| selector.allows_db(db)), selector.channels().is_none())
    };
    (user.enabled, user.no_password, user.passwords.clone(), user.selectors.iter().map(of).collect::<Vec<_>>())
}

/// Reads any lines as rules, one after the other. A refused rule changes nothing; and the description of a user makes
/// the same user, unless blanks or parentheses within the rules make it ambiguous, as they do in Valkey.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    let context = RuleContext { catalog: &FewCommands, all_channels: data.first().is_some_and(|byte| byte & 1 == 1) };
    let split = |text: &[u8], at: fn(&u8) -> bool| text.split(at).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let Ok(rules) = merge_selectors(&split(data, |byte| matches!(byte, b'\n' | b' '))) else { return };
    let mut user = User::new(b"u", context);
    for rule in &rules {
        let before = user.describe();
        if user.apply(rule, context).is_err() {
            assert_eq!(user.describe(), before);
        }
    }
    let is_plain = |rule: &Vec<u8>| {
        let inner = rule.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")")).unwrap_or(rule);
        inner.iter().all(|byte| (b' '..=b'~').contains(byte) && !b"()\"'\\".contains(byte))
    };
    if !rules.iter().all(is_plain) {
        return;
    }
    // A pattern `%RW~*` is described as `~*`, which replaces the patterns before it and allows none after it.
    if rules.iter().any(|rule| rule.contains(&b'%') && rule.windows(2).any(|pair| pair == b"~*")) {
        return;
    }
    let described = user.describe();
    let mut again = User::new(b"u", RuleContext { all_channels: !context.all_channels, ..context });
    for rule in merge_selectors(&split(&described, |byte| *byte == b' ')).expect("parentheses are closed") {
        if let Err(error) = again.apply(&rule, context) {
            panic!("{error:?} in {:?}", String::from_utf8_lossy(&rule));
        }
    }
    assert_eq!(String::from_utf8_lossy(&again.describe()), String::from_utf8_lossy(&described));
    assert_eq!(rights(&again), rights(&user), "{:?}", String::from_utf8_lossy(&described));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn a_described_user_is_the_one_that_its_description_makes(
            rules in prop::collection::vec(
                prop_oneof![
                    "[-+]@?(all|read|write|admin|get|set|config|config\\|get|config\\|set|select\\|[ab0])",
                    "(~|%R~|%W~|%RW~|&)[ak1*?]{0,3}",
                    "(on|off|nopass|resetpass|reset|resetkeys|resetchannels|clearselectors|alldbs|resetdbs|allkeys)",
                    "db=[0-3,]{1,4}",
                    "(quota:(ops|bytes|connections|memory:[ak]?)=[0-9]?[km]?|resetquota)",
                    "[<>][ab]?",
                    "\\([-+]@?(all|read|get|config) ~[ak1]\\)",
                    any::<String>(),
                ],
                0..10,
            ),
        ) {
            fuzz(rules.join("\n").as_bytes());
        }
    }

    /// A catalog with SELECT alone.
    struct OneCommand;

    impl CommandCatalog for OneCommand {
        fn count(&self) -> usize {
            1
        }

        fn find(&self, full_name: &[u8]) -> Option<CommandNumber> {
            let number = CommandNumber { id: 0, full_name: "select".to_owned(), subcommands: 0..0, is_inner: false };
            (full_name == b"select").then_some(number)
        }

        fn of_category(&self, category: &[u8]) -> Option<Vec<CommandNumber>> {
            Some(if category == b"read" { self.find(b"select").into_iter().collect() } else { Vec::new() })
        }
    }

    #[test]
    fn rights_over_other_commands_follow_from_the_rules() {
        let context = RuleContext { catalog: &FewCommands, all_channels: false };
        let of = |rules: &str| {
            let mut user = User::new(b"u", context);
            rules.split('|').for_each(|rule| user.apply(rule.as_bytes(), context).unwrap());
            user.translated(&OneCommand)
        };
        let allows = |user: &User| user.selectors().iter().any(|selector| selector.allows_command(0, None));
        assert!(allows(&of("+@all|-get")) && of("on|>p|+@all").takes_password(b"p"));
        assert!(!allows(&of("+@all|-select|+get")) && !allows(&of("+@all|-@read")));
        assert!(allows(&of("-@all|+get|+select")) && !allows(&of("+get")) && allows(&of("(+select ~x)")));
        assert!(!of("quota:ops=3|+@all").quota().rules().iter().any(|rule| rule.starts_with(b"quota")));
    }
}
