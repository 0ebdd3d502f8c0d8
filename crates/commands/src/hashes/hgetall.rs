//! Hashes as a whole: HGETALL, HKEYS, HVALS, HSCAN, HRANDFIELD.
//!
//! Fields that have expired are not shown. HGETALL and its kin send large hashes in chunks (`chunked_reply.rs`).

use crate::core::args::Args;
use crate::core::chunked_reply;
use crate::core::command::{Command, Group, READONLY, key};
use crate::core::context::Context;
use crate::core::yielding::Yielding;
use crate::hashes::hash::{now, reply_item};
use crate::keys::scan_options::{ScanWords, Scanned, parse_cursor, reply_elements, reply_nothing};
use engine::Error;
use engine::data::value::{Collection, Object};
use engine::snapshot::streamed_reply::Lister;
use resp::{Protocol, Reply};
use std::collections::HashSet;
use std::sync::Arc;
use structures::hash::{Hash, View};
use structures::listpack::Item;
use structures::snapshot_iterator::TableSnapshotIterator;

const HASH: Command = Command { group: Group::Hash, ..Command::DEFAULT };

pub const COMMANDS: &[Command] = &[
    Command {
        name: "hgetall",
        since: "2.0.0",
        arity: 2,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key",
        summary: "Returns all fields and values in a hash.",
        complexity: "O(N) where N is the size of the hash.",
        tips: &["nondeterministic_output_order"],
        run: hgetall,
        ..HASH
    },
    Command {
        name: "hkeys",
        since: "2.0.0",
        arity: 2,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key",
        summary: "Returns all fields in a hash.",
        complexity: "O(N) where N is the size of the hash.",
        tips: &["nondeterministic_output_order"],
        run: hkeys,
        ..HASH
    },
    Command {
        name: "hrandfield",
        since: "6.2.0",
        arity: -2,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key [options: count:int [WITHVALUES]]",
        summary: "Returns one or more random fields from a hash.",
        complexity: "O(N) where N is the number of fields returned",
        tips: &["nondeterministic_output"],
        run: hrandfield,
        ..HASH
    },
    Command {
        name: "hscan",
        since: "2.8.0",
        arity: -3,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key cursor:int [MATCH pattern:pattern] [COUNT count:int] [NOVALUES]",
        summary: "Iterates over fields and values of a hash.",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
        tips: &["nondeterministic_output"],
        run: hscan,
        ..HASH
    },
    Command {
        name: "hvals",
        since: "2.0.0",
        arity: 2,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key",
        summary: "Returns all values in a hash.",
        complexity: "O(N) where N is the size of the hash.",
        tips: &["nondeterministic_output_order"],
        run: hvals,
        ..HASH
    },
];

/// The shown parts of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Show {
    Names,
    Values,
    Pairs,
    /// Pairs, of which RESP3 gets an array each.
    NestedPairs,
}

impl Show {
    fn write(self, reply: &mut Reply, name: Item<'_>, value: Item<'_>) {
        if self == Show::NestedPairs && reply.protocol() == Protocol::Resp3 {
            reply.array(2);
        }
        if self != Show::Values {
            reply_item(reply, Some(name));
        }
        if self != Show::Names {
            reply_item(reply, Some(value));
        }
    }

    fn header(self, reply: &mut Reply, fields: usize) {
        match self {
            Show::Pairs => reply.map(fields),
            Show::NestedPairs if reply.protocol() != Protocol::Resp3 => reply.array(fields.saturating_mul(2)),
            _ => reply.array(fields),
        }
    }
}

/// All fields that have not expired at a moment.
struct Fields {
    at: u64,
    now: u64,
    show: Show,
    walk: Option<Arc<TableSnapshotIterator>>,
}

impl Fields {
    fn new(now: u64, show: Show) -> Self {
        Fields { at: 0, now, show, walk: None }
    }
}

impl Lister for Fields {
    fn begin(&mut self, object: &mut Object) -> bool {
        self.walk = Hash::of_mut(object).and_then(|hash| hash.begin_walk(self.now));
        self.walk.is_some()
    }

    fn piece(&mut self, object: &Object, max: usize, reply: &mut Reply) -> bool {
        let Some(hash) = Hash::of(object).map(Hash::view) else { return true };
        if let Some(walk) = &self.walk {
            return hash.walk_piece(walk, max, |name, value| self.show.write(reply, name, value));
        }
        let mut written = 0;
        while written < max {
            let next = hash.scan(self.at, self.at, self.now, |name, value| {
                written += 1;
                self.show.write(reply, name, value);
            });
            match next {
                Some(next) => self.at = next,
                None => return true,
            }
        }
        false
    }
}

fn hgetall(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    list(cx, args, Show::Pairs)
}

fn hkeys(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    list(cx, args, Show::Names)
}

fn hvals(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    list(cx, args, Show::Values)
}

fn list(cx: &mut Context<'_>, args: &Args<'_>, show: Show) -> Result<(), Error> {
    let now = now(cx);
    let key = cx.key(args, 1);
    let Some(hash) = cx.keys.collection::<Hash>(key)? else {
        show.header(cx.reply, 0);
        return Ok(());
    };
    let live = hash.live_len(now);
    show.header(cx.reply, live);
    if hash.is_small() && live <= chunked_reply::AT_ONCE {
        hash.visit(now, |name, value| show.write(cx.reply, name, value));
    } else {
        chunked_reply::list(cx, key, live, Fields::new(now, show));
    }
    Ok(())
}

fn hscan(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let cursor = parse_cursor(&args[2])?;
    let now = now(cx);
    // Without the key no further argument is checked.
    let Some(hash) = cx.keys.collection::<Hash>(cx.key(args, 1))? else {
        reply_nothing(cx.reply);
        return Ok(());
    };
    let words = ScanWords::parse(args, 3, Scanned::Hash)?;
    let (show, items) = if words.names_only { (Show::Names, 1) } else { (Show::Pairs, 2) };
    reply_elements(cx.reply, cursor, words.count, |position, found| {
        hash.scan(position, 0, now, |name, value| {
            found.seen += 1;
            if words.show(name.bytes(&mut itoa::Buffer::new())) {
                show.write(&mut found.items, name, value);
                found.shown += items;
            }
        })
    });
    Ok(())
}

/// Expired fields that are drawn before HRANDFIELD gives up.
const DRAWS: usize = 100;
/// Fields are drawn one by one, with new draws for repeated ones, if fewer than one in so many is requested.
const SPARSE: usize = 3;

fn hrandfield(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let now = now(cx);
    let key = cx.key(args, 1);
    if args.len() == 2 {
        let hash = cx.keys.collection::<Hash>(key)?;
        reply_item(cx.reply, hash.and_then(|hash| draw(hash, now)).map(|(name, _)| name));
        return Ok(());
    }
    let count = args.int(2)?;
    if count == i64::MIN {
        return Err(Error::NotNegatable);
    }
    if args.len() > 4 || (args.len() == 4 && !args.is(3, "withvalues")) {
        return Err(Error::Syntax);
    }
    let show = if args.len() == 4 { Show::NestedPairs } else { Show::Names };
    if show == Show::NestedPairs && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(Error::OutOfRange);
    }
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let yielding = cx.yielding_to_draw(key, wanted, |object| Hash::of(object).map_or(0, |hash| hash.view().len()))?;
    let Some(hash) = cx.keys.collection::<Hash>(key)? else {
        cx.reply.array(0);
        return Ok(());
    };
    let live = hash.live_len(now);
    if count < 0 && live > 0 && wanted > chunked_reply::DRAWS_AT_ONCE.max(hash.len()) {
        let mut items = Vec::with_capacity(live);
        hash.visit(now, |name, value| {
            yielding.step();
            items.push((name.to_vec(), value.to_vec()));
        });
        show.header(cx.reply, wanted);
        chunked_reply::draw(cx, items, wanted, move |reply, (name, value)| {
            show.write(reply, Item::Bytes(name), Item::Bytes(value));
        });
    } else if count < 0 {
        draw_with_repeats(cx.reply, hash, now, if live == 0 { 0 } else { wanted }, show, &yielding);
    } else if wanted >= live {
        show.header(cx.reply, live);
        if hash.is_small() && live <= chunked_reply::AT_ONCE {
            hash.visit(now, |name, value| show.write(cx.reply, name, value));
        } else {
            chunked_reply::list(cx, key, live, Fields::new(now, show));
        }
    } else if hash.encoding() == "hashtable" && wanted.saturating_mul(SPARSE) < hash.len() {
        draw_distinct(cx.reply, hash, now, wanted, show, &yielding);
    } else {
        sample(cx.reply, hash, now, (wanted, live), show, &yielding);
    }
    Ok(())
}

/// Draws a field that has not expired; None if there seems to be none.
fn draw<'a>(hash: View<'a>, now: u64) -> Option<(Item<'a>, Item<'a>)> {
    (0..DRAWS).find_map(|_| hash.random(fastrand::u64(..), now))
}

fn draw_with_repeats(reply: &mut Reply, hash: View<'_>, now: u64, wanted: usize, show: Show, yielding: &Yielding<'_>) {
    let (mut drawn, mut found) = (0, Reply::new(Vec::new(), reply.protocol()));
    while drawn < wanted
        && let Some((name, value)) = draw(hash, now)
    {
        drawn += 1;
        yielding.step();
        show.write(&mut found, name, value);
    }
    show.header(reply, drawn);
    reply.raw(found.as_slice());
}

fn draw_distinct(reply: &mut Reply, hash: View<'_>, now: u64, wanted: usize, show: Show, yielding: &Yielding<'_>) {
    let (mut names, mut found) = (HashSet::new(), Reply::new(Vec::new(), reply.protocol()));
    for _ in yielding.over(0..wanted.saturating_mul(10)) {
        let Some((name, value)) = draw(hash, now).filter(|_| names.len() < wanted) else { break };
        if names.insert(name.to_vec()) {
            show.write(&mut found, name, value);
        }
    }
    show.header(reply, names.len());
    reply.raw(found.as_slice());
}

/// Goes through all fields and takes each with the probability that leaves every choice equally likely.
fn sample(
    reply: &mut Reply,
    hash: View<'_>,
    now: u64,
    (mut wanted, mut left): (usize, usize),
    show: Show,
    yielding: &Yielding<'_>,
) {
    show.header(reply, wanted);
    hash.visit(now, |name, value| {
        yielding.step();
        if fastrand::usize(..left.max(1)) < wanted {
            wanted -= 1;
            show.write(reply, name, value);
        }
        left = left.saturating_sub(1);
    });
}

#[cfg(test)]
mod tests {
    use crate::core::args::Args;
    use crate::core::command::Command;
    use crate::core::context::{Flow, Work};
    use crate::core::dispatch;
    use crate::testing::Client;
    use resp::Reply;
    use resp::reply_value::{Decoder, Value};
    use std::collections::BTreeMap;

    const FIELDS: usize = 5000;

    fn filled(client: &mut Client) {
        (0..FIELDS).for_each(|n| _ = client.is(&format!("HSET h f{n} {n}"), ":1"));
    }

    /// An HGETALL under way.
    struct Listing<'c> {
        client: &'c mut Client,
        command: &'static Command,
        work: Work,
        reply: Reply,
    }

    impl<'c> Listing<'c> {
        fn begin(client: &'c mut Client) -> Self {
            let other = client.beside();
            let mut args: Args<'_> = [&b"HGETALL"[..], b"h"].into_iter().collect();
            let mut reply = Reply::default();
            let prepared = dispatch::prepare(other.engine(), &args);
            let command = prepared.entry().expect("a known command").command;
            let now = other.now();
            match dispatch::run(other.engine(), client.session(), &prepared, &mut args, now, &mut reply) {
                Flow::More(work) => Listing { client, command, work, reply },
                _ => panic!("{FIELDS} fields are more than a piece"),
            }
        }

        fn step(&mut self) -> bool {
            let other = self.client.beside();
            let now = other.now();
            dispatch::step(other.engine(), self.client.session(), self.command, &mut **self.work, now, &mut self.reply)
        }

        fn end(mut self) -> BTreeMap<String, String> {
            while !self.step() {}
            let bytes = self.reply.take();
            let (value, used) = Decoder::new().decode(&bytes).expect("valid").expect("whole");
            assert_eq!(used, bytes.len());
            let Value::Array(items) = value else { panic!("no array") };
            let text = |item: &Value| match item {
                Value::Bulk(bytes) => String::from_utf8(bytes.to_vec()).expect("text"),
                other => panic!("{other:?}"),
            };
            let pairs: BTreeMap<_, _> = items.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect();
            assert_eq!(pairs.len() * 2, items.len(), "no field comes twice");
            pairs
        }
    }

    fn assert_untouched(pairs: &BTreeMap<String, String>) {
        assert_eq!(pairs.len(), FIELDS);
        assert!(pairs.iter().all(|(name, value)| name[1..] == *value));
    }

    #[test]
    fn a_long_listing_is_of_the_moment_when_it_began() {
        let writes = [
            "HSET h f1 x f9999 y",
            "HDEL h f1 f2 f3",
            "DEL h",
            "SET h v",
            "FLUSHALL",
            "RENAME h g",
            "SWAPDB 0 1",
            "MOVE h 1",
            "PEXPIRE h 1",
            "HPEXPIRE h 1 FIELDS 2 f1 f2",
            "HSET other a b",
            "FLUSHALL SYNC",
            "COPY k h REPLACE",
        ];
        for write in writes {
            for steps in [0, 2] {
                let mut client = Client::new();
                filled(&mut client);
                client.run("HSET k a b");
                let mut writer = client.beside();
                let mut listing = Listing::begin(&mut client);
                (0..steps).for_each(|_| assert!(!listing.step()));
                writer.run(write);
                writer.later(2).run("HGET h f1");
                assert_untouched(&listing.end());
                let left = writer.engine().locks().len();
                for shard in 0..left {
                    let shard = writer.engine().locks().one(shard);
                    assert!(shard.dbs.iter().all(|(_, db)| db.streamed_replies.is_empty()), "{write}");
                }
            }
        }
    }

    #[test]
    fn a_listing_goes_along_with_what_it_lists() {
        let ways: [&[&str]; 5] = [
            &["RENAME h g", "HSET g f1 x new y", "HDEL g f4999"],
            &["RENAME h g", "HSET h f1 x", "DEL h", "RENAME g h", "HDEL h f1 f2"],
            &["MOVE h 1", "SELECT 1", "HDEL h f1 f4999", "RENAME h g", "DEL g"],
            &["SWAPDB 0 1", "HSET h f1 x", "SELECT 1", "HSET h f1 y f2 y", "SWAPDB 1 2", "FLUSHALL"],
            &["RENAME h g", "RENAME k g", "HSET g f1 x"],
        ];
        for way in ways {
            for steps in [0, 2] {
                let mut client = Client::new();
                filled(&mut client);
                client.run("HSET k a b");
                let mut writer = client.beside();
                let mut listing = Listing::begin(&mut client);
                (0..steps).for_each(|_| assert!(!listing.step()));
                for (at, write) in way.iter().enumerate() {
                    assert!(!writer.run(write).starts_with('-'), "{write}");
                    assert!(at != 1 || !listing.step(), "a piece is shown in between");
                }
                assert_untouched(&listing.end());
                let locks = writer.engine().locks();
                (0..locks.len()).for_each(|shard| {
                    assert!(locks.one(shard).dbs.iter().all(|(_, db)| db.streamed_replies.is_empty()))
                });
            }
        }
    }

    #[test]
    fn two_listings_and_one_that_is_given_up() {
        let mut client = Client::new();
        filled(&mut client);
        let (mut second, mut third, mut writer) = (client.beside(), client.beside(), client.beside());
        let mut first = Listing::begin(&mut client);
        first.step();
        let other = Listing::begin(&mut second);
        drop(Listing::begin(&mut third));
        writer.is("DEL h", ":1");
        assert_untouched(&first.end());
        assert_untouched(&other.end());
    }

    #[test]
    fn fields_that_expire_meanwhile_are_shown() {
        let mut client = Client::new();
        filled(&mut client);
        client.is("HPEXPIRE h 1 FIELDS 2 f1 f2", "[:1 :1]").is("HPEXPIRE h 5 FIELDS 1 f3", "[:1]").later(1);
        let mut writer = client.beside();
        let listing = Listing::begin(&mut client);
        writer.later(9);
        let server = engine::host::threads::Server { worker: 0, now_us: writer.now().unix_us };
        writer.engine().expire_due(0..8, server, 1000);
        writer.is("HLEN h", &format!(":{}", FIELDS - 3));
        let pairs = listing.end();
        assert_eq!((pairs.len(), pairs.contains_key("f3"), pairs.contains_key("f1")), (FIELDS - 2, true, false));
    }

    #[test]
    fn short_listings() {
        let mut client = Client::new();
        client.is("HGETALL h", "[]").is("HKEYS h", "[]").is("HSET h a 1 b 2", ":2");
        client.is("HGETALL h", "[a 1 b 2]").is("HKEYS h", "[a b]").is("HVALS h", "[1 2]");
    }

    #[test]
    fn a_scan_shows_what_matches() {
        let mut client = Client::new();
        client.is("HSCAN h 0 foo", "[0 []]").is("HSCAN h x", "-ERR invalid cursor").is("HSET h a 1 b 2 ab 3", ":3");
        client.is("HSCAN h 0", "[0 [a 1 b 2 ab 3]]").is("HSCAN h 0 MATCH a* NOVALUES", "[0 [a ab]]");
        client.is("HSCAN h 0 noscores", "-ERR NOSCORES option can only be used in ZSCAN");
        client.is("HSCAN h 0 COUNT 0", "-ERR syntax error").is("HSCAN h 0 foo", "-ERR syntax error");
        client
            .is("HSCAN h 0 COUNT", "-ERR syntax error")
            .is("HSCAN h 0 COUNT x", "-ERR value is not an integer or out of range");
        filled(&mut client);
        let (mut cursor, mut found, mut calls) = ("0".to_string(), std::collections::BTreeSet::new(), 0);
        loop {
            let reply = client.run(&format!("HSCAN h {cursor} COUNT 100 MATCH f* NOVALUES"));
            let (next, names) = reply[1..reply.len() - 2].split_once(" [").expect("a cursor and names");
            found.extend(names.split(' ').filter(|name| !name.is_empty()).map(str::to_string));
            calls += 1;
            if next == "0" {
                break;
            }
            cursor = next.to_string();
        }
        assert_eq!(found.len(), FIELDS);
        assert!((30..=51).contains(&calls), "{calls} calls");
    }

    #[test]
    fn fields_are_drawn() {
        let mut client = Client::new();
        client.is("HRANDFIELD h", "nil").is("HRANDFIELD h 3", "[]").is("HSET h a 1 b 2", ":2");
        client.is("HRANDFIELD h 5 WITHVALUES", "[a 1 b 2]").is("HRANDFIELD h 0", "[]");
        let count = |client: &mut Client, line: &str| match client.value(line) {
            Value::Array(items) => {
                let unique: std::collections::BTreeSet<_> = items.iter().map(|item| format!("{item:?}")).collect();
                (items.len(), unique.len())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(count(&mut client, "HRANDFIELD h 1"), (1, 1));
        assert_eq!(count(&mut client, "HRANDFIELD h -50"), (50, 2));
        filled(&mut client);
        for n in [1, 10, 1600, 3000, 5001] {
            assert_eq!(count(&mut client, &format!("HRANDFIELD h {n}")), (n, n));
        }
        assert_eq!(count(&mut client, "HRANDFIELD h -7 WITHVALUES").0, 14);
        let range = "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
        client
            .is("HRANDFIELD h -9223372036854775808", range)
            .is("HRANDFIELD h x", "-ERR value is not an integer or out of range");
        client.is("HRANDFIELD h 9223372036854775807 WITHVALUES", "-ERR value is out of range");
        client.is("HRANDFIELD h 1 foo", "-ERR syntax error").is("HRANDFIELD h 1 WITHVALUES x", "-ERR syntax error");
    }
}
