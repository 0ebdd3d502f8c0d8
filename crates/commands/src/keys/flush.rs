//! Databases as a whole: DBSIZE counts one, FLUSHDB and FLUSHALL empty them, SWAPDB exchanges two.
//!
//! Emptying and exchanging hold all shards' locks, so that no client sees half of it, but only to take tables out or to
//! swap them, which does not depend on their contents. The memory is freed afterwards: in the background, or with SYNC
//! piece by piece before the reply.

use crate::core::acl_check::databases_at;
use crate::core::args::Args;
use crate::core::cluster_proxy::routing_policy::{Merge, Routing};
use crate::core::command::{ALL_DBS, Command, FAST, Group, READONLY, WRITE};
use crate::core::context::{Blocking, Context, Flow, Resumable};
use crate::keys::table_exchange::replace;
use crate::persistence::save::save_instead;
use engine::config::Directive;
use engine::data::table::{ExpiryIndex, Table};
use engine::data::value::Object;
use engine::keyspace::key_change::{ChangedDb, announce_flush, announce_swap};
use engine::keyspace::shard::{Db, Shard};
use engine::scripts::function_libraries::LibraryChange;
use engine::{Engine, Error};
use std::mem::{swap, take};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};

const FLUSH: Command = Command {
    lazy_free: None,
    group: Group::Server,
    since: "1.0.0",
    arity: -1,
    categories: &["keyspace", "dangerous"],
    syntax: "[ASYNC | SYNC]",
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    routing: Routing::Primaries(Merge::Alike),
    ..Command::DEFAULT
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "dbsize",
        group: Group::Server,
        since: "1.0.0",
        arity: 1,
        flags: READONLY.and(FAST),
        categories: &["keyspace"],
        summary: "Returns the number of keys in the database.",
        complexity: "O(1)",
        tips: &["request_policy:all_shards", "response_policy:agg_sum"],
        routing: Routing::Primaries(Merge::Sum),
        run: dbsize,
        ..Command::DEFAULT
    },
    Command {
        name: "flushall",
        flags: WRITE.and(ALL_DBS),
        summary: "Removes all keys from all databases.",
        complexity: "O(N) where N is the total number of keys in all databases",
        history: &[
            ("4.0.0", "Added the `ASYNC` flushing mode modifier."),
            ("6.2.0", "Added the `SYNC` flushing mode modifier."),
        ],
        syntax: "[flush-type: ASYNC@4.0.0 | SYNC@6.2.0]",
        run: flushall,
        ..FLUSH
    },
    Command {
        name: "flushdb",
        flags: WRITE,
        summary: "Removes all keys from the current database.",
        complexity: "O(N) where N is the number of keys in the selected database",
        history: &[
            ("4.0.0", "Added the `ASYNC` flushing mode modifier."),
            ("6.2.0", "Added the `SYNC` flushing mode modifier."),
        ],
        syntax: "[flush-type: ASYNC@4.0.0 | SYNC@6.2.0]",
        run: flushdb,
        ..FLUSH
    },
    Command {
        name: "swapdb",
        group: Group::Server,
        since: "4.0.0",
        arity: 3,
        flags: WRITE.and(FAST),
        categories: &["keyspace", "dangerous"],
        syntax: "index1:int index2:int",
        summary: "Swaps two databases.",
        complexity: "O(N) where N is the count of clients watching or blocking on keys from both databases.",
        dbs_of_call: Some(|args| databases_at(args, [1, 2])),
        run: swapdb,
        ..Command::DEFAULT
    },
];

fn dbsize(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let (mut count, engine, db) = (0, cx.engine, cx.keys.db_index());
    if cx.keys.holds_nothing()
        && !engine.importing_slots().is_any()
        && let Some(keys) = engine.known_len(db)
    {
        cx.reply.int(keys as i64);
        return Ok(());
    }
    for shard in 0..engine.locks().len() {
        count += match engine.importing_slots().hides_any(engine.hasher().slots_of(shard)) {
            true => cx.keys.with_shard(shard, |shard, _| engine.visible_in(shard, db))?,
            false => cx.keys.shard_len(shard)?,
        };
    }
    cx.reply.int(count as i64);
    Ok(())
}

fn flushall(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    flush(cx, args, None)
}

fn flushdb(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let db = cx.keys.db_index();
    flush(cx, args, Some(db))
}

/// Empties all databases at once, and forgets the functions. The memory is freed in the background, or with the
/// returned value.
pub(crate) fn empty_all(cx: &mut Context<'_>, background: bool) -> Result<FreeBeforeReply, Error> {
    let work = empty(cx, None, background)?.0;
    cx.keys.change_libraries(|_| Ok(LibraryChange { clear: true, ..LibraryChange::default() }))?;
    // A thread that reads a file in their place logs nothing.
    cx.keys.effects.dirty = 0;
    Ok(work)
}

/// Empties one database, or all.
fn flush(cx: &mut Context<'_>, args: &Args<'_>, only: Option<u32>) -> Result<(), Error> {
    let background = match args.len() {
        1 => cx.engine.config().snapshot().flag(Directive::LAZYFREE_LAZY_USER_FLUSH),
        2 if args.is(1, "async") => true,
        2 if args.is(1, "sync") => false,
        _ => return Err(Error::Syntax),
    };
    // The data being saved has lost its worth, and a save would hurry to its end while keys are removed.
    let saves = cx.engine.persistence_status();
    let is_saving = only.is_none() && saves.is_running_in_background();
    if is_saving {
        saves.cancel();
    }
    let (mut work, removed) = empty(cx, only, background)?;
    cx.engine.host().keys_flushed();
    // The log gets a flush even if there was nothing to remove.
    cx.keys.effects.dirty += removed.max(1);
    work.saves = only.is_none() && wants_save(cx, is_saving);
    if background && !work.saves {
        cx.reply.ok();
    } else {
        cx.flow = Flow::more(work);
    }
    Ok(())
}

/// Returns whether FLUSHALL is to save the empty data set before the reply, so that a server with save points does not
/// load the flushed keys at the next start; in the background if it cannot be now. `was_saving`: a save was ordered to
/// end.
fn wants_save(cx: &mut Context<'_>, was_saving: bool) -> bool {
    let saves = cx.engine.persistence_status();
    if cx.engine.config().snapshot().save_points().is_empty() {
        return false;
    }
    // A transaction holds the locks that a save needs. A primary's stream is applied under the lock under which a save
    // begins.
    let later = was_saving || matches!(cx.blocking, Blocking::Refused) || cx.keys.origin().caller.is_obeyed();
    if later {
        saves.scheduled.store(true, Relaxed);
    }
    !later
}

/// Empties one database, or all: returns the memory left to free, unless that is done in the background, and how many
/// keys there were.
fn empty(cx: &mut Context<'_>, only: Option<u32>, background: bool) -> Result<(FreeBeforeReply, u64), Error> {
    let mut work = FreeBeforeReply::default();
    let mut removed = 0;
    let (engine, now) = (cx.engine, cx.keys.expiry_now());
    cx.keys.escalate()?;
    if only.is_none() {
        engine.replica_keys().clear();
    }
    cx.keys.each_shard(|shard_index, shard, effects| {
        let Shard { dbs, listeners, stats, .. } = shard;
        announce_flush(engine, listeners, effects);
        let mut next = dbs.next(only.unwrap_or(0));
        while let Some(number) = next.filter(|number| only.is_none_or(|only| only == *number)) {
            next = dbs.next(number + 1);
            let db = &mut dbs[number];
            if db.is_bare() {
                continue;
            }
            stats.dirty += db.table.len() as u64;
            removed += db.table.len() as u64;
            let at = ChangedDb { keyspace: engine, shard: shard_index, number, db, listeners, effects };
            let left = replace(at, Default::default(), now);
            // The reader of the old collection frees it.
            let Some((table, expiry)) = left else { continue };
            if background {
                effects.discard_table(table, expiry);
            } else if !table.is_empty() {
                work.tables.push((table, expiry));
            }
        }
    })?;
    Ok((work, removed))
}

/// FLUSHALL SYNC and FLUSHDB SYNC, after the locks are released.
#[derive(Default)]
pub(crate) struct FreeBeforeReply {
    tables: Vec<(Table, ExpiryIndex)>,
    /// Collections from these tables that take more than a piece.
    large: Vec<Object>,
    saves: bool,
    /// Set once the thread that saves has ended.
    saving: Option<Arc<AtomicBool>>,
}

impl FreeBeforeReply {
    /// Returns whether the save has been made, or cannot be.
    fn has_saved(&mut self, engine: &Engine) -> bool {
        if let Some(ended) = &self.saving {
            return ended.load(Acquire);
        }
        let ended = Arc::<AtomicBool>::default();
        self.saving = Some(Arc::clone(&ended));
        let work = move |engine: &Engine| {
            // A failure has been logged.
            let _ = save_instead(engine);
            ended.store(true, Release);
        };
        engine.host().in_background(Directive::SERVER_CPULIST, Box::new(work)).is_err()
    }
}

/// Entries that are freed in one piece: some hundred microseconds' worth.
const FREED_AT_ONCE: usize = 1000;

impl Resumable for FreeBeforeReply {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let FreeBeforeReply { tables, large, .. } = self;
        if let Some(object) = large.last_mut() {
            if object.drain_step(FREED_AT_ONCE) {
                large.pop();
            }
        } else if let Some((table, _)) = tables.last_mut()
            && table.drain_each(FREED_AT_ONCE, |entry| {
                let object = entry.into_payload();
                large.extend(object.filter(|object| object.free_effort() > FREED_AT_ONCE));
            })
        {
            tables.pop();
        }
        let done = tables.is_empty() && large.is_empty();
        if !done || self.saves && !self.has_saved(cx.engine) {
            return false;
        }
        cx.reply.ok();
        true
    }

    fn outlasts_rights(&self) -> bool {
        true
    }
}

fn swapdb(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if cx.engine.is_clustered() {
        return Err(Error::SwapdbInCluster);
    }
    let number = |index, error| args.int(index).ok().and_then(|n| i32::try_from(n).ok()).ok_or(error);
    let one = number(1, Error::InvalidFirstDbIndex)?;
    let two = number(2, Error::InvalidSecondDbIndex)?;
    let databases = cx.engine.databases();
    let database = |n: i32| u32::try_from(n).ok().filter(|db| (*db as usize) < databases).ok_or(Error::DbIndex);
    let (one, two) = (database(one)?, database(two)?);
    let now = cx.keys.expiry_now();
    cx.keys.escalate()?;
    let engine = cx.engine;
    cx.keys.each_shard(|shard_index, shard, effects| {
        // A reply that lists a collection has taken it out of its table, perhaps as the last one.
        let is_bare = |db: &Db| db.is_bare() && db.streamed_replies.is_empty();
        if one == two || [one, two].iter().all(|db| is_bare(&shard.dbs[*db])) {
            return;
        }
        let mut apart = take(&mut shard.dbs[two]);
        let (first, second) = (&mut shard.dbs[one], &mut apart);
        let listeners = (shard_index, &mut shard.listeners);
        announce_swap(engine, listeners, effects, (one, &mut *first), (two, &mut *second), now);
        engine.keys_swapped(shard_index, (one, first.table.len()), (two, second.table.len()));
        swap(&mut first.captures, &mut second.captures);
        swap(&mut first.table, &mut second.table);
        swap(&mut first.expiry, &mut second.expiry);
        swap(&mut first.streamed_replies, &mut second.streamed_replies);
        first.streamed_replies.all_came(one);
        second.streamed_replies.all_came(two);
        shard.dbs[two] = apart;
    })?;
    cx.keys.with_shard(0, |shard, effects| {
        shard.stats.dirty += 1;
        effects.dirty += 1;
    })?;
    cx.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;
    use engine::clients::watch::WatchFlag;
    use std::sync::Arc;

    fn filled() -> Client {
        let mut client = Client::new();
        for n in 0..3000 {
            client.is(&format!("SET key:{n} v EX {}", 100 + n), "+OK");
        }
        client.select(3).is("SET other v", "+OK").select(0);
        client
    }

    fn watch(client: &Client, db: u32, key: &[u8]) -> Arc<WatchFlag> {
        let flag = Arc::new(WatchFlag::default());
        let engine = client.engine();
        let shard = engine.hasher().hash(key).shard();
        engine.locks().one(shard).dbs[db].clients.watch(key, &flag, false);
        flag
    }

    #[test]
    fn flushdb_empties_one_database() {
        for how in ["FLUSHDB", "FLUSHDB ASYNC", "FLUSHDB sync"] {
            let mut client = filled();
            client.is("DBSIZE", ":3000").is(how, "+OK").is("DBSIZE", ":0").is("GET key:1", "nil");
            assert_eq!(client.engine().summary(0, client.now_ms()).expires, 0);
            client.select(3).is("DBSIZE", ":1");
        }
    }

    #[test]
    fn a_large_collection_is_freed_step_by_step() {
        let mut client = Client::new();
        let members: Vec<String> = (0..10_000).map(|n| format!("m{n}")).collect();
        client.is(&format!("SADD large {}", members.join(" ")), ":10000").is("SET small x", "+OK");
        let mut begun = client.begin(&["FLUSHALL", "SYNC"]);
        let steps = (0..).take_while(|_| !begun.step()).count();
        assert!(steps >= 10, "{steps}");
        client.is("DBSIZE", ":0");
    }

    #[test]
    fn flushall_empties_all_and_raises_watchers_of_what_was_there() {
        let mut client = filled();
        let log = client.log();
        let (there, missing) = (watch(&client, 3, b"other"), watch(&client, 3, b"missing"));
        client.is("FLUSHALL SYNC", "+OK").is("DBSIZE", ":0").select(3).is("DBSIZE", ":0").select(0);
        assert!(there.is_raised() && !missing.is_raised());
        client.is("FLUSHALL", "+OK");
        assert_eq!(log.take().len(), 2, "also when there is nothing");
        client.is("FLUSHALL now", "-ERR syntax error").is("FLUSHDB SYNC ASYNC", "-ERR syntax error");
        assert_eq!(client.engine().stats().dirty, 6002);
    }

    #[test]
    fn swapdb_exchanges_contents_but_not_watchers() {
        let mut client = filled();
        let (old, new, missing) = (watch(&client, 0, b"key:1"), watch(&client, 0, b"other"), watch(&client, 0, b"no"));
        client.is("SWAPDB 0 3", "+OK").is("DBSIZE", ":1").is("GET other", "v").select(3).is("TTL key:1", ":101");
        assert!(old.is_raised() && new.is_raised() && !missing.is_raised());
        client.is("SWAPDB 1 1", "+OK");
        client.is("SWAPDB x y", "-ERR invalid first DB index").is("SWAPDB 0 y", "-ERR invalid second DB index");
        client.is("SWAPDB 0 16", "-ERR DB index is out of range").is("SWAPDB -1 0", "-ERR DB index is out of range");
    }
}
