//! XREAD: entries of several streams after given ids, waiting for them if there are none.

use crate::core::args::Args;
use crate::core::command::{BLOCKING, Command, Group, READONLY, keyword};
use crate::core::context::Context;
use crate::core::instrument;
use crate::streams::range;
use crate::streams::stream::parse_id;
use crate::transactions::blocking::Wait;
use engine::Error;
use engine::data::value::Type;
use resp::Protocol;
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

/// Keys in the first half of what follows STREAMS.
pub(crate) const fn stream_keys(from: i32) -> crate::core::command::KeySpec {
    let mut keys = keyword("STREAMS", from).ro().access();
    keys.find = crate::core::command::FindKeys::Range { last: -1, step: 1, limit: 2 };
    keys
}

/// The arguments of XREAD and XREADGROUP.
pub(crate) struct ReadOptions {
    /// Entries of one stream; 0: all.
    pub count: u64,
    /// How to wait, and until when.
    pub block: Option<Wait>,
    /// Where the group's name stands.
    pub group_at: Option<usize>,
    pub no_ack: bool,
    /// Entries that were pending for longer are read first (milliseconds).
    pub claim: Option<i64>,
    pub first_key: usize,
    pub streams: usize,
}

impl ReadOptions {
    pub fn parse(cx: &Context<'_>, args: &Args<'_>, for_group: bool) -> Result<ReadOptions, Error> {
        let mut options =
            ReadOptions { count: 0, block: None, group_at: None, no_ack: false, claim: None, first_key: 0, streams: 0 };
        let mut at = 1;
        while at < args.len() {
            let more = args.len() - at - 1;
            if more >= 1 && args.is(at, "block") {
                options.block = Some(Wait::until(cx.deadline_ms(&args[at + 1])?));
                at += 2;
            } else if more >= 1 && args.is(at, "count") {
                options.count = u64::try_from(args.int(at + 1)?).unwrap_or(0);
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
        Ok(options)
    }

    /// Entries of one stream at most.
    pub fn limit(&self) -> u64 {
        if self.count == 0 { u64::MAX } else { self.count }
    }

    pub fn key_indices(&self) -> std::ops::Range<usize> {
        self.first_key..self.first_key + self.streams
    }

    /// Where the id of the stream at `key_index` stands.
    pub fn id_at(&self, key_index: usize) -> usize {
        key_index + self.streams
    }
}

fn unbalanced(for_group: bool) -> Error {
    if for_group { Error::XreadgroupUnbalanced } else { Error::XreadUnbalanced }
}

fn xread(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = ReadOptions::parse(cx, args, false)?;
    let mut after = Vec::with_capacity(options.streams);
    for index in options.key_indices() {
        let text = &args[options.id_at(index)];
        let stream = cx.keys.collection::<Stream>(cx.key(args, index))?;
        after.push(match text {
            b"$" => stream.map_or(Id::MIN, |stream| stream.last_id),
            // Its last entry: not the last id, which may be that of a deleted one.
            b"+" => match stream {
                Some(stream) => stream.last_live_id().unwrap_or(stream.last_id).prev().ok_or(Error::StreamTop)?,
                None => Id::MIN,
            },
            b">" => {
                return Err(Error::XreadgroupId);
            }
            id => parse_id(id, 0)?,
        });
    }
    let mut answers = StreamAnswers::default();
    for (index, after) in options.key_indices().zip(&after) {
        let key = cx.key(args, index);
        let Some(stream) = cx.keys.collection::<Stream>(key)? else { continue };
        let Some(start) = after.next().filter(|_| stream.last_id > *after && !stream.is_empty()) else { continue };
        if stream.last_live_id().is_none_or(|last| last < start) {
            continue;
        }
        answers.begin(cx.reply, key.name);
        range::write(cx.reply, stream, start, Id::MAX, options.limit(), false);
    }
    if answers.end(cx.reply) {
        return Ok(());
    }
    let Some(wait) = options.block else {
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
    cx.wait(args, options.key_indices(), Wait { kind: Some(Type::Stream), ..wait });
    Ok(())
}

/// Streams with what was read from them: a map, or pairs in RESP2.
#[derive(Default)]
pub(crate) struct StreamAnswers {
    mark: Option<resp::reply::Mark>,
    count: usize,
}

impl StreamAnswers {
    /// The entries of this stream follow.
    pub fn begin(&mut self, reply: &mut resp::Reply, name: &[u8]) {
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

    /// Whether there was anything.
    pub fn end(self, reply: &mut resp::Reply) -> bool {
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
}
