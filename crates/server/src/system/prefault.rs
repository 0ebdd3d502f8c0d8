//! The program's code is in memory before the first command needs it.
//!
//! Otherwise each command's first use would wait for pages of the executable, from the disk perhaps, and so would
//! all clients of the same worker.
//!
//! **Unsafe**, for a call that names memory by its address.
#![allow(unsafe_code)]

use rustix::mm::{Advice, madvise};
use std::fs;
use std::ptr;

/// Has the kernel map all code. If it does not, commands fetch their code when they need it.
pub fn code() {
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else { return };
    for (start, end) in maps.lines().filter_map(code_range) {
        let address = ptr::without_provenance_mut(start);
        // SAFETY: this advice has the kernel read pages and map them as they are. It changes no memory, and fails if
        // nothing is mapped there.
        let _ = unsafe { madvise(address, end - start, Advice::LinuxPopulateRead) };
    }
}

/// Returns the range of the mapping that a line of `/proc/self/maps` describes, if it is code from a file.
fn code_range(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_code = words.next()? == "r-xp" && words.last()?.starts_with('/');
    let address = |text| usize::from_str_radix(text, 16).ok();
    is_code.then_some((address(start)?, address(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_from_files_is_found() {
        let line = "5581c0a6d000-5581c0f45000 r-xp 00123000 fe:00 1317 /usr/bin/cinnabar-server";
        assert_eq!(code_range(line), Some((0x5581_c0a6_d000, 0x5581_c0f4_5000)));
        assert_eq!(code_range("7ffd6a3fe000-7ffd6a400000 r-xp 00000000 00:00 0 [vdso]"), None);
        assert_eq!(code_range("7fbafd800000-7fbafe000000 rw-p 00000000 00:00 0"), None);
        assert_eq!(code_range(""), None);
    }

    #[test]
    fn code_of_this_program_is_found() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let here = code as fn() as usize;
        assert!(maps.lines().filter_map(code_range).any(|(start, end)| (start..end).contains(&here)));
        code();
    }
}
