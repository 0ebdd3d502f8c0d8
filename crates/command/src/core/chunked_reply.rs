//! Replies that list a large collection, sent a chunk at a time.
//!
//! A handler that lists (HGETALL, SMEMBERS, LRANGE, ZRANGE) writes the header of its reply and then calls [`list`] with
//! a [`Lister`] of its type. Short lists are written at once. Long ones go out piece by piece, as fast as the client
//! takes them, and others are served in between; their changes do not show, since the reply is of the moment when the
//! command ran. [`engine::snapshot::streamed_reply`] explains how that works without a copy.
//!
//! A lister has a place in the collection and writes elements from there:
//!
//! ```text
//! struct Members { at: u64 }
//! impl Lister for Members {
//!     fn piece(&mut self, object: &Object, max: usize, reply: &mut Reply) -> bool {
//!         let Some(set) = Set::of(object) else { return true };
//!         // write up to about `max` elements from `self.at`, and move it; true at the end
//!     }
//! }
//! cx.reply.set(set.len());
//! pieces::list(cx, key, set.len(), Members { at: 0 });
//! ```

use crate::core::context::{Context, Flow, Piecewise};
use engine::data::value::{Object, Value};
use engine::keyspace::keys::Key;
use engine::snapshot::streamed_reply::{Lister, StreamedReply};
use resp::Reply;
use std::sync::Arc;

/// Lists up to this many elements are written at once.
pub const AT_ONCE: usize = 1000;

/// Writes the elements of the collection that the key holds; `count`, their approximate number, decides how.
pub fn list(cx: &mut Context<'_>, key: Key<'_>, count: usize, mut lister: impl Lister + 'static) {
    if count <= AT_ONCE {
        if let Some(entry) = cx.keys.lookup_no_stats(key)
            && let Value::Payload(object) = entry.value()
        {
            write_all(object, &mut lister, cx.reply);
        }
        return;
    }
    let begun = StreamedReply::begin(&mut cx.keys, key, cx.reply.protocol(), Box::new(lister));
    if let Some(listing) = begun {
        cx.flow = Flow::more(Job { listing });
    }
}

/// Writes the elements of a collection that was taken out of the keyspace, a chunk at a time, and frees it.
pub fn list_removed(cx: &mut Context<'_>, object: Arc<Object>, lister: impl Lister + 'static) {
    cx.flow = Flow::more(Removed { object: Some(object), lister });
}

struct Removed<L> {
    object: Option<Arc<Object>>,
    lister: L,
}

impl<L: Lister> Piecewise for Removed<L> {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(object) = &self.object else { return true };
        let done = self.lister.piece(object, AT_ONCE, cx.reply);
        if done && let Some(object) = self.object.take().and_then(Arc::into_inner) {
            cx.keys.effects.discard(object);
        }
        done
    }
}

/// Writes all elements now.
pub fn write_all(object: &Object, lister: &mut impl Lister, reply: &mut Reply) {
    while !lister.piece(object, AT_ONCE, reply) {}
}

/// Elements that are drawn with repetitions at once, or as many as the collection has, if these are more.
pub const DRAWS_AT_ONCE: usize = 10_000;

/// Replies `count` random ones of `items`, which are of one moment, as fast as the client takes them: it may ask for
/// more than fits into memory.
pub fn draw<T: Send + 'static>(
    cx: &mut Context<'_>,
    items: Vec<T>,
    count: usize,
    write: impl Fn(&mut Reply, &T) + Send + 'static,
) {
    cx.flow = Flow::more(Draws { items, left: count, write });
}

struct Draws<T, W> {
    items: Vec<T>,
    left: usize,
    write: W,
}

impl<T: Send, W: Fn(&mut Reply, &T) + Send> Piecewise for Draws<T, W> {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let count = self.left.min(AT_ONCE);
        self.left -= count;
        for _ in 0..count {
            (self.write)(cx.reply, &self.items[fastrand::usize(..self.items.len())]);
        }
        self.left == 0
    }
}

struct Job {
    listing: Arc<StreamedReply>,
}

impl Piecewise for Job {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        self.listing.piece(&mut cx.keys, cx.reply)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    /// Returns a list, a sorted set and a set of `len` elements with long names.
    fn filled(len: usize) -> (Client, Vec<String>) {
        let mut client = Client::new();
        let elements: Vec<String> = (0..len).map(|n| format!("e{n:040}")).collect();
        client.run(&format!("RPUSH l {}", elements.join(" ")));
        client.run(&format!("SADD s {}", elements.join(" ")));
        let pairs: Vec<String> = elements.iter().enumerate().map(|(n, element)| format!("{n} {element}")).collect();
        client.run(&format!("ZADD z {}", pairs.join(" ")));
        (client, elements)
    }

    fn sorted(reply: &str) -> Vec<String> {
        let mut words: Vec<String> = reply.trim_matches(['[', ']']).split(' ').map(str::to_owned).collect();
        words.sort_unstable();
        words
    }

    #[test]
    fn what_is_taken_out_is_gone_at_once_and_replied_later() {
        let all = 5000;
        for count in [4990, all, 9999] {
            for (key, pop) in
                [("l", "LPOP l"), ("l", "RPOP l"), ("z", "ZPOPMIN z"), ("z", "ZPOPMAX z"), ("s", "SPOP s")]
            {
                let (mut client, elements) = filled(all);
                let mut other = client.beside();
                let line = format!("{pop} {count}");
                let mut popping = client.begin(&line.split(' ').collect::<Vec<_>>());
                assert!(!popping.step(), "{line}");
                let left = all - count.min(all);
                let len = match key {
                    "l" => "LLEN l",
                    "z" => "ZCARD z",
                    _ => "SCARD s",
                };
                other.is(len, &format!(":{left}")).is(&format!("EXISTS {key}"), &format!(":{}", usize::from(left > 0)));
                let rest = sorted(&other.run(if key == "s" { "SMEMBERS s" } else { "EXISTS none" }));
                match key {
                    "l" => other.is("RPUSH l new", &format!(":{}", left + 1)),
                    "z" => other.is("ZADD z 1 new", ":1"),
                    _ => other.is("SADD s new", ":1"),
                };
                let reply = popping.end();
                let pair = |n: usize| format!("{} {n}", elements[n]);
                let expected: Vec<String> = match pop {
                    "LPOP l" => elements[..all - left].to_vec(),
                    "RPOP l" => elements[left..].iter().rev().cloned().collect(),
                    "ZPOPMIN z" => (0..all - left).map(pair).collect(),
                    "ZPOPMAX z" => (left..all).rev().map(pair).collect(),
                    _ => {
                        let mut members = sorted(&reply);
                        assert_eq!(members.len(), all - left);
                        members.extend(rest.into_iter().filter(|_| left > 0));
                        members.sort_unstable();
                        assert_eq!(members, sorted(&elements.join(" ")), "{line}");
                        continue;
                    }
                };
                assert!(reply == format!("[{}]", expected.join(" ")), "{line}");
            }
        }
    }

    #[test]
    fn a_chunked_reply_of_a_sorted_set_shows_what_is_removed_meanwhile() {
        for removal in
            ["ZREMRANGEBYRANK z 5 4995", "ZREMRANGEBYSCORE z -inf +inf", "ZPOPMIN z 4995", "ZREMRANGEBYRANK z 9 99"]
        {
            let (mut client, elements) = filled(5000);
            let mut other = client.beside();
            let mut listing = client.begin(&["ZRANGE", "z", "0", "-1"]);
            assert!(!listing.step());
            other.run(removal);
            other.is("ZADD z 3000.5 new", ":1");
            assert!(listing.end() == format!("[{}]", elements.join(" ")), "{removal}");
        }
    }

    #[test]
    fn a_transaction_and_who_has_waited_get_it_whole() {
        let (mut client, elements) = filled(5000);
        client.is("MULTI", "+OK").is("LPOP l 4999", "+QUEUED").is("LLEN l", "+QUEUED");
        let popped = elements[..4999].join(" ");
        assert!(client.run("EXEC") == format!("[[{popped}] :1]"));
        client.is("LMPOP 2 none l LEFT COUNT 5000", &format!("[l [{}]]", elements[4999]));
    }
}
