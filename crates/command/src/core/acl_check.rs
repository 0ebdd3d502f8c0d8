//! Checks whether a client's user may run the client's command, and is within its quota as far as one command shows
//! that: of connections, and of the memory of keys. Quotas of rates are counted where the next client's turn is decided
//! (docs/design/quotas.md).
//!
//! A session stores its user as of the number of changes that it has seen; if that is the present one nothing has to be
//! looked up. A user who may do everything needs no further check.

use crate::core::acl_catalog::{Catalog, rule_context};
use crate::core::args::Args;
use crate::core::client_line::described;
use crate::core::command::{
    ALL_DBS, CallKeys, Channels, Command, CommandEntry, DENY_OOM, KeyFlags, NO_AUTH, READONLY, WRITE,
};
use crate::core::context::Now;
use crate::core::key_spec;
use crate::core::session::{Identity, NEVER, Session};
use engine::acl::denial_log::{DenialLogEntry, Denied};
use engine::acl::quota::MemoryQuota;
use engine::acl::quota_usage::QuotaSeat;
use engine::acl::selector::{KeyAccess, Selector};
use engine::acl::user::User;
use engine::clients::registry::ClientInfo;
use engine::config::Directive;
use engine::{Engine, Error, Word};
use std::sync::Arc;

/// A command with its arguments, for a check of rights.
pub struct Call<'c> {
    id: usize,
    full_name: &'c str,
    is_inner: bool,
    command: &'static Command,
    args: &'c Args<'c>,
    db: u32,
}

/// A denied right of a user.
#[derive(Debug, PartialEq, Eq)]
pub struct Denial {
    /// Kind of the right that is missing.
    pub denied: Denied,
    /// The denied argument; 0: the command.
    pub at: usize,
}

impl<'c> Call<'c> {
    /// Returns the call of an entry with these arguments, on this database.
    pub fn of(entry: &'c CommandEntry, args: &'c Args<'c>, db: u32) -> Call<'c> {
        let (full_name, command) = (&*entry.full_name, entry.command);
        Call { id: entry.id, full_name, is_inner: full_name.len() > command.name.len(), command, args, db }
    }

    /// Checks whether the user may run this, and returns the reason if not.
    ///
    /// # Errors
    /// The right that no selector grants. Among several reasons it is that of the selector that came furthest.
    pub fn check(&self, user: &User, databases: usize) -> Result<(), Denial> {
        self.check_each(user, databases, |_| true)
    }

    /// Checks a client: without a user it may run no command that needs a right.
    fn check_identity(&self, identity: &Identity, databases: usize) -> Result<(), Denial> {
        match identity.user() {
            Some(user) if user.is_unrestricted() => Ok(()),
            Some(user) => self.check(user, databases),
            None if self.command.flags.has(NO_AUTH) => Ok(()),
            None => Err(Denial { denied: Denied::Auth, at: 0 }),
        }
    }

    fn check_each(&self, user: &User, databases: usize, also: impl Fn(&Selector) -> bool) -> Result<(), Denial> {
        let mut keys = None;
        let mut worst = Denial { denied: Denied::Database, at: 0 };
        for selector in user.selectors() {
            match self.check_selector(selector, databases, &mut keys) {
                Ok(()) if also(selector) => return Ok(()),
                Ok(()) => {}
                Err(denial) => {
                    if (rank(denial.denied), denial.at) > (rank(worst.denied), worst.at) {
                        worst = denial;
                    }
                }
            }
        }
        Err(worst)
    }

    fn check_selector(&self, selector: &Selector, databases: usize, keys: &mut Option<CallKeys>) -> Result<(), Denial> {
        if !selector.allows_db(None) {
            self.check_databases(selector, databases)?;
        }
        let first_arg = self.args.get(if self.is_inner { 2 } else { 1 });
        if !self.command.flags.has(NO_AUTH) && !selector.allows_command(self.id, first_arg) {
            return Err(Denial { denied: Denied::Command, at: 0 });
        }
        if !selector.has_all_keys() {
            let keys = keys.get_or_insert_with(|| keys_of_call(self.command, self.args));
            for (at, flags) in keys.iter().filter(|(at, _)| *at < self.args.len()) {
                if !selector.allows_key(&self.args[*at], access(*flags)) {
                    return Err(Denial { denied: Denied::Key, at: *at });
                }
            }
        }
        if let Some(beginning) = self.command.beginning_of_keys
            && !selector.allows_beginning(beginning(self.args), KeyAccess { reads: false, writes: true })
        {
            return Err(Denial { denied: Denied::Key, at: 1 });
        }
        let Some(patterns) = selector.channels() else { return Ok(()) };
        let literal = self.command.channels == Channels::Patterns;
        let allows = |name: &[u8]| patterns.iter().any(|it| if literal { it.text() == name } else { it.matches(name) });
        let denied = match self.command.channels {
            Channels::None => None,
            Channels::One => Some(1).filter(|at| !allows(&self.args[*at])),
            Channels::All | Channels::Patterns => (1..self.args.len()).find(|at| !allows(&self.args[*at])),
        };
        denied.map_or(Ok(()), |at| Err(Denial { denied: Denied::Channel, at }))
    }

    /// Checks the databases that it works on: those that its arguments name, all, or the selected one.
    fn check_databases(&self, selector: &Selector, databases: usize) -> Result<(), Denial> {
        let denied = |at| Err(Denial { denied: Denied::Database, at });
        let has_keys = self.command.keys.iter().any(|spec| !spec.flags.has(KeyFlags::NOT_KEY));
        if let Some(named) = self.command.dbs_of_call {
            let number = |(at, db)| Some((at, u32::try_from(db).ok().filter(|db| (*db as usize) < databases)?));
            // A database that does not exist makes the handler refuse the whole command.
            let dbs: Option<Vec<(usize, u32)>> = named(self.args).into_iter().map(number).collect();
            if let Some((at, _)) = dbs.into_iter().flatten().find(|(_, db)| !selector.allows_db(Some(*db))) {
                return denied(at);
            }
            return if has_keys && !selector.allows_db(Some(self.db)) { denied(0) } else { Ok(()) };
        }
        if self.command.flags.has(ALL_DBS) {
            let all = (0..databases).all(|db| selector.allows_db(u32::try_from(db).ok()));
            return if all { Ok(()) } else { denied(0) };
        }
        let touches = has_keys
            || self.command.flags.has(READONLY.and(WRITE))
            || crate::core::acl_catalog::categories(self.command).any(|name| name == "keyspace");
        if touches && !selector.allows_db(Some(self.db)) { denied(0) } else { Ok(()) }
    }

    /// Checks whether the client's user may add to the keys that this command may add to.
    ///
    /// # Errors
    /// The keys take as much memory as they may.
    pub fn check_memory(&self, session: &Session) -> Result<(), Error> {
        let Some(user) = session.identity.user().filter(|_| !session.caller.is_obeyed()) else { return Ok(()) };
        if user.quota().memory.is_empty() || !self.command.flags.has(DENY_OOM) {
            return Ok(());
        }
        let keys = keys_of_call(self.command, self.args);
        let written =
            || keys.iter().filter(|(_, flags)| access(*flags).writes).filter_map(|(at, _)| self.args.get(*at));
        let is_full = |limit: &&MemoryQuota| {
            limit.used.bytes() > limit.max && written().any(|key| key.starts_with(limit.used.prefix()))
        };
        match user.quota().memory.iter().find(is_full) {
            Some(limit) => Err(Error::QuotaMemory(Word::of(user.name()), Word::of(limit.used.prefix()))),
            None => Ok(()),
        }
    }

    /// Returns the object of a denial: the command, or an argument.
    pub fn object(&self, denial: &Denial) -> &[u8] {
        if denial.at == 0 { self.full_name.as_bytes() } else { &self.args[denial.at] }
    }

    /// Returns the error for the client.
    pub fn error(&self, user: &User, denied: Denied) -> Error {
        match denied {
            Denied::Command | Denied::Auth | Denied::Certificate => {
                Error::NoPermission(Word::of(user.name()), Word::of(self.full_name))
            }
            Denied::Key => Error::NoKeyPermission,
            Denied::Channel => Error::NoChannelPermission,
            Denied::Database => Error::NoDatabasePermission,
        }
    }

    /// Returns the text of ACL DRYRUN.
    pub fn explain(&self, user: &User, denial: &Denial) -> Vec<u8> {
        let name = String::from_utf8_lossy(user.name()).into_owned();
        // A database is shown to the command's caller as it was written.
        let object = if denial.denied == Denied::Database { &self.args[denial.at] } else { self.object(denial) };
        let mut text = format!("User {name} has no permissions to ").into_bytes();
        let (before, after): (&[u8], &[u8]) = match denial.denied {
            Denied::Command | Denied::Auth | Denied::Certificate => (b"run the '", b"' command"),
            Denied::Key => (b"access the '", b"' key"),
            Denied::Channel => (b"access the '", b"' channel"),
            Denied::Database => (b"access database ", b""),
        };
        text.extend([before, object, after].concat());
        text
    }
}

/// Returns the rank of a reason: the one that comes last here is reported.
fn rank(denied: Denied) -> u8 {
    match denied {
        Denied::Auth | Denied::Certificate | Denied::Database => 0,
        Denied::Command => 1,
        Denied::Key => 2,
        Denied::Channel => 3,
    }
}

/// Returns the keys of a call; none if the arguments are wrong, which the handler will report.
fn keys_of_call(command: &'static Command, args: &Args<'_>) -> CallKeys {
    key_spec::keys_and_flags(command, args).unwrap_or_default()
}

/// Returns the databases that these arguments name; nothing if one of them is no database.
pub fn databases_at(args: &Args<'_>, at: impl IntoIterator<Item = usize>) -> Vec<(usize, i64)> {
    let database = |at| Some((at, resp::number::parse_i64(args.get(at)?)?));
    at.into_iter().map(database).collect::<Option<_>>().unwrap_or_default()
}

fn access(flags: KeyFlags) -> KeyAccess {
    let writes = KeyFlags(KeyFlags::INSERT.0 | KeyFlags::DELETE.0 | KeyFlags::UPDATE.0);
    KeyAccess { reads: flags.has(KeyFlags::ACCESS), writes: flags.has(writes) }
}

/// ACL LOG's word for the context of a denied command.
pub const TOPLEVEL: &str = "toplevel";
/// ACL LOG's word for a command of a transaction.
pub const IN_MULTI: &str = "multi";
/// ACL LOG's word for a command of a script.
pub const IN_SCRIPT: &str = "lua";

/// Checks whether the client's user may run this; a denial is put into the log of denials.
///
/// # Errors
/// The denial, and the error for the client.
pub fn check(
    engine: &Engine,
    session: &mut Session,
    call: &Call<'_>,
    context: &'static str,
    now: Now,
) -> Result<(), (Denied, Error)> {
    if session.caller.is_obeyed() {
        return Ok(());
    }
    session.refresh_rights(engine);
    let Err(denial) = call.check_identity(&session.identity, engine.databases()) else { return Ok(()) };
    let user = session.identity.user();
    let error = user.map_or(Error::NoAuth, |user| call.error(user, denial.denied));
    let known = session.info.user();
    let name = user.or(known.as_ref()).map_or(&b""[..], |user| user.name());
    note(engine, session, denial.denied, context, call.object(&denial), name, now);
    Err((denial.denied, error))
}

/// Returns whether the client's user may run this; a denial is not logged.
pub fn may(engine: &Engine, session: &mut Session, call: &Call<'_>) -> bool {
    session.refresh_rights(engine);
    session.caller.is_obeyed() || call.check_identity(&session.identity, engine.databases()).is_ok()
}

/// Returns whether the client may do anything: it still has a user.
#[inline]
pub fn has_any(engine: &Engine, session: &mut Session) -> bool {
    session.refresh_rights(engine);
    session.caller.is_obeyed() || !session.identity.is_nobody()
}

/// Returns whether the client's unfinished command was admitted by other rights than its user has now, unless the user
/// may do all that it can do.
pub fn has_lost(engine: &Engine, session: &mut Session) -> bool {
    session.refresh_rights(engine);
    let Some(unfinished) = session.unfinished.as_ref().filter(|_| !session.caller.is_obeyed()) else { return false };
    match (&unfinished.identity, &session.identity) {
        (Identity::User(old), Identity::User(new)) => {
            !Arc::ptr_eq(old, new) && !old.has_same_rights(new) && !may_with_any_key(new, unfinished.entry.command)
        }
        _ => true,
    }
}

/// Returns whether the user may run the command in every database, whatever keys its arguments name.
fn may_with_any_key(user: &User, command: &'static Command) -> bool {
    let all_keys = KeyAccess { reads: true, writes: true };
    Catalog::get().number(command).is_some_and(|number| {
        user.selectors().iter().any(|selector| {
            selector.allows_command(number.id, None) && selector.allows_all_keys(all_keys) && selector.allows_db(None)
        })
    })
}

/// Puts a denial into the log of denials.
pub fn note(
    engine: &Engine,
    session: &Session,
    denied: Denied,
    context: &'static str,
    object: &[u8],
    username: &[u8],
    now: Now,
) {
    let max = engine.config().snapshot().int(Directive::ACLLOG_MAX_LEN).max(0) as usize;
    let client = described(engine, &session.info, now.unix_ms());
    let entry = DenialLogEntry::new(denied, context, object, username, client, now.unix_ms());
    engine.users().log.add(entry, max);
}

/// Returns whether the client's user may run this, and besides read every key there is.
pub fn may_read_any_key(engine: &Engine, session: &mut Session, command: &'static Command, args: &Args<'_>) -> bool {
    if session.caller.is_obeyed() {
        return true;
    }
    may_with(engine, session, command, args, |selector| {
        selector.allows_all_keys(KeyAccess { reads: true, writes: false })
    })
}

/// Returns whether the client's user may run this in every database, of which another node may have more.
pub fn may_in_any_database(engine: &Engine, session: &mut Session, command: &'static Command, args: &Args<'_>) -> bool {
    may_with(engine, session, command, args, |selector| selector.allows_db(None))
}

/// Returns whether one selector of the client's user allows this, and satisfies `has` besides.
fn may_with(
    engine: &Engine,
    session: &mut Session,
    command: &'static Command,
    args: &Args<'_>,
    also: impl Fn(&Selector) -> bool,
) -> bool {
    let db = session.db;
    let Some(user) = session.present_user(engine) else { return false };
    if user.is_unrestricted() {
        return true;
    }
    let Some(number) = Catalog::get().number(command) else { return false };
    let (id, full_name, is_inner) = (number.id, &*number.full_name, number.is_inner);
    let call = Call { id, full_name, is_inner, command, args, db };
    call.check_each(user, engine.databases(), also).is_ok()
}

impl Session {
    /// Makes the client this user's from now on.
    pub fn use_identity(&mut self, identity: Identity, authenticated: bool) {
        self.info.edit_details(|details| details.user = identity.user().cloned());
        (self.identity, self.authenticated) = (identity, authenticated);
        self.seat = None;
        (self.rights_at, self.open_at) = (NEVER, NEVER);
    }

    /// Looks up the users again, if one has changed: a client without a user any more may do nothing.
    #[inline]
    pub fn refresh_rights(&mut self, engine: &Engine) {
        if self.rights_at != engine.users().generation() {
            self.look_at_users(engine);
        }
    }

    /// Returns the user whose rights its next command has; None: it has none.
    pub fn present_user(&mut self, engine: &Engine) -> Option<&Arc<User>> {
        self.refresh_rights(engine);
        self.identity.user()
    }

    /// Returns the number of the last change of its user; None: it has no user.
    pub fn rights_since(&mut self, engine: &Engine) -> Option<u64> {
        self.present_user(engine).map(|user| user.changed_at())
    }

    #[cold]
    fn look_at_users(&mut self, engine: &Engine) {
        let (users, context) = (engine.users(), rule_context(engine));
        // The number is read first: a change that comes meanwhile is seen the next time.
        self.rights_at = users.generation();
        let present = match &self.identity {
            Identity::Nobody => None,
            Identity::Unnamed => Some(users.default_user(context)),
            Identity::User(user) => users.get(user.name(), context).filter(|present| present.is_same(user)),
        };
        self.identity = present.map_or(Identity::Nobody, Identity::User);
        let user_may = self.identity.user().is_some_and(|user| {
            let has_seat = user.quota().connections.is_none() || self.seat.is_some();
            user.is_unrestricted() && user.quota().memory.is_empty() && has_seat
        });
        self.is_throttled = self.identity.user().is_some_and(|user| user.quota().is_of_time());
        let is_let_in = self.authenticated || !users.asks();
        self.open_at = if user_may && is_let_in { self.rights_at } else { NEVER };
    }

    /// Returns whether its user may do everything, unless others have changed that meanwhile.
    #[inline(always)]
    pub fn is_unrestricted(&self, engine: &Engine) -> bool {
        self.open_at == engine.users().generation() || self.caller.is_obeyed()
    }
}

impl Session {
    /// Returns whether its user may have a quota of commands or bytes: it has, or has to be looked up again.
    #[inline]
    pub fn may_be_throttled(&self, engine: &Engine) -> bool {
        self.is_throttled || self.rights_at != engine.users().generation()
    }

    /// Returns its user, if that has a quota of commands or bytes, and the client.
    pub fn throttled(&mut self, engine: &Engine) -> Option<(&User, &Arc<ClientInfo>)> {
        self.refresh_rights(engine);
        self.identity.user().filter(|_| self.is_throttled).map(|user| (&**user, &self.info))
    }

    /// Returns whether it has become another user's, and the user's rights have not been looked up since.
    pub fn is_newly_authenticated(&self) -> bool {
        self.identity.user().is_some() && self.rights_at == NEVER
    }

    /// Makes it count as one of its user's connections from now on, if these are limited.
    ///
    /// # Errors
    /// The user has as many connections as it may have.
    #[inline]
    pub fn take_seat(&mut self) -> Result<(), Error> {
        match self.identity.user() {
            Some(user) if self.seat.is_none() && user.quota().connections.is_some() => {
                self.seat = seat_of(user)?;
                // The user may do more than before.
                self.rights_at = NEVER;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns the seat with which it becomes this user's; its present one, if it has one of that user.
    ///
    /// # Errors
    /// The user has as many connections as it may have.
    pub fn seat_for(&mut self, user: &User) -> Result<Option<QuotaSeat>, Error> {
        let is_its = self.identity.user().is_some_and(|own| own.is_same(user));
        if is_its && self.seat.is_some() { Ok(self.seat.take()) } else { seat_of(user) }
    }
}

fn seat_of(user: &User) -> Result<Option<QuotaSeat>, Error> {
    let Some(max) = user.quota().connections else { return Ok(None) };
    let seat = user.usage().connect(max).ok_or_else(|| Error::QuotaConnections(Word::of(user.name())))?;
    Ok(Some(seat))
}
