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

use crate::core::context::{Context, Flow, Resumable};
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

impl<L: Lister> Resumable for Removed<L> {
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

impl<T: Send, W: Fn(&mut Reply, &T) + Send> Resumable for Draws<T, W> {
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

impl Resumable for Job {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        self.listing.piece(&mut cx.keys, cx.reply)
    }
}
