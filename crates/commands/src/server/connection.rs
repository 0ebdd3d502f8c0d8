//! The connection itself: PING, HELLO, AUTH, SELECT and how it ends.

use crate::Now;
use crate::cluster::SlotsWord;
use crate::core::acl_catalog::rule_context;
use crate::core::acl_check::{self, databases_at};
use crate::core::admission::needs_password;
use crate::core::args::Args;
use crate::core::command::{
    ALLOW_BUSY, ALLOW_SUBSCRIBED, Command, FAST, Flags, Group, LOADING, NO_AUTH, NO_SCRIPT, NOT_QUEUED, STALE,
    TELLS_DISK_ERRORS,
};
use crate::core::context::{Context, Flow};
use crate::core::mode;
use crate::core::queued::forget;
use crate::core::session::{Identity, Replies, Session};
use crate::pubsub::channels;
use crate::pubsub::tracking;
use crate::server::acl::lasting_rights;
use crate::server::module;
use crate::version;
use engine::acl::denial_log::Denied;
use engine::acl::user::DEFAULT_USER;
use engine::before_nul;
use engine::config::Directive;
use engine::keyspace::caller::Caller;
use engine::{Engine, Error, Word};
use resp::Protocol;
use std::sync::atomic::Ordering::Relaxed;

const ALWAYS: Flags = NO_SCRIPT.and(LOADING).and(STALE).and(FAST).and(NO_AUTH).and(ALLOW_BUSY);

pub(crate) const COMMANDS: &[Command] = &[
    Command {
        name: "ping",
        group: Group::Connection,
        arity: -1,
        flags: FAST.and(ALLOW_SUBSCRIBED).and(TELLS_DISK_ERRORS),
        syntax: "[message]",
        summary: "Returns the server's liveliness response.",
        complexity: "O(1)",
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        run: ping,
        ..Command::DEFAULT
    },
    Command {
        name: "echo",
        group: Group::Connection,
        arity: 2,
        flags: LOADING.and(STALE).and(FAST),
        syntax: "message",
        summary: "Returns the given string.",
        complexity: "O(1)",
        run: echo,
        ..Command::DEFAULT
    },
    Command {
        name: "hello",
        group: Group::Connection,
        since: "6.0.0",
        arity: -1,
        flags: ALWAYS,
        syntax: "[arguments: protover:int [AUTH auth: username password] [SETNAME clientname]]",
        summary: "Handshakes with the server.",
        complexity: "O(1)",
        history: &[
            (
                "8.1.0",
                "A new `availability_zone` field is added to the response if the `availability-zone` config is set.",
            ),
            (
                "6.2.0",
                "`protover` made optional; when called without arguments the command reports the current connection's context.",
            ),
        ],
        run: hello,
        ..Command::DEFAULT
    },
    Command {
        name: "auth",
        group: Group::Connection,
        arity: -2,
        flags: ALWAYS,
        syntax: "[username]@6.0.0 password",
        summary: "Authenticates the connection.",
        complexity: "O(N) where N is the number of passwords defined for the user",
        history: &[("6.0.0", "Added ACL style (username and password).")],
        is_secret: |_, index| index > 0,
        run: auth,
        ..Command::DEFAULT
    },
    Command {
        name: "select",
        group: Group::Connection,
        arity: 2,
        flags: LOADING.and(STALE).and(FAST).and(ALLOW_BUSY),
        syntax: "index:int",
        summary: "Changes the selected database.",
        complexity: "O(1)",
        dbs_of_call: Some(|args| databases_at(args, [1])),
        run: select,
        ..Command::DEFAULT
    },
    Command {
        name: "quit",
        group: Group::Connection,
        arity: -1,
        flags: ALWAYS.and(ALLOW_SUBSCRIBED).and(NOT_QUEUED),
        summary: "Closes the connection.",
        complexity: "O(1)",
        run: quit,
        ..Command::DEFAULT
    },
    Command {
        name: "reset",
        group: Group::Connection,
        since: "6.2.0",
        arity: 1,
        flags: ALWAYS.and(ALLOW_SUBSCRIBED).and(NOT_QUEUED),
        summary: "Resets the connection.",
        complexity: "O(1)",
        run: reset,
        ..Command::DEFAULT
    },
];

fn ping(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if cx.session.caller == Caller::Primary
        && let Some(word) = args.get(1).and_then(SlotsWord::parse)
    {
        word.take(cx.engine);
    }
    match args.len() {
        1 | 2 if cx.session.subscriptions.is_some() && cx.reply.protocol() == Protocol::Resp2 => {
            cx.reply.array(2);
            cx.reply.bulk(b"pong");
            cx.reply.bulk(args.get(1).unwrap_or_default());
        }
        1 => cx.reply.simple("PONG"),
        2 => cx.reply.bulk(&args[1]),
        _ => return Err(Error::WrongArity(Word::of("ping"))),
    }
    Ok(())
}

fn echo(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.reply.bulk(&args[1]);
    Ok(())
}

fn hello(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let wanted = match args.get(1) {
        None => None,
        Some(text) => Some(match resp::number::parse_i64(text).ok_or(Error::ProtocolNotAnInteger)? {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(Error::NoProto),
        }),
    };
    let mut credentials = None;
    let mut name = None;
    let mut index = 2;
    while index < args.len() {
        let more = args.len() - 1 - index;
        if args.is(index, "auth") && more >= 2 {
            credentials = Some((index + 1, index + 2));
            index += 3;
        } else if args.is(index, "setname") && more >= 1 {
            if !is_clean(&args[index + 1]) {
                return Err(Error::ClientName);
            }
            name = Some(index + 1);
            index += 2;
        } else {
            return Err(Error::HelloOption(Word::up_to_nul(&args[index])));
        }
    }
    if let Some((user, password)) = credentials {
        authenticate(cx, &args[user], &args[password], &args[0])?;
    }
    if needs_password(cx.engine, cx.session) {
        return Err(Error::HelloNoAuth);
    }
    if let Some(index) = name {
        set_name(cx, &args[index])?;
    }
    if let Some(protocol) = wanted {
        use_protocol(cx, protocol);
    }
    reply_hello(cx);
    Ok(())
}

/// Writes the fields of HELLO about the server.
fn reply_hello(cx: &mut Context<'_>) {
    let config = cx.engine.config().snapshot();
    let (server, version) = match config.flag(Directive::EXTENDED_REDIS_COMPATIBILITY) {
        true => ("redis", version::REDIS),
        false => ("valkey", version::VALKEY),
    };
    let zone = config.text(Directive::AVAILABILITY_ZONE);
    let reply = &mut *cx.reply;
    // A Sentinel has no role.
    let role = if cx.engine.replication().is_replica() { "replica" } else { "master" };
    let role = (!mode::is_sentinel()).then_some(("role", role));
    reply.map(6 + usize::from(role.is_some()) + usize::from(!zone.is_empty()));
    for (key, value) in [("server", server), ("version", version)] {
        reply.bulk(key.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.int(if reply.protocol() == Protocol::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.int(cx.session.info.id as i64);
    for (key, value) in [("mode", mode::name(cx.engine.is_clustered()))].into_iter().chain(role) {
        reply.bulk(key.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    module::reply_modules(reply);
    if !zone.is_empty() {
        reply.bulk(b"availability_zone");
        reply.bulk(zone);
    }
}

fn use_protocol(cx: &mut Context<'_>, protocol: Protocol) {
    cx.reply.set_protocol(protocol);
    cx.session.info.resp.store(if protocol == Protocol::Resp3 { 3 } else { 2 }, Relaxed);
}

fn auth(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    match args.len() {
        2 if cx.engine.users().default_user(rule_context(cx.engine)).needs_no_password() => {
            return Err(Error::NoPasswordSet);
        }
        2 => authenticate(cx, DEFAULT_USER, &args[1], &args[0])?,
        3 => authenticate(cx, &args[1], &args[2], &args[0])?,
        _ => return Err(Error::Syntax),
    }
    cx.reply.ok();
    Ok(())
}

/// Logs the connection in as this user, if the password is right.
fn authenticate(cx: &mut Context<'_>, name: &[u8], password: &[u8], command: &[u8]) -> Result<(), Error> {
    let (engine, session) = (cx.engine, &mut *cx.session);
    let user = engine.users().get(name, rule_context(engine)).filter(|user| user.takes_password(password));
    let Some(user) = user else {
        let context = if session.multi.is_some() { acl_check::IN_MULTI } else { acl_check::TOPLEVEL };
        acl_check::note(engine, session, Denied::Auth, context, command, name, cx.now);
        return Err(Error::WrongPass);
    };
    let seat = session.seat_for(&user)?;
    session.use_identity(Identity::User(user), true);
    (session.was_authenticated, session.seat) = (true, seat);
    if lasting_rights::is_user_gone(engine, session) {
        cx.flow = Flow::Close;
    }
    Ok(())
}

/// Logs a new connection in as the first of these users that is there and enabled: its certificate names them. If there
/// is none, the last of them is logged as denied.
pub fn use_certificate(engine: &Engine, session: &mut Session, users: &[Vec<u8>], now: Now) {
    let context = rule_context(engine);
    let known = users.iter().find_map(|name| engine.users().get(name, context).filter(|user| user.is_enabled()));
    if known.is_some() {
        session.use_identity(known.map_or(Identity::Nobody, Identity::User), true);
        session.was_authenticated = true;
    } else if let Some(name) = users.last() {
        acl_check::note(engine, session, Denied::Certificate, acl_check::TOPLEVEL, b"", name, now);
    }
}

/// Logs a new connection in as this user, which has authenticated elsewhere. False: the user is gone meanwhile, or
/// disabled.
pub fn use_known_user(engine: &Engine, session: &mut Session, name: &[u8]) -> bool {
    let known = engine.users().get(name, rule_context(engine)).filter(|user| user.is_enabled());
    let is_there = known.is_some();
    if is_there {
        session.use_identity(known.map_or(Identity::Nobody, Identity::User), true);
        session.was_authenticated = true;
    }
    is_there
}

fn select(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let index = args.int(1)?;
    if i32::try_from(index).is_err() {
        return Err(Error::NotAnInt32);
    }
    let db = u32::try_from(index).ok().filter(|db| (*db as usize) < cx.engine.databases()).ok_or(Error::DbIndex)?;
    use_database(cx, db);
    cx.reply.ok();
    Ok(())
}

fn use_database(cx: &mut Context<'_>, db: u32) {
    cx.session.db = db;
    cx.session.info.db.store(db, Relaxed);
}

fn quit(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.reply.ok();
    cx.flow = Flow::Close;
    Ok(())
}

fn reset(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    use_protocol(cx, Protocol::Resp2);
    use_database(cx, 0);
    forget(cx.engine, cx.session);
    channels::unsubscribe_all(cx.engine, cx.session);
    tracking::end(cx.engine, cx.session);
    let session = &mut *cx.session;
    session.use_identity(Identity::Unnamed, !cx.engine.users().asks());
    (session.no_touch, session.import_source) = (false, false);
    session.ask_acks(None, None);
    session.replies = Replies::On;
    session.info.import_source.store(false, Relaxed);
    session.info.no_touch.store(false, Relaxed);
    session.info.no_evict.store(false, Relaxed);
    session.info.read_only.store(false, Relaxed);
    // The library behind the connection stays the same.
    session.info.edit_details(|details| details.name.clear());
    cx.reply.simple("RESET");
    Ok(())
}

/// Returns whether a name can be shown between spaces in CLIENT LIST, up to a NUL.
pub(crate) fn is_clean(name: &[u8]) -> bool {
    before_nul(name).iter().all(|byte| (b'!'..=b'~').contains(byte))
}

/// Names the connection, as CLIENT SETNAME does.
pub(crate) fn set_name(cx: &mut Context<'_>, name: &[u8]) -> Result<(), Error> {
    if !is_clean(name) {
        return Err(Error::ClientName);
    }
    cx.session.info.edit_details(|details| details.name = name.to_vec());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;
    #[test]
    fn hello_changes_the_protocol_only_when_all_of_it_is_right() {
        let mut client = Client::new();
        let version = version::VALKEY;
        client.is(
            "HELLO 2",
            &format!(
                "[server valkey version {version} proto :2 id :0 mode standalone role master modules \
                 [[name lua ver :1 path lua args []]]]"
            ),
        );
        assert!(client.run("HELLO 3 SETNAME me").starts_with("{server=valkey"));
        client.is("CLIENT GETNAME", "me");
        for (line, error) in [
            ("HELLO 4", "-NOPROTO unsupported protocol version"),
            ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
            ("HELLO 3 x", "-ERR Syntax error in HELLO option 'x'"),
            ("HELLO 3 AUTH a", "-ERR Syntax error in HELLO option 'AUTH'"),
            ("HELLO 3 AUTH a b", "-WRONGPASS invalid username-password pair or user is disabled."),
            ("HELLO 3 SETNAME a\nb", "-ERR Client names cannot contain spaces, newlines or special characters."),
        ] {
            client.is(line, error);
        }
        client.configure("extended-redis-compatibility", "yes");
        client.configure("availability-zone", "here");
        let reply = client.run("HELLO");
        assert!(reply.contains("redis version 7.2.4") && reply.contains("availability_zone here"), "{reply}");
    }

    #[test]
    fn a_password_is_asked_for() {
        let mut client = Client::new();
        client.is("AUTH x", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?");
        client.is("AUTH default x", "+OK").is("AUTH a b c", "-ERR syntax error");
        client.is("CONFIG SET requirepass secret", "+OK");
        client.is("RESET", "+RESET").is("PING", "-NOAUTH Authentication required.");
        for wrong in ["secre", "secrets", "Secret", "\"\""] {
            let denied = "-WRONGPASS invalid username-password pair or user is disabled.";
            client.is(&format!("AUTH {wrong}"), denied).is(&format!("HELLO 3 AUTH default {wrong}"), denied);
        }
        assert!(client.run("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
        client.is("PING", "-NOAUTH Authentication required.");
        client.is("AUTH nobody secret", "-WRONGPASS invalid username-password pair or user is disabled.");
        client.is("AUTH secret", "+OK").is("PING", "+PONG").is("PING hi", "hi");
        client.is("PING a b", "-ERR wrong number of arguments for 'ping' command");
    }

    #[test]
    fn reset_makes_the_connection_new() {
        let mut client = Client::new();
        client.is("SELECT 3", "+OK").is("CLIENT SETNAME x", "+OK").is("CLIENT NO-TOUCH on", "+OK");
        client.session().import_source = true;
        client.is("RESET", "+RESET").is("CLIENT GETNAME", "nil");
        let session = client.session();
        assert_eq!((session.db, session.no_touch, session.import_source), (0, false, false));
        client.is("SELECT 16", "-ERR DB index is out of range").is("SELECT -1", "-ERR DB index is out of range");
        client.is("SELECT x", "-ERR value is not an integer or out of range");
    }
}
