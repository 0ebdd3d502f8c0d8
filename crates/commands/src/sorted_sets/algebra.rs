//! Unions, intersections and differences of sorted sets, and of sets, whose members have the score 1.
//!
//! All inputs are read where they lie, under the locks of the command; only the pairs of the result are gathered, as
//! names that still lie in the inputs. Inputs are taken in ascending order of size, which is also the order in which
//! scores are added up; a difference keeps the order of the arguments.

use crate::core::args::Args;
use crate::core::command::{Command, DENY_OOM, Group, READONLY, WRITE, key};
use crate::core::context::Context;
use crate::core::yielding::Yielding;
use crate::sorted_sets::sorted_set::{logged_result, reply_pairs, store};
use engine::Error;
use engine::data::value::{Object, Value};
use engine::keyspace::keys::{Key, Keys};
use engine::propagation::effects::Logged;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::ops::{ControlFlow, Deref};
use structures::listpack::Item;
use structures::set::Set;
use structures::sorted_set::SortedSet;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "zunion",
        group: Group::SortedSet,
        since: "6.2.0",
        arity: -3,
        flags: READONLY,
        keys: &[key(1).ro().access().counted(0, 1, 1)],
        syntax: "numkeys:int key... [WEIGHTS weight:int]... [AGGREGATE aggregate: SUM | MIN | MAX] [WITHSCORES]",
        summary: "Returns the union of multiple sorted sets.",
        complexity: "O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.",
        run: zunion,
        ..Command::DEFAULT
    },
    Command {
        name: "zinter",
        group: Group::SortedSet,
        since: "6.2.0",
        arity: -3,
        flags: READONLY,
        keys: &[key(1).ro().access().counted(0, 1, 1)],
        syntax: "numkeys:int key... [WEIGHTS weight:int]... [AGGREGATE aggregate: SUM | MIN | MAX] [WITHSCORES]",
        summary: "Returns the intersect of multiple sorted sets.",
        complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.",
        run: zinter,
        ..Command::DEFAULT
    },
    Command {
        name: "zdiff",
        group: Group::SortedSet,
        since: "6.2.0",
        arity: -3,
        flags: READONLY,
        keys: &[key(1).ro().access().counted(0, 1, 1)],
        syntax: "numkeys:int key... [WITHSCORES]",
        summary: "Returns the difference between multiple sorted sets.",
        complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.",
        run: zdiff,
        ..Command::DEFAULT
    },
    Command {
        name: "zunionstore",
        group: Group::SortedSet,
        since: "2.0.0",
        arity: -4,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).ow().update(), key(2).ro().access().counted(0, 1, 1)],
        syntax: "destination:key numkeys:int key... [WEIGHTS weight:int]... [AGGREGATE aggregate: SUM | MIN | MAX]",
        summary: "Stores the union of multiple sorted sets in a key.",
        complexity: "O(N)+O(M log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.",
        run: zunionstore,
        ..Command::DEFAULT
    },
    Command {
        name: "zinterstore",
        group: Group::SortedSet,
        since: "2.0.0",
        arity: -4,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).ow().update(), key(2).ro().access().counted(0, 1, 1)],
        syntax: "destination:key numkeys:int key... [WEIGHTS weight:int]... [AGGREGATE aggregate: SUM | MIN | MAX]",
        summary: "Stores the intersect of multiple sorted sets in a key.",
        complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.",
        run: zinterstore,
        ..Command::DEFAULT
    },
    Command {
        name: "zdiffstore",
        group: Group::SortedSet,
        since: "6.2.0",
        arity: -4,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).ow().update(), key(2).ro().access().counted(0, 1, 1)],
        syntax: "destination:key numkeys:int key...",
        summary: "Stores the difference of multiple sorted sets in a key.",
        complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.",
        run: zdiffstore,
        ..Command::DEFAULT
    },
    Command {
        name: "zintercard",
        group: Group::SortedSet,
        since: "7.0.0",
        arity: -3,
        flags: READONLY,
        keys: &[key(1).ro().access().counted(0, 1, 1)],
        syntax: "numkeys:int key... [LIMIT limit:int]",
        summary: "Returns the number of members of the intersect of multiple sorted sets.",
        complexity: "O(N*K) worst case with N being the smallest input sorted set, K being the number of input sorted sets.",
        run: zintercard,
        ..Command::DEFAULT
    },
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// The combination of the scores that a member has in several inputs.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Aggregate {
    #[default]
    Sum,
    Min,
    Max,
    /// The weights of the inputs that have the member, whatever its scores are.
    Count,
}

impl Aggregate {
    fn parse(args: &Args<'_>, index: usize) -> Result<Aggregate, Error> {
        match () {
            () if args.is(index, "sum") => Ok(Aggregate::Sum),
            () if args.is(index, "min") => Ok(Aggregate::Min),
            () if args.is(index, "max") => Ok(Aggregate::Max),
            () if args.is(index, "count") => Ok(Aggregate::Count),
            () => Err(Error::Syntax),
        }
    }

    /// Returns the contribution of an input with this weight if the member has this score there.
    fn share(self, score: f64, weight: f64) -> f64 {
        if let Aggregate::Count = self { weight } else { score * weight }
    }

    fn of(self, score: f64, other: f64) -> f64 {
        match self {
            // Infinities of both signs add up to 0.
            Aggregate::Sum | Aggregate::Count => number(score + other),
            Aggregate::Min => {
                if other < score {
                    other
                } else {
                    score
                }
            }
            Aggregate::Max => {
                if other > score {
                    other
                } else {
                    score
                }
            }
        }
    }
}

/// Returns 0 in the place of NaN, such as infinity times 0.
fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// The parsed arguments of a command.
struct Request {
    operation: Operation,
    /// Argument of the first input key.
    first: usize,
    inputs: usize,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// The limit of ZINTERCARD; 0: none.
    limit: usize,
}

/// The options of a command besides those of its operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Reply,
    Store,
    Count,
}

impl Request {
    /// Parses the arguments. `count_at`: argument of the number of keys.
    fn parse(cx: &mut Context<'_>, args: &Args<'_>, operation: Operation, form: Form) -> Result<Request, Error> {
        let count_at = if form == Form::Store { 2 } else { 1 };
        let inputs = args.int(count_at)?;
        if inputs < 1 {
            return Err(Error::NoInputKey(cx.command.name));
        }
        let first = count_at + 1;
        let inputs = usize::try_from(inputs).ok().filter(|n| *n <= args.len() - first).ok_or(Error::Syntax)?;
        // Types are checked before options.
        for index in first..first + inputs {
            Source::check(cx.keys.value(cx.key(args, index)))?;
        }
        let mut request = Request {
            operation,
            first,
            inputs,
            weights: vec![1.0; inputs],
            aggregate: Aggregate::default(),
            with_scores: false,
            limit: 0,
        };
        let weighs = operation != Operation::Difference && form != Form::Count;
        let mut index = first + inputs;
        while index < args.len() {
            let left = args.len() - index - 1;
            if weighs && left >= inputs && args.is(index, "weights") {
                for weight in &mut request.weights {
                    index += 1;
                    *weight = resp::number::parse_f64(&args[index]).ok_or(Error::WeightNotAFloat)?;
                }
            } else if weighs && left >= 1 && args.is(index, "aggregate") {
                index += 1;
                request.aggregate = Aggregate::parse(args, index)?;
            } else if form == Form::Reply && args.is(index, "withscores") {
                request.with_scores = true;
            } else if form == Form::Count && left >= 1 && args.is(index, "limit") {
                index += 1;
                request.limit =
                    args.int(index).ok().and_then(|n| usize::try_from(n).ok()).ok_or(Error::NegativeLimit)?;
            } else {
                return Err(Error::Syntax);
            }
            index += 1;
        }
        Ok(request)
    }

    /// Returns the inputs in the order in which they are read, with their weights.
    fn inputs<'k>(&self, keys: &'k Keys<'_>, names: &[Key<'_>]) -> Vec<(Source<'k>, f64)> {
        let sources = names.iter().map(|name| Source::of(keys.together(*name)));
        let mut inputs: Vec<_> = sources.zip(self.weights.iter().copied()).collect();
        if self.operation != Operation::Difference {
            inputs.sort_by_key(|(source, _)| source.len());
        }
        inputs
    }

    /// Returns the pairs of the result, in order.
    fn pairs<'k>(&self, inputs: &[(Source<'k>, f64)], yielding: &Yielding<'_>) -> Vec<(Name<'k>, f64)> {
        let mut pairs = match self.operation {
            Operation::Union => self.union(inputs, yielding),
            Operation::Intersection => {
                let mut pairs = Vec::new();
                self.intersect(inputs, yielding, |name, score| {
                    pairs.push((name, score));
                    ControlFlow::Continue(())
                });
                pairs
            }
            Operation::Difference => difference(inputs, yielding),
        };
        pairs.sort_unstable_by(|a, b| {
            yielding.step();
            a.1.partial_cmp(&b.1).unwrap_or(std::cmp::Ordering::Equal).then_with(|| a.0.cmp(&b.0))
        });
        pairs
    }

    fn union<'k>(&self, inputs: &[(Source<'k>, f64)], yielding: &Yielding<'_>) -> Vec<(Name<'k>, f64)> {
        if let [(only, weight)] = inputs {
            let mut pairs = Vec::with_capacity(only.len());
            only.each(yielding, |name, score| {
                pairs.push((name, number(self.aggregate.share(score, *weight))));
                ControlFlow::Continue(())
            });
            return pairs;
        }
        let longest = inputs.last().map_or(0, |(source, _)| source.len());
        let mut scores: HashMap<Name<'k>, f64, RandomState> =
            HashMap::with_capacity_and_hasher(longest, RandomState::default());
        for (source, weight) in inputs {
            source.each(yielding, |name, score| {
                let score = number(self.aggregate.share(score, *weight));
                scores.entry(name).and_modify(|sum| *sum = self.aggregate.of(*sum, score)).or_insert(score);
                ControlFlow::Continue(())
            });
        }
        scores.into_iter().inspect(|_| yielding.step()).collect()
    }

    /// Visits the members that all inputs have.
    fn intersect<'k>(
        &self,
        inputs: &[(Source<'k>, f64)],
        yielding: &Yielding<'_>,
        mut visit: impl FnMut(Name<'k>, f64) -> ControlFlow<()>,
    ) {
        let [(smallest, weight), others @ ..] = inputs else { return };
        smallest.each(yielding, |name, score| {
            yielding.steps(others.len());
            let mut sum = number(self.aggregate.share(score, *weight));
            for (other, weight) in others {
                let Some(score) = other.score(&name) else { return ControlFlow::Continue(()) };
                sum = self.aggregate.of(sum, self.aggregate.share(score, *weight));
            }
            visit(name, sum)
        });
    }
}

/// Returns the members of the first input that no other has.
fn difference<'k>(inputs: &[(Source<'k>, f64)], yielding: &Yielding<'_>) -> Vec<(Name<'k>, f64)> {
    let [(first, _), others @ ..] = inputs else { return Vec::new() };
    let mut pairs = Vec::new();
    first.each(yielding, |name, score| {
        yielding.steps(others.len());
        if others.iter().all(|(other, _)| other.score(&name).is_none()) {
            pairs.push((name, score));
        }
        ControlFlow::Continue(())
    });
    pairs
}

/// An input.
#[derive(Clone, Copy)]
enum Source<'k> {
    Missing,
    SortedSet(&'k SortedSet),
    Set(&'k Set),
}

impl<'k> Source<'k> {
    fn check(value: Option<Value<'_>>) -> Result<(), Error> {
        match value {
            None | Some(Value::Payload(Object::SortedSet(_) | Object::Set(_))) => Ok(()),
            Some(_) => Err(Error::WrongType),
        }
    }

    /// Returns the input of a value whose type was checked.
    fn of(value: Option<Value<'k>>) -> Self {
        match value {
            Some(Value::Payload(Object::SortedSet(set))) => Source::SortedSet(set),
            Some(Value::Payload(Object::Set(set))) => Source::Set(set),
            _ => Source::Missing,
        }
    }

    fn len(self) -> usize {
        match self {
            Source::Missing => 0,
            Source::SortedSet(set) => set.len(),
            Source::Set(set) => set.len(),
        }
    }

    fn score(self, name: &[u8]) -> Option<f64> {
        match self {
            Source::Missing => None,
            Source::SortedSet(set) => set.score(name),
            Source::Set(set) => set.contains(name).then_some(1.0),
        }
    }

    /// Visits the pairs until `visit` breaks off.
    fn each(self, yielding: &Yielding<'_>, mut visit: impl FnMut(Name<'k>, f64) -> ControlFlow<()>) {
        let mut visit = |name, score| {
            yielding.step();
            visit(name, score)
        };
        let _ = match self {
            Source::Missing => ControlFlow::Continue(()),
            Source::SortedSet(set) => set.iter().try_for_each(|(name, score)| visit(Name::Bytes(name), score)),
            Source::Set(set) => set.iter().try_for_each(|item| visit(Name::of(item), 1.0)),
        };
    }
}

/// A member's name: bytes of an input, or the digits of an integer in a set of such.
#[derive(Clone, Copy)]
enum Name<'k> {
    Bytes(&'k [u8]),
    Digits([u8; DIGITS_MAX], u8),
}

/// Digits of an i64, with its sign.
const DIGITS_MAX: usize = 20;

impl<'k> Name<'k> {
    fn of(item: Item<'k>) -> Self {
        match item {
            Item::Bytes(bytes) => Name::Bytes(bytes),
            Item::Int(n) => {
                let mut digits = [0; DIGITS_MAX];
                let mut buffer = itoa::Buffer::new();
                let text = buffer.format(n).as_bytes();
                digits[..text.len()].copy_from_slice(text);
                Name::Digits(digits, text.len() as u8)
            }
        }
    }
}

impl Deref for Name<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Name::Bytes(bytes) => bytes,
            Name::Digits(digits, len) => &digits[..usize::from(*len)],
        }
    }
}

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Name<'_> {}

impl PartialOrd for Name<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl std::hash::Hash for Name<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

fn zunion(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    reply(cx, args, Operation::Union)
}

fn zinter(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    reply(cx, args, Operation::Intersection)
}

fn zdiff(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    reply(cx, args, Operation::Difference)
}

fn zunionstore(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    store_result(cx, args, Operation::Union, "zunionstore")
}

fn zinterstore(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    store_result(cx, args, Operation::Intersection, "zinterstore")
}

fn zdiffstore(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    store_result(cx, args, Operation::Difference, "zdiffstore")
}

/// Returns the input keys.
fn input_keys<'a>(cx: &Context<'_>, args: &'a Args<'_>, request: &Request) -> Vec<Key<'a>> {
    (request.first..request.first + request.inputs).map(|index| cx.key(args, index)).collect()
}

/// Returns the lending for the work on these inputs.
fn yielding<'c>(cx: &mut Context<'c>, request: &Request, names: &[Key<'_>]) -> Result<Yielding<'c>, Error> {
    let members = request.inputs(&cx.keys, names).iter().map(|(source, _)| source.len()).sum();
    cx.yielding(members)
}

fn reply(cx: &mut Context<'_>, args: &Args<'_>, operation: Operation) -> Result<(), Error> {
    let request = Request::parse(cx, args, operation, Form::Reply)?;
    let names = input_keys(cx, args, &request);
    let yielding = yielding(cx, &request, &names)?;
    let pairs = request.pairs(&request.inputs(&cx.keys, &names), &yielding);
    let pairs = pairs.iter().inspect(|_| yielding.step());
    reply_pairs(cx.reply, pairs.map(|(name, score)| (&**name, *score)), request.with_scores);
    Ok(())
}

fn store_result(cx: &mut Context<'_>, args: &Args<'_>, operation: Operation, event: &'static str) -> Result<(), Error> {
    let request = Request::parse(cx, args, operation, Form::Store)?;
    let names = input_keys(cx, args, &request);
    let yielding = yielding(cx, &request, &names)?;
    let pairs = request.pairs(&request.inputs(&cx.keys, &names), &yielding);
    let limits = cx.engine.encoding_limits().sorted_set();
    let sorted = pairs.iter().inspect(|_| yielding.step());
    let result = SortedSet::from_sorted(sorted.map(|(name, score)| (&**name, *score)), limits);
    drop(pairs);
    if request.aggregate == Aggregate::Count && cx.engine.has_log() {
        let instead = logged_result(&args[1], result.iter());
        cx.keys.effects.rare().logged = Logged::As(instead);
    }
    store(cx, args, result, event);
    Ok(())
}

fn zintercard(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let request = Request::parse(cx, args, Operation::Intersection, Form::Count)?;
    let names = input_keys(cx, args, &request);
    let yielding = yielding(cx, &request, &names)?;
    let mut count = 0;
    request.intersect(&request.inputs(&cx.keys, &names), &yielding, |_, _| {
        count += 1;
        if count == request.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    cx.reply.int(count as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn results_are_those_of_valkey() {
        let mut client = Client::new();
        for (command, reply) in [
            ("ZADD a 1 x 2 y 3 z", ":3"),
            ("ZADD b 10 y 20 z 30 w", ":3"),
            ("SADD s x 7", ":2"),
            ("SET text 1", "+OK"),
            ("ZUNION 2 a b WITHSCORES", "[x 1 y 12 z 23 w 30]"),
            ("ZUNION 2 a b AGGREGATE MIN WITHSCORES WEIGHTS 2 -1", "[w -30 z -20 y -10 x 2]"),
            ("ZUNION 3 a s none WITHSCORES", "[7 1 x 2 y 2 z 3]"),
            ("ZINTER 2 a b", "[y z]"),
            ("ZINTER 2 a b WITHSCORES AGGREGATE MAX", "[y 10 z 20]"),
            ("ZUNION 2 a b AGGREGATE COUNT WITHSCORES", "[w 1 x 1 y 2 z 2]"),
            ("ZUNION 2 a b AGGREGATE COUNT WITHSCORES WEIGHTS 2 -1", "[w -1 y 1 z 1 x 2]"),
            ("ZINTER 2 a b WITHSCORES AGGREGATE COUNT", "[y 2 z 2]"),
            ("ZINTER 2 a a WITHSCORES WEIGHTS 1 0.5", "[x 1.5 y 3 z 4.5]"),
            ("ZINTER 2 a none", "[]"),
            ("ZDIFF 2 a b WITHSCORES", "[x 1]"),
            ("ZDIFF 2 a a", "[]"),
            ("ZDIFF 1 a WEIGHTS 1", "-ERR syntax error"),
            ("ZINTERCARD 2 a b", ":2"),
            ("ZINTERCARD 2 a b LIMIT 1", ":1"),
            ("ZINTERCARD 2 a b LIMIT 0", ":2"),
            ("ZINTERCARD 2 a b LIMIT -1", "-ERR LIMIT can't be negative"),
            ("ZINTERCARD 2 a b LIMIT x", "-ERR LIMIT can't be negative"),
            ("ZINTERCARD 0 a", "-ERR at least 1 input key is needed for 'zintercard' command"),
            ("ZUNIONSTORE d 0 a", "-ERR at least 1 input key is needed for 'zunionstore' command"),
            ("ZUNION x a", "-ERR value is not an integer or out of range"),
            ("ZUNION 3 a b", "-ERR syntax error"),
            ("ZUNION 2 a b WEIGHTS 1", "-ERR syntax error"),
            ("ZUNION 2 a b WEIGHTS 1 x", "-ERR weight value is not a float"),
            ("ZUNION 2 a b AGGREGATE avg", "-ERR syntax error"),
            ("ZUNIONSTORE d 2 a b WITHSCORES", "-ERR syntax error"),
            ("ZUNION 2 a text junk", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZUNIONSTORE a 2 a b", ":4"),
            ("ZRANGE a 0 -1 WITHSCORES", "[x 1 y 12 z 23 w 30]"),
            ("ZINTERSTORE text 2 a s", ":1"),
            ("ZRANGE text 0 -1 WITHSCORES", "[x 2]"),
            ("ZDIFFSTORE text 2 b a", ":0"),
            ("EXISTS text", ":0"),
            ("ZADD i inf m", ":1"),
            ("ZADD j -inf m", ":1"),
            ("ZUNION 2 i j WITHSCORES", "[m 0]"),
            ("ZUNION 1 i WEIGHTS 0 WITHSCORES", "[m 0]"),
        ] {
            client.is(command, reply);
        }
    }

    #[test]
    fn stores_tell_what_they_did() {
        let mut client = Client::with_events();
        client.is("ZADD a 1 x", ":1").is("ZADD d 1 y", ":1").is("EXPIRE d 100", ":1");
        client.events();
        client
            .is("ZUNIONSTORE d 1 a", ":1")
            .is("TTL d", ":-1")
            .is("ZDIFFSTORE d 2 a a", ":0")
            .is("ZINTERSTORE d 1 none", ":0");
        assert_eq!(client.events(), ["0 zunionstore d", "0 del d"]);
    }
}
