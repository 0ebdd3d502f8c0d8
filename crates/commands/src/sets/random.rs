//! Members of sets at random: SPOP, SRANDMEMBER.
//!
//! Each member is as likely as another. The way to choose several depends on their share of the set: few are drawn one
//! by one, many are found on one walk over the set, and none is copied for it.

use crate::core::args::Args;
use crate::core::chunked_reply;
use crate::core::command::{Command, FAST, Group, READONLY, WRITE, key};
use crate::core::context::{Context, Flow, Resumable};
use crate::core::yielding::{self, Yielding};
use crate::sets::set::{MembersReply, commit_removal, reply_member};
use engine::config::Directive;
use engine::data::event_class::EventClass;
use engine::data::value::{Collection, Object};
use engine::keyspace::keys::Key;
use engine::propagation::effects::Record;
use engine::{Engine, Error};
use resp::Reply;
use std::collections::HashSet;
use structures::listpack::Item;
use structures::set::{Limits, Set, TakenMember};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "spop",
        group: Group::Set,
        since: "1.0.0",
        arity: -2,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().access().delete()],
        syntax: "key [count:int]@3.2.0",
        summary: "Returns one or more random members from a set after removing them. Deletes the set if the last member was popped.",
        complexity: "Without the count argument O(1), otherwise O(N) where N is the value of the passed count.",
        history: &[("3.2.0", "Added the `count` argument.")],
        tips: &["nondeterministic_output"],
        run: spop,
        ..Command::DEFAULT
    },
    Command {
        name: "srandmember",
        group: Group::Set,
        since: "1.0.0",
        arity: -2,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key [count:int]@2.6.0",
        summary: "Gets one or multiple random members from a set.",
        complexity: "Without the count argument O(1), otherwise O(N) where N is the absolute value of the passed count.",
        history: &[("2.6.0", "Added the optional `count` argument.")],
        tips: &["nondeterministic_output"],
        run: srandmember,
        ..Command::DEFAULT
    },
];

/// Ratio of popped members to the rest from which the rest is moved to a new set instead.
const REST_SHARE: usize = 5;
/// Members are drawn one by one up to this share of a set.
const DRAW_SHARE: usize = 3;
/// Members of one record in the change log.
const RECORD_MEMBERS: usize = 1024;

fn spop(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    match args.len() {
        2 => pop_one(cx, args),
        3 => pop_several(cx, args),
        _ => Err(Error::Syntax),
    }
}

fn pop_one(cx: &mut Context<'_>, args: &Args<'_>) -> Result<(), Error> {
    let key = cx.key(args, 1);
    let mut edit = cx.keys.edit(key);
    if !edit.exists() {
        cx.reply.null();
        return Ok(());
    }
    let taken = edit.with(|set: &mut Set| set.take_random(fastrand::u64(..)))?;
    edit.log_as(|| removals(key.name, taken.as_ref().map(TakenMember::item)));
    commit_removal(edit, taken.iter().len(), "spop");
    match taken {
        Some(taken) => reply_member(cx.reply, taken.item()),
        None => cx.reply.null(),
    }
    Ok(())
}

fn pop_several(cx: &mut Context<'_>, args: &Args<'_>) -> Result<(), Error> {
    let count = args.int(2).ok().and_then(|count| usize::try_from(count).ok()).ok_or(Error::NotPositive)?;
    let (key, limits) = (cx.key(args, 1), cx.engine.encoding_limits().set());
    let yielding = yielding(cx, key, count)?;
    let mut edit = cx.keys.edit(key);
    let len = edit.collection::<Set>()?.map_or(0, Set::len);
    if count == 0 || len == 0 {
        cx.reply.set(0);
        return Ok(());
    }
    cx.reply.set(count.min(len));
    let in_pieces = count.min(len) > chunked_reply::AT_ONCE;
    if count >= len {
        // Valkey reads it as SMEMBERS does.
        edit.count_read();
        if !in_pieces && let Some(set) = edit.collection::<Set>()? {
            set.iter().for_each(|member| reply_member(cx.reply, member));
        }
        let popped = edit.remove_shared();
        edit.log_as(|| vec![vec![removal_word(cx.engine).to_vec(), key.name.to_vec()]]);
        edit.event(EventClass::SET, "spop");
        edit.commit_many(len as u64, EventClass::GENERIC, "del");
        if in_pieces && let Some(popped) = popped {
            chunked_reply::list_removed(cx, popped, MembersReply::default());
        }
    } else if (len - count).saturating_mul(REST_SHARE) <= count {
        let popped = edit.with(|set: &mut Set| {
            let rest = take_rest(set, len - count, &limits, &yielding);
            std::mem::replace(set, rest)
        })?;
        edit.log_as(|| removals(key.name, popped.iter()));
        if !in_pieces {
            popped.iter().for_each(|member| reply_member(cx.reply, member));
        }
        // A reader that lists the set continues with this one.
        let popped = edit.share(Object::Set(popped));
        edit.commit_many(count as u64, EventClass::SET, "spop");
        if in_pieces {
            chunked_reply::list_removed(cx, popped, MembersReply::default());
        }
    } else {
        let popped = edit.with(|set: &mut Set| {
            let draws = (0..count).inspect(|_| yielding.step());
            let draws = draws.map_while(|_| set.take_random(fastrand::u64(..)));
            draws.collect::<Vec<TakenMember>>()
        })?;
        popped.iter().for_each(|taken| reply_member(cx.reply, taken.item()));
        edit.log_as(|| removals(key.name, popped.iter().map(TakenMember::item)));
        edit.commit_many(count as u64, EventClass::SET, "spop");
    }
    Ok(())
}

/// Returns the lending for taking so many members out.
fn yielding<'c>(cx: &mut Context<'c>, key: Key<'_>, count: usize) -> Result<Yielding<'c>, Error> {
    // A few members need no look-up.
    let elements = if count > yielding::AT_ONCE { cx.elements(key, members).min(count) } else { count };
    cx.yielding(elements)
}

fn members(object: &Object) -> usize {
    Set::of(object).map_or(0, Set::len)
}

/// Returns the command that removes a key without members.
fn removal_word(engine: &Engine) -> &'static [u8] {
    if engine.config().snapshot().flag(Directive::LAZYFREE_LAZY_SERVER_DEL) { b"UNLINK" } else { b"DEL" }
}

/// Takes out any `count` members, as a set that begins as small as it can.
fn take_rest(set: &mut Set, count: usize, limits: &Limits, yielding: &Yielding<'_>) -> Set {
    let mut rest = if matches!(set, Set::Ints(_)) { Set::default() } else { Set::small() };
    for _ in 0..count {
        yielding.step();
        if let Some(taken) = set.take_random(fastrand::u64(..)) {
            rest.insert_item(taken.item(), limits);
        }
    }
    rest
}

/// Returns the change log's records of a command that chose these members.
fn removals<'a>(key: &[u8], members: impl IntoIterator<Item = Item<'a>>) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    for member in members {
        match records.last_mut() {
            Some(record) if record.len() < RECORD_MEMBERS + 2 => record.push(member.to_vec()),
            _ => records.push(vec![b"SREM".to_vec(), key.to_vec(), member.to_vec()]),
        }
    }
    records
}

fn srandmember(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.len() > 3 {
        return Err(Error::Syntax);
    }
    if args.len() == 3 {
        return several(cx, args);
    }
    let set = cx.keys.collection::<Set>(cx.key(args, 1))?;
    match set.and_then(|set| set.random(fastrand::u64(..))) {
        Some(member) => reply_member(cx.reply, member),
        None => cx.reply.null(),
    }
    Ok(())
}

fn several(cx: &mut Context<'_>, args: &Args<'_>) -> Result<(), Error> {
    let count = args.int(2)?;
    if count == i64::MIN {
        return Err(Error::NotNegatable);
    }
    let (key, wanted) = (cx.key(args, 1), usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX));
    let yielding = cx.yielding_to_draw(key, wanted, members)?;
    let Some(set) = cx.keys.collection::<Set>(key)? else {
        cx.reply.array(0);
        return Ok(());
    };
    if count < 0 {
        cx.reply.array(wanted);
        if wanted > DRAWS_AT_ONCE.max(set.len()) {
            cx.flow = Flow::more(Draws { left: wanted, set: set.clone() });
        } else {
            draw(set, wanted, cx.reply, &yielding);
        }
        return Ok(());
    }
    cx.reply.array(wanted.min(set.len()));
    sample(set, wanted, &yielding, |member| reply_member(cx.reply, member));
    Ok(())
}

/// Shows `wanted` distinct members, or all if there are not so many.
fn sample<'s>(set: &'s Set, wanted: usize, yielding: &Yielding<'_>, mut show: impl FnMut(Item<'s>)) {
    let len = set.len();
    let by_walk = !matches!(set, Set::Big(_)) || wanted.saturating_mul(DRAW_SHARE) > len;
    if wanted >= len || by_walk {
        // Each member is shown with the probability that leaves every choice equally likely (Knuth, "The Art of
        // Computer Programming", volume 2, algorithm S).
        let mut missing = wanted.min(len);
        for (seen, member) in yielding.over(set.iter()).enumerate() {
            if missing > 0 && fastrand::usize(..len - seen) < missing {
                missing -= 1;
                show(member);
            }
        }
        return;
    }
    let mut drawn = HashSet::with_capacity(wanted);
    while drawn.len() < wanted {
        yielding.step();
        if let Some(member @ Item::Bytes(bytes)) = set.random(fastrand::u64(..))
            && drawn.insert(bytes.as_ptr())
        {
            show(member);
        }
    }
}

/// Members that are drawn at once, or as many as the set has, if these are more.
const DRAWS_AT_ONCE: usize = 10_000;
/// Members that are drawn before others get their turn.
const PIECE: usize = 1000;

fn draw(set: &Set, count: usize, reply: &mut Reply, yielding: &Yielding<'_>) {
    for _ in yielding.over(0..count) {
        if let Some(member) = set.random(fastrand::u64(..)) {
            reply_member(reply, member);
        }
    }
}

/// More draws than there are members: from a copy of the set, so that they are of one moment, and as fast as the client
/// takes them, since it may ask for more than fits into memory.
struct Draws {
    left: usize,
    set: Set,
}

impl Resumable for Draws {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let count = self.left.min(PIECE);
        draw(&self.set, count, cx.reply, &Yielding::never());
        self.left -= count;
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;
    use std::collections::{BTreeMap, BTreeSet};

    fn words(reply: &str) -> Vec<String> {
        let words: Vec<String> = reply.trim_matches(['[', ']']).split(' ').map(str::to_owned).collect();
        if words == [""] { Vec::new() } else { words }
    }

    /// Returns the names of a set of each form with `len` members.
    fn filled(client: &mut Client, len: usize) -> [&'static str; 3] {
        for n in 0..len {
            client.run(&format!("SADD ints {n}"));
            client.run(&format!("SADD small m{n}"));
            client.run(&format!("SADD big {}{n}", "m".repeat(65)));
        }
        ["ints", "small", "big"]
    }

    #[test]
    fn a_set_that_loses_most_members_is_still_listed_as_it_was() {
        let mut client = Client::new();
        let members: Vec<String> = (0..4000).map(|n| format!("m{n}")).collect();
        members.chunks(1000).for_each(|some| _ = client.run(&format!("SADD s {}", some.join(" "))));
        let mut other = client.beside();
        let mut listing = client.begin(&["SMEMBERS", "s"]);
        assert!(!listing.step());
        other.run("SPOP s 3990");
        let reply = listing.end();
        let mut shown: Vec<&str> = reply.trim_matches(['[', ']']).split(' ').collect();
        shown.sort_unstable_by_key(|member| member[1..].parse::<usize>().unwrap());
        assert_eq!(shown, members);
        other.is("SCARD s", ":10");
    }

    #[test]
    fn popped_members_are_gone() {
        for count in [1, 5, 19, 20, 30] {
            let mut client = Client::new();
            for key in filled(&mut client, 20) {
                let all: BTreeSet<String> = words(&client.run(&format!("SMEMBERS {key}"))).into_iter().collect();
                let popped = words(&client.run(&format!("SPOP {key} {count}")));
                let mut rest: BTreeSet<String> = words(&client.run(&format!("SMEMBERS {key}"))).into_iter().collect();
                assert_eq!((popped.len(), rest.len()), (count.min(20), 20 - count.min(20)), "{key} {count}");
                rest.extend(popped);
                assert_eq!(rest, all);
            }
        }
    }

    #[test]
    fn the_log_names_the_members_that_chance_chose() {
        let mut client = Client::with_events();
        let log = client.log();
        client.is("SADD s a", ":1").is("SPOP s", "a").is("SADD s b c", ":2");
        client.run("SPOP s 9");
        client.is("SADD t 1 2 3 4 5 6", ":6").run("SPOP t 2");
        assert_eq!(client.engine().stats().hits, 1, "all of a set are read, some only removed");
        let left = words(&client.run("SMEMBERS t"));
        client.is("SPOP t 0", "[]").is("SPOP missing", "nil").is("SPOP missing 4", "[]");
        let text =
            |record: Record| record.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>();
        let records: Vec<String> = log.take().into_iter().map(|(_, record)| text(record).join(" ")).collect();
        assert_eq!(records[..4], ["SADD s a", "SREM s a", "SADD s b c", "UNLINK s"]);
        let removed = records[5].strip_prefix("SREM t ").expect("an SREM");
        assert!(words(removed).iter().all(|member| !left.contains(member)), "{records:?}");
        assert_eq!(records.len(), 6);
        let events = client.events();
        assert_eq!(events[..7], ["0 new s", "0 sadd s", "0 spop s", "0 del s", "0 new s", "0 sadd s", "0 spop s"]);
    }

    #[test]
    fn a_large_share_leaves_a_compact_rest() {
        let mut client = Client::new();
        (0..200).for_each(|n| _ = client.is(&format!("SADD s m{n}"), ":1"));
        client.is("OBJECT ENCODING s", "hashtable");
        client.run("SPOP s 190");
        client.is("OBJECT ENCODING s", "listpack").is("SCARD s", ":10");
    }

    #[test]
    fn samples_are_distinct_and_draws_are_not() {
        let mut client = Client::new();
        for key in filled(&mut client, 20) {
            for count in [0, 1, 5, 19, 20, 30] {
                let sample = words(&client.run(&format!("SRANDMEMBER {key} {count}")));
                assert_eq!(sample.len() as i32, count.min(20));
                assert_eq!(sample.into_iter().collect::<BTreeSet<_>>().len() as i32, count.min(20));
                let draws = words(&client.run(&format!("SRANDMEMBER {key} {}", -count)));
                assert_eq!(draws.len() as i32, count);
            }
            let many = words(&client.run(&format!("SRANDMEMBER {key} -25000")));
            assert_eq!(many.len(), 25_000);
            assert_eq!(many.into_iter().collect::<BTreeSet<_>>().len(), 20);
            client.is(&format!("SCARD {key}"), ":20");
        }
    }

    #[test]
    fn every_member_is_as_likely_in_a_sample() {
        fastrand::seed(3);
        let mut client = Client::new();
        for key in filled(&mut client, 20) {
            for count in [2, 10] {
                let mut counts = BTreeMap::<String, usize>::new();
                for _ in 0..2000 {
                    for member in words(&client.run(&format!("SRANDMEMBER {key} {count}"))) {
                        *counts.entry(member).or_default() += 1;
                    }
                }
                let fair = 2000 * count / 20;
                let near = |n: &usize| (fair * 7 / 10..fair * 13 / 10).contains(n);
                assert!(counts.len() == 20 && counts.values().all(near), "{key} {count} {counts:?}");
            }
        }
    }

    #[test]
    fn wrong_types_and_counts_are_refused() {
        let mut client = Client::new();
        client.is("SADD s a b", ":2").is("SET str x", "+OK");
        let positive = "-ERR value is out of range, must be positive";
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        client.is("SPOP s -1", positive).is("SPOP s x", positive).is("SPOP missing x", positive);
        client.is("SPOP s 1 2", "-ERR syntax error").is("SPOP str", wrong).is("SPOP str 1", wrong);
        client.is("SRANDMEMBER s x", "-ERR value is not an integer or out of range");
        client.is("SRANDMEMBER s 1 2", "-ERR syntax error").is("SRANDMEMBER str 0", wrong);
        client.is(
            "SRANDMEMBER s -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        );
        client.is("SRANDMEMBER missing", "nil").is("SRANDMEMBER missing 3", "[]");
    }
}
