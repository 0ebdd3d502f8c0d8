//! Users in files: the ACL file, and `user` lines of the configuration.

use crate::core::acl_catalog::{Catalog, rule_context};
use crate::core::args::Args;
use crate::core::context::Context;
use crate::server::acl::lines;
use engine::acl::rule_error::RuleError;
use engine::acl::selector::has_spaces;
use engine::acl::user::{DEFAULT_USER, RuleContext, User, merge_selectors};
use engine::acl::users::UserChange;
use engine::config::{Directive, os_message};
use engine::{Engine, Error, Word};
use std::fmt::Write;

/// Returns the path of the file, if users are stored in one.
fn file_name(engine: &Engine) -> Result<Vec<u8>, Error> {
    let file = engine.config().snapshot().text(Directive::ACLFILE).to_vec();
    if file.is_empty() { Err(Error::NoAclFile) } else { Ok(file) }
}

/// Writes the file on another thread, since the disk may be slow.
pub(super) fn save(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let file = file_name(cx.engine)?;
    if let Some(waiting) = cx.wait_elsewhere(args) {
        let name = file.clone();
        let work = move |engine: &Engine| waiting.end(engine, write_file(engine, &name).map(|()| "OK"));
        if cx.engine.host().in_background(Directive::SERVER_CPULIST, Box::new(work)).is_ok() {
            return Ok(());
        }
        cx.wait_no_more();
    }
    write_file(cx.engine, &file)?;
    cx.reply.ok();
    Ok(())
}

fn write_file(engine: &Engine, file: &[u8]) -> Result<(), Error> {
    let _turn = engine.users().saving.lock();
    let text: Vec<u8> = lines(engine).flat_map(|line| [b"user ", &line[..], b"\n"].concat()).collect();
    engine.host().replace_file(file, &text).map_err(|error| {
        engine.host().warn(&format!("Writing ACL file for ACL SAVE: {}", os_message(&error)));
        Error::AclNotSaved
    })
}

/// Reads the ACL file. If it has any error the users stay as they are.
///
/// # Errors
/// The errors of all lines.
pub fn load(engine: &Engine) -> Result<Vec<UserChange>, Error> {
    let file = file_name(engine)?;
    let shown = String::from_utf8_lossy(&file);
    let text = engine.host().read_file(&file).map_err(|error| {
        let text = format!("Error loading ACLs, opening file '{shown}': {}", os_message(&error));
        Error::AclFile(Word::of(text))
    })?;
    let context = rule_context(engine);
    let (mut users, mut errors): (Vec<User>, String) = (Vec::new(), String::new());
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = trim(line, b" \t\r\n");
        if !line.is_empty() {
            let place = format!("{shown}:{}", number + 1);
            read_line(line, &place, number + 1, context, &mut users, &mut errors);
        }
    }
    if !errors.is_empty() {
        errors.push_str("WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
        return Err(Error::AclFile(Word::of(errors)));
    }
    Ok(engine.users().replace_all(users, context))
}

fn trim<'t>(text: &'t [u8], white: &[u8]) -> &'t [u8] {
    let is_kept = |byte: &u8| !white.contains(byte);
    let (Some(start), Some(end)) = (text.iter().position(is_kept), text.iter().rposition(is_kept)) else { return b"" };
    &text[start..=end]
}

/// Reads one line, which is not empty; `place`: the file and the line's number.
fn read_line(
    line: &[u8],
    place: &str,
    number: usize,
    context: RuleContext<'_>,
    users: &mut Vec<User>,
    errors: &mut String,
) {
    let words: Vec<Vec<u8>> = line.split(|byte| *byte == b' ').map(<[u8]>::to_vec).collect();
    let [keyword, name, rules @ ..] = words.as_slice() else {
        let _ = write!(errors, "{place} should start with user keyword followed by the username. ");
        return;
    };
    let shown = String::from_utf8_lossy(name);
    if keyword != b"user" {
        let _ = write!(errors, "{place} should start with user keyword followed by the username. ");
    } else if has_spaces(name) {
        let _ = write!(errors, "'{place}: username '{shown}' contains invalid characters. ");
    } else if users.iter().any(|user| user.name() == &name[..]) {
        let _ = write!(errors, "WARNING: Duplicate user '{shown}' found on line {number}. ");
    } else {
        match merge_selectors(rules) {
            Ok(rules) => users.push(read_rules(name, &rules, place, context, errors)),
            Err(_) => _ = write!(errors, "{place}: Unmatched parenthesis in selector definition."),
        }
    }
}

fn read_rules(name: &[u8], rules: &[Vec<u8>], place: &str, context: RuleContext<'_>, errors: &mut String) -> User {
    let mut user = User::new(name, context);
    let mut is_told = false;
    for rule in rules.iter().map(|rule| trim(rule, b"\t\r\n")) {
        match user.apply(rule, context) {
            Ok(()) => {}
            Err(error @ RuleError::UnknownCommand) => {
                let rule = String::from_utf8_lossy(rule);
                let _ = write!(errors, "{place}: Error in applying operation '{rule}': {error}. ");
            }
            // The faulty word may be a secret, and later words may be faulty because of it.
            Err(error) if !std::mem::replace(&mut is_told, true) => _ = write!(errors, "{place}: {error}. "),
            Err(_) => {}
        }
    }
    user
}

/// Checks a `user` line of a configuration, given as words. A command that does not exist is found at the start.
///
/// # Errors
/// The faulty word, and the reason.
pub fn check_declaration(words: &[Vec<u8>], earlier: &[Vec<Vec<u8>>]) -> Result<(), (usize, String)> {
    let context = RuleContext { catalog: Catalog::get(), all_channels: false };
    if earlier.iter().any(|known| known.get(1) == words.get(1)) {
        return Err((1, "Duplicate user found. A user can only be defined once in config files".to_owned()));
    }
    let (Some(name), Some(rules)) = (words.get(1), words.get(2..)) else { return Err((0, "Wrong format".to_owned())) };
    let rules = merge_selectors(rules).map_err(|at| (at + 2, "Unmatched parenthesis".to_owned()))?;
    let mut user = User::new(name, context);
    for (at, rule) in rules.iter().enumerate() {
        match user.apply(rule, context) {
            Ok(()) | Err(RuleError::UnknownCommand) => {}
            Err(error) => return Err((at, error.to_string())),
        }
    }
    Ok(())
}

/// Sets the users that a server starts with: the users of `user` lines, or of the ACL file.
///
/// # Errors
/// The last line of the log.
pub fn begin(engine: &Engine, declared: &[Vec<Vec<u8>>]) -> Result<(), String> {
    let has_file = file_name(engine).is_ok();
    if has_file && !declared.is_empty() {
        return Err(
            "Configuring Valkey with users defined in valkey.conf and at the same setting an ACL file path is \
                    invalid. This setup is very likely to lead to configuration errors and security holes, please \
                    define either an ACL file or declare users directly in your valkey.conf, but not both."
                .to_owned(),
        );
    }
    for words in declared {
        declare(engine, words)?;
    }
    if has_file {
        load(engine).map_err(|error| {
            let text = error.to_string();
            format!("Aborting Valkey startup because of ACL errors: {}", text.strip_prefix("ERR ").unwrap_or(&text))
        })?;
    }
    Ok(())
}

fn declare(engine: &Engine, words: &[Vec<u8>]) -> Result<(), String> {
    let failed = "Critical error while loading ACLs. Exiting.";
    let [_, name, rules @ ..] = words else { return Err(failed.to_owned()) };
    if has_spaces(name) {
        engine.host().warn("Spaces not allowed in ACL usernames");
        return Err(failed.to_owned());
    }
    let context = rule_context(engine);
    let mut rules = merge_selectors(rules).map_err(|_| failed.to_owned())?;
    if name == DEFAULT_USER {
        rules.insert(0, b"reset".to_vec());
    }
    let shown = String::from_utf8_lossy(name);
    if let Err(error) = engine.users().set(name, &rules, context) {
        if let engine::acl::users::SetUserError::Rule(rule, error) = error {
            let rule = String::from_utf8_lossy(&rule);
            engine.host().warn(&format!("Error loading ACL rule '{rule}' for the user named '{shown}': {error}"));
        }
        return Err(failed.to_owned());
    }
    if engine.users().get(name, context).is_some_and(|user| !user.is_enabled()) {
        engine.host().log(&format!(
            "The user '{shown}' is disabled (there is no 'on' modifier in the user description). Make sure this is \
             not a configuration error."
        ));
    }
    Ok(())
}
