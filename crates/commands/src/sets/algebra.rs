//! Unions, intersections and differences of sets.
//!
//! The sets are read where they lie: [`Keys::together`] lends all of them at the same time. The computation is in
//! `set_operations.rs`; if it takes long, `chunked_algebra.rs` does it a chunk at a time.

use crate::core::args::Args;
use crate::core::command::{Command, DENY_OOM, Group, READONLY, WRITE, key};
use crate::core::context::Context;
use crate::core::yielding::Yielding;
use crate::sets::chunked_algebra::{self, SetOperation};
use crate::sets::set::{self, reply_member};
use crate::sets::set_operations::{Difference, MemberRefs, Sets, build, intersect, normal, unite};
use engine::Error;
use engine::data::event_class::EventClass;
use engine::data::value::{Collection, Object, Value};
use engine::keyspace::edit::Ttl;
use engine::keyspace::keys::{Key, Keys};
use resp::reply::{Mark, Reply};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::ops::{ControlFlow, Range};
use structures::listpack::Item;
use structures::set::Set;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "sinter",
        group: Group::Set,
        since: "1.0.0",
        arity: -2,
        flags: READONLY,
        keys: &[key(1).ro().access().to(-1, 1)],
        syntax: "key...",
        summary: "Returns the intersect of multiple sets.",
        complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
        tips: &["nondeterministic_output_order"],
        run: sinter,
        ..Command::DEFAULT
    },
    Command {
        name: "sinterstore",
        group: Group::Set,
        since: "1.0.0",
        arity: -3,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).ow().update(), key(2).ro().access().to(-1, 1)],
        syntax: "destination:key key...",
        summary: "Stores the intersect of multiple sets in a key.",
        complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
        run: sinterstore,
        ..Command::DEFAULT
    },
    Command {
        name: "sunion",
        group: Group::Set,
        since: "1.0.0",
        arity: -2,
        flags: READONLY,
        keys: &[key(1).ro().access().to(-1, 1)],
        syntax: "key...",
        summary: "Returns the union of multiple sets.",
        complexity: "O(N) where N is the total number of elements in all given sets.",
        tips: &["nondeterministic_output_order"],
        run: sunion,
        ..Command::DEFAULT
    },
    Command {
        name: "sunionstore",
        group: Group::Set,
        since: "1.0.0",
        arity: -3,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).ow().update(), key(2).ro().access().to(-1, 1)],
        syntax: "destination:key key...",
        summary: "Stores the union of multiple sets in a key.",
        complexity: "O(N) where N is the total number of elements in all given sets.",
        run: sunionstore,
        ..Command::DEFAULT
    },
    Command {
        name: "sdiff",
        group: Group::Set,
        since: "1.0.0",
        arity: -2,
        flags: READONLY,
        keys: &[key(1).ro().access().to(-1, 1)],
        syntax: "key...",
        summary: "Returns the difference of multiple sets.",
        complexity: "O(N) where N is the total number of elements in all given sets.",
        tips: &["nondeterministic_output_order"],
        run: sdiff,
        ..Command::DEFAULT
    },
    Command {
        name: "sdiffstore",
        group: Group::Set,
        since: "1.0.0",
        arity: -3,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).ow().update(), key(2).ro().access().to(-1, 1)],
        syntax: "destination:key key...",
        summary: "Stores the difference of multiple sets in a key.",
        complexity: "O(N) where N is the total number of elements in all given sets.",
        run: sdiffstore,
        ..Command::DEFAULT
    },
];

/// Names of keys, in the order in which they were given; None for missing keys.
pub type Names<'a> = SmallVec<[Option<Key<'a>>; 4]>;

/// Looks the keys at these arguments up; all of them must hold sets or be missing.
pub fn look_up<'a>(cx: &mut Context<'_>, args: &'a Args<'_>, indices: Range<usize>) -> Result<Names<'a>, Error> {
    indices
        .map(|index| {
            let key = cx.key(args, index);
            Ok(cx.keys.collection::<Set>(key)?.map(|_| key))
        })
        .collect()
}

/// Returns the key of the only set that exists, if there is one: its result alone is listed as SMEMBERS does it.
fn only_one<'a>(names: &Names<'a>) -> Option<Key<'a>> {
    let mut there = names.iter().copied().flatten();
    let first = there.next()?;
    there.all(|other| other.name == first.name).then_some(first)
}

pub fn borrow<'k>(keys: &'k Keys<'_>, names: &Names<'_>) -> Sets<'k> {
    let set = |name: Key<'_>| match keys.together(name) {
        Some(Value::Payload(object)) => Set::of(object),
        _ => None,
    };
    names.iter().map(|name| name.and_then(set)).collect()
}

/// Returns the keys of the sets that exist, each once, in the order of their sizes' `rank`.
fn by_size<'a, R: Ord>(names: &[Option<Key<'a>>], sets: &[Option<&Set>], rank: impl Fn(usize) -> R) -> Vec<Key<'a>> {
    let there = names.iter().zip(sets).filter_map(|(name, set)| Some(((*name)?, (*set)?.len())));
    let mut sized: Vec<(Key<'a>, usize)> = Vec::new();
    there.for_each(|(name, len)| {
        if sized.iter().all(|(other, _)| other.name != name.name) {
            sized.push((name, len));
        }
    });
    sized.sort_by_key(|(_, len)| rank(*len));
    sized.into_iter().map(|(name, _)| name).collect()
}

/// Returns the lending for the work on these sets.
pub fn yielding<'c>(cx: &mut Context<'c>, names: &Names<'_>) -> Result<Yielding<'c>, Error> {
    let members = borrow(&cx.keys, names).iter().flatten().map(|set| set.len()).sum();
    cx.yielding(members)
}

/// A set in the reply, whose length is known at its end.
struct ReplyMembers<'r> {
    reply: &'r mut Reply,
    mark: Mark,
    count: usize,
}

impl<'r> ReplyMembers<'r> {
    fn begin(reply: &'r mut Reply) -> ReplyMembers<'r> {
        let mark = reply.begin_set();
        ReplyMembers { reply, mark, count: 0 }
    }

    /// Writes a member. Returns that the walk over members goes on.
    fn put(&mut self, member: Item<'_>) -> ControlFlow<()> {
        reply_member(self.reply, member);
        self.count += 1;
        ControlFlow::Continue(())
    }

    fn end(self) {
        self.reply.end_set(self.mark, self.count);
    }
}

fn sinter(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let names = look_up(cx, args, 1..args.len())?;
    if let Some(key) = only_one(&names).filter(|_| names.iter().all(Option::is_some)) {
        return set::list_found(cx, key);
    }
    let large = {
        let sets = borrow(&cx.keys, &names);
        let smallest = sets.iter().map(|set| set.map_or(0, Set::len)).min().unwrap_or(0);
        let is_large = smallest.saturating_mul(names.len() - 1) > chunked_algebra::AT_ONCE;
        is_large.then(|| by_size(&names, &sets, |len| len))
    };
    if let Some(names) = large {
        chunked_algebra::begin(cx, SetOperation::Intersection, &names);
        return Ok(());
    }
    let sets = borrow(&cx.keys, &names);
    let mut members = ReplyMembers::begin(cx.reply);
    intersect(sets, &Yielding::never(), |_, member| members.put(member));
    members.end();
    Ok(())
}

fn sinterstore(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let limits = cx.engine.encoding_limits().set();
    let names = look_up(cx, args, 2..args.len())?;
    let yielding = yielding(cx, &names)?;
    let (mut members, mut empty) = (Vec::new(), Set::default());
    intersect(borrow(&cx.keys, &names), &yielding, |smallest, member| {
        if members.is_empty() && !matches!(smallest, Set::Ints(_)) {
            empty = Set::small();
        }
        members.push(member);
        ControlFlow::Continue(())
    });
    let mut result = build(empty, &members, &limits, &yielding);
    if result.len() <= limits.intset_entries && members.iter().all(|member| matches!(normal(*member), Item::Int(_))) {
        result.make_ints(&limits);
    }
    store(cx, args, result, "sinterstore");
    Ok(())
}

fn sunion(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let names = look_up(cx, args, 1..args.len())?;
    if let Some(key) = only_one(&names) {
        return set::list_found(cx, key);
    }
    let large = {
        let sets = borrow(&cx.keys, &names);
        let is_large = sets.iter().flatten().map(|set| set.len()).sum::<usize>() > chunked_algebra::AT_ONCE;
        is_large.then(|| by_size(&names, &sets, Reverse))
    };
    if let Some(names) = large {
        chunked_algebra::begin(cx, SetOperation::Union, &names);
        return Ok(());
    }
    let sets = borrow(&cx.keys, &names);
    let mut members = ReplyMembers::begin(cx.reply);
    unite(sets, |member| members.put(member));
    members.end();
    Ok(())
}

fn sunionstore(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let limits = cx.engine.encoding_limits().set();
    let names = look_up(cx, args, 2..args.len())?;
    let yielding = yielding(cx, &names)?;
    let mut result = Set::default();
    {
        let mut sets: SmallVec<[&Set; 4]> = borrow(&cx.keys, &names).into_iter().flatten().collect();
        let largest = sets.iter().copied().max_by_key(|set| set.len());
        // All of them in any order become a table then.
        if let Some(largest) = largest.filter(|set| set.len() > limits.intset_entries.max(limits.listpack_entries)) {
            result = Set::of_distinct(largest.len(), largest.iter().inspect(|_| yielding.step()));
            sets.retain(|set| !std::ptr::eq(*set, largest));
        }
        let rest = sets.iter().flat_map(|set| set.iter()).inspect(|_| yielding.step());
        rest.for_each(|member| _ = result.insert_item(member, &limits));
    }
    store(cx, args, result, "sunionstore");
    Ok(())
}

fn sdiff(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let names = look_up(cx, args, 1..args.len())?;
    if let Some(key) = names[0].filter(|_| names[1..].iter().all(Option::is_none)) {
        if let Some(Some(Set::Small(pack))) = borrow(&cx.keys, &names).first() {
            // A dump that was not checked may contain a member twice: a difference has it once.
            let mut shown = MemberRefs::default();
            let members: Vec<Item<'_>> = pack.iter().filter(|member| shown.insert(*member)).collect();
            cx.reply.set(members.len());
            members.iter().for_each(|member| reply_member(cx.reply, *member));
            return Ok(());
        }
        return set::list_found(cx, key);
    }
    let large = {
        let sets = borrow(&cx.keys, &names);
        let is_large = Difference::of(&sets).is_some_and(|difference| difference.effort() > chunked_algebra::AT_ONCE);
        is_large.then(|| by_size(&names[1..], &sets[1..], Reverse))
    };
    if let Some(others) = large {
        let names: Vec<Key<'_>> = names[0].into_iter().chain(others).collect();
        chunked_algebra::begin(cx, SetOperation::Difference, &names);
        return Ok(());
    }
    let sets = borrow(&cx.keys, &names);
    let mut members = ReplyMembers::begin(cx.reply);
    if let Some(difference) = Difference::of(&sets) {
        difference.visit(&Yielding::never(), |member| members.put(member));
    }
    members.end();
    Ok(())
}

fn sdiffstore(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let limits = cx.engine.encoding_limits().set();
    let names = look_up(cx, args, 2..args.len())?;
    let yielding = yielding(cx, &names)?;
    let result = Difference::of(&borrow(&cx.keys, &names)).map(|difference| difference.to_set(&limits, &yielding));
    store(cx, args, result.unwrap_or_default(), "sdiffstore");
    Ok(())
}

/// Puts the result in the place of the value of the key at argument 1, and replies its size.
fn store(cx: &mut Context<'_>, args: &Args<'_>, result: Set, event: &'static str) {
    let mut edit = cx.keys.edit_for_result(cx.key(args, 1), result.is_empty());
    cx.reply.int(result.len() as i64);
    if !result.is_empty() {
        edit.set_object(Object::Set(result), Ttl::Clear);
        edit.commit(EventClass::SET, event);
    } else if edit.remove() {
        edit.commit(EventClass::GENERIC, "del");
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;
    use std::collections::BTreeSet;

    fn sorted(reply: &str) -> BTreeSet<String> {
        let words = reply.trim_matches(['[', ']']).split(' ').filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    }

    /// Returns sets of every form and of several sizes, by name, each with its members.
    fn filled(client: &mut Client) -> Vec<(String, BTreeSet<String>)> {
        let mut sets = Vec::new();
        for (form, step) in [("ints", 1), ("small", 2), ("big", 3), ("strings", 2), ("few", 30), ("many", 1)] {
            let name = form.to_owned();
            let members: BTreeSet<String> = (0..60)
                .step_by(step)
                .map(|n| if form == "strings" { format!("s{n}") } else { n.to_string() })
                .chain((form == "small").then(|| "s2".to_owned()))
                .chain((form == "big").then(|| "x".repeat(70)))
                .chain((form == "many").then_some(100..400).into_iter().flatten().map(|n| format!("s{n}")))
                .collect();
            members.iter().for_each(|member| _ = client.is(&format!("SADD {name} {member}"), ":1"));
            sets.push((name, members));
        }
        for (name, encoding) in [("ints", "intset"), ("small", "listpack"), ("big", "hashtable"), ("many", "hashtable")]
        {
            client.is(&format!("OBJECT ENCODING {name}"), encoding);
        }
        sets.push(("missing".to_owned(), BTreeSet::new()));
        sets
    }

    #[test]
    fn large_results_are_of_the_moment_when_the_command_ran() {
        let numbers = |from: usize, to: usize| (from..to).map(|n| format!("m{n}")).collect::<BTreeSet<_>>();
        let (a, b, s) = (numbers(0, 6_000), numbers(3_000, 9_000), numbers(2_000, 2_050));
        let writes = [
            "SREM a m3001 m5999",
            "SADD b m1 m2",
            "DEL b",
            "RENAME a other",
            "RENAME b other",
            "FLUSHALL",
            "SPOP a 5000",
        ];
        for write in writes {
            for (command, expected) in [
                (["SUNION", "s", "a", "b", "a"], &a | &b),
                (["SINTER", "b", "a", "b", "a"], &a & &b),
                (["SDIFF", "a", "s", "b", "gone"], &(&a - &b) - &s),
            ] {
                for steps in [0, 3] {
                    let mut client = Client::new();
                    for (name, set) in [("a", &a), ("b", &b), ("s", &s)] {
                        let members: Vec<&str> = set.iter().map(String::as_str).collect();
                        for some in members.chunks(1000) {
                            client.run(&format!("SADD {name} {}", some.join(" ")));
                        }
                    }
                    let mut writer = client.beside();
                    let mut begun = client.begin(&command);
                    (0..steps).for_each(|_| assert!(!begun.step()));
                    writer.run(write);
                    assert_eq!(sorted(&begun.end()), expected, "{command:?} {write}");
                    let locks = writer.engine().locks();
                    (0..locks.len()).for_each(|shard| {
                        assert!(locks.one(shard).dbs.iter().all(|(_, db)| db.streamed_replies.is_empty()))
                    });
                }
            }
        }
    }

    #[test]
    fn results_are_those_of_sets() {
        let mut client = Client::new();
        let sets = filled(&mut client);
        fastrand::seed(5);
        for _ in 0..400 {
            let chosen: Vec<_> = (0..fastrand::usize(1..5)).map(|_| &sets[fastrand::usize(..sets.len())]).collect();
            let names = chosen.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ");
            let members = chosen.iter().map(|(_, members)| members.clone());
            let first = chosen[0].1.clone();
            let results = [
                ("SINTER", members.clone().reduce(|a, b| &a & &b).unwrap()),
                ("SUNION", members.clone().reduce(|a, b| &a | &b).unwrap()),
                ("SDIFF", members.clone().skip(1).fold(first, |a, b| &a - &b)),
            ];
            for (command, expected) in results {
                let reply = client.run(&format!("{command} {names}"));
                assert_eq!(sorted(&reply), expected, "{command} {names}");
                assert_eq!(reply.split(' ').filter(|word| *word != "[]").count(), expected.len(), "told once");
                let stored = format!("{command}STORE to {names}");
                client.is(&stored, &format!(":{}", expected.len()));
                assert_eq!(sorted(&client.run("SMEMBERS to")), expected, "{stored}");
                if command == "SINTER" {
                    let count = format!("SINTERCARD {} {names}", chosen.len());
                    client.is(&count, &format!(":{}", expected.len()));
                    client.is(&format!("{count} LIMIT 3"), &format!(":{}", expected.len().min(3)));
                }
            }
        }
    }

    #[test]
    fn large_results_are_stored_as_tables() {
        let mut client = Client::new();
        let numbers = |from: usize, to: usize| (from..to).map(|n| format!("m{n}")).collect::<BTreeSet<_>>();
        let (a, b, s) = (numbers(0, 3_000), numbers(1_000, 4_000), numbers(2_990, 5_990));
        for (name, set) in [("a", &a), ("b", &b), ("s", &s)] {
            let members: Vec<&str> = set.iter().map(String::as_str).collect();
            client.is(&format!("SADD {name} {}", members.join(" ")), ":3000");
        }
        for (command, expected) in [
            ("SINTERSTORE to a b a", &a & &b),
            ("SINTERSTORE to a b s", &(&a & &b) & &s),
            ("SUNIONSTORE to a b a s", &(&a | &b) | &s),
            ("SUNIONSTORE to missing s", s.clone()),
            ("SDIFFSTORE to a b", &a - &b),
            ("SDIFFSTORE a a s a1", &a - &s),
            ("SDIFFSTORE to a s s s", &a - &s),
        ] {
            client.is(command, &format!(":{}", expected.len()));
            let to = command.split(' ').nth(1).unwrap();
            assert_eq!(sorted(&client.run(&format!("SMEMBERS {to}"))), expected, "{command}");
            client.run("SADD to one more");
            let encoding = if expected.len() > 512 { "hashtable" } else { "listpack" };
            client.is(&format!("OBJECT ENCODING {to}"), encoding);
        }
    }

    /// Valkey 8.1's replies for the same sets.
    #[test]
    fn results_have_the_forms_that_clients_see() {
        let mut client = Client::new();
        filled(&mut client);
        for (command, encoding) in [
            ("SUNIONSTORE to ints few", "intset"),
            ("SUNIONSTORE to ints small", "listpack"),
            ("SUNIONSTORE to ints big", "hashtable"),
            ("SINTERSTORE to ints small", "intset"),
            ("SINTERSTORE to many ints", "intset"),
            ("SINTERSTORE to big many", "intset"),
            ("SINTERSTORE to small small", "listpack"),
            ("SDIFFSTORE to small big", "listpack"),
            ("SDIFFSTORE to small strings", "intset"),
            ("SDIFFSTORE to many few few few", "hashtable"),
            ("SDIFFSTORE to small few few few few", "listpack"),
        ] {
            client.run(command);
            client.is("OBJECT ENCODING to", encoding);
        }
    }

    #[test]
    fn one_large_set_is_told_whole() {
        let mut client = Client::new();
        let all: BTreeSet<String> = (0..3000).map(|n| format!("m{n}")).collect();
        all.iter().for_each(|member| _ = client.is(&format!("SADD s {member}"), ":1"));
        for command in ["SUNION s missing s", "SINTER s s", "SINTER s", "SDIFF s missing", "SDIFF s"] {
            let hits = client.engine().stats().hits;
            assert_eq!(sorted(&client.run(command)), all, "{command}");
            let there = command.matches(" s").count() as u64;
            assert_eq!(client.engine().stats().hits, hits + there, "{command}");
        }
        client.is("SINTER s missing s", "[]").is("SDIFF s s", "[]").is("SDIFF missing s", "[]");
    }

    #[test]
    fn a_stored_result_replaces_anything() {
        let mut client = Client::with_events();
        client.is("SADD a 1 2", ":2").is("SADD b 2 3", ":2").is("SET to x EX 100", "+OK");
        client.is("SINTERSTORE to a b", ":1").is("TTL to", ":-1").is("SMEMBERS to", "[2]");
        client.is("SUNIONSTORE to a b", ":3").is("SDIFFSTORE a a b", ":1").is("SMEMBERS a", "[1]");
        client.events();
        client.is("SINTERSTORE to a missing", ":0").is("EXISTS to", ":0").is("SINTERSTORE to a missing", ":0");
        client.is("SDIFFSTORE to a a", ":0").is("SUNIONSTORE to a", ":1");
        assert_eq!(client.events(), ["0 del to", "0 new to", "0 sunionstore to"]);
    }

    #[test]
    fn wrong_types_and_options_are_refused() {
        let mut client = Client::new();
        client.is("SADD s a b c", ":3").is("SET str x", "+OK");
        for command in
            ["SINTER s str", "SINTER missing str", "SUNION str", "SDIFF missing str", "SINTERSTORE to missing str"]
        {
            client.is(command, "-WRONGTYPE Operation against a key holding the wrong kind of value");
        }
        for (command, reply) in [
            ("SINTERCARD 0 s", "-ERR numkeys should be greater than 0"),
            ("SINTERCARD x s", "-ERR numkeys should be greater than 0"),
            ("SINTERCARD 2 s", "-ERR Number of keys can't be greater than number of args"),
            ("SINTERCARD 1 s LIMIT -1", "-ERR LIMIT can't be negative"),
            ("SINTERCARD 1 s LIMIT x", "-ERR LIMIT can't be negative"),
            ("SINTERCARD 1 s LIMIT", "-ERR syntax error"),
            ("SINTERCARD 1 s junk 1", "-ERR syntax error"),
            ("SINTERCARD 1 s LIMIT 2", ":2"),
            ("SINTERCARD 1 s LIMIT 0", ":3"),
        ] {
            client.is(command, reply);
        }
    }
}
