//! The statistics of jemalloc, and the few requests that it takes while it runs.
//!
//! Its numbers have names (`arenas.page`); a number has 8, 4 or 1 bytes, and reading it as another size is refused, so
//! that the sizes are tried in turn. Texts are read only under names that are known to be those of texts.

use engine::host::memory::MemoryStats;
use std::io;
use std::sync::LazyLock;
use tikv_jemalloc_ctl::thread::{self, ThreadLocal};
use tikv_jemalloc_ctl::{Access, AsName, Error, epoch, stats, stats_print};

/// The allocator's name and version, without the commit.
pub static VERSION: LazyLock<String> = LazyLock::new(|| {
    let version = text("version").unwrap_or_default();
    format!("jemalloc-{}", version.split('-').next().unwrap_or_default())
});

/// Index that stands for all arenas in a name.
const ALL_ARENAS: usize = 4096;

fn of_all(name: &str) -> u64 {
    number(&format!("stats.arenas.{ALL_ARENAS}.{name}"), None).unwrap_or(0)
}

/// Returns the bytes in use, all threads' together. The numbers stand still until the epoch is advanced. Without
/// statistics they are zero.
pub fn allocated() -> u64 {
    let _ = epoch::advance();
    let allocated = stats::allocated::read().unwrap_or(0) as u64;
    // Memory that threads retain for their next allocations is not in use, though jemalloc has given it out.
    allocated.saturating_sub(of_all("tcache_bytes"))
}

type Count = Option<ThreadLocal<u64>>;

thread_local! {
    /// The counters in which jemalloc has this thread's allocated and freed bytes.
    static COUNTS: (Count, Count) = (thread::allocatedp::read().ok(), thread::deallocatedp::read().ok());
}

/// Returns the bytes that this thread has allocated minus the bytes that it has freed.
pub fn own_allocated() -> u64 {
    COUNTS.with(|(allocated, freed)| match (allocated, freed) {
        (Some(allocated), Some(freed)) => allocated.get().wrapping_sub(freed.get()),
        _ => 0,
    })
}

pub fn stats() -> MemoryStats {
    MemoryStats {
        allocator: &VERSION,
        allocated: allocated(),
        active: stats::active::read().unwrap_or(0) as u64,
        resident: stats::resident::read().unwrap_or(0) as u64,
        muzzy: of_all("pmuzzy") * number("arenas.page", None).unwrap_or(0),
        ..MemoryStats::default()
    }
}

/// Returns unused pages to the system: an arena does so when the time for which it retains them becomes zero.
pub fn purge() {
    for arena in 0..number("arenas.narenas", None).unwrap_or(0) {
        let name = format!("arena.{arena}.dirty_decay_ms\0");
        let name = name.as_bytes().name();
        // Arenas that were never used refuse.
        if let Ok(kept) = Access::<isize>::read(name)
            && name.write(0isize).is_ok()
        {
            let _ = name.write(kept);
        }
    }
}

/// Sets whether threads of the allocator return unused pages to the system; otherwise the threads that free memory do.
pub fn give_back_in_background(on: bool) {
    // The server works without such threads, too.
    let _ = number("background_thread", Some(u64::from(on)));
}

/// Returns all statistics as text.
pub fn report() -> Option<String> {
    let mut text = Vec::new();
    stats_print::stats_print(&mut text, stats_print::Options::default()).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Ends of names that may be written to: how long unused pages are retained, and which threads return them. Under other
/// names jemalloc takes addresses.
const WRITABLE: [&str; 4] = [".dirty_decay_ms", ".muzzy_decay_ms", "background_thread", "epoch"];

/// Returns the number of this name, after it has been set to `new`.
pub fn number(name: &str, new: Option<u64>) -> io::Result<u64> {
    let name = terminated(name)?;
    let key = name.as_bytes().name();
    if let Some(new) = new {
        if !WRITABLE.iter().any(|end| name.trim_end_matches('\0').ends_with(end)) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        key.write(new).or_else(|_| key.write(new != 0)).map_err(system_error)?;
    }
    let long: Result<u64, Error> = key.read();
    let short = |_| Access::<u32>::read(key).map(u64::from);
    let flag = |_| Access::<bool>::read(key).map(u64::from);
    long.or_else(short).or_else(flag).map_err(system_error)
}

/// Returns the text of this name.
pub fn text(name: &str) -> io::Result<String> {
    let name = terminated(name)?;
    let key = name.as_bytes().name();
    if !key.value_type_str() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let bytes: Result<&'static [u8], Error> = key.read();
    Ok(String::from_utf8_lossy(bytes.map_err(system_error)?).trim_end_matches('\0').to_owned())
}

fn terminated(name: &str) -> io::Result<String> {
    if name.is_empty() || name.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(format!("{name}\0"))
}

/// Converts the error, whose number is not public; in nearly all cases there is no such name.
fn system_error(_: Error) -> io::Error {
    io::ErrorKind::NotFound.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_whatever_their_size() {
        assert!(number("arenas.page", None).unwrap() >= 4096);
        assert!(number("arenas.narenas", None).unwrap() >= 1);
        assert!(number("config.debug", None).unwrap() <= 1);
        assert_eq!(number("nope", None).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(number("", None).is_err() && number("arenas.page\0x", None).is_err());
        assert_eq!(number("arena.0.extent_hooks", Some(1)).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn texts_are_read_as_texts_only() {
        assert!(text("version").unwrap().starts_with(char::is_numeric));
        assert!(text("arenas.page").is_err());
    }

    #[test]
    fn a_thread_counts_what_it_allocates_and_frees() {
        let before = own_allocated();
        let block = vec![1u8; 3 << 20];
        assert!(own_allocated().wrapping_sub(before) >= block.len() as u64);
        drop(block);
        assert_eq!(own_allocated(), before);
    }

    #[test]
    fn the_report_is_jemallocs() {
        purge();
        assert!(report().unwrap().contains("jemalloc"));
        assert!(stats().active >= stats().allocated);
    }
}
