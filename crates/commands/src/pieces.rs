//! Replies that list a large collection, sent in pieces.
//!
//! A handler that lists (HGETALL, SMEMBERS, LRANGE, ZRANGE) writes the header of its reply and then calls [`list`] with a
//! [`Lister`] of its type. Short lists are written at once. Long ones go out piece by piece, as fast as the client
//! takes them, and others are served in between; what they change does not show, since the reply is of the moment
//! when the command ran. How that is done without a copy is told in [`engine::listing`].
//!
//! A lister keeps a place in the collection and writes elements from there:
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

use crate::cx::{Cx, Flow, Piecewise};
use engine::keys::Key;
use engine::listing::{Lister, Listing};
use engine::value::{Object, Value};
use resp::Reply;
use std::sync::Arc;

/// Lists up to this many elements are written at once.
pub const AT_ONCE: usize = 1000;

/// Writes the elements of the collection that the key holds; `count`, about how many they are, decides how.
pub fn list(cx: &mut Cx<'_>, key: Key<'_>, count: usize, mut lister: impl Lister + 'static) {
    if count <= AT_ONCE {
        if let Some(entry) = cx.keys.peek(key)
            && let Value::Payload(object) = entry.value()
        {
            write_all(object, &mut lister, cx.reply);
        }
        return;
    }
    let begun = Listing::begin(&mut cx.keys, key, cx.reply.protocol(), Box::new(lister));
    if let Some(listing) = begun {
        cx.flow = Flow::More(Box::new(Job { name: key.name.to_vec(), listing }));
    }
}

/// Writes all elements now.
pub fn write_all(object: &Object, lister: &mut impl Lister, reply: &mut Reply) {
    while !lister.piece(object, AT_ONCE, reply) {}
}

/// So many elements are drawn with repetitions at once, or as many as the collection has.
pub const DRAWS_AT_ONCE: usize = 10_000;

/// Replies `count` random ones of `items`, which are of one moment, as fast as the client takes them: it may ask for more than
/// fits into memory.
pub fn draw<T: Send + 'static>(
    cx: &mut Cx<'_>,
    items: Vec<T>,
    count: usize,
    write: impl Fn(&mut Reply, &T) + Send + 'static,
) {
    cx.flow = Flow::More(Box::new(Draws { items, left: count, write }));
}

struct Draws<T, W> {
    items: Vec<T>,
    left: usize,
    write: W,
}

impl<T: Send, W: Fn(&mut Reply, &T) + Send> Piecewise for Draws<T, W> {
    fn step(&mut self, cx: &mut Cx<'_>) -> bool {
        let count = self.left.min(AT_ONCE);
        self.left -= count;
        for _ in 0..count {
            (self.write)(cx.reply, &self.items[fastrand::usize(..self.items.len())]);
        }
        self.left == 0
    }
}

struct Job {
    name: Vec<u8>,
    listing: Arc<Listing>,
}

impl Piecewise for Job {
    fn step(&mut self, cx: &mut Cx<'_>) -> bool {
        self.listing.piece(&mut cx.keys, &self.name, cx.reply)
    }
}
