//! Names of keys: SCAN, KEYS, RANDOMKEY.
//!
//! SCAN and KEYS are [walks](crate::keys::key_walk). A KEYS takes as many pieces as there are, and its reply, if it is
//! a long one, is chunked as well; a SCAN stops when it has seen COUNT entries, whether they matched or not. Its cursor
//! is the walk's position.

use crate::core::args::Args;
use crate::core::cluster_proxy::routing_policy::{Merge, Routing};
use crate::core::command::{Command, Group, READONLY, TOUCHES_ARBITRARY_KEYS};
use crate::core::context::{Context, Flow, Resumable};
use crate::keys::key_walk::{Filter, KeyWalk, PIECE};
use crate::keys::scan_options::{self, ScanWords, Scanned, parse_cursor};
use engine::Error;
use engine::data::slot::slot_of;
use engine::keyspace::caller::is_due;
use resp::Reply;
use std::collections::VecDeque;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "scan",
        group: Group::Generic,
        since: "2.8.0",
        arity: -2,
        flags: READONLY.and(TOUCHES_ARBITRARY_KEYS),
        categories: &["keyspace"],
        syntax: "cursor:int [MATCH pattern:pattern] [COUNT count:int] [TYPE type]@6.0.0",
        summary: "Iterates over the key names in the database.",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
        tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
        routing: Routing::Pages,
        history: &[("6.0.0", "Added the `TYPE` subcommand.")],
        run: scan,
        ..Command::DEFAULT
    },
    Command {
        name: "keys",
        group: Group::Generic,
        since: "1.0.0",
        arity: 2,
        flags: READONLY,
        categories: &["keyspace", "dangerous"],
        syntax: "pattern:pattern",
        summary: "Returns all key names that match a pattern.",
        complexity: "O(N) with N being the number of keys in the database, under the assumption that the key names in the database and the given pattern have limited length.",
        tips: &["request_policy:all_shards", "nondeterministic_output_order"],
        routing: Routing::Primaries(Merge::Elements),
        run: keys,
        ..Command::DEFAULT
    },
    Command {
        name: "randomkey",
        group: Group::Generic,
        since: "1.0.0",
        arity: 1,
        flags: READONLY.and(TOUCHES_ARBITRARY_KEYS),
        categories: &["keyspace"],
        summary: "Returns a random key name from the database.",
        complexity: "O(1)",
        tips: &["request_policy:all_shards", "response_policy:special", "nondeterministic_output"],
        routing: Routing::Primaries(Merge::Any),
        run: randomkey,
        ..Command::DEFAULT
    },
];

/// Bytes of names in a chunk.
const CHUNK: usize = 256 << 10;

/// A SCAN or KEYS under way.
struct NameScan {
    /// The walk; None once it has ended, and the reply is going out.
    walk: Option<KeyWalk>,
    filter: Filter,
    /// Entries that are still to be visited; None: all.
    left: Option<usize>,
    /// Names as they are sent, in chunks so that none is ever copied to make room.
    names: VecDeque<Reply>,
    count: usize,
    with_cursor: bool,
}

impl NameScan {
    fn new(walk: KeyWalk, filter: Filter, left: Option<usize>) -> NameScan {
        NameScan { walk: Some(walk), filter, left, names: VecDeque::new(), count: 0, with_cursor: left.is_some() }
    }

    /// Does the first piece, for most scans the only one.
    fn begin(mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        if !self.piece(cx)? {
            cx.flow = Flow::more(self);
        }
        Ok(())
    }

    fn piece(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        if let Some(walk) = self.walk.take() {
            self.gather(walk, cx)?;
        }
        if self.walk.is_none()
            && let Some(chunk) = self.names.pop_front()
        {
            cx.reply.raw(chunk.as_slice());
        }
        Ok(self.walk.is_none() && self.names.is_empty())
    }

    /// Runs one piece of the walk; the reply begins when it was the last.
    fn gather(&mut self, mut walk: KeyWalk, cx: &mut Context<'_>) -> Result<(), Error> {
        let NameScan { filter, names, count, .. } = self;
        let max = self.left.map_or(PIECE, |left| left.min(PIECE));
        let used = walk.piece(&mut cx.keys, max, filter, |entry| {
            *count += 1;
            match names.back_mut() {
                Some(chunk) if chunk.len() < CHUNK => chunk.bulk(entry.key()),
                _ => {
                    let mut chunk = Reply::default();
                    chunk.bulk(entry.key());
                    names.push_back(chunk);
                }
            }
        });
        let used = match used {
            Ok(used) => used,
            Err(error) => {
                self.walk = Some(walk);
                return Err(error);
            }
        };
        self.left = self.left.map(|left| left.saturating_sub(used.unwrap_or(0)));
        if used.is_some() && self.left != Some(0) {
            self.walk = Some(walk);
            return Ok(());
        }
        if self.with_cursor {
            cx.reply.array(2);
            cx.reply.bulk(walk.cursor(&cx.keys).to_string().as_bytes());
        }
        cx.reply.array(self.count);
        Ok(())
    }
}

impl Resumable for NameScan {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let done = self.piece(cx);
        cx.ends(done)
    }
}

fn scan(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let cursor = parse_cursor(&args[1])?;
    let words = ScanWords::parse(args, 2, Scanned::Keys)?;
    let filter = Filter { pattern: words.pattern.map(<[u8]>::to_vec), kind: words.kind, ..Filter::default() };
    let walk = KeyWalk::from_cursor(&cx.keys, cursor);
    NameScan::new(walk, filter, Some(words.count)).begin(cx)
}

fn keys(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let pattern = &args[1];
    if !pattern.iter().any(|byte| b"*?[\\".contains(byte)) {
        let found = is_live(cx, pattern)?;
        cx.reply.array(found.into());
        if found {
            cx.reply.bulk(pattern);
        }
        return Ok(());
    }
    let filter = Filter { pattern: scan_options::pattern(pattern).map(<[u8]>::to_vec), ..Filter::default() };
    let walk = KeyWalk::all(&cx.keys);
    NameScan::new(walk, filter, None).begin(cx)
}

/// Returns whether this key, which the entry does not name, is there.
fn is_live(cx: &mut Context<'_>, name: &[u8]) -> Result<bool, Error> {
    let (hash, db, now) = (cx.engine.hasher().hash(name), cx.keys.db_index(), cx.keys.expiry_now());
    let local = hash.local();
    cx.keys.with_shard(hash.shard(), |shard, _| {
        let found = shard.dbs[db].table.find(local, |entry| entry.key() == name);
        found.is_some_and(|entry| !entry.expiry().is_some_and(|expiry| is_due(expiry, now)))
    })
}

/// Expired keys that RANDOMKEY removes before it gives up.
const RANDOM_TRIES: usize = 1000;
/// Draws of expired keys after which one of them is replied.
const PAUSED_TRIES: usize = 100;

fn randomkey(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let mut name = None;
    for tries in 0..RANDOM_TRIES {
        match random_entry(cx)? {
            Draw::Live(found) => {
                name = Some(found);
                break;
            }
            // While clients are paused no key expires, and an expired one counts as live.
            Draw::Stale(found) if tries >= PAUSED_TRIES => {
                name = Some(found);
                break;
            }
            Draw::Expired | Draw::Stale(_) => {}
            Draw::Empty => break,
        }
    }
    if name.is_none() && cx.engine.importing_slots().is_any() {
        name = first_visible(cx)?;
    }
    match name {
        Some(name) => cx.reply.bulk(&name),
        None => cx.reply.null(),
    }
    Ok(())
}

/// Pieces in which a key is looked for among many hidden ones.
const VISIBLE_PIECES: usize = 64;

/// Returns any key that is visible, if most are hidden.
fn first_visible(cx: &mut Context<'_>) -> Result<Option<Vec<u8>>, Error> {
    let (mut walk, mut found) = (KeyWalk::all(&cx.keys), None);
    for _ in 0..VISIBLE_PIECES {
        let went = walk.piece(&mut cx.keys, PIECE, &Filter::default(), |entry| {
            found.get_or_insert_with(|| entry.key().to_vec());
        })?;
        if found.is_some() || went.is_none() {
            break;
        }
    }
    Ok(found)
}

enum Draw {
    Live(Vec<u8>),
    /// A removed or hidden key.
    Expired,
    /// An expired key that is not to be removed now.
    Stale(Vec<u8>),
    Empty,
}

/// Draws any entry, each as likely as another.
fn random_entry(cx: &mut Context<'_>) -> Result<Draw, Error> {
    let (engine, db, now) = (cx.engine, cx.keys.db_index(), cx.keys.expiry_now());
    let shards = engine.locks().len();
    let mut total = engine.known_len(db).filter(|_| cx.keys.holds_nothing()).unwrap_or(0);
    if total == 0 {
        for index in 0..shards {
            total += cx.keys.shard_len(index)?;
        }
    }
    if total == 0 {
        return Ok(Draw::Empty);
    }
    let mut pick = fastrand::usize(..total);
    for index in 0..shards {
        let len = cx.keys.shard_len(index)?;
        if pick >= len {
            pick -= len;
            continue;
        }
        return cx.keys.with_shard(index, |shard, effects| {
            let found = shard.dbs[db].table.random(fastrand::u64(..));
            // The shard may have been emptied since it was counted: the key is drawn again.
            let Some((name, expiry)) = found.map(|entry| (entry.key().to_vec(), entry.expiry())) else {
                return Draw::Expired;
            };
            if engine.importing_slots().is_any() && engine.importing_slots().hides(slot_of(&name)) {
                return Draw::Expired;
            }
            if expiry.is_some_and(|expiry| is_due(expiry, now)) {
                if engine.keeps_expired() {
                    return Draw::Stale(name);
                }
                engine.remove_expired(shard, effects, db, &[name], now);
                return Draw::Expired;
            }
            Draw::Live(name)
        });
    }
    // Keys have gone since they were counted: the key is drawn again.
    Ok(Draw::Expired)
}

#[cfg(test)]
mod tests {
    use crate::core::args::Args;
    use crate::core::context::Flow;
    use crate::core::dispatch;
    use crate::testing::Client;
    use resp::Reply;
    use resp::reply_value::Value;
    use std::collections::{BTreeSet, HashMap};

    fn filled(keys: usize) -> Client {
        let mut client = Client::new();
        (0..keys).for_each(|n| _ = client.is(&format!("SET key:{n} v"), "+OK"));
        client
    }

    fn names(value: &Value) -> Vec<String> {
        let Value::Array(items) = value else { panic!("{value:?} is no array") };
        let name = |item: &Value| match item {
            Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("{other:?} is no name"),
        };
        items.iter().map(name).collect()
    }

    /// Runs one call of SCAN: returns the next cursor and the names.
    fn scan(client: &mut Client, line: &str) -> (String, Vec<String>) {
        match client.value(line) {
            Value::Array(parts) => {
                let cursor = names(&Value::Array(parts[..1].to_vec()));
                (cursor.into_iter().next().expect("a cursor"), names(&parts[1]))
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    fn scan_all(client: &mut Client, options: &str) -> Vec<String> {
        let (mut cursor, mut all) = ("0".to_string(), Vec::new());
        loop {
            let (next, some) = scan(client, &format!("SCAN {cursor}{options}"));
            all.extend(some);
            if next == "0" {
                return all;
            }
            cursor = next;
        }
    }

    #[test]
    fn a_whole_scan_finds_every_key_once_while_nothing_changes() {
        let mut client = filled(5000);
        for options in ["", " COUNT 1", " COUNT 777", " COUNT 1000000"] {
            let all = scan_all(&mut client, options);
            assert_eq!(all.len(), 5000, "{options}");
            assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), 5000, "{options}");
        }
        assert_eq!(scan(&mut client, "SCAN 0 COUNT 1000000").0, "0", "count is kept to beyond a piece");
    }

    #[test]
    fn a_call_visits_about_count_entries() {
        let mut client = filled(5000);
        for count in [1, 10, 100, 1500] {
            let (_, some) = scan(&mut client, &format!("SCAN 0 COUNT {count}"));
            assert!(some.len() >= count && some.len() < count + 40, "{} of {count}", some.len());
        }
    }

    #[test]
    fn keys_that_stay_are_found_while_tables_grow_and_shrink() {
        let mut client = filled(2000);
        let (mut cursor, mut found, mut turn) = ("0".to_string(), BTreeSet::new(), 0);
        loop {
            let (next, some) = scan(&mut client, &format!("SCAN {cursor} COUNT 20 MATCH key:*"));
            found.extend(some);
            for n in 0..500 {
                let verb = if turn % 40 < 20 { "SET other:{n} v" } else { "DEL other:{n}" };
                client.run(&verb.replace("{n}", &format!("{}", (turn % 20) * 500 + n)));
            }
            turn += 1;
            if next == "0" {
                break;
            }
            cursor = next;
        }
        assert_eq!(found.len(), 2000);
        assert!(turn > 40, "the tables went both ways");
    }

    #[test]
    fn options_filter_what_is_shown() {
        let mut client = filled(200);
        client.is("ZADD z 1 a", ":1").is("ZADD zz 1 a", ":1");
        assert_eq!(scan_all(&mut client, " TYPE zset").len(), 2);
        assert_eq!(scan_all(&mut client, " TYPE String").len(), 200);
        assert_eq!(scan_all(&mut client, " TYPE hash").len(), 0);
        assert_eq!(scan_all(&mut client, " MATCH key:1? MATCH key:2?").len(), 10);
        assert_eq!(scan_all(&mut client, " MATCH z* TYPE zset COUNT 3").len(), 2);
        client.is("SCAN 0 TYPE nope", "-ERR unknown type name 'nope'");
    }

    #[test]
    fn faults_are_told_in_the_order_of_the_arguments() {
        let mut client = Client::new();
        for cursor in ["x", "-1", "\"\"", "1x", "99999999999999999999", "- 1"] {
            client.is(&format!("SCAN {cursor} nope"), "-ERR invalid cursor");
        }
        client.is("SCAN 5\0x COUNT 0", "-ERR syntax error").is("SCAN \0", "-ERR invalid cursor");
        client.is("SCAN +5", "[0 []]").is("SCAN 18446744073709551615", "[0 []]");
        client.is("SCAN 0 COUNT 0", "-ERR syntax error").is("SCAN 0 COUNT", "-ERR syntax error");
        client.is("SCAN 0 COUNT x nope", "-ERR value is not an integer or out of range");
        client.is("SCAN 0 NOVALUES x", "-ERR NOVALUES option can only be used in HSCAN");
        client.is("SCAN 0 TYPE list NOSCORES", "-ERR NOSCORES option can only be used in ZSCAN");
        client.is("SCAN 0 nope", "-ERR syntax error");
    }

    #[test]
    fn expired_keys_are_not_shown_and_go() {
        let mut client = filled(100);
        let log = client.log();
        client.is("SET a v PX 10", "+OK").is("SET b v PX 10", "+OK").later(10);
        client.is("KEYS a", "[]").is("DBSIZE", ":102");
        for (filter, shown) in [(" TYPE hash", 0), (" MATCH c", 0)] {
            assert_eq!(scan_all(&mut client, filter).len(), shown);
            client.is("DBSIZE", ":102");
        }
        assert_eq!(scan_all(&mut client, " COUNT 1000").len(), 100);
        client.is("DBSIZE", ":100");
        assert_eq!(log.take().len(), 4, "two SETs and two removals");
    }

    #[test]
    fn keys_match_patterns() {
        let mut client = filled(3000);
        assert_eq!(names(&client.value("KEYS *")).len(), 3000);
        assert_eq!(names(&client.value("KEYS key:29[0-4]?")).len(), 50);
        client.is("KEYS key:12", "[key:12]").is("KEYS key:\\12", "[key:12]").is("KEYS nope", "[]").is("KEYS z*", "[]");
    }

    #[test]
    fn a_long_walk_leaves_gaps_for_others() {
        let mut client = filled(3000);
        let (engine, now) = (client.beside(), client.now());
        let mut args: Args<'_> = [&b"KEYS"[..], b"*"].into_iter().collect();
        let mut reply = Reply::default();
        let prepared = dispatch::prepare(engine.engine(), &args);
        let command = prepared.entry().expect("a known command").command;
        let flow = dispatch::run(engine.engine(), client.session(), &prepared, &mut args, now, &mut reply);
        let Flow::More(mut work) = flow else { panic!("3000 keys are more than a piece") };
        assert!(reply.is_empty());
        let mut others = engine.beside();
        let mut added = 0;
        while !dispatch::step(engine.engine(), client.session(), command, &mut **work, now, &mut reply) {
            (0..2000).for_each(|n| _ = others.is(&format!("SET more:{added}:{n} v"), "+OK"));
            added += 1;
        }
        assert!(added > 0);
        let bytes = reply.take();
        let (value, _) = resp::reply_value::Decoder::new().decode(&bytes).expect("valid").expect("whole");
        let all = names(&value);
        let unique: BTreeSet<_> = all.iter().collect();
        assert_eq!(unique.len(), all.len(), "no key comes twice");
        assert_eq!(unique.iter().filter(|name| name.starts_with("key:")).count(), 3000);
    }

    #[test]
    fn a_long_reply_goes_out_in_chunks() {
        let mut client = Client::new();
        let name = "x".repeat(100_000);
        (0..9).for_each(|n| _ = client.is(&format!("SET {n}{name} v"), "+OK"));
        assert_eq!(names(&client.value("KEYS *")).len(), 9, "three names a chunk");
        let (cursor, some) = scan(&mut client, "SCAN 0 COUNT 100");
        assert_eq!((cursor.as_str(), some.len()), ("0", 9));
    }

    #[test]
    fn random_keys_are_spread_evenly() {
        let mut client = Client::new();
        client.is("RANDOMKEY", "nil");
        (0..20).for_each(|n| _ = client.is(&format!("SET {n} v"), "+OK"));
        client.is("SET gone v PX 1", "+OK").later(1);
        let mut counts = HashMap::<String, usize>::new();
        (0..4000).for_each(|_| *counts.entry(client.run("RANDOMKEY")).or_default() += 1);
        assert_eq!(counts.len(), 20, "{counts:?}");
        assert!(counts.values().all(|count| (80..400).contains(count)), "{counts:?}");
        client.is("FLUSHALL", "+OK").is("SET gone v PX 1", "+OK").later(1).is("RANDOMKEY", "nil").is("DBSIZE", ":0");
    }
}
