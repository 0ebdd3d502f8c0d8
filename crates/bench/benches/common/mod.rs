//! Parts that the benches share: whether to measure, the clocks, the keys, and the printed table.
//!
//! A bench is a plain program, because its subjects (several threads on one engine, several structures of one content)
//! need a set-up that many rows share. Every row is measured in several rounds, the rows taking turns, and the best
//! round counts: other load of the machine can make a round slower, never faster.

use cinnabar_allocator as _;
use std::time::{Duration, Instant};
use tikv_jemalloc_ctl::{epoch, stats};

/// The arguments of a bench.
pub struct Call {
    /// Whether to measure, or only to check that everything runs (`cargo test --benches`).
    pub measures: bool,
    words: Vec<String>,
}

impl Call {
    /// Reads the arguments; `None` when there is nothing to do: test runners ask for a list of tests.
    ///
    /// `cargo bench` passes `--bench`. Words select the rows that contain all of them:
    /// `cargo bench --bench engine -- get batch`.
    pub fn read() -> Option<Call> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let has = |option: &str| arguments.iter().any(|argument| argument == option);
        let call = Call {
            measures: has("--bench") && !has("--test"),
            words: arguments.iter().filter(|word| !word.starts_with("--")).cloned().collect(),
        };
        (!has("--list")).then_some(call)
    }

    pub fn wants(&self, row: &str) -> bool {
        self.words.iter().all(|word| row.contains(word.as_str()))
    }

    pub fn rounds(&self) -> usize {
        if self.measures { 5 } else { 1 }
    }
}

/// The cost of a piece of work.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    pub wall: Duration,
    /// Time of the calling thread's processor, which leaves out other programs' use of it.
    pub cpu: Duration,
}

impl Took {
    pub const FOREVER: Took = Took { wall: Duration::MAX, cpu: Duration::MAX };

    /// Returns the lesser of each.
    pub fn best(self, other: Took) -> Took {
        Took { wall: self.wall.min(other.wall), cpu: self.cpu.min(other.cpu) }
    }
}

pub fn time<R>(work: impl FnOnce() -> R) -> (Took, R) {
    let (wall, cpu) = (Instant::now(), thread_cpu());
    let result = work();
    (Took { wall: wall.elapsed(), cpu: thread_cpu() - cpu }, result)
}

fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned() as u32)
}

/// Returns the nanoseconds for each of `count` operations.
pub fn ns_each(took: Duration, count: usize) -> f64 {
    took.as_secs_f64() * 1e9 / count as f64
}

/// Returns the bytes in live allocations, including their rounding up to size classes.
pub fn allocated() -> usize {
    epoch::advance().expect("jemalloc keeps statistics");
    stats::allocated::read().expect("jemalloc keeps statistics")
}

/// Returns the `n`th of a sequence of different 16-byte keys without a pattern. The key is computed, not stored: in a
/// server a key comes from a read buffer, which is in the cache.
#[inline]
pub fn key(n: usize) -> [u8; 16] {
    let n = n as u64;
    (u128::from(scramble(n)) << 64 | u128::from(scramble(!n))).to_le_bytes()
}

/// Mixes a number by the finalizer of SplitMix64, which maps different numbers to different ones.
#[inline]
fn scramble(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

/// Prints a Markdown table. The first column is flush left, the others right.
pub fn print_table(title: &str, rows: &[Vec<String>]) {
    let Some(head) = rows.first() else { return };
    let widths: Vec<usize> =
        (0..head.len()).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    println!("\n{title}\n");
    for (at, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!(" {cell:<width$} |"),
            _ => format!(" {cell:>width$} |"),
        });
        println!("|{}", cells.collect::<String>());
        if at == 0 {
            let rule = widths.iter().enumerate().map(|(column, &width)| match column {
                0 => format!("{}|", "-".repeat(width + 2)),
                _ => format!("{}:|", "-".repeat(width + 1)),
            });
            println!("|{}", rule.collect::<String>());
        }
    }
}
