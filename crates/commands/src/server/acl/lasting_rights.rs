//! Connections that get data after a command has ended, and the rights that they need for as long.
//!
//! | connection | needs | is looked at by |
//! |---|---|---|
//! | any | its user | the thread that changes users, by the list of clients |
//! | replica, source of slots | the right to PSYNC, SYNC or CLUSTER SYNCSLOTS | that thread, and the next one |
//! | subscriber | the right to each channel | its worker |
//! | monitor | the right to MONITOR | its worker |
//!
//! A change of users is in place before the list is iterated over, and a connection is on the list in its new role
//! before its new thread looks at the users: one of the two sees the other. Subscribers and monitors stay with their
//! workers.

use crate::core::acl_catalog::{Catalog, rule_context};
use crate::core::session::Session;
use engine::Engine;
use engine::acl::pattern::Pattern;
use engine::acl::user::{DEFAULT_USER, User};
use engine::acl::users::UserChange;
use engine::client_endings::Ending;
use engine::clients::pubsub::ChannelKind;
use engine::clients::registry::ClientInfo;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

/// Returns whether this is the change of a client's user; None: the default one.
fn is_of(change: &UserChange, user: Option<&User>) -> bool {
    user.map_or_else(|| change.old.name() == DEFAULT_USER, |user| user.is_same(&change.old))
}

fn may_run(user: &User, full_name: &str) -> bool {
    let number = Catalog::get().named(full_name);
    number.is_some_and(|number| user.selectors().iter().any(|selector| selector.allows_command(number.id, None)))
}

/// Returns whether a client that is another server may continue as this user.
fn keeps_command(client: &ClientInfo, user: &User) -> bool {
    client.lasting_command().is_none_or(|command| user.is_unrestricted() || may_run(user, command))
}

/// Ends all connections, whichever thread serves them, whose users are gone or have lost the right to the connection's
/// lasting command. True if `own` is the client of one of them, which is left to the caller.
pub(super) fn end_connections(engine: &Engine, changes: &[UserChange], own: Option<&ClientInfo>) -> bool {
    if changes.is_empty() {
        return false;
    }
    let by_name: BTreeMap<&[u8], &UserChange> = changes.iter().map(|change| (change.old.name(), change)).collect();
    let is_hit = |client: &ClientInfo| {
        let user = client.user();
        let change = by_name.get(user.as_ref().map_or(DEFAULT_USER, |user| user.name()));
        let change = change.filter(|change| is_of(change, user.as_deref()));
        change.is_some_and(|change| change.new.as_ref().is_none_or(|user| !keeps_command(client, user)))
    };
    for client in engine.clients().all() {
        if own.is_none_or(|own| own.id != client.id) && is_hit(&client) {
            engine.end_client(&client, Ending::AfterReplies);
        }
    }
    own.is_some_and(is_hit)
}

/// Returns whether the thread that serves a client which is another server may take it in: it was not ended on its way,
/// and its user still has the right to its lasting command.
pub fn may_be_taken_in(engine: &Engine, client: &ClientInfo) -> bool {
    let (context, user) = (rule_context(engine), client.user());
    let present = match &user {
        None => Some(engine.users().default_user(context)),
        Some(user) => engine.users().get(user.name(), context).filter(|present| present.is_same(user)),
    };
    !client.has_ended() && present.is_some_and(|user| keeps_command(client, &user))
}

/// Returns whether the user that a client has just become was removed meanwhile: the thread that removed it may have
/// looked at the client before.
pub fn is_user_gone(engine: &Engine, session: &Session) -> bool {
    let is_there = |user: &User| {
        let present = engine.users().get(user.name(), rule_context(engine));
        present.is_some_and(|present| present.is_same(user))
    };
    session.identity.user().is_some_and(|user| !is_there(user))
}

/// Returns whether a change of users ends the connection of a subscriber or monitor: its user may listen to less than
/// before, and not to all that the client listens to.
pub fn end_listening(session: &Session, change: &UserChange) -> bool {
    let Some(new) = change.new.as_ref().filter(|_| is_of(change, session.info.user().as_deref())) else { return false };
    if session.info.monitor.load(Relaxed) && !may_run(new, "monitor") {
        return true;
    }
    let (Some(subscriptions), Some(allowed)) = (&session.subscriptions, new.channels()) else { return false };
    let is_kept = |old: Vec<&Pattern>| old.iter().all(|pattern| allowed.contains(pattern));
    if change.old.channels().is_some_and(is_kept) {
        return false;
    }
    let may_hear = |kind: ChannelKind, name: &[u8]| match kind {
        ChannelKind::Pattern => allowed.iter().any(|it| it.text() == name),
        _ => allowed.iter().any(|it| it.matches(name)),
    };
    !subscriptions.each().all(|(kind, name)| may_hear(kind, name))
}
