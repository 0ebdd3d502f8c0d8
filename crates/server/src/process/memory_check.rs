//! A quick test of the memory that the process uses, at the end of the report of a crash (`crash-memcheck-enabled`).
//!
//! ```text
//!   all other threads stand still, in the handler of a signal   otherwise there is no test
//!   page by page   read - pattern in - read - complement in - read - contents back
//! ```
//!
//! In: regions of private memory that belongs to no file, but the reporter's own stack; pages that were never used are
//! left out. Everything goes through `/proc/self/mem`, so the kernel copies, and the reporter's code meets a page only
//! with its contents. While other threads stand still the reporter neither allocates nor takes a lock, since one of
//! them may have it.

use crate::process::thread_stacks;
use rustix::io::{pread, pwrite};
use std::fs::{self, File};
use std::io;
use std::time::{Duration, Instant};

/// Time that the test may take.
const PATIENCE: Duration = Duration::from_secs(1);
const PAGE: usize = 4096;
/// The bit of a page's entry by which it is in memory.
const PRESENT: u64 = 1 << 63;
const PATTERNS: [u8; 2] = [0x55, 0xAA];

/// The outcome of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Pages that were tested.
    pub pages: usize,
    /// Pages that did not keep what was written.
    pub bad: usize,
    /// Whether some pages were left out, since it took too long.
    pub is_cut: bool,
}

/// Tests the memory of the process. None: other threads do not stand still, or the system does not allow it.
pub fn run(threads: &[i32]) -> Option<Outcome> {
    let here = 0u8;
    let regions = regions((&raw const here).addr()).ok()?;
    let memory = File::options().read(true).write(true).open("/proc/self/mem").ok()?;
    let pages = File::open("/proc/self/pagemap").ok()?;
    thread_stacks::while_others_stand_still(threads, || {
        let (mut outcome, until) = (Outcome::default(), Instant::now() + PATIENCE);
        for (start, end) in &regions {
            test_region(&memory, &pages, (*start, *end), until, &mut outcome);
        }
        outcome
    })
}

/// Returns the regions that are tested, by their first addresses and ends.
fn regions(own_stack: usize) -> io::Result<Vec<(usize, usize)>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let (range, rights, _, device, file) =
            (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
        let is_heap = words.next().is_none_or(|name| name == "[heap]" || name.starts_with("[anon"));
        let (start, end) = range.split_once('-')?;
        let range = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        let is_own = (range.0..range.1).contains(&own_stack);
        (rights == "rw-p" && device == "00:00" && file == "0" && is_heap && !is_own).then_some(range)
    };
    Ok(maps.lines().filter_map(of_line).collect())
}

fn test_region(memory: &File, pages: &File, (start, end): (usize, usize), until: Instant, outcome: &mut Outcome) {
    let mut entries = [0u8; 512 * 8];
    for first in (start..end).step_by(512 * PAGE) {
        let place = (first / PAGE * 8) as u64;
        let count = ((end - first) / PAGE).min(512);
        let Ok(read) = pread(pages, &mut entries[..count * 8], place) else { return };
        let (entries, _) = entries[..read].as_chunks::<8>();
        for (at, entry) in entries.iter().enumerate() {
            if u64::from_ne_bytes(*entry) & PRESENT == 0 {
                continue;
            }
            if Instant::now() > until {
                outcome.is_cut = true;
                return;
            }
            match keeps(memory, (first + at * PAGE) as u64) {
                Some(true) => outcome.pages += 1,
                Some(false) => (outcome.pages, outcome.bad) = (outcome.pages + 1, outcome.bad + 1),
                None => {}
            }
        }
    }
}

/// Returns whether a page keeps patterns and, at the end, its contents; none if it cannot be read.
fn keeps(memory: &File, page: u64) -> Option<bool> {
    let (mut contents, mut found) = ([0u8; PAGE], [0u8; PAGE]);
    (pread(memory, &mut contents[..], page) == Ok(PAGE)).then_some(())?;
    let mut holds = |bytes: &[u8; PAGE]| {
        pwrite(memory, bytes, page) == Ok(PAGE) && pread(memory, &mut found[..], page) == Ok(PAGE) && found == *bytes
    };
    let keeps = PATTERNS.map(|pattern| holds(&[pattern; PAGE]));
    Some(holds(&contents) && keeps == [true; 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_keeps_what_is_written_has_its_contents_afterwards() {
        let memory = File::options().read(true).write(true).open("/proc/self/mem").unwrap();
        let contents: Vec<u8> = (0..3 * PAGE).map(|at| (at % 251) as u8).collect();
        let tested = std::hint::black_box(contents.clone());
        let page = tested.as_ptr().addr().next_multiple_of(PAGE) as u64;
        assert_eq!(keeps(&memory, page), Some(true));
        assert_eq!(*std::hint::black_box(&tested), contents);
        assert_eq!(keeps(&memory, 0), None);
    }

    #[test]
    fn regions_are_private_and_without_a_file_and_not_the_own_stack() {
        let (here, heap) = (0u8, vec![0u8; 1 << 20]);
        let (here, heap) = ((&raw const here).addr(), heap.as_ptr().addr());
        let found = regions(here).unwrap();
        let has = |address| found.iter().any(|(start, end)| (*start..*end).contains(&address));
        assert!(has(heap) && !has(here) && !has(PAGE_NAME.as_ptr().addr()), "{found:x?}");
    }

    static PAGE_NAME: &str = "in the program's file";
}
