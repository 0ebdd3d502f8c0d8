//! The commands of ACL.

use crate::core::acl_catalog::{Catalog, all_categories, category_named, rule_context};
use crate::core::acl_check::Call;
use crate::core::admission::Settle;
use crate::core::args::Args;
use crate::core::command::{ADMIN, Command, Flags, Group, LOADING, NO_SCRIPT, STALE};
use crate::core::command_table::lookup;
use crate::core::context::Context;
use crate::core::help::HELP;
use crate::core::redact::secret_of_inner;
use crate::server::acl::acl_file;
use crate::server::acl::{acl_log, lasting_rights, lines};
use engine::acl::selector::{Selector, has_spaces};
use engine::acl::user::{DEFAULT_USER, User};
use engine::acl::users::{SetUserError, UserChange};
use engine::clients::registry::ClientInfo;
use engine::time::SteadyUs;
use engine::{Engine, Error, Word};
use resp::Reply;

const ANYBODY: Flags = NO_SCRIPT.and(LOADING).and(STALE);
const ADMINS: Flags = ANYBODY.and(ADMIN);
const TO_ALL: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

/// Creates a subcommand whose cost is the cost of iterating over its reply.
const fn sub(name: &'static str, arity: i32, flags: Flags, run: crate::core::command::Handler) -> Command {
    Command { name, group: Group::Server, since: "6.0.0", arity, flags, run, ..Command::DEFAULT }
}

/// The commands of this room.
pub const COMMANDS: &[Command] = &[Command {
    name: "acl",
    group: Group::Server,
    since: "6.0.0",
    arity: -2,
    summary: "A container for Access List Control commands.",
    complexity: "Depends on subcommand.",
    subcommands: &[
        Command {
            syntax: "[category]",
            summary: "Lists the ACL categories, or the commands inside a category.",
            complexity: "O(1) since the categories and commands are a fixed set.",
            ..sub("cat", -2, ANYBODY, cat)
        },
        Command {
            syntax: "username...",
            summary: "Deletes ACL users, and terminates their connections.",
            complexity: "O(1) amortized time considering the typical user.",
            tips: TO_ALL,
            is_secret: |_, index| index >= 2,
            ..sub("deluser", -3, ADMINS, deluser)
        },
        Command {
            since: "7.0.0",
            syntax: "username command [arg]...",
            summary: "Simulates the execution of a command by a user, without executing the command.",
            complexity: "O(1).",
            is_secret: |args, index| secret_of_inner(args, 3, index),
            ..sub("dryrun", -4, ADMINS, dryrun)
        },
        Command {
            syntax: "[bits:int]",
            summary: "Generates a pseudorandom, secure password that can be used to identify ACL users.",
            complexity: "O(1)",
            ..sub("genpass", -2, ANYBODY, genpass)
        },
        Command {
            syntax: "username",
            summary: "Lists the ACL rules of a user.",
            complexity: "O(N). Where N is the number of password, command and pattern rules that the user has.",
            history: &[
                ("6.2.0", "Added Pub/Sub channel patterns."),
                (
                    "7.0.0",
                    "Added selectors and changed the format of key and channel patterns from a list to their rule representation.",
                ),
                ("9.1.0", "Added database permission rules."),
            ],
            is_secret: |_, index| index >= 2,
            ..sub("getuser", 3, ADMINS, getuser)
        },
        Command { group: Group::Server, since: "6.0.0", flags: LOADING.and(STALE), ..HELP },
        Command {
            summary: "Dumps the effective rules in ACL file format.",
            complexity: "O(N). Where N is the number of configured users.",
            ..sub("list", 2, ADMINS, list)
        },
        Command {
            summary: "Reloads the rules from the configured ACL file.",
            complexity: "O(N). Where N is the number of configured users.",
            ..sub("load", 2, ADMINS, load)
        },
        Command {
            syntax: "[operation: count:int | RESET]",
            summary: "Lists recent security events generated due to ACL rules.",
            complexity: "O(N) with N being the number of entries shown.",
            history: &[("7.2.0", "Added entry ID, timestamp created, and timestamp last updated.")],
            ..sub("log", -2, ADMINS, acl_log::log)
        },
        Command {
            summary: "Saves the effective ACL rules in the configured ACL file.",
            complexity: "O(N). Where N is the number of configured users.",
            tips: TO_ALL,
            ..sub("save", 2, ADMINS, acl_file::save)
        },
        Command {
            syntax: "username [rule]...",
            summary: "Creates and modifies an ACL user and its rules.",
            complexity: "O(N). Where N is the number of rules provided.",
            history: &[
                ("6.2.0", "Added Pub/Sub channel patterns."),
                ("7.0.0", "Added selectors and key based permissions."),
                ("9.1.0", "Added database permission rules."),
            ],
            tips: TO_ALL,
            is_secret: |_, index| index >= 2,
            ..sub("setuser", -3, ADMINS, setuser)
        },
        Command {
            summary: "Lists all ACL users.",
            complexity: "O(N). Where N is the number of configured users.",
            ..sub("users", 2, ADMINS, users)
        },
        Command {
            summary: "Returns the authenticated username of the current connection.",
            complexity: "O(1)",
            ..sub("whoami", 2, ANYBODY, whoami)
        },
    ],
    ..Command::DEFAULT
}];

fn cat(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.len() > 3 {
        return Err(wrong_use(args));
    }
    let Some(name) = args.get(2) else {
        cx.reply.array(all_categories().count());
        all_categories().for_each(|name| cx.reply.bulk(name.as_bytes()));
        return Ok(());
    };
    let shown = engine::before_nul(name);
    let category =
        category_named(name).ok_or_else(|| Error::UnknownCategory(Word::of(&shown[..shown.len().min(128)])))?;
    let names = Catalog::get().names_of(category);
    cx.reply.array(names.len());
    names.for_each(|name| cx.reply.bulk(name.as_bytes()));
    Ok(())
}

/// Returns the error for more arguments than the subcommand takes.
pub(super) fn wrong_use(args: &Args<'_>) -> Error {
    Error::SubcommandUse(Word::of(engine::before_nul(&args[1])), "ACL")
}

/// Makes a change effective: commands admitted before do not begin any more, and connections end that have lost their
/// rights. True if `own` is the client of one of them, which is left to the caller.
pub(crate) fn follow(engine: &Engine, changes: Vec<UserChange>, own: Option<&ClientInfo>) -> bool {
    engine.persistence_status().begin_epoch();
    let ends_own = lasting_rights::end_connections(engine, &changes, own);
    engine.host().rights_changed(&changes.into());
    ends_own
}

/// Replies when the change is effective everywhere.
pub(super) fn changed(cx: &mut Context<'_>, changes: Vec<UserChange>) {
    let ends = follow(cx.engine, changes, Some(&cx.session.info));
    Settle::then_reply(cx, None, ends);
}

fn setuser(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let name = &args[2];
    if has_spaces(name) {
        return Err(Error::UserNameSpaces);
    }
    let words: Vec<Vec<u8>> = args.from(3).map(<[u8]>::to_vec).collect();
    let change = cx.engine.users().set(name, &words, rule_context(cx.engine)).map_err(|error| match error {
        SetUserError::Unmatched(word) => Error::AclUnmatched(Word::up_to_nul(&word)),
        SetUserError::Rule(rule, error) => Error::AclRule(Word::up_to_nul(&rule), Word::of(error.to_string())),
    })?;
    changed(cx, change.into_iter().collect());
    Ok(())
}

fn deluser(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.from(2).any(|name| name == DEFAULT_USER) {
        return Err(Error::DefaultUserStays);
    }
    let (engine, context) = (cx.engine, rule_context(cx.engine));
    let changes: Vec<UserChange> = args.from(2).filter_map(|name| engine.users().remove(name, context)).collect();
    let removed = changes.len() as i64;
    let ends = follow(engine, changes, Some(&cx.session.info));
    Settle::then_reply(cx, Some(removed), ends);
    Ok(())
}

fn getuser(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let Some(user) = cx.engine.users().get(&args[2], rule_context(cx.engine)) else {
        cx.reply.null();
        return Ok(());
    };
    let quota = quota_used(&user, cx.engine.host().nanos().us());
    let reply = &mut *cx.reply;
    reply.map(if quota.is_empty() { 7 } else { 8 });
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().iter().for_each(|hash| reply.bulk(hash.as_bytes()));
    describe(reply, &user.selectors()[0]);
    reply.bulk(b"selectors");
    reply.array(user.selectors().len() - 1);
    for selector in &user.selectors()[1..] {
        reply.map(4);
        describe(reply, selector);
    }
    if !quota.is_empty() {
        reply.bulk(b"quota");
        reply.map(quota.len());
        for (rule, used) in quota {
            reply.bulk(&rule);
            reply.int(used.cast_signed());
        }
    }
    Ok(())
}

/// Returns the rules of the user's quota, and the used part of each: of quotas that time restores, the part in the
/// present second.
fn quota_used(user: &User, now: SteadyUs) -> Vec<(Vec<u8>, u64)> {
    let (quota, usage) = (user.quota(), user.usage());
    let left = usage.left(quota, now);
    let by_time = [(quota.ops, left.ops), (quota.bytes, left.bytes)];
    let by_time = by_time.into_iter().filter_map(|(limit, left)| Some(limit?.saturating_sub(left?)));
    let connections = quota.connections.map(|_| usage.connections());
    let memory = quota.memory.iter().map(|limit| limit.used.bytes());
    quota.rules().into_iter().zip(by_time.chain(connections).chain(memory)).collect()
}

fn describe(reply: &mut Reply, selector: &Selector) {
    reply.bulk(b"commands");
    reply.bulk(selector.command_rules().as_bytes());
    reply.bulk(b"keys");
    reply.bulk(&selector.key_rules());
    reply.bulk(b"channels");
    reply.bulk(&selector.channel_rules());
    reply.bulk(b"databases");
    reply.bulk(selector.database_rule().as_bytes());
}

fn list(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let lines: Vec<Vec<u8>> = lines(cx.engine).collect();
    cx.reply.array(lines.len());
    lines.iter().for_each(|line| cx.reply.bulk(&[b"user ", &line[..]].concat()));
    Ok(())
}

fn users(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let users = cx.engine.users().all(rule_context(cx.engine));
    cx.reply.array(users.len());
    users.iter().for_each(|user| cx.reply.bulk(user.name()));
    Ok(())
}

fn whoami(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let name = cx.session.identity.user().map_or(DEFAULT_USER, |user| user.name());
    cx.reply.bulk(name);
    Ok(())
}

/// Bits of a password, unless the client gives a number.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;

fn genpass(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let bits = match args.len() {
        2 => PASSWORD_BITS,
        3 => args.int(2)?,
        _ => return Err(wrong_use(args)),
    };
    let bits = usize::try_from(bits).ok().filter(|bits| (1..=PASSWORD_BITS_MAX as usize).contains(bits));
    let digits = bits.ok_or(Error::GenpassBits)?.div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    getrandom::fill(&mut bytes).map_err(|_| Error::NoRandomness)?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    cx.reply.bulk(&text.as_bytes()[..digits]);
    Ok(())
}

fn dryrun(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let user = cx.engine.users().get(&args[2], rule_context(cx.engine));
    let user = user.ok_or_else(|| Error::AclUserNotFound(Word::up_to_nul(&args[2])))?;
    let inner: Args<'_> = args.from(3).collect();
    let entry = lookup(&inner).ok_or_else(|| Error::AclCommandNotFound(Word::up_to_nul(&args[3])))?;
    if !entry.accepts(inner.len()) {
        return Err(Error::WrongArity(Word::of(&*entry.full_name)));
    }
    reply_dryrun(cx, &user, &Call::of(entry, &inner, cx.session.db));
    Ok(())
}

fn reply_dryrun(cx: &mut Context<'_>, user: &User, call: &Call<'_>) {
    match call.check(user, cx.engine.databases()) {
        Ok(()) => cx.reply.ok(),
        Err(denial) => cx.reply.bulk(&call.explain(user, &denial)),
    }
}

fn load(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let changes = acl_file::load(cx.engine)?;
    changed(cx, changes);
    Ok(())
}
