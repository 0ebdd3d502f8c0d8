//! LRANGE: the elements between two indices.
//!
//! A short range is written at once. A long one is chunked, from a snapshot that shares the list's nodes:
//! others are served in between and may change the list, the reply is of the moment when the command ran, and neither
//! the list's lock nor a second copy of it is held while the client takes its time.

use crate::core::args::Args;
use crate::core::command::{Command, Group, READONLY, key};
use crate::core::context::{Context, Flow, Resumable};
use crate::lists::list::{range, reply_item};
use engine::Error;
use resp::Reply;
use std::ops::Range;
use structures::list::List;
use structures::listpack::Item;
use structures::quicklist::ListSnapshot;

pub const COMMANDS: &[Command] = &[Command {
    name: "lrange",
    group: Group::List,
    arity: 4,
    flags: READONLY,
    keys: &[key(1).ro().access()],
    syntax: "key start:int stop:int",
    summary: "Returns a range of elements from a list.",
    complexity: "O(S+N) where S is the distance of start offset from HEAD for small lists, from nearest end (HEAD or TAIL) for large lists; and N is the number of elements in the specified range.",
    run: lrange,
    ..Command::DEFAULT
}];

/// Ranges up to this many elements are written at once.
const AT_ONCE: usize = 2000;
/// Approximate bytes of a piece.
const PIECE: usize = 64 << 10;

fn lrange(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (start, stop) = (args.int(2)?, args.int(3)?);
    let Some(list) = cx.keys.collection::<List>(cx.key(args, 1))? else {
        cx.reply.array(0);
        return Ok(());
    };
    let range = range(start, stop, list.len());
    cx.flow = reply_range(list, range, false, cx.reply);
    Ok(())
}

/// Replies the elements at these indices as they are now, or the first of them; in reverse from the last. Returns the
/// flow of the rest.
pub(crate) fn reply_range(list: &List, range: Range<usize>, reverse: bool, reply: &mut Reply) -> Flow {
    reply.array(range.len());
    let elements = if range.len() > AT_ONCE { list.snapshot(range.clone()) } else { None };
    match elements {
        Some(elements) => Flow::more(Elements { elements, reverse }),
        None => {
            list.each(range, reverse, |item| reply_item(reply, item));
            Flow::Next
        }
    }
}

struct Elements {
    elements: ListSnapshot,
    reverse: bool,
}

impl Resumable for Elements {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let enough = cx.reply.len() + PIECE;
        while cx.reply.len() < enough {
            let write = |item: Item<'_>| reply_item(cx.reply, item);
            let more = if self.reverse { self.elements.next_node_back(write) } else { self.elements.next_node(write) };
            if !more {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn a_chunked_range_is_the_same() {
        let mut client = Client::new();
        let elements: Vec<String> = (0..30_000).map(|n| format!("element:{n}")).collect();
        client.is(&format!("RPUSH l {}", elements.join(" ")), ":30000");
        for (start, stop) in [(0, 29_999), (1, 2500), (17, 29_000), (28_500, 29_999), (0, 1999)] {
            client.is(&format!("LRANGE l {start} {stop}"), &format!("[{}]", elements[start..=stop].join(" ")));
        }
    }
}
