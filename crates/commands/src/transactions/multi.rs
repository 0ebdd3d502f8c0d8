//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! After MULTI commands are checked and queued in the session; an error on the way makes EXEC refuse all of them. EXEC
//! takes the locks of all keys that the queued commands and WATCH name, or, when one of them may touch keys that its
//! entry does not name, the right to take any. Then it checks whether a watched key has changed, runs the commands in
//! order, and releases the locks. So the transaction is one moment for everybody else:
//!
//! ```text
//!   lock all - watched keys unchanged? - run each: handler, pieces to their end, records - MULTI records EXEC into the
//!   log - unlock - effects of all; clients that wait for keys are served now
//! ```
//!
//! No command inside waits: a blocking command that finds nothing replies so. [`CommandGroup`] runs commands inside of
//! another one; transactions are unknown to it.

use crate::core::acl_check::{self, Call};
use crate::core::args::Args;
use crate::core::cluster_routing;
use crate::core::command::{
    ALLOW_BUSY, Command, CommandEntry, FAST, Group, LOADING, NO_MULTI, NO_SCRIPT, NOT_QUEUED, READONLY, RUNS_QUEUED,
    RUNS_SCRIPTS, SKIP_COMMANDLOG, STALE, WRITE, key,
};
use crate::core::context::{Blocking, Context, Flow};
use crate::core::dispatch::seen_unlocked;
use crate::core::key_spec::key_indices;
use crate::core::queued::{close_group, stop_watching, unwatch};
use crate::core::session::{Multi, Watching};
use crate::core::{busy_script, cluster_proxy, instrument, lazy_free, tracked_reads};
use crate::transactions::cluster_handle::defer_reply;
use crate::transactions::settled_reply::SettledReply;
use engine::acl::denial_log::Denied;
use engine::clients::waiters::AwaitedKey;
use engine::data::key_hash::KeyHash;
use engine::keyspace::caller::Caller;
use engine::keyspace::caller::is_due;
use engine::locks::sync::lock_soon;
use engine::propagation::change_log::Readers;
use engine::propagation::effects::Effects;
use engine::propagation::log_batch::LogBatch;
use engine::stats::running_command::Place;
use engine::time::UnixMs;
use engine::{Engine, Error};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const TRANSACTION: Command = Command {
    group: Group::Transactions,
    since: "2.0.0",
    flags: LOADING.and(STALE).and(NO_SCRIPT).and(FAST).and(ALLOW_BUSY),
    lazy_free: None,
    ..Command::DEFAULT
};

pub(crate) const COMMANDS: &[Command] = &[
    Command {
        name: "multi",
        since: "1.2.0",
        flags: TRANSACTION.flags.and(NO_MULTI),
        summary: "Starts a transaction.",
        complexity: "O(1)",
        run: multi,
        ..TRANSACTION
    },
    Command {
        name: "exec",
        since: "1.2.0",
        flags: LOADING
            .and(STALE)
            .and(NO_SCRIPT)
            .and(SKIP_COMMANDLOG)
            .and(NOT_QUEUED)
            .and(RUNS_QUEUED)
            .and(RUNS_SCRIPTS),
        summary: "Executes all commands in a transaction.",
        complexity: "Depends on commands in the transaction",
        run: exec,
        ..TRANSACTION
    },
    Command {
        name: "discard",
        flags: TRANSACTION.flags.and(NOT_QUEUED),
        summary: "Discards a transaction.",
        complexity: "O(N), when N is the number of queued commands",
        run: discard,
        ..TRANSACTION
    },
    Command {
        name: "watch",
        since: "2.2.0",
        arity: -2,
        flags: TRANSACTION.flags.and(NO_MULTI),
        keys: &[key(1).ro().to(-1, 1)],
        syntax: "key...",
        summary: "Monitors changes to keys to determine the execution of a transaction.",
        complexity: "O(1) for every key.",
        run: watch,
        ..TRANSACTION
    },
    Command {
        name: "unwatch",
        since: "2.2.0",
        summary: "Forgets about watched keys of a transaction.",
        complexity: "O(1)",
        run: |cx, _| {
            unwatch(cx.engine, cx.session);
            cx.reply.ok();
            Ok(())
        },
        ..TRANSACTION
    },
];

fn multi(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.session.multi = Some(Box::new(Multi::new(false, cx.session.db)));
    cx.session.info.in_multi.store(true, Relaxed);
    cx.session.info.queued.store(0, Relaxed);
    cx.reply.ok();
    Ok(())
}

fn discard(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    close_group(cx.session).ok_or(Error::DiscardWithoutMulti)?;
    unwatch(cx.engine, cx.session);
    cx.reply.ok();
    Ok(())
}

fn watch(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.reply.ok();
    let mut watching = cx.session.watching.take().unwrap_or_else(|| {
        let flag = Arc::default();
        cx.session.info.set_watch(Some(&flag));
        Box::new(Watching { flag, keys: Vec::new() })
    });
    let (db, now) = (cx.session.db, cx.keys.expiry_now());
    for index in 1..args.len() {
        let key = cx.key(args, index);
        // A transaction that will fail anyway needs no more reasons.
        if watching.flag.is_raised() {
            break;
        }
        let slot = &mut cx.keys.shard_at(key.hash).dbs[db];
        let stale = is_stale(&slot.table, key.hash.local(), key.name, now);
        if slot.clients.watch(key.name, &watching.flag, stale) {
            watching.keys.push(AwaitedKey { db, name: key.name.into(), hash: key.hash });
            cx.session.info.watched_bytes.fetch_add(watch_bytes(key.name), Relaxed);
        }
    }
    cx.session.info.watched.store(watching.keys.len() as u32, Relaxed);
    cx.session.info.queued.fetch_max(0, Relaxed);
    cx.session.watching = Some(watching);
    Ok(())
}

/// Returns the memory of a watched key: its name and its places in the client's and the shard's tables.
fn watch_bytes(name: &[u8]) -> usize {
    2 * (name.len() + size_of::<AwaitedKey>())
}

/// Returns whether there is an expired entry.
fn is_stale(table: &engine::data::table::Table, local: u64, name: &[u8], now: UnixMs) -> bool {
    let found = table.find(local, |entry| entry.key() == name);
    found.and_then(|entry| entry.expiry()).is_some_and(|expiry| is_due(expiry, now))
}

fn exec(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let executed = exec_queued(cx, args);
    // The context is not dropped.
    cx.applying = None;
    executed
}

fn exec_queued(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let multi = cx.session.multi.as_ref().ok_or(Error::ExecWithoutMulti)?;
    if multi.aborted {
        close_group(cx.session);
        unwatch(cx.engine, cx.session);
        return Err(Error::ExecAbort);
    }
    // A watched key that has changed is data, too.
    let has_no_keys = cx.session.watching.is_none() && multi.commands.iter().all(|queued| queued.keys.is_empty());
    cx.touches_no_data = has_no_keys && !multi.flags.has(READONLY.and(WRITE).and(RUNS_SCRIPTS));
    let watched = cx.session.watching.iter().flat_map(|watching| &watching.keys).map(|key| key.hash);
    if multi.commands.iter().any(|queued| queued.entry.may_touch_more) {
        cx.keys.escalate()?;
    } else {
        let named = multi.commands.iter().flat_map(|queued| &queued.keys).map(|(_, hash)| *hash);
        let hashes: Vec<KeyHash> = named.chain(watched).collect();
        cx.keys.hold(hashes.into_iter())?;
    }
    // The lock is taken before any command has run: a thread that loads a primary's snapshot has it and wants those of
    // the keyspace.
    if multi.commands.iter().any(|queued| queued.entry.command.changes_primary) && cx.engine.replication().is_replica()
    {
        cx.applying = Some(lock_soon(&cx.engine.replication().applying).ok_or(Error::WouldBlock)?);
    }
    let misses = cluster_routing::look_at_keys(cx, &[], args);
    if let Err(reason) = &misses
        && let Some(question) = cluster_proxy::transaction_of_ask(cx.engine, cx.session, reason, cx.now).transpose()
    {
        close_group(cx.session);
        cx.flow = Flow::Forward(question?);
        return Ok(());
    }
    let watching = stop_watching(cx.session);
    let is_broken = watching.is_some_and(|watching| end_watch(cx, &watching));
    if misses.is_err() || is_broken {
        close_group(cx.session);
        misses?;
        cx.reply.null_array();
        return Ok(());
    }
    let commands = cx.session.multi.take().map(|multi| multi.commands).unwrap_or_default();
    let (mut group, start) = (CommandGroup::begin(cx), cx.reply.len());
    let rights = cx.engine.users().generation();
    cx.reply.array(commands.len());
    for mut queued in commands {
        let call = Call::of(queued.entry, &queued.args, cx.session.db);
        match acl_check::check(cx.engine, cx.session, &call, acl_check::IN_MULTI, cx.now) {
            Ok(()) if let Err(error) = call.check_memory(cx.session) => {
                cx.engine.metrics()[cx.session.worker].count_error(&busy_script::text(cx.engine, &error));
                cx.reply.error(busy_script::text(cx.engine, &error));
            }
            Ok(()) => group.run(cx, queued.entry, &mut queued.args, Some(Readers::All)),
            Err((denied, _)) => {
                let error = Error::NoPermissionAtExec(lost_right(denied));
                cx.engine.metrics()[cx.session.worker].count_error(&busy_script::text(cx.engine, &error));
                cx.reply.error(busy_script::text(cx.engine, &error));
            }
        }
    }
    group.end(cx);
    // Others saw the transaction until now.
    close_group(cx.session);
    match cx.engine.users().generation() == rights {
        true => defer_reply(cx, args, start),
        false => SettledReply::hold(cx, start),
    }
    Ok(())
}

fn lost_right(denied: Denied) -> &'static str {
    match denied {
        Denied::Command => "no permission to execute the command or subcommand",
        Denied::Key => "no permission to touch the specified keys",
        Denied::Channel => "no permission to access one of the channels used as arguments",
        Denied::Auth | Denied::Certificate | Denied::Database => "no permission",
    }
}

/// Takes the client off the watched keys, whose locks are held; true if one of them has changed, has expired by now, or
/// has gone to another node, where it may have changed.
fn end_watch(cx: &mut Context<'_>, watching: &Watching) -> bool {
    let now = cx.keys.expiry_now();
    let mut broken = watching.flag.is_raised();
    let map = cx.engine.is_clustered().then(|| cx.engine.cluster().map());
    for key in &watching.keys {
        broken |= map
            .as_ref()
            .is_some_and(|map| !map.is_own(key.hash.slot()) && !map.importing.contains_key(&key.hash.slot()));
        let slot = &mut cx.keys.shard_at(key.hash).dbs[key.db];
        broken |= !slot.clients.watchers().knows_stale(&key.name, &watching.flag)
            && is_stale(&slot.table, key.hash.local(), &key.name, now);
        slot.clients.unwatch(&key.name, &watching.flag);
    }
    broken
}

/// Commands that run inside of another one, under its locks: their records belong together, and their remaining effects
/// are carried out when the whole has ended.
pub(crate) struct CommandGroup {
    batch: LogBatch,
    effects: Effects,
    command: &'static Command,
    /// Whether the outer command may wait.
    blocking: Blocking,
}

impl CommandGroup {
    pub fn begin(cx: &mut Context<'_>) -> CommandGroup {
        let blocking = std::mem::replace(&mut cx.blocking, Blocking::Refused);
        // The commands inside have other keys.
        cx.key_args = &[];
        let effects = std::mem::take(&mut cx.keys.effects);
        CommandGroup { batch: LogBatch::default(), effects, command: cx.command, blocking }
    }

    /// Runs a command to its end. Its keys' locks must be held, or the right to take any. `readers`: the readers of the
    /// log that get its changes; all of them get its removals of expired keys.
    pub fn run(
        &mut self,
        cx: &mut Context<'_>,
        entry: &'static CommandEntry,
        args: &mut Args<'_>,
        readers: Option<Readers>,
    ) {
        let db = cx.session.db;
        let has_log = cx.engine.has_log();
        if has_log && readers.is_some() {
            args.make_lasting();
        }
        let flow = std::mem::take(&mut cx.flow);
        cx.command = entry.command;
        cx.keys.select(db);
        // The outer command's arguments for the log are not this one's.
        let kept = cx.session.kept.take();
        // A command that the log is read for was measured when it ran.
        let is_new = cx.keys.origin().caller != Caller::Replay;
        let running = &cx.engine.metrics()[cx.session.worker].running;
        args.publish_inner(running);
        let start = is_new.then(|| instrument::begin(cx.engine, cx.session, entry, args, cx.now, cx.reply).within());
        if entry.runs_scripts() {
            // The script's changes come behind those that have run before it.
            cx.session.group = Some(Box::new(std::mem::take(&mut self.batch)));
        }
        let result = (entry.command.run)(cx, args);
        if entry.runs_scripts() {
            self.batch = cx.session.group.take().map(|batch| *batch).unwrap_or_default();
        }
        if let Err(error) = result {
            let worker = cx.session.worker;
            if is_new || cx.session.in_script {
                instrument::count_failed(cx.engine, worker, entry);
                let text = busy_script::text(cx.engine, &error);
                cx.engine.metrics()[worker].count_error(&text);
                instrument::note_unexpected(cx.engine, cx.session, self.command.name, &text);
            } else {
                instrument::count_unexpected(cx.engine, worker, self.command.name, entry, &error);
            }
            cx.reply.error(busy_script::text(cx.engine, &error));
        }
        if cx.session.tracker.is_some() {
            let keys: Vec<_> = key_indices(entry, args).into_iter().flatten().collect();
            let keys: Vec<_> = keys.into_iter().map(|index| (index, cx.keys.key(&args[index]).hash)).collect();
            tracked_reads::remember(cx, args, &keys);
        }
        cx.complete();
        running.set_inner(Place::default(), Place::default());
        if let Some(start) = start {
            instrument::end(cx.engine, cx.session, entry, args, start, cx.now, &Flow::Next, cx.reply);
        }
        cx.session.kept = kept;
        // The effect of one of them on the connection stays.
        if !matches!(flow, Flow::Next) {
            cx.flow = flow;
        }
        let mut effects = std::mem::take(&mut cx.keys.effects);
        lazy_free::settle(cx.engine, entry.command, &mut effects);
        if has_log {
            self.collect(cx.engine, &mut effects, db, args, readers);
        }
        if has_log && entry.command.keys.is_empty() {
            // The command may have read shards that this transaction has not locked.
            cx.session.seen_to = cx.session.seen_to.max(seen_unlocked(cx.engine, entry.command));
        }
        self.effects.absorb(effects);
    }

    /// Adds a command's changes to the records for the log.
    fn collect(&mut self, engine: &Engine, effects: &mut Effects, db: u32, args: &Args<'_>, readers: Option<Readers>) {
        if readers == Some(Readers::All) {
            return engine.collect(&mut self.batch, effects, db, || args.text());
        }
        engine.collect_expired(&mut self.batch, effects);
        let Some(readers) = readers else { return };
        if readers == Readers::File && effects.seen().is_some() {
            effects.rare().told = None;
        }
        let mut own = LogBatch::default();
        engine.collect_own(&mut own, effects, db, || args.text());
        self.batch.absorb_for(own, readers);
    }

    /// Ends the group when the server ends before all have run: the log gets nothing of them.
    pub fn end_unlogged(mut self, cx: &mut Context<'_>) {
        self.batch = LogBatch::default();
        self.end(cx);
    }

    /// Ends the group when all have run: their records go into the log, as a transaction if there are several.
    pub fn end(self, cx: &mut Context<'_>) {
        let CommandGroup { batch, effects, command, blocking } = self;
        match &mut cx.session.group {
            Some(outer) => outer.absorb(batch),
            None => cx.keys.record_together(batch),
        }
        cx.command = command;
        cx.blocking = blocking;
        cx.keys.effects = effects;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn queued_commands_run_at_exec() {
        let mut client = Client::new();
        client
            .is("MULTI", "+OK")
            .is("SET a 1", "+QUEUED")
            .is("INCR a", "+QUEUED")
            .is("INCR b x", "-ERR wrong number of arguments for 'incr' command");
        client.is("EXEC", "-EXECABORT Transaction discarded because of previous errors.").is("GET a", "nil");
        client.is("MULTI", "+OK").is("SET a 1", "+QUEUED").is("SELECT 3", "+QUEUED").is("SET b 2", "+QUEUED");
        client
            .is("LPUSH b x", "+QUEUED")
            .is("BZPOPMIN none 0", "+QUEUED")
            .is("KEYS *", "+QUEUED")
            .is("FLUSHDB", "+QUEUED");
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        client.is("EXEC", &format!("[+OK +OK +OK {wrong} nil [b] +OK]"));
        assert_eq!(client.session().db, 3);
        client.is("MULTI", "+OK").is("SET a 2", "+QUEUED").is("DISCARD", "+OK").is("SELECT 0", "+OK").is("GET a", "1");
        client.is("EXEC", "-ERR EXEC without MULTI").is("DISCARD", "-ERR DISCARD without MULTI");
        client.is("MULTI", "+OK").is("EXEC", "[]");
    }

    #[test]
    fn commands_not_allowed_in_a_transaction_abort_it() {
        for line in ["MULTI", "WATCH a", "NOPE", "SHUTDOWN NOSAVE", "CLIENT REPLY OFF"] {
            let mut client = Client::new();
            client.is("MULTI", "+OK");
            assert!(client.run(line).starts_with("-ERR "), "{line}");
            client.is("SET a 1", "+QUEUED").is("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
            client.is("GET a", "nil");
        }
        let mut client = Client::new();
        client.is("MULTI", "+OK");
        client
            .is("EXEC x", "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command");
        client.is("EXEC", "-ERR EXEC without MULTI");
        client.is("MULTI", "+OK").is("RESET", "+RESET").is("EXEC", "-ERR EXEC without MULTI");
    }

    #[test]
    fn a_change_of_a_watched_key_prevents_exec() {
        let mut client = Client::new();
        let mut other = client.beside();
        let mut outcome = |before: &str, change: &str| {
            other.is("FLUSHALL", "+OK").run(before);
            client.is("WATCH k l", "+OK").is("WATCH k", "+OK");
            other.run(change);
            client.is("MULTI", "+OK").is("PING", "+QUEUED").run("EXEC")
        };
        for (before, change, result) in [
            ("SET k 1", "GET k", "[+PONG]"),
            ("SET k 1", "SET k 1", "nil"),
            ("SET k 1", "DEL k", "nil"),
            ("SET other 1", "DEL k", "[+PONG]"),
            ("SET k 1", "EXPIRE k 10", "nil"),
            ("SET k 1", "FLUSHALL", "nil"),
            ("SET other 1", "FLUSHDB", "[+PONG]"),
            ("SET k 1", "SWAPDB 0 1", "nil"),
            ("SET other 1", "SWAPDB 0 1", "[+PONG]"),
            ("SET other 1", "RENAME other l", "nil"),
            // A stream's groups are not part of its entries.
            ("XADD k 1-1 f v", "XGROUP CREATE k g 0", "[+PONG]"),
            ("XADD k 1-1 f v", "XSETID k 9-9", "[+PONG]"),
            ("XGROUP CREATE k g 0 MKSTREAM", "XREADGROUP GROUP g c STREAMS k 0", "[+PONG]"),
            ("XGROUP CREATE k g 0 MKSTREAM", "XADD k 1-1 f v", "nil"),
            ("SET other 1", "XGROUP CREATE k g 0 MKSTREAM", "nil"),
        ] {
            assert_eq!(outcome(before, change), result, "{before}; {change}");
        }
        client.is("MULTI", "+OK").is("PING", "+QUEUED").is("EXEC", "[+PONG]");
    }

    #[test]
    fn watching_ends_with_exec_discard_and_unwatch() {
        let mut client = Client::new();
        let mut other = client.beside();
        for end in ["EXEC", "DISCARD"] {
            client.is("WATCH k", "+OK").is("MULTI", "+OK").run(end);
            other.is("SET k 1", "+OK");
            client.is("MULTI", "+OK").is("PING", "+QUEUED").is("EXEC", "[+PONG]");
        }
        client.is("WATCH k", "+OK");
        other.is("SET k 1", "+OK");
        assert!(
            client.run("CLIENT INFO").contains(" flags=d ") && client.run("CLIENT INFO").contains(" multi=0 watch=0 ")
        );
        client.is("UNWATCH", "+OK").is("MULTI", "+OK").is("PING", "+QUEUED").is("CLIENT INFO", "+QUEUED");
        let reply = client.run("EXEC");
        assert!(
            reply.starts_with("[+PONG ") && reply.contains(" flags=x ") && reply.contains(" multi=2 watch=0 "),
            "{reply}"
        );
        let shards = 0..client.engine().locks().len();
        let left = |shard| client.engine().locks().one(shard).dbs[0].clients.watchers().len();
        assert_eq!(shards.map(left).sum::<usize>(), 0);
    }

    #[test]
    fn keys_whose_time_is_over_count_as_missing() {
        let mut client = Client::new();
        client.is("SET k v PX 10", "+OK").later(5).is("WATCH k", "+OK").later(10);
        client.is("MULTI", "+OK").is("PING", "+QUEUED").is("EXEC", "nil");
        client.is("SET k v PX 10", "+OK").later(20).is("WATCH k", "+OK").is("EXISTS k", ":0");
        client.is("MULTI", "+OK").is("PING", "+QUEUED").is("EXEC", "[+PONG]");
        client.is("SET k v PX 10", "+OK").later(20).is("WATCH k", "+OK").is("FLUSHDB", "+OK");
        client.is("MULTI", "+OK").is("PING", "+QUEUED").is("EXEC", "[+PONG]");
    }

    #[test]
    fn writes_of_a_transactions_script_are_at_their_place_in_the_log() {
        let mut client = Client::new();
        let log = client.log();
        client.is("MULTI", "+OK").is("SET a 1", "+QUEUED");
        client.run_words(&["EVAL", "redis.call('append', 'a', 2) return redis.call('incr', 'b')", "0"]);
        client.is("APPEND a 3", "+QUEUED").is("EXEC", "[+OK :1 :3]").is("GET a", "123");
        let names: Vec<String> =
            log.take().iter().map(|(_, record)| String::from_utf8(record.join(&b' ')).unwrap()).collect();
        assert_eq!(names, ["MULTI", "SET a 1", "append a 2", "incr b", "APPEND a 3", "EXEC"]);
    }

    #[test]
    fn the_log_has_transactions_of_several_writes() {
        let mut client = Client::new();
        let log = client.log();
        for line in ["MULTI", "SET a 1", "GET a", "EXEC", "MULTI", "SET a 2", "SELECT 1", "INCR b", "DEL c", "EXEC"] {
            client.run(line);
        }
        let show = |record: &Vec<Vec<u8>>| String::from_utf8(record.join(&b' ')).unwrap();
        let logged: Vec<(u32, String)> = log.take().iter().map(|(db, record)| (*db, show(record))).collect();
        let expected = [(0, "SET a 1"), (0, "MULTI"), (0, "SET a 2"), (1, "INCR b"), (1, "EXEC")];
        assert_eq!(logged, expected.map(|(db, text)| (db, text.to_owned())));
    }
}
