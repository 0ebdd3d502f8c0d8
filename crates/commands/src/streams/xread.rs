//! XREAD: entries of several streams after given ids, waiting for them if there are none.

use crate::blocking::Wait;
use crate::core::args::Args;
use crate::core::command::{BLOCKING, Command, Group, READONLY, keyword};
use crate::core::context::Context;
use crate::core::instrument;
use crate::core::yielding::{self, Yielding};
use crate::streams::stream::{parse_id, reply_entry};
use engine::Error;
use engine::data::value::{Collection, Object};
use engine::data::value_type::STREAM;
use resp::reply::Mark;
use resp::{Protocol, Reply};
use structures::stream::{Id, Stream};

pub const COMMANDS: &[Command] = &[Command {
    name: "xread",
    group: Group::Stream,
    since: "5.0.0",
    arity: -4,
    flags: READONLY.and(BLOCKING),
    keys: &[stream_keys(1)],
    syntax: "[COUNT count:int] [BLOCK milliseconds:int] (STREAMS streams: key... id...)",
    summary: "Returns messages from multiple streams with IDs greater than the ones requested. Blocks until a message is available otherwise.",
    run: xread,
    ..Command::DEFAULT
}];

/// Returns the spec of keys in the first half of the arguments after STREAMS.
pub(crate) const fn stream_keys(from: i32) -> crate::core::command::KeySpec {
    let mut keys = keyword("STREAMS", from).ro().access();
    keys.find = crate::core::command::FindKeys::Range { last: -1, step: 1, limit: 2 };
    keys
}

/// The arguments of XREAD and XREADGROUP.
#[derive(Default)]
pub(crate) struct ReadOptions {
    /// Entries of one stream; 0: all.
    pub count: u64,
    /// Entries of all streams together.
    max_count: Option<u64>,
    /// Bytes of the reply beyond which no entry is added.
    max_size: Option<usize>,
    /// The wait, and its deadline.
    pub block: Option<Wait>,
    /// Argument of the group's name.
    pub group_at: Option<usize>,
    pub no_ack: bool,
    /// Entries that were pending for longer are read first (milliseconds).
    pub claim: Option<i64>,
    pub first_key: usize,
    pub streams: usize,
}

impl ReadOptions {
    pub fn parse(cx: &Context<'_>, args: &Args<'_>, for_group: bool) -> Result<ReadOptions, Error> {
        let mut options = ReadOptions::default();
        let mut at = 1;
        while at < args.len() {
            let more = args.len() - at - 1;
            if more >= 1 && args.is(at, "block") {
                options.block = Some(Wait::until(cx.deadline_ms(&args[at + 1])?));
                at += 2;
            } else if more >= 1 && args.is(at, "count") {
                options.count = u64::try_from(args.int(at + 1)?).unwrap_or(0);
                at += 2;
            } else if more >= 1 && args.is(at, "maxcount") {
                options.max_count = Some(positive(args, at + 1, "MAXCOUNT")?);
                at += 2;
            } else if more >= 1 && args.is(at, "maxsize") {
                options.max_size = Some(usize::try_from(positive(args, at + 1, "MAXSIZE")?).unwrap_or(usize::MAX));
                at += 2;
            } else if more >= 1 && args.is(at, "streams") {
                if more % 2 == 1 {
                    return Err(unbalanced(for_group));
                }
                options.first_key = at + 1;
                options.streams = more / 2;
                break;
            } else if more >= 2 && args.is(at, "group") {
                if !for_group {
                    return Err(Error::XreadgroupOption("GROUP"));
                }
                options.group_at = Some(at + 1);
                at += 3;
            } else if args.is(at, "noack") {
                if !for_group {
                    return Err(Error::XreadgroupOption("NOACK"));
                }
                options.no_ack = true;
                at += 1;
            } else if for_group && more >= 1 && args.is(at, "claim") {
                let idle = args.int(at + 1)?;
                if idle < 0 {
                    return Err(Error::MinIdleTimeNotPositive);
                }
                options.claim = Some(idle);
                at += 2;
            } else {
                return Err(Error::Syntax);
            }
        }
        if options.first_key == 0 {
            return Err(Error::Syntax);
        }
        if for_group && options.group_at.is_none() {
            return Err(Error::XreadgroupNoGroup);
        }
        if options.max_count.is_some_and(|max| max < options.count) {
            return Err(Error::XreadMaxcountBelowCount);
        }
        Ok(options)
    }

    /// Returns the limit of one stream's entries.
    fn limit(&self) -> u64 {
        if self.count == 0 { u64::MAX } else { self.count }
    }

    /// Returns the lending for the entries that are asked for; `start` returns the first one by an id.
    ///
    /// # Errors
    /// As [`Context::yielding`].
    pub fn yielding<'c>(
        &self,
        cx: &mut Context<'c>,
        args: &Args<'_>,
        start: impl Fn(&Stream, &[u8]) -> Option<Id>,
    ) -> Result<Yielding<'c>, Error> {
        let most = self.limit();
        if most <= yielding::AT_ONCE as u64 {
            return Ok(Yielding::never());
        }
        let entries = self.key_indices().map(|index| {
            let count = |object: &Object| {
                // A short stream needs no look at its entries.
                let stream = Stream::of(object).filter(|stream| stream.len() > yielding::AT_ONCE as u64);
                let start = stream.and_then(|stream| start(stream, &args[self.id_at(index)]));
                let most = most.min(yielding::AT_ONCE as u64 + 1);
                stream.zip(start).map_or(0, |(stream, start)| stream.count(start, Id::MAX, most) as usize)
            };
            cx.elements(cx.key(args, index), count)
        });
        let entries = entries.sum();
        cx.yielding(entries)
    }

    /// Returns the budget of the reply, which begins now.
    pub fn budget(&self, reply: &Reply) -> Budget {
        let end = self.max_size.map_or(usize::MAX, |size| reply.len().saturating_add(size));
        Budget { of_one: self.limit(), of_all: self.max_count.unwrap_or(u64::MAX), end, any: false, full: false }
    }

    pub fn key_indices(&self) -> std::ops::Range<usize> {
        self.first_key..self.first_key + self.streams
    }

    /// Returns the argument of the id for the stream at `key_index`.
    pub fn id_at(&self, key_index: usize) -> usize {
        key_index + self.streams
    }
}

/// Parses a number of entries or bytes.
fn positive(args: &Args<'_>, at: usize, option: &'static str) -> Result<u64, Error> {
    let number = resp::number::parse_i64(&args[at]).and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or(Error::XreadNotPositive(option))
}

/// The rest of the reply's limits.
pub(crate) struct Budget {
    /// Entries of one stream.
    of_one: u64,
    /// Entries of this stream and all after it.
    of_all: u64,
    /// The length of the reply that only the first entry may exceed.
    end: usize,
    any: bool,
    full: bool,
}

impl Budget {
    /// Returns the entries that the next stream may have.
    pub fn limit(&self) -> u64 {
        if self.full { 0 } else { self.of_one.min(self.of_all) }
    }

    /// Returns whether there is an entry that had no place in the reply.
    pub fn is_spent(&self) -> bool {
        self.full
    }

    /// Returns whether the entry that was written from `mark` on stays. If not, it is taken back, and there will be no
    /// more.
    pub fn takes(&mut self, reply: &mut Reply, mark: usize) -> bool {
        if self.full || self.any && reply.len() > self.end {
            reply.truncate(mark);
            self.full = true;
            return false;
        }
        self.any = true;
        self.of_all -= 1;
        true
    }
}

fn unbalanced(for_group: bool) -> Error {
    if for_group { Error::XreadgroupUnbalanced } else { Error::XreadUnbalanced }
}

fn xread(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = ReadOptions::parse(cx, args, false)?;
    let yielding = options.yielding(cx, args, |_, id| parse_id(id, 0).ok())?;
    let mut after = Vec::with_capacity(options.streams);
    for index in options.key_indices() {
        let text = &args[options.id_at(index)];
        let stream = cx.keys.collection::<Stream>(cx.key(args, index))?;
        after.push(match text {
            b"$" => stream.map_or(Id::MIN, |stream| stream.last_id),
            // The last live entry is meant: the last id may be that of a deleted one.
            b"+" => match stream.and_then(|stream| stream.last_live_id()) {
                Some(last) => last.prev().ok_or(Error::StreamTop)?,
                None => Id::MIN,
            },
            b">" => {
                return Err(Error::XreadgroupId);
            }
            id => parse_id(id, 0)?,
        });
    }
    let (mut answers, mut budget) = (StreamAnswers::default(), options.budget(cx.reply));
    for (index, after) in options.key_indices().zip(&after) {
        let limit = budget.limit();
        if limit == 0 {
            break;
        }
        let key = cx.key(args, index);
        let Some(stream) = cx.keys.collection::<Stream>(key)? else { continue };
        let Some(start) = after.next().filter(|_| stream.last_id > *after && !stream.is_empty()) else { continue };
        if stream.last_live_id().is_none_or(|last| last < start) {
            continue;
        }
        let begins = cx.reply.len();
        answers.begin(cx.reply, key.name);
        if write(cx.reply, stream, start, limit, &mut budget, &yielding) == 0 {
            answers.take_back(cx.reply, begins);
        }
    }
    if answers.end(cx.reply) {
        return Ok(());
    }
    let Some(wait) = options.block.clone() else {
        cx.reply.null_array();
        return Ok(());
    };
    for (index, after) in options.key_indices().zip(&after) {
        let at = options.id_at(index);
        if args[at] == *b"$" {
            instrument::keep_given(cx, args, at);
            args.own(at, after.to_vec());
        }
    }
    cx.wait(args, options.key_indices(), Wait { kind: Some(&STREAM), ..wait });
    Ok(())
}

/// Writes an array of up to `limit` entries, as far as the budget allows; returns how many.
fn write(
    reply: &mut Reply,
    stream: &Stream,
    start: Id,
    limit: u64,
    budget: &mut Budget,
    yielding: &Yielding<'_>,
) -> u64 {
    let mut cursor = stream.range(start, Id::MAX);
    let (mark, mut written) = (reply.begin_array(), 0);
    while written < limit
        && let Some(id) = cursor.next()
    {
        let begins = reply.len();
        yielding.step();
        reply_entry(reply, id, &mut cursor);
        if !budget.takes(reply, begins) {
            break;
        }
        written += 1;
    }
    reply.end_array(mark, written as usize);
    written
}

/// Streams with their entries: a map, or pairs in RESP2.
#[derive(Default)]
pub(crate) struct StreamAnswers {
    mark: Option<Mark>,
    count: usize,
}

impl StreamAnswers {
    /// Begins the entries of this stream.
    pub fn begin(&mut self, reply: &mut Reply, name: &[u8]) {
        let pairs = reply.protocol() == Protocol::Resp2;
        if self.mark.is_none() {
            self.mark = Some(if pairs { reply.begin_array() } else { reply.begin_map() });
        }
        self.count += 1;
        if pairs {
            reply.array(2);
        }
        reply.bulk(name);
    }

    /// Takes back the stream that began at this length of the reply and has no entries to show: it was not the first.
    pub fn take_back(&mut self, reply: &mut Reply, begins: usize) {
        self.count -= 1;
        reply.truncate(begins);
    }

    /// Ends the reply; returns whether there was any stream.
    pub fn end(self, reply: &mut Reply) -> bool {
        let Some(mark) = self.mark else { return false };
        if reply.protocol() == Protocol::Resp2 {
            reply.end_array(mark, self.count);
        } else {
            reply.end_map(mark, self.count);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn the_last_entry_is_the_last_that_is_there() {
        let mut client = Client::new();
        client.is("XADD s 1-1 a 1", "1-1").is("XADD s 2-0 a 2", "2-0").is("XREAD STREAMS s +", "[[s [[2-0 [a 2]]]]]");
        client.is("XDEL s 2-0", ":1").is("XREAD STREAMS s +", "[[s [[1-1 [a 1]]]]]");
        client.is("XDEL s 1-1", ":1").is("XREAD STREAMS s +", "nil").is("XREAD STREAMS none +", "nil");
    }

    #[test]
    fn the_whole_reply_keeps_within_its_limits() {
        let mut client = Client::new();
        for stream in ["s", "t", "u"] {
            (1..=3).for_each(|n| _ = client.is(&format!("XADD {stream} 1-{n} a {n}"), &format!("1-{n}")));
            client.is(&format!("XGROUP CREATE {stream} g 0"), "+OK");
        }
        let (one, two) = ("[1-1 [a 1]]", "[1-1 [a 1]] [1-2 [a 2]]");
        let all = "[1-1 [a 1]] [1-2 [a 2]] [1-3 [a 3]]";
        for (options, reply) in [
            ("COUNT 2 MAXCOUNT 3", format!("[[s [{two}]] [t [{one}]]]")),
            ("MAXCOUNT 3", format!("[[s [{all}]]]")),
            ("MAXCOUNT 4 COUNT 4", format!("[[s [{all}]] [t [{one}]]]")),
            ("MAXSIZE 1", format!("[[s [{one}]]]")),
            ("COUNT 1 MAXSIZE 1", format!("[[s [{one}]]]")),
            ("COUNT 1 MAXSIZE 130", format!("[[s [{one}]] [t [{one}]]]")),
            ("MAXSIZE 100000", format!("[[s [{all}]] [t [{all}]] [u [{all}]]]")),
        ] {
            client.is(&format!("XREAD {options} STREAMS s t u 0 0 0"), &reply);
            client.is(&format!("XREADGROUP GROUP g c {options} STREAMS s t u > > >"), &reply);
            // Just the replied entries are pending.
            let mut pending = 0;
            for stream in ["s", "t", "u"] {
                let summary = client.run(&format!("XPENDING {stream} g"));
                pending += summary[2..].split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
                client
                    .is(&format!("XGROUP DESTROY {stream} g"), ":1")
                    .is(&format!("XGROUP CREATE {stream} g 0"), "+OK");
            }
            assert_eq!(pending, reply.matches("[1-").count(), "{options}");
        }
        client.is("XREADGROUP GROUP g c MAXCOUNT 1 STREAMS s t 0 0", "[[s []] [t []]]");
        client.run("XREADGROUP GROUP g c STREAMS s t > >");
        client.is("XREADGROUP GROUP g c MAXCOUNT 4 STREAMS s t 0 0", &format!("[[s [{all}]] [t [{one}]]]"));
        client.is("XREADGROUP GROUP g c MAXSIZE 1 STREAMS s t 0 0", &format!("[[s [{one}]]]"));
        client.is("XPENDING s g - + 1", "[[1-1 c :0 :3]]").is("XPENDING t g - + 2", "[[1-1 c :0 :2] [1-2 c :0 :1]]");
        client.is("XREADGROUP GROUP g d CLAIM 0 MAXCOUNT 1 STREAMS s t > >", "[[s [[1-1 [a 1] :0 :3]]]]");
        client.is("XREAD MAXCOUNT 0 STREAMS s 0", "-ERR MAXCOUNT must be a positive integer");
        client.is("XREAD MAXSIZE x STREAMS s 0", "-ERR MAXSIZE must be a positive integer");
        client.is("XREAD MAXCOUNT 1 COUNT 2 STREAMS s 0", "-ERR MAXCOUNT must not be less than COUNT");
    }
}
