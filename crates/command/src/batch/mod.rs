//! The one path of clients' commands: received bytes come in, replies go out.
//!
//! ```text
//!   bytes -> parse, look up, hash -> prefetch -> admit -> run -> count, log -> reply
//!            [`parse`], [`command_cache`]  [`prefetch`]   [`run`], one command after the other
//! ```
//!
//! A server [fills](Batch::fill) a [`Batch`] with requests of one connection after the other and then
//! [runs](execute::BatchRun) it. The server decides the matters of sockets: when a connection is read from, how much it
//! may ask for at a time, and the destination of its replies. Input that has not run yet is in the connection's
//! [`Requests`](requests::Requests). No code here waits or knows of a socket.

pub mod command_cache;
pub mod execute;
pub mod item;
pub mod parse;
pub mod prefetch;
pub mod requests;

use crate::batch::item::BatchItem;
use crate::batch::prefetch::Prefetcher;
use engine::Engine;
use resp::Span;

/// Requests of a batch, at most: their prefetched memory fits into the nearest cache.
pub const BATCH: usize = 64;

/// Requests that are parsed and prefetched together, of one connection after the other.
#[derive(Default)]
pub struct Batch<'b> {
    items: Vec<BatchItem<'b>>,
    /// Places of all items' arguments.
    spans: Vec<Span>,
    /// Some item may own memory.
    owns: bool,
}

impl<'b> Batch<'b> {
    /// Returns an empty batch in the memory of this one, for requests that lie in other input: its memory is always
    /// there, and always counted.
    pub fn renewed<'n>(mut self) -> Batch<'n> {
        self.items.clear();
        // The items are collected where they lay: room for items is room for items, however long those live.
        let mut items: Vec<BatchItem<'n>> = self.items.into_iter().map(|_| unreachable!("it is empty")).collect();
        items.reserve_exact(BATCH);
        self.spans.clear();
        Batch { items, spans: self.spans, owns: false }
    }

    /// Returns whether it has no requests.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Drops the requests. Nearly always none owns memory, and nothing has to be done.
    #[inline]
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.owns) {
            self.items.clear();
        } else {
            self.items.drain(..).for_each(std::mem::forget);
        }
        self.spans.clear();
    }

    /// Returns the requests, which are about to run, and the places of their arguments.
    #[inline]
    pub fn begin(&mut self, engine: &Engine, prefetcher: &mut Prefetcher) -> (&mut [BatchItem<'b>], &[Span]) {
        prefetcher.begin(engine, &self.items, &self.spans);
        (&mut self.items, &self.spans)
    }

    /// Frees room for arguments beyond so many. The batch must be empty.
    pub fn give_back_room(&mut self, arguments: usize) {
        if self.spans.capacity() > arguments {
            self.spans = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_renewed_in_its_own_memory() {
        let batch: Batch<'static> = Batch::default().renewed();
        let (start, room) = (batch.items.as_ptr().addr(), batch.items.capacity());
        assert_eq!(room, BATCH);
        let bytes = vec![0];
        let mut batch = batch.renewed();
        batch.items.push(BatchItem { token: 0, db: 0, bytes: &bytes, kind: item::ItemKind::Done });
        let batch: Batch<'static> = batch.renewed();
        assert_eq!((batch.items.as_ptr().addr(), batch.items.capacity(), batch.items.len()), (start, room, 0));
    }
}
