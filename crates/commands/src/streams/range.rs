//! XRANGE and XREVRANGE: the entries between two ids. Long ones are chunked.

use crate::core::args::Args;
use crate::core::chunked_reply;
use crate::core::command::{Command, Group, READONLY, key};
use crate::core::context::Context;
use crate::core::yielding::Yielding;
use crate::streams::stream::{parse_range, reply_entry};
use engine::Error;
use engine::data::value::{Collection, Object};
use engine::snapshot::streamed_reply::Lister;
use resp::Reply;
use structures::stream::{Id, Stream};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "xrange",
        group: Group::Stream,
        since: "5.0.0",
        arity: -4,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key start end [COUNT count:int]",
        summary: "Returns the messages from a stream within a range of IDs.",
        complexity: "O(N) with N being the number of elements being returned. If N is constant (e.g. always asking for the first 10 elements with COUNT), you can consider it O(1).",
        history: &[("6.2.0", "Added exclusive ranges.")],
        run: |cx, args| range(cx, args, false),
        ..Command::DEFAULT
    },
    Command {
        name: "xrevrange",
        group: Group::Stream,
        since: "5.0.0",
        arity: -4,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key end start [COUNT count:int]",
        summary: "Returns the messages from a stream within a range of IDs in reverse order.",
        complexity: "O(N) with N being the number of elements returned. If N is constant (e.g. always asking for the first 10 elements with COUNT), you can consider it O(1).",
        history: &[("6.2.0", "Added exclusive ranges.")],
        run: |cx, args| range(cx, args, true),
        ..Command::DEFAULT
    },
];

/// Ranges up to this many entries are written at once.
const AT_ONCE: u64 = 500;

fn range(cx: &mut Context<'_>, args: &mut Args<'_>, backwards: bool) -> Result<(), Error> {
    let (first, last) = if backwards { (3, 2) } else { (2, 3) };
    let (start, end) = parse_range(&args[first], &args[last])?;
    let mut count = u64::MAX;
    let mut at = 4;
    while at < args.len() {
        if at + 1 == args.len() || !args.is(at, "count") {
            return Err(Error::Syntax);
        }
        count = u64::try_from(args.int(at + 1)?).unwrap_or(0);
        at += 2;
    }
    let key = cx.key(args, 1);
    let Some(stream) = cx.keys.collection::<Stream>(key)? else {
        cx.reply.array(0);
        return Ok(());
    };
    if count == 0 {
        cx.reply.null_array();
        return Ok(());
    }
    if count.min(stream.len()) <= AT_ONCE {
        write(cx.reply, stream, start, end, count, backwards, &Yielding::never());
        return Ok(());
    }
    let len = stream.count(start, end, count);
    cx.reply.array(len as usize);
    chunked_reply::list(cx, key, len as usize, Entries { start, end, left: len as usize, backwards });
    Ok(())
}

/// Writes an array of up to `count` entries.
pub(crate) fn write(
    reply: &mut Reply,
    stream: &Stream,
    start: Id,
    end: Id,
    count: u64,
    backwards: bool,
    yielding: &Yielding<'_>,
) {
    let mut cursor = if backwards { stream.range_back(start, end) } else { stream.range(start, end) };
    let (mark, mut written) = (reply.begin_array(), 0);
    while written < count
        && let Some(id) = cursor.next()
    {
        yielding.step();
        reply_entry(reply, id, &mut cursor);
        written += 1;
    }
    reply.end_array(mark, written as usize);
}

/// The entries of a range that are not written yet.
struct Entries {
    start: Id,
    end: Id,
    left: usize,
    backwards: bool,
}

impl Lister for Entries {
    fn piece(&mut self, object: &Object, max: usize, reply: &mut Reply) -> bool {
        let Some(stream) = Stream::of(object) else { return true };
        let (start, end) = (self.start, self.end);
        let mut cursor = if self.backwards { stream.range_back(start, end) } else { stream.range(start, end) };
        for _ in 0..max.min(self.left) {
            let Some(id) = cursor.next() else { return true };
            reply_entry(reply, id, &mut cursor);
            self.left -= 1;
            let rest = if self.backwards { id.prev() } else { id.next() };
            let Some(rest) = rest else { return true };
            *(if self.backwards { &mut self.end } else { &mut self.start }) = rest;
        }
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn a_chunked_range_is_the_same() {
        let mut client = Client::new();
        for n in 1..=2500 {
            client.run(&format!("XADD s 1-{n} n {n}"));
        }
        client.is("XDEL s 1-1700", ":1");
        let entries: Vec<String> = (1..=2500).filter(|n| *n != 1700).map(|n| format!("[1-{n} [n {n}]]")).collect();
        client.is("XRANGE s - +", &format!("[{}]", entries.join(" ")));
        client.is("XRANGE s (1-1 1-2200 COUNT 2000", &format!("[{}]", entries[1..2001].join(" ")));
        let back: Vec<String> = entries.into_iter().rev().collect();
        client.is("XREVRANGE s + -", &format!("[{}]", back.join(" ")));
        client.is("XREVRANGE s 1-3 (1-1", "[[1-3 [n 3]] [1-2 [n 2]]]").is("XRANGE s 5 +", "[]");
    }
}
