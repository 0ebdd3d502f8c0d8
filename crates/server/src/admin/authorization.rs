//! Access to the metrics and the page: for users who may run INFO.
//!
//! The caller authenticates as at the ports for clients: with a name and a password, or a certificate. A caller without
//! either is the default user, if that needs no password. A certificate that an authority has signed is enough where
//! certificates name no users. Protected mode was checked before, whatever the caller sends.

use crate::tls::certificate;
use cinnabar_admin::{Access, Caller};
use commands::core::acl_catalog::rule_context;
use engine::Engine;
use engine::acl::denial_log::{DenialLogEntry, Denied};
use engine::acl::user::{DEFAULT_USER, User};
use engine::config::Directive;
use engine::time::UnixMs;
use std::sync::Arc;

/// Command that a caller must be allowed to run to see metrics.
const RIGHT: &str = "info";

/// Returns whether the caller may see the metrics. A refused caller is added to ACL LOG.
pub fn authorize(engine: &Engine, caller: &Caller, now: UnixMs) -> Access {
    let (config, context) = (engine.config().snapshot(), rule_context(engine));
    let denied = |denied, name: &[u8]| note(engine, caller, denied, name, now);
    if let Some(given) = &caller.credentials {
        let name = if given.name.is_empty() { DEFAULT_USER } else { &given.name };
        let user = engine.users().get(name, context).filter(|user| user.takes_password(&given.password));
        return user.map_or_else(
            || {
                denied(Denied::Auth, name);
                Access::Unknown
            },
            |user| of_user(engine, caller, &user, now),
        );
    }
    if let Some(shown) = &caller.certificate {
        if config.choice(Directive::TLS_AUTH_CLIENTS_USER) == "off" {
            return Access::Granted { user: None };
        }
        let names = certificate::named_users(shown, &config);
        let find = |name: &Vec<u8>| engine.users().get(name, context).filter(|user| user.is_enabled());
        return match names.iter().find_map(find) {
            Some(user) => of_user(engine, caller, &user, now),
            None => {
                denied(Denied::Certificate, names.last().map_or(b"", |name| name));
                Access::Unknown
            }
        };
    }
    let user: Arc<User> = engine.users().default_user(context);
    match user.is_enabled() && user.needs_no_password() {
        true => of_user(engine, caller, &user, now),
        false => Access::Unknown,
    }
}

fn of_user(engine: &Engine, caller: &Caller, user: &User, now: UnixMs) -> Access {
    if may_run(engine, user, RIGHT) {
        return Access::Granted { user: Some(user.name().to_vec()) };
    }
    note(engine, caller, Denied::Command, user.name(), now);
    Access::Forbidden
}

/// Returns the commands of these, by their full names, that the user may run, on some keys at least. `name`: None for
/// the user that clients are at the ports before they have authenticated.
pub fn rights(engine: &Engine, name: Option<&[u8]>, commands: &[&'static str]) -> Vec<&'static str> {
    let context = rule_context(engine);
    let user = match name {
        Some(name) => engine.users().get(name, context),
        None => Some(engine.users().default_user(context)).filter(|_| !engine.users().asks()),
    };
    let Some(user) = user.filter(|user| user.is_enabled()) else { return Vec::new() };
    commands.iter().copied().filter(|command| may_run(engine, &user, command)).collect()
}

/// Returns whether the user may run the command of this name, whatever clients call it.
fn may_run(engine: &Engine, user: &User, command: &str) -> bool {
    let number = rule_context(engine).catalog.find(command.as_bytes()).map(|number| number.id);
    number.is_some_and(|id| user.selectors().iter().any(|selector| selector.allows_command(id, None)))
}

fn note(engine: &Engine, caller: &Caller, denied: Denied, name: &[u8], now: UnixMs) {
    let object = if denied == Denied::Command { RIGHT } else { "/metrics" };
    let client = format!("addr={} cmd=/metrics", caller.address.ip());
    let entry = DenialLogEntry::new(denied, "toplevel", object.as_bytes(), name, client, now);
    let max = engine.config().snapshot().int(Directive::ACLLOG_MAX_LEN).max(0) as usize;
    engine.users().log.add(entry, max);
}
