//! jemalloc as the allocator of any program that names this crate, with our settings.
//!
//! The settings lie in the program, so that every build of it has them. jemalloc reads them before `main`, and
//! `MALLOC_CONF` in the environment after them: the environment takes precedence.

#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

use std::ffi::CStr;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Small pages for the heap: huge ones save lookups walks through the page tables (a tenth of a GET), but the first
/// access to one takes milliseconds if a virtual machine's host has to find it, in whichever command needs it. Large
/// hash tables ask for theirs when they have settled. `MALLOC_CONF=thp:always` asks for all.
///
/// Background threads give memory back, so that no worker does, and soon: tables grow often and leave arrays behind.
///
/// Slabs of the largest size (512 objects) where keys, values and members are: each costs the allocator 128 bytes,
/// which is 1 byte a key in slabs of one page. Lists are nodes of 8 KiB, which would be alone in theirs.
const SETTINGS: &CStr = c"background_thread:true,dirty_decay_ms:500,muzzy_decay_ms:0,slab_sizes:1-128:16|8192-8192:16";

const LEN: usize = SETTINGS.to_bytes_with_nul().len();

// SAFETY: jemalloc declares `const char *malloc_conf`, weakly, for programs to define: a pointer to a text that ends
// with a zero and never changes. This is a static of that layout, and nothing else in the program has the name.
#[unsafe(export_name = "malloc_conf")]
#[used]
static MALLOC_CONF: &[u8; LEN] = SETTINGS.to_bytes_with_nul().first_chunk().expect("as long as it is");
