//! SORT and SORT_RO: the elements of a list, a set or a sorted set in an order, each replaced by the results of GET.
//!
//! Weights (BY) and results (GET) may come from other keys, whose names derive from the elements: no entry can name
//! them. A command that has such patterns releases the lock that its entry asked for, before it has looked at any
//! value, and runs with the right to any shard. A command without them stays with its own key's lock, or with that and
//! the destination's.

use crate::core::acl_check;
use crate::core::args::Args;
use crate::core::command::CallKeys;
use crate::core::command::{Begin, Command, DENY_OOM, FindKeys, Group, KeyFlags, KeySpec, READONLY, WRITE, key};
use crate::core::context::Context;
use crate::core::yielding::Yielding;
use engine::Error;
use engine::data::event_class::EventClass;
use engine::data::slot::{slot_of, slot_of_pattern};
use engine::data::value::{Object, Str, Value, ValueExt};
use engine::keyspace::caller::Caller;
use engine::keyspace::edit::Ttl;
use engine::keyspace::keys::{Key, Keys};
use resp::number::parse_f64;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;
use structures::hash::Hash;
use structures::list::List;
use structures::quicklist::End;
use structures::set::Set;
use structures::sorted_set::SortedSet;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "sort",
        group: Group::Generic,
        arity: -2,
        flags: WRITE.and(DENY_OOM),
        categories: &["set", "sortedset", "list", "dangerous"],
        keys: &[key(1).ro().access(), unknown(PATTERNS).ro().access(), unknown(DESTINATION).ow().update()],
        syntax: "key [BY by-pattern:pattern1=pattern] [LIMIT limit: offset:int count:int] [GET get-pattern:pattern1=pattern]+ [order: ASC | DESC] [ALPHA=sorting] [STORE destination:key2]",
        summary: "Sorts the elements in a list, a set, or a sorted set, optionally storing the result.",
        complexity: "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When the elements are not sorted, complexity is O(N).",
        keys_of_call: Some(destination),
        run: sort,
        ..Command::DEFAULT
    },
    Command {
        name: "sort_ro",
        group: Group::Generic,
        since: "7.0.0",
        arity: -2,
        flags: READONLY,
        categories: &["set", "sortedset", "list", "dangerous"],
        keys: &[key(1).ro().access(), unknown(PATTERNS).ro().access()],
        syntax: "key [BY by-pattern:pattern1=pattern] [LIMIT limit: offset:int count:int] [GET get-pattern:pattern1=pattern]+ [order: ASC | DESC] [ALPHA=sorting]",
        summary: "Returns the sorted elements of a list, a set, or a sorted set.",
        complexity: "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When the elements are not sorted, complexity is O(N).",
        run: sort_ro,
        ..Command::DEFAULT
    },
];

const PATTERNS: &str = "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort";
const DESTINATION: &str = "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array";

/// Returns the spec of keys that the arguments do not show.
const fn unknown(notes: &'static str) -> KeySpec {
    KeySpec { begin: Begin::Unknown, find: FindKeys::Unknown, ..key(0) }.notes(notes)
}

/// Returns the number of words that belong to the option at this place, if it is one.
fn words_behind(args: &Args<'_>, at: usize) -> usize {
    match () {
        () if args.is(at, "limit") => 2,
        () if args.is(at, "get") || args.is(at, "by") || args.is(at, "store") => 1,
        () => 0,
    }
}

/// Adds the key that SORT's options name for its result, which no key specification can express; the last time counts.
fn destination(args: &Args<'_>, keys: &mut CallKeys) {
    let (mut at, mut found) = (2, None);
    while at < args.len() {
        if args.is(at, "store") && at + 1 < args.len() {
            found = Some(at + 1);
        }
        at += 1 + words_behind(args, at);
    }
    keys.extend(found.map(|index| (index, KeyFlags(KeyFlags::OW.0 | KeyFlags::UPDATE.0))));
}

fn sort(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = options_of(cx, args, true)?;
    sort_with(cx, args, &options)
}

fn sort_ro(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = options_of(cx, args, false)?;
    sort_with(cx, args, &options)
}

fn options_of<'a>(cx: &mut Context<'_>, args: &'a Args<'_>, may_store: bool) -> Result<Options<'a>, Error> {
    let is_clustered = cx.engine.is_clustered();
    let may_read_any_key = || acl_check::may_read_any_key(cx.engine, cx.session, cx.command, args);
    Options::parse(args, may_store, is_clustered, may_read_any_key)
}

#[derive(Default)]
struct Options<'a> {
    descending: bool,
    alpha: bool,
    /// Offset and count, as given.
    limit: Option<(i64, i64)>,
    by: Option<Pattern<'a>>,
    /// Whether BY has a pattern without `*`, in any of its uses: the elements stay in their order.
    keeps_order: bool,
    get: Vec<Pattern<'a>>,
    /// The argument that names the destination.
    store: Option<usize>,
}

impl<'a> Options<'a> {
    /// Options count in their order: one that asks for rights is refused before a later one is read.
    fn parse(
        args: &'a Args<'_>,
        may_store: bool,
        is_clustered: bool,
        mut may_read_any_key: impl FnMut() -> bool,
    ) -> Result<Self, Error> {
        // In a cluster the keys of a pattern have to be where the sorted one is.
        let stays_in_slot = |at: usize| !is_clustered || slot_of_pattern(&args[at]) == Some(slot_of(&args[1]));
        let mut options = Options::default();
        let mut at = 2;
        while at < args.len() {
            let behind = words_behind(args, at);
            if args.len() - at <= behind {
                return Err(Error::Syntax);
            }
            if args.is(at, "ASC") {
                options.descending = false;
            } else if args.is(at, "DESC") {
                options.descending = true;
            } else if args.is(at, "ALPHA") {
                options.alpha = true;
            } else if args.is(at, "LIMIT") {
                options.limit = Some((args.int(at + 1)?, args.int(at + 2)?));
            } else if args.is(at, "STORE") && may_store {
                options.store = Some(at + 1);
            } else if args.is(at, "BY") {
                let pattern = Pattern::parse(&args[at + 1]);
                match pattern {
                    Pattern::Key { .. } if !stays_in_slot(at + 1) => return Err(Error::SortByInCluster),
                    Pattern::Key { .. } if !may_read_any_key() => return Err(Error::SortByDenied),
                    Pattern::Key { .. } => {}
                    Pattern::Element | Pattern::Fixed => options.keeps_order = true,
                }
                options.by = Some(pattern);
            } else if args.is(at, "GET") {
                if &args[at + 1] != b"#" && !stays_in_slot(at + 1) {
                    return Err(Error::SortGetInCluster);
                }
                if !may_read_any_key() {
                    return Err(Error::SortGetDenied);
                }
                options.get.push(Pattern::parse(&args[at + 1]));
            } else {
                return Err(Error::Syntax);
            }
            at += 1 + behind;
        }
        Ok(options)
    }

    /// Returns whether other keys than the sorted one and the destination take part.
    fn looks_further(&self) -> bool {
        self.by.iter().chain(&self.get).any(|pattern| matches!(pattern, Pattern::Key { .. }))
    }

    /// Returns the requested ones of `count` elements.
    fn range(&self, count: usize) -> Range<usize> {
        let Some((offset, limit)) = self.limit else { return 0..count };
        let start = usize::try_from(offset).unwrap_or(0).min(count);
        let end = usize::try_from(limit).map_or(count, |limit| start.saturating_add(limit).min(count));
        start..end
    }
}

/// The source of a value that BY and GET look up for an element.
enum Pattern<'a> {
    /// `#`
    Element,
    /// No `*`: names no key.
    Fixed,
    /// The element between two parts names a key, and perhaps a field of the hash there.
    Key { before: &'a [u8], after: &'a [u8], field: Option<&'a [u8]> },
}

impl<'a> Pattern<'a> {
    fn parse(text: &'a [u8]) -> Self {
        if text == b"#" {
            return Pattern::Element;
        }
        let Some(star) = text.iter().position(|byte| *byte == b'*') else { return Pattern::Fixed };
        let (before, after) = (&text[..star], &text[star + 1..]);
        let arrow = after.windows(2).position(|pair| pair == b"->").filter(|at| at + 2 < after.len());
        match arrow {
            Some(at) => Pattern::Key { before, after: &after[..at], field: Some(&after[at + 2..]) },
            None => Pattern::Key { before, after, field: None },
        }
    }

    /// Returns the value for an element, or None.
    fn look_up<'e>(&self, keys: &mut Keys<'_>, element: &'e [u8], name: &mut Vec<u8>) -> Option<Cow<'e, [u8]>> {
        let (before, after, field) = match self {
            Pattern::Element => return Some(Cow::Borrowed(element)),
            Pattern::Fixed => return None,
            Pattern::Key { before, after, field } => (before, after, field),
        };
        name.clear();
        name.extend_from_slice(before);
        name.extend_from_slice(element);
        name.extend_from_slice(after);
        let (key, now) = (keys.key(name), keys.expiry_now().0.max(0) as u64);
        let value = keys.value(key)?;
        match field {
            Some(field) => {
                let hash = value.as_collection::<Hash>().ok()?;
                hash.get(field, now).map(|item| Cow::Owned(item.to_vec()))
            }
            None => value.as_string().ok().map(|string| Cow::Owned(Str::to_vec(string))),
        }
    }
}

/// Elements, one behind the other.
#[derive(Default)]
struct Elements {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Elements {
    fn push(&mut self, element: &[u8]) {
        self.bytes.extend_from_slice(element);
        self.ends.push(self.bytes.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }

    /// Takes the value's elements, in its own order; lists and sorted sets backwards on request.
    fn of(value: &Value<'_>, backwards: bool, yielding: &Yielding<'_>) -> Result<Elements, Error> {
        let mut elements = Elements::default();
        let mut push = |element: &[u8]| {
            yielding.step();
            elements.push(element);
        };
        let mut digits = itoa::Buffer::new();
        if let Ok(list) = value.as_collection::<List>() {
            list.each(0..list.len(), backwards, |item| push(item.bytes(&mut digits)));
        } else if let Ok(set) = value.as_collection::<Set>() {
            set.iter().for_each(|member| push(member.bytes(&mut digits)));
        } else {
            let set = value.as_collection::<SortedSet>()?;
            if backwards {
                set.iter().rev().for_each(|(member, _)| push(member));
            } else {
                set.iter().for_each(|(member, _)| push(member));
            }
        }
        Ok(elements)
    }
}

fn sort_with(cx: &mut Context<'_>, args: &Args<'_>, options: &Options<'_>) -> Result<(), Error> {
    let source = cx.key(args, 1);
    if options.looks_further() {
        cx.keys.broaden()?;
    } else if let Some(store) = options.store {
        cx.keys.hold_instead([source.hash, cx.keys.key(&args[store]).hash].into_iter())?;
    }
    let mut keeps_order = options.keeps_order;
    let (mut alpha, mut by) = (options.alpha, options.by.as_ref());
    let is_kept = options.store.is_some() || cx.keys.origin().caller == Caller::Script;
    let yielding = cx.yielding(cx.elements(source, count).saturating_mul(options.get.len() + 1))?;
    let elements = match cx.keys.value(source) {
        Some(value) => {
            // A set has no order of its own: a stored result or a script must not depend on it.
            if keeps_order && is_kept && value.as_collection::<Set>().is_ok() {
                (keeps_order, alpha, by) = (false, true, None);
            }
            Elements::of(&value, keeps_order && options.descending, &yielding)?
        }
        None => Elements::default(),
    };
    index_sorted_set(&mut cx.keys, source)?;
    let mut order: Vec<usize> = (0..elements.len()).collect();
    if !keeps_order {
        let sorting = Sorting { elements: &elements, by, descending: options.descending, yielding: &yielding };
        if alpha { sorting.by_text(&mut cx.keys, &mut order) } else { sorting.by_number(&mut cx.keys, &mut order)? }
    }
    let chosen = Chosen { elements: &elements, order: &order[options.range(order.len())], yielding: &yielding };
    match options.store {
        Some(store) => store_result(cx, args, store, options, &chosen),
        None => reply_result(cx, options, &chosen),
    }
    Ok(())
}

/// Makes a packed sorted set a skiplist: clients know that it is one after it was sorted. The source was found before.
fn index_sorted_set(keys: &mut Keys<'_>, source: Key<'_>) -> Result<(), Error> {
    let set = keys.together(source).and_then(|value| value.as_collection::<SortedSet>().ok());
    if set.is_some_and(|set| !set.is_indexed()) {
        let mut edit = keys.edit(source);
        edit.with(SortedSet::make_indexed)?;
        edit.unchanged();
    }
    Ok(())
}

/// Returns the number of elements to sort.
fn count(object: &Object) -> usize {
    match object {
        Object::List(list) => list.len(),
        Object::Set(set) => set.len(),
        Object::SortedSet(set) => set.len(),
        Object::String(_) | Object::Hash(_) | Object::Stream(_) | Object::Other(_) => 0,
    }
}

struct Sorting<'s> {
    elements: &'s Elements,
    by: Option<&'s Pattern<'s>>,
    descending: bool,
    yielding: &'s Yielding<'s>,
}

impl Sorting<'_> {
    /// Orders two elements. Each comparison counts as a step.
    fn directed(&self, order: Ordering) -> Ordering {
        self.yielding.step();
        if self.descending { order.reverse() } else { order }
    }

    /// Returns the weight of an element.
    fn weight<'e>(&'e self, keys: &mut Keys<'_>, index: usize, name: &mut Vec<u8>) -> Option<Cow<'e, [u8]>> {
        self.yielding.step();
        let element = self.elements.get(index);
        match self.by {
            Some(pattern) => pattern.look_up(keys, element, name),
            None => Some(Cow::Borrowed(element)),
        }
    }

    /// Sorts by number. Equal numbers are ordered by their elements, so that the order is the same every time.
    fn by_number(&self, keys: &mut Keys<'_>, order: &mut Vec<usize>) -> Result<(), Error> {
        let mut name = Vec::new();
        let mut weighed = Vec::with_capacity(order.len());
        let mut all_numbers = true;
        for index in order.drain(..) {
            let weight = self.weight(keys, index, &mut name);
            let number = weight.map_or(Some(0.0), |text| number(&text));
            all_numbers &= number.is_some();
            weighed.push((number.unwrap_or(0.0), index));
        }
        if !all_numbers {
            return Err(Error::SortNotANumber);
        }
        weighed.sort_by(|(a, a_at), (b, b_at)| {
            let numbers = a.partial_cmp(b).unwrap_or(Ordering::Equal);
            self.directed(numbers.then_with(|| self.elements.get(*a_at).cmp(self.elements.get(*b_at))))
        });
        order.extend(weighed.into_iter().map(|(_, index)| index));
        Ok(())
    }

    fn by_text(&self, keys: &mut Keys<'_>, order: &mut Vec<usize>) {
        if self.by.is_none() {
            return order.sort_by(|a, b| self.directed(self.elements.get(*a).cmp(self.elements.get(*b))));
        }
        let mut name = Vec::new();
        let mut weighed: Vec<_> = order.drain(..).map(|index| (self.weight(keys, index, &mut name), index)).collect();
        // An element without a weight comes before one with a weight.
        weighed.sort_by(|(a, _), (b, _)| self.directed(a.cmp(b)));
        order.extend(weighed.into_iter().map(|(_, index)| index));
    }
}

/// Parses a weight as a score is parsed, but up to a zero byte.
fn number(text: &[u8]) -> Option<f64> {
    parse_f64(text.split(|byte| *byte == 0).next().unwrap_or_default())
}

/// The requested elements, in their order.
struct Chosen<'s> {
    elements: &'s Elements,
    order: &'s [usize],
    yielding: &'s Yielding<'s>,
}

/// Gives every result to `take`: the elements themselves, or for each the values of GET's patterns.
fn each_result(
    keys: &mut Keys<'_>,
    options: &Options<'_>,
    chosen: &Chosen<'_>,
    mut take: impl FnMut(Option<Cow<'_, [u8]>>),
) {
    let mut name = Vec::new();
    for index in chosen.order {
        chosen.yielding.steps(1 + options.get.len());
        let element = chosen.elements.get(*index);
        if options.get.is_empty() {
            take(Some(Cow::Borrowed(element)));
        }
        for pattern in &options.get {
            take(pattern.look_up(keys, element, &mut name));
        }
    }
}

fn reply_result(cx: &mut Context<'_>, options: &Options<'_>, chosen: &Chosen<'_>) {
    cx.reply.array(chosen.order.len() * options.get.len().max(1));
    let reply = &mut *cx.reply;
    each_result(&mut cx.keys, options, chosen, |result| match result {
        Some(result) => reply.bulk(&result),
        None => reply.null(),
    });
}

/// Makes the results a list, with empty strings for missing values.
fn store_result(cx: &mut Context<'_>, args: &Args<'_>, store: usize, options: &Options<'_>, chosen: &Chosen<'_>) {
    let rules = cx.engine.encoding_limits().list();
    let (mut list, mut len) = (List::default(), 0);
    each_result(&mut cx.keys, options, chosen, |result| {
        let result = result.unwrap_or_default();
        list.reserve(1, result.len(), &rules);
        list.push(End::Tail, result, &rules);
        len += 1;
    });
    let mut edit = cx.keys.edit_for_result(cx.key(args, store), len == 0);
    if len > 0 {
        edit.set_object(Object::List(list), Ttl::Clear);
        edit.commit_many(len, EventClass::LIST, "sortstore");
    } else if edit.remove() {
        edit.commit(EventClass::GENERIC, "del");
    }
    cx.reply.int(len as i64);
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn numbers_and_texts() {
        let mut client = Client::new();
        client.is("RPUSH l 3 1 20 2", ":4").is("SORT l", "[1 2 3 20]").is("SORT l DESC", "[20 3 2 1]");
        client.is("SORT l ALPHA", "[1 2 20 3]").is("SORT l LIMIT 1 2", "[2 3]").is("SORT l LIMIT -5 1", "[1]");
        client.is("SORT l LIMIT 9 2", "[]").is("SORT l LIMIT 2 -1", "[3 20]").is("SORT none", "[]");
        client.is("SADD s b a", ":2").is("SORT s", "-ERR One or more scores can't be converted into double");
        client.is("SORT s ALPHA DESC", "[b a]").is("SET x 1", "+OK");
        client.is("SORT x", "-WRONGTYPE Operation against a key holding the wrong kind of value");
        client.is("SORT l LIMIT 1", "-ERR syntax error").is("SORT_RO l STORE d", "-ERR syntax error");
        client.is("SORT l LIMIT a 1", "-ERR value is not an integer or out of range");
    }

    #[test]
    fn weights_and_results_of_other_keys() {
        let mut client = Client::new();
        client.is("RPUSH l a b c", ":3").is("MSET w_a 3 w_b 1 w_c 2", "+OK").is("HSET h_a f x g 7", ":2");
        client.is("SORT l BY w_*", "[b c a]").is("SORT l BY w_* DESC GET # GET w_*", "[a 3 c 2 b 1]");
        client.is("SORT l BY nosort GET h_*->f", "[x nil nil]").is("SORT l BY h_*->g", "[b c a]");
        client.is("SORT l BY nosort GET fixed", "[nil nil nil]").is("SORT l BY h_*-> ALPHA", "[a b c]");
        client.is("ZADD z 3 a 2 b 1 c", ":3").is("SORT z BY nosort DESC LIMIT 0 2", "[a b]");
        client.is("SORT l BY nosort DESC", "[c b a]").is("SORT l BY nosort DESC LIMIT 1 1", "[b]");
        client.is("SORT l DESC STORE kept BY nosort", ":3").is("LRANGE kept 0 -1", "[c b a]");
        client.is("SORT_RO z BY w_* LIMIT 0 1", "[b]");
        client.is("SORT l BY nosort BY w_*", "[a b c]").is("SORT l BY w_* BY nosort", "[a b c]");
    }

    #[test]
    fn a_sorted_set_is_no_longer_packed() {
        let mut client = Client::with_events();
        client.is("ZADD z 2 b 1 a", ":2").is("OBJECT ENCODING z", "listpack");
        client.events();
        client.is("SORT_RO z", "-ERR One or more scores can't be converted into double");
        client.is("OBJECT ENCODING z", "skiplist").is("ZRANGE z 0 -1", "[a b]").is("SORT z ALPHA", "[a b]");
        assert!(client.events().is_empty());
    }

    #[test]
    fn results_replace_the_destination() {
        let mut client = Client::with_events();
        client.is("RPUSH l 2 1", ":2").is("SADD d x", ":1").is("EXPIRE d 100", ":1");
        client.events();
        client.is("SORT l STORE d", ":2").is("LRANGE d 0 -1", "[1 2]").is("TTL d", ":-1");
        client.is("SORT l GET none_* STORE d", ":2").is("LRANGE d 0 -1", "[ ]");
        client.is("SORT none STORE d", ":0").is("EXISTS d", ":0").is("SORT none STORE d", ":0");
        assert_eq!(client.events(), ["0 sortstore d", "0 sortstore d", "0 del d"]);
        client.is("SADD s b c a", ":3").is("SORT s BY nosort STORE l", ":3").is("LRANGE l 0 -1", "[a b c]");
    }

    #[test]
    fn a_transaction_may_sort_by_other_keys() {
        let mut client = Client::new();
        client.is("RPUSH l a b", ":2").is("MSET w_a 2 w_b 1", "+OK").is("MULTI", "+OK");
        client.is("SORT l BY w_* STORE d", "+QUEUED").is("SORT d ALPHA", "+QUEUED").is("EXEC", "[:2 [a b]]");
        client.is("LRANGE d 0 -1", "[b a]");
    }
}
