//! One file's bytes for several takers, each at its own pace: replicas that ask together.
//!
//! ```text
//!   walk -> write | block | block | block | block |      in memory: what the slowest has not taken, up to a bound
//!                     ^ taker            ^ taker
//! ```
//!
//! Takers join before the first byte. While the limit of waiting bytes is reached, the walk waits, too; a taker that
//! takes nothing for [`Pace::patience`] meanwhile is dropped, and the others continue. The walk fails when no taker is
//! left. A taker learns of the end: half a file is never taken for a whole one.
//!
//! Each taker needs a thread of its own, and the walk, too; nothing else is asked of threads.

use engine::locks::sync::assert_unlocked;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::mem::take;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Limits for slow takers.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Bytes that may wait for the slowest, but for one block.
    pub bytes: usize,
    /// Time in which a taker may take nothing while the walk waits for it.
    pub patience: Duration,
}

/// Bytes of a block.
const BLOCK: usize = 64 << 10;

/// The writer's end of the file.
pub struct FanOut {
    shared: Arc<Shared>,
    /// Bytes of the incomplete block.
    block: Vec<u8>,
}

/// A reader of the file. The walk does not wait for a taker that was dropped before the end.
pub struct Taker {
    shared: Arc<Shared>,
    number: u64,
}

struct Shared {
    pace: Pace,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    blocks: VecDeque<Arc<Vec<u8>>>,
    /// Bytes of these blocks.
    bytes: usize,
    /// The number of the first block.
    first: u64,
    /// Positions of takers, by their numbers: the block that each takes next.
    takers: BTreeMap<u64, u64>,
    joined: u64,
    state: State,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Not a byte is written yet.
    #[default]
    Open,
    Running,
    /// The file is complete.
    Complete,
    /// The file ended early.
    Broken,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, state: State) {
        self.queue().state = state;
        self.changed.notify_all();
    }
}

impl FanOut {
    /// Returns a file for takers that are to join.
    pub fn new(pace: Pace) -> FanOut {
        let shared = Shared { pace, queue: Mutex::default(), changed: Condvar::new() };
        FanOut { shared: Arc::new(shared), block: Vec::new() }
    }

    /// Adds a taker that takes all bytes; None when some have been written already.
    pub fn join(&self) -> Option<Taker> {
        let mut queue = self.shared.queue();
        if queue.state != State::Open {
            return None;
        }
        queue.joined += 1;
        let number = queue.joined;
        queue.takers.insert(number, 0);
        Some(Taker { shared: Arc::clone(&self.shared), number })
    }

    /// Completes the file: takers reach the end. Without this call they learn that it ended early.
    ///
    /// # Errors
    /// `BrokenPipe`: no taker is left.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.shared.end(State::Complete);
        Ok(())
    }

    /// Hands a block out, as soon as there is room for it.
    fn push(&mut self) -> io::Result<()> {
        let block = Arc::new(take(&mut self.block));
        let Shared { pace, changed, .. } = &*self.shared;
        assert_unlocked();
        let mut queue = self.shared.queue();
        queue.state = State::Running;
        while queue.bytes > pace.bytes && !queue.takers.is_empty() {
            let (guard, waited) = changed.wait_timeout(queue, pace.patience).unwrap_or_else(PoisonError::into_inner);
            queue = guard;
            if waited.timed_out() && queue.bytes > pace.bytes {
                queue.drop_slowest();
            }
        }
        if queue.takers.is_empty() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        queue.bytes += block.len();
        queue.blocks.push_back(block);
        drop(queue);
        changed.notify_all();
        Ok(())
    }
}

impl Write for FanOut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.block.extend_from_slice(bytes);
        if self.block.len() >= BLOCK {
            self.push()?;
        } else if self.shared.queue().takers.is_empty() {
            // A walk that is slowed down would fill its block for no taker.
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() { Ok(()) } else { self.push() }
    }
}

impl Drop for FanOut {
    fn drop(&mut self) {
        if self.shared.queue().state != State::Complete {
            self.shared.end(State::Broken);
        }
    }
}

impl Queue {
    /// Drops the blocks that all have taken.
    fn trim(&mut self) {
        let needed = self.takers.values().min().copied().unwrap_or(u64::MAX);
        while self.first < needed
            && let Some(block) = self.blocks.pop_front()
        {
            self.bytes -= block.len();
            self.first += 1;
        }
    }

    /// Drops the takers that the first block waits for.
    fn drop_slowest(&mut self) {
        let first = self.first;
        self.takers.retain(|_, next| *next > first);
        self.trim();
    }
}

/// The result of waiting for a block.
pub enum NextBlock {
    /// The next block.
    Block(Arc<Vec<u8>>),
    /// No block within that time.
    Later,
    /// The end of the file.
    End,
}

impl Taker {
    /// Returns the next block of bytes, once there is one; None at the end.
    ///
    /// # Errors
    /// `TimedOut`: this taker was too slow. `ConnectionAborted`: the file ended early.
    pub fn block(&mut self) -> io::Result<Option<Arc<Vec<u8>>>> {
        loop {
            match self.block_within(Duration::from_secs(1))? {
                NextBlock::Block(block) => return Ok(Some(block)),
                NextBlock::Later => {}
                NextBlock::End => return Ok(None),
            }
        }
    }

    /// Returns the next block of bytes, if it comes within this time.
    ///
    /// # Errors
    /// The errors of [`block`](Self::block).
    pub fn block_within(&mut self, time: Duration) -> io::Result<NextBlock> {
        let mut queue = self.shared.queue();
        let mut waited = false;
        loop {
            let first = queue.first;
            let Some(next) = queue.takers.get_mut(&self.number) else { return Err(io::ErrorKind::TimedOut.into()) };
            let at = (*next - first) as usize;
            if let Some(block) = queue.blocks.get(at).map(Arc::clone) {
                queue.takers.entry(self.number).and_modify(|next| *next += 1);
                queue.trim();
                drop(queue);
                self.shared.changed.notify_all();
                return Ok(NextBlock::Block(block));
            }
            match queue.state {
                State::Complete => return Ok(NextBlock::End),
                State::Broken => return Err(io::ErrorKind::ConnectionAborted.into()),
                State::Open | State::Running => {}
            }
            if waited {
                return Ok(NextBlock::Later);
            }
            let result = self.shared.changed.wait_timeout(queue, time).unwrap_or_else(PoisonError::into_inner);
            (queue, waited) = (result.0, result.1.timed_out());
        }
    }

    /// Writes all to `to`, and returns the number of bytes.
    ///
    /// # Errors
    /// The errors of [`block`](Self::block), and of `to`.
    pub fn pour(mut self, to: &mut dyn Write) -> io::Result<u64> {
        let mut written = 0;
        while let Some(block) = self.block()? {
            to.write_all(&block)?;
            written += block.len() as u64;
        }
        to.flush()?;
        Ok(written)
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.takers.remove(&self.number);
        queue.trim();
        drop(queue);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::thread;

    const LONG: Duration = Duration::from_secs(3600);

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|n| (n / 251) as u8 ^ n as u8).collect()
    }

    /// A taker that takes so many bytes, and leaves.
    struct Leaves(usize);

    impl Write for Leaves {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::ConnectionReset)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn all_who_stay_get_all_bytes_and_memory_is_bounded(
            len in 0..3_000_000usize,
            bound in 0..400_000usize,
            piece in 1..200_000usize,
            leave in proptest::collection::vec(proptest::option::of(0..2_000_000usize), 1..5),
        ) {
            let all = bytes(len);
            let mut fan_out = FanOut::new(Pace { bytes: bound, patience: LONG });
            let takers: Vec<Taker> = leave.iter().map(|_| fan_out.join().expect("nothing is written")).collect();
            let late = Arc::clone(&fan_out.shared);
            let results: Vec<(io::Result<u64>, Vec<u8>)> = thread::scope(|scope| {
                let threads: Vec<_> = takers.into_iter().zip(&leave).map(|(taker, leave)| scope.spawn(move || {
                    let mut found = Vec::new();
                    let result = match leave {
                        Some(after) => taker.pour(&mut Leaves(*after)),
                        None => taker.pour(&mut found),
                    };
                    (result, found)
                })).collect();
                for chunk in all.chunks(piece) {
                    if fan_out.write_all(chunk).is_err() {
                        break;
                    }
                    let queue = late.queue();
                    assert!(queue.bytes <= bound + 2 * BLOCK.max(piece), "{} bytes wait", queue.bytes);
                }
                let _ = fan_out.finish();
                threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
            });
            for ((result, found), leave) in results.into_iter().zip(leave) {
                match leave {
                    None => {
                        prop_assert_eq!(result.expect("all of it"), len as u64);
                        prop_assert!(found == all);
                    }
                    Some(after) => prop_assert_eq!(result.is_ok(), after >= len),
                }
            }
            prop_assert!(late.queue().blocks.is_empty());
        }
    }

    #[test]
    fn a_slow_taker_is_dropped_and_the_others_go_on() {
        let all = bytes(20 * BLOCK);
        let mut fan_out = FanOut::new(Pace { bytes: 3 * BLOCK, patience: Duration::from_millis(1) });
        let [mut quick, mut slow, mut asleep] = [(); 3].map(|()| fan_out.join().expect("nothing is written"));
        drop(fan_out.join());
        let mut found = Vec::new();
        for (n, chunk) in all.chunks(BLOCK).enumerate() {
            fan_out.write_all(chunk).expect("one is quick");
            found.extend_from_slice(&quick.block().expect("a block").expect("no end"));
            assert!(fan_out.join().is_none(), "some bytes are gone");
            if n < 2 {
                slow.block().expect("a block");
            }
            assert!(fan_out.shared.queue().bytes <= 4 * BLOCK);
        }
        fan_out.finish().expect("all is written");
        assert!(quick.block().expect("the end").is_none() && found == all);
        for taker in [&mut slow, &mut asleep] {
            assert_eq!(taker.block().expect_err("too slow").kind(), io::ErrorKind::TimedOut);
        }
    }

    #[test]
    fn a_slow_walk_ends_soon_after_all_have_left() {
        let mut fan_out = FanOut::new(Pace { bytes: 1 << 20, patience: Duration::from_secs(100) });
        let taker = fan_out.join().expect("nothing is written");
        fan_out.write_all(b"a").expect("somebody takes it");
        drop(taker);
        assert_eq!(fan_out.write_all(b"b").map_err(|error| error.kind()), Err(io::ErrorKind::BrokenPipe));
    }

    #[test]
    fn half_a_file_is_no_file() {
        let mut fan_out = FanOut::new(Pace { bytes: BLOCK, patience: LONG });
        let mut taker = fan_out.join().expect("one");
        fan_out.write_all(&bytes(BLOCK)).expect("room for it");
        drop(fan_out);
        assert_eq!(taker.block().expect("what was written").map(|block| block.len()), Some(BLOCK));
        assert_eq!(taker.block().expect_err("no end").kind(), io::ErrorKind::ConnectionAborted);

        let fan_out = FanOut::new(Pace { bytes: BLOCK, patience: LONG });
        let mut taker = fan_out.join().expect("one");
        fan_out.finish().expect("nothing to write");
        assert!(taker.block().expect("the end").is_none());

        let mut fan_out = FanOut::new(Pace { bytes: BLOCK, patience: LONG });
        drop(fan_out.join());
        let error = fan_out.write_all(&bytes(BLOCK)).expect_err("nobody is there");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
