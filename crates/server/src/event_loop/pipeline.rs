//! A worker's memory on the way from bytes to commands, retained from one tick to the next.

use commands::batch::Batch;
use commands::batch::command_cache::CommandCache;
use commands::batch::prefetch::Prefetcher;

/// Bytes of the arena, which takes all that a tick reads before it runs anything.
const ARENA: usize = 256 << 10;
/// Room for arguments of commands that a worker keeps between two ticks.
const SPANS_KEPT: usize = 16 << 10;

/// A worker's arena and batch. Both are taken out while they are in use: a tick within a tick has others.
pub struct Pipeline {
    arena: Vec<u8>,
    batch: Batch<'static>,
    prefetcher: Prefetcher,
    command_cache: CommandCache,
}

impl Default for Pipeline {
    fn default() -> Pipeline {
        Pipeline {
            arena: vec![0; ARENA],
            batch: Batch::default().renewed(),
            prefetcher: Prefetcher::default(),
            command_cache: CommandCache::default(),
        }
    }
}

impl Pipeline {
    /// Takes the arena. An empty one is left.
    pub fn take_arena(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.arena)
    }

    /// Puts the arena back.
    pub fn put_arena(&mut self, arena: Vec<u8>) {
        self.arena = arena;
    }

    /// Takes the batch, empty.
    pub fn take_batch<'b>(&mut self) -> Batch<'b> {
        std::mem::take(&mut self.batch).renewed()
    }

    /// Puts the batch back.
    pub fn put_batch(&mut self, batch: Batch<'_>) {
        self.batch = batch.renewed();
    }

    /// Returns the prefetcher, which asks for memory before commands need it.
    #[inline]
    pub fn prefetcher(&mut self) -> &mut Prefetcher {
        &mut self.prefetcher
    }

    /// Returns the commands that came last.
    #[inline]
    pub fn command_cache(&mut self) -> &mut CommandCache {
        &mut self.command_cache
    }

    /// Frees the memory that a large batch has needed.
    pub fn give_back_room(&mut self) {
        self.batch.give_back_room(SPANS_KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_and_a_tick_within_a_tick_has_its_own() {
        let mut pipeline = Pipeline::default();
        let arena = pipeline.take_arena();
        let (place, within) = (arena.as_ptr().addr(), pipeline.take_arena());
        assert_eq!((arena.len(), within.len()), (ARENA, 0));
        let outer: Batch<'_> = pipeline.take_batch();
        let inner = pipeline.take_batch();
        assert!(outer.is_empty() && inner.is_empty());
        pipeline.put_batch(inner);
        pipeline.put_batch(outer);
        pipeline.put_arena(arena);
        pipeline.give_back_room();
        let again = pipeline.take_arena();
        assert_eq!(again.as_ptr().addr(), place);
    }
}
