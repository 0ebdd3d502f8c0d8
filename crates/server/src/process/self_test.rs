//! Tests of the machine without serving: `--test-memory` and `--check-system`.
//!
//! Memory is tested as far as a process can see it: words are filled with their own numbers and with patterns that
//! neighbours differ in, each pass read back after all of it was written.

use std::fs::read_to_string;
use std::io::{self, Write};

/// Words that are written between two dots.
const PIECE: usize = 1 << 17;
const WORDS_PER_MEGABYTE: u64 = (1 << 20) / 8;

/// Tests so much memory; returns whether it kept what was written. An error: the memory cannot be had, or nobody reads
/// the output.
pub fn test_memory(megabytes: u64, mut out: impl Write) -> Result<bool, String> {
    let refused = || format!("Unable to allocate {megabytes} megabytes");
    let count = megabytes.checked_mul(WORDS_PER_MEGABYTE).and_then(|words| usize::try_from(words).ok());
    let mut words: Vec<u64> = Vec::new();
    words.try_reserve_exact(count.ok_or_else(refused)?).map_err(|_| refused())?;
    words.resize(count.unwrap_or_default(), 0);
    let mut wrong = 0;
    for (title, pattern) in PATTERNS {
        write!(out, "{title} ").map_err(|error| error.to_string())?;
        wrong += pass(&mut words, pattern, &mut out).map_err(|error| error.to_string())?;
        writeln!(out).map_err(|error| error.to_string())?;
    }
    let verdict = match wrong {
        0 => "Your memory passed this test.".to_owned(),
        wrong => format!("*** {wrong} words of memory did not keep their value: YOUR MEMORY IS BROKEN ***"),
    };
    writeln!(out, "{verdict}").map_err(|error| error.to_string())?;
    Ok(wrong == 0)
}

/// Returns the value that a pass writes into the word of a number.
type Pattern = fn(u64) -> u64;

const PATTERNS: [(&str, Pattern); 4] = [
    ("numbers", |at| at),
    ("complements", |at| !at),
    ("checkerboard", |at| if at % 2 == 0 { 0x5555_5555_5555_5555 } else { 0xAAAA_AAAA_AAAA_AAAA }),
    ("noise", |at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)),
];

/// Writes all, reads all; returns how many words differ.
fn pass(words: &mut [u64], pattern: Pattern, out: &mut impl Write) -> io::Result<usize> {
    for (piece, part) in words.chunks_mut(PIECE).enumerate() {
        let first = piece * PIECE;
        part.iter_mut().enumerate().for_each(|(at, word)| *word = pattern((first + at) as u64));
        out.write_all(b".")?;
        out.flush()?;
    }
    // The compiler must not know the contents.
    let words = std::hint::black_box(words);
    Ok(words.iter().enumerate().filter(|(at, word)| **word != pattern(*at as u64)).count())
}

const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// A name, the file that is looked at, the words that must not be in it, and the reason.
const CHECKS: [(&str, &str, &[&str], &str); 4] = [
    (
        "slow-clocksource",
        CLOCK,
        &["acpi_pm", "hpet", "jiffies"],
        "The system's clock is slow to read, which every command does. Use 'tsc' if your kernel offers it.",
    ),
    ("xen-clocksource", CLOCK, &["xen"], "The clock 'xen' takes a system call to read. Use 'tsc'."),
    (
        "overcommit",
        "/proc/sys/vm/overcommit_memory",
        &["2"],
        "The kernel counts memory before it is touched, and big tables are mapped long before. Set vm.overcommit_memory to 0 or 1.",
    ),
    (
        "THP",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        &["[never]"],
        "Huge pages are switched off: large data sets are slower. Set transparent_hugepage/enabled to 'madvise'.",
    ),
];

/// Looks for causes that make this machine slow for the server; returns whether there are none. A check is skipped
/// where the system has no such setting.
pub fn check_system(mut out: impl Write) -> io::Result<bool> {
    let mut well = true;
    for (name, file, bad, advice) in CHECKS {
        let Ok(text) = read_to_string(file) else {
            writeln!(out, "[{name}]...skipped")?;
            continue;
        };
        if text.split_whitespace().any(|word| bad.contains(&word)) {
            well = false;
            writeln!(out, "[{name}]...WARNING:\n{advice}")?;
        } else {
            writeln!(out, "[{name}]...OK")?;
        }
    }
    Ok(well)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_works_passes() {
        let mut said = Vec::new();
        assert_eq!(test_memory(2, &mut said), Ok(true));
        let said = String::from_utf8(said).expect("text");
        assert!(said.contains("noise ..\n") && said.ends_with("passed this test.\n"), "{said}");
        assert!(test_memory(u64::MAX, io::sink()).is_err());
    }

    #[test]
    fn every_check_is_named() {
        let mut said = Vec::new();
        check_system(&mut said).expect("a vector");
        let said = String::from_utf8(said).expect("text");
        assert!(CHECKS.iter().all(|(name, ..)| said.contains(&format!("[{name}]..."))), "{said}");
    }
}
