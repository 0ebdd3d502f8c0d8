//! Hashes as a whole: HGETALL, HKEYS, HVALS, HSCAN, HRANDFIELD.
//!
//! Fields that have run out are not shown. HGETALL and its kin send large hashes in pieces (`pieces.rs`).

use crate::args::Args;
use crate::cx::Cx;
use crate::hash::{now, reply_item};
use crate::pieces;
use crate::row::{Command, Group, READONLY, ROW, key};
use crate::scan::parse_cursor;
use engine::listing::Lister;
use engine::value::{Collection, Object};
use engine::{Error, glob};
use resp::{Protocol, Reply};
use std::collections::HashSet;
use structures::hash::Hash;
use structures::listpack::Item;

const HASH: Command = Command { group: Group::Hash, ..ROW };

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

const COUNT_RANGE: Error =
    Error::text("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");
const OUT_OF_RANGE: Error = Error::text("ERR value is out of range");

/// What is shown of a field.
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

/// All fields that have not run out at a moment.
struct Fields {
    at: u64,
    now: u64,
    show: Show,
}

impl Lister for Fields {
    fn piece(&mut self, object: &Object, max: usize, reply: &mut Reply) -> bool {
        let Some(hash) = Hash::of(object) else { return true };
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

fn hgetall(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    list(cx, args, Show::Pairs)
}

fn hkeys(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    list(cx, args, Show::Names)
}

fn hvals(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    list(cx, args, Show::Values)
}

fn list(cx: &mut Cx<'_>, args: &Args<'_>, show: Show) -> Result<(), Error> {
    let now = now(cx);
    let key = cx.key(args, 1);
    let count = cx.keys.collection::<Hash>(key)?.map(|hash| hash.live_len(now));
    show.header(cx.reply, count.unwrap_or(0));
    if let Some(count) = count {
        pieces::list(cx, key, count, Fields { at: 0, now, show });
    }
    Ok(())
}

/// Buckets that a scan looks into for every field that it may show.
const BUCKETS_PER_FIELD: usize = 10;

fn hscan(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut cursor = parse_cursor(&args[2])?;
    let now = now(cx);
    let (mut pattern, mut count, mut show, mut index) = (None, 10, Show::Pairs, 3);
    let hash = cx.keys.collection::<Hash>(cx.key(args, 1))?;
    let Some(hash) = hash else {
        cx.reply.array(2);
        cx.reply.bulk(b"0");
        cx.reply.array(0);
        return Ok(());
    };
    while index < args.len() {
        let more = index + 1 < args.len();
        if more && args.is(index, "count") {
            count = usize::try_from(args.int(index + 1)?).ok().filter(|n| *n > 0).ok_or(Error::SYNTAX)?;
            index += 2;
        } else if more && args.is(index, "match") {
            pattern = Some(&args[index + 1]).filter(|pattern| *pattern != b"*");
            index += 2;
        } else if args.is(index, "novalues") {
            show = Show::Names;
            index += 1;
        } else {
            return Err(Error::SYNTAX);
        }
    }
    let (mut found, mut seen, mut shown) = (Reply::new(Vec::new(), cx.reply.protocol()), 0, 0);
    for _ in 0..count.saturating_mul(BUCKETS_PER_FIELD) {
        let next = hash.scan(cursor, 0, now, |name, value| {
            seen += 1;
            if pattern.is_none_or(|pattern| glob::matches(pattern, name.bytes(&mut itoa::Buffer::new()))) {
                shown += 1;
                show.write(&mut found, name, value);
            }
        });
        cursor = next.unwrap_or(0);
        if cursor == 0 || seen >= count {
            break;
        }
    }
    cx.reply.array(2);
    cx.reply.bulk(cursor.to_string().as_bytes());
    cx.reply.array(if show == Show::Pairs { shown * 2 } else { shown });
    cx.reply.raw(found.as_slice());
    Ok(())
}

/// Fields that have run out and are drawn, before HRANDFIELD gives up.
const DRAWS: usize = 100;
/// Fields are drawn one by one, and those drawn twice drawn again, when fewer than one in so many is asked for.
const SPARSE: usize = 3;

fn hrandfield(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let now = now(cx);
    let key = cx.key(args, 1);
    if args.len() == 2 {
        let hash = cx.keys.collection::<Hash>(key)?;
        reply_item(cx.reply, hash.and_then(|hash| draw(hash, now)).map(|(name, _)| name));
        return Ok(());
    }
    let count = args.int(2)?;
    if count == i64::MIN {
        return Err(COUNT_RANGE);
    }
    if args.len() > 4 || (args.len() == 4 && !args.is(3, "withvalues")) {
        return Err(Error::SYNTAX);
    }
    let show = if args.len() == 4 { Show::NestedPairs } else { Show::Names };
    if show == Show::NestedPairs && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(OUT_OF_RANGE);
    }
    let Some(hash) = cx.keys.collection::<Hash>(key)? else {
        cx.reply.array(0);
        return Ok(());
    };
    let live = hash.live_len(now);
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        draw_with_repeats(cx.reply, hash, now, if live == 0 { 0 } else { wanted }, show);
    } else if wanted >= live {
        show.header(cx.reply, live);
        pieces::list(cx, key, live, Fields { at: 0, now, show });
    } else if hash.encoding() == "hashtable" && wanted.saturating_mul(SPARSE) < hash.len() {
        draw_distinct(cx.reply, hash, now, wanted, show);
    } else {
        sample(cx.reply, hash, now, (wanted, live), show);
    }
    Ok(())
}

/// Any field that has not run out; None if there seems to be none.
fn draw(hash: &Hash, now: u64) -> Option<(Item<'_>, Item<'_>)> {
    (0..DRAWS).find_map(|_| hash.random(fastrand::u64(..), now))
}

fn draw_with_repeats(reply: &mut Reply, hash: &Hash, now: u64, wanted: usize, show: Show) {
    let (mut drawn, mut found) = (0, Reply::new(Vec::new(), reply.protocol()));
    while drawn < wanted
        && let Some((name, value)) = draw(hash, now)
    {
        drawn += 1;
        show.write(&mut found, name, value);
    }
    show.header(reply, drawn);
    reply.raw(found.as_slice());
}

fn draw_distinct(reply: &mut Reply, hash: &Hash, now: u64, wanted: usize, show: Show) {
    let (mut names, mut found) = (HashSet::new(), Reply::new(Vec::new(), reply.protocol()));
    for _ in 0..wanted.saturating_mul(10) {
        let Some((name, value)) = draw(hash, now).filter(|_| names.len() < wanted) else { break };
        if names.insert(name.to_vec()) {
            show.write(&mut found, name, value);
        }
    }
    show.header(reply, names.len());
    reply.raw(found.as_slice());
}

/// Goes through all fields and takes each with the probability that leaves every choice equally likely.
fn sample(reply: &mut Reply, hash: &Hash, now: u64, (mut wanted, mut left): (usize, usize), show: Show) {
    show.header(reply, wanted);
    hash.visit(now, |name, value| {
        if fastrand::usize(..left.max(1)) < wanted {
            wanted -= 1;
            show.write(reply, name, value);
        }
        left = left.saturating_sub(1);
    });
}
