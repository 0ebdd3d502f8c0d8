//! Old values on their way to a file: keys that are written down before they are changed.
//!
//! ```text
//!   BeforeImages     | part in memory | part in the scratch file | part in memory | end, being added to |
//!                              \______ thread that spills: parts of all shards, many in one write
//! ```
//!
//! All of a cut's are counted together ([`Copies`]), and so are the ones of all open cuts ([`ImageMemory`]). Writers
//! add to them under the locks of their shards, and never wait for a disk. While the sum is above a limit, a thread
//! that has no lock moves complete parts to the cut's scratch file ([`Copies::spill`]). The thread that walks the cut
//! hands parts out from wherever they are when their turn comes. A disk that is full or slow leaves them in memory,
//! where each key of the cut is written down once at most.
//!
//! Asserted by tests: the bytes come out in the order in which they went in; memory is below the limit after a spill,
//! but for the ends.

use crate::data::value::Object;
use crate::host::files::{Files, Scratch};
use crate::locks::sync::Mutex;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Memory that the old values of all open cuts take together, and its limit.
#[derive(Debug, Default)]
pub struct ImageMemory {
    held: AtomicU64,
    limit: AtomicU64,
}

impl ImageMemory {
    /// Sets how much old values may take before they are spilled.
    pub(crate) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Relaxed);
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.held.load(Relaxed) + bytes <= self.limit.load(Relaxed)
    }
}

/// Costs of changes since a cut began.
pub struct Copies {
    /// Bytes that were written down, all together; for removed values the bytes that they took.
    total: AtomicU64,
    /// Bytes of memory that old values take, and the part of it that the walk can take away at once.
    held: AtomicU64,
    waiting: AtomicU64,
    /// The most that was held.
    peak: AtomicU64,
    /// Memory of the old values of all cuts.
    memory: Arc<ImageMemory>,
    /// Complete parts, for the thread that spills.
    complete: Mutex<VecDeque<Weak<Part>>>,
    /// Whether the scratch file takes no more.
    has_failed: AtomicBool,
    scratch: Mutex<ScratchFile>,
}

enum ScratchFile {
    /// The files from which it is requested.
    Wanted(Arc<dyn Files>),
    Open(Box<dyn Scratch>, u64),
    /// None is available, or it fails.
    None,
}

impl std::fmt::Debug for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copies").field("total", &self.total).field("held", &self.held).finish_non_exhaustive()
    }
}

impl Copies {
    pub(crate) fn new(files: Arc<dyn Files>, memory: Arc<ImageMemory>) -> Copies {
        let [total, held, waiting, peak] = [const { AtomicU64::new(0) }; 4];
        let (complete, scratch) = (Mutex::new(VecDeque::new()), Mutex::new(ScratchFile::Wanted(files)));
        Copies { total, held, waiting, peak, memory, complete, has_failed: AtomicBool::new(false), scratch }
    }

    /// Returns the bytes of old values that were copied.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Returns the bytes that wait to be taken: by a step where they are, or by
    /// [`Snapshot::drain`](crate::engine::snapshot_steps::Snapshot::drain).
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    /// Returns the most memory that old values took at once.
    pub fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    /// Returns the memory that the old values of all cuts together may take.
    pub fn limit(&self) -> u64 {
        self.memory.limit.load(Relaxed)
    }

    fn hold(&self, bytes: u64) {
        let held = self.held.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(held, Relaxed);
        self.memory.held.fetch_add(bytes, Relaxed);
    }

    fn release(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Relaxed);
        self.memory.held.fetch_sub(bytes, Relaxed);
    }

    fn is_full(&self) -> bool {
        !self.memory.has_room(0)
    }

    /// Moves some complete parts to the scratch file if there are too many in memory. Returns whether some were moved:
    /// there may be more. To be called without a lock, as it waits for the disk.
    pub fn spill(&self) -> bool {
        if !self.is_full() || self.has_failed.load(Relaxed) {
            return false;
        }
        let (mut parts, mut bytes) = (Vec::new(), Vec::new());
        while bytes.len() < SPILLED_AT_ONCE
            && let Some(part) = self.pop_complete()
        {
            // A part that is handed out already is not there any more.
            if let Some(part) = part.upgrade()
                && let PartState::Memory { bytes: content, .. } = &*part.0.lock()
            {
                bytes.extend_from_slice(content);
                parts.push((Arc::clone(&part), content.len() as u64));
            }
        }
        if parts.is_empty() {
            return false;
        }
        let Ok(written) = self.write(&bytes) else {
            // The parts stay where they are, and the disk is not used again for this cut.
            self.complete.lock().clear();
            self.has_failed.store(true, Relaxed);
            return false;
        };
        let mut from = written.start;
        for (part, len) in &parts {
            *part.0.lock() = PartState::Spilled(from..from + len);
            from += len;
        }
        true
    }

    fn pop_complete(&self) -> Option<Weak<Part>> {
        self.complete.lock().pop_front()
    }

    /// Puts bytes into the scratch file; returns their place there.
    fn write(&self, bytes: &[u8]) -> io::Result<Range<u64>> {
        let mut scratch = self.scratch.lock();
        if let ScratchFile::Wanted(files) = &*scratch {
            *scratch = files.scratch_file().map_or(ScratchFile::None, |file| ScratchFile::Open(file, 0));
        }
        let ScratchFile::Open(file, end) = &mut *scratch else { return Err(io::ErrorKind::Unsupported.into()) };
        let from = *end;
        file.append_at(from, bytes)?;
        *end += bytes.len() as u64;
        Ok(from..*end)
    }

    fn read(&self, from: u64, to: &mut [u8]) -> io::Result<()> {
        match &mut *self.scratch.lock() {
            ScratchFile::Open(file, _) => file.read_at(from, to),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Bytes that a part has, about.
const PART: usize = 64 << 10;
/// Bytes below which values get no part of their own.
const SPILLED_MIN: usize = 4 << 10;
/// Bytes that go to the scratch file at once: a slow disk takes as long for few.
const SPILLED_AT_ONCE: usize = 4 << 20;

/// Bytes of memory, as long as old values take them up.
struct ImageBytes {
    bytes: u64,
    /// Whether they can be taken away at any time.
    is_loose: bool,
    copies: Arc<Copies>,
}

impl ImageBytes {
    fn grow(&mut self, more: u64) {
        self.bytes += more;
        self.copies.hold(more);
        if self.is_loose {
            self.copies.waiting.fetch_add(more, Relaxed);
        }
    }

    /// Takes all held bytes over, and leaves nothing.
    fn take(&mut self) -> ImageBytes {
        let copies = Arc::clone(&self.copies);
        ImageBytes { bytes: std::mem::take(&mut self.bytes), is_loose: self.is_loose, copies }
    }
}

impl Drop for ImageBytes {
    fn drop(&mut self) {
        self.copies.release(self.bytes);
        if self.is_loose {
            self.copies.waiting.fetch_sub(self.bytes, Relaxed);
        }
    }
}

/// Old values to which nothing is added any more.
struct Part(Mutex<PartState>);

enum PartState {
    Memory { bytes: Arc<Vec<u8>>, _held: ImageBytes },
    Spilled(Range<u64>),
}

/// Old values, in the order in which they came.
pub struct BeforeImages {
    parts: Vec<Arc<Part>>,
    end: Vec<u8>,
    /// Keys that are complete in it.
    pub keys: u64,
    /// Memory of the end.
    held: ImageBytes,
    /// Bytes that are not yet in the sum of all, which all writers share.
    uncounted: u64,
}

/// Old values that several parties add to.
#[derive(Clone)]
pub struct SharedImages(Arc<Mutex<BeforeImages>>);

impl SharedImages {
    pub(crate) fn new(kept: BeforeImages) -> SharedImages {
        SharedImages(Arc::new(Mutex::new(kept)))
    }

    /// See [`BeforeImages::append`].
    pub fn append<R>(&self, encode: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        self.0.lock().append(encode)
    }

    pub(crate) fn take_into(&self, out: &mut Vec<u8>) -> BeforeImages {
        self.0.lock().take_into(out)
    }
}

impl BeforeImages {
    /// Makes an empty one. `is_loose`: it holds whole keys, which can be taken away at any time.
    pub(crate) fn new(copies: Arc<Copies>, is_loose: bool) -> BeforeImages {
        let held = ImageBytes { bytes: 0, is_loose, copies };
        BeforeImages { parts: Vec::new(), end: Vec::new(), keys: 0, held, uncounted: 0 }
    }

    /// Whether there is nothing in them.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.end.is_empty()
    }

    /// Lets `encode` append something.
    pub fn append<R>(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let (len, room) = (self.end.len(), self.end.capacity());
        let result = encode(&mut self.end);
        self.uncounted += (self.end.len() - len) as u64;
        let more = (self.end.capacity() - room) as u64;
        if more > 0 {
            self.held.grow(more);
            self.count();
        }
        if self.end.len() >= PART || self.end.len() >= SPILLED_MIN && self.held.copies.is_full() {
            self.complete();
        }
        result
    }

    /// Makes a part of the values at the end.
    fn complete(&mut self) {
        let (bytes, held) = (Arc::new(std::mem::take(&mut self.end)), self.held.take());
        let part = Arc::new(Part(Mutex::new(PartState::Memory { bytes, _held: held })));
        self.held.copies.complete.lock().push_back(Arc::downgrade(&part));
        self.parts.push(part);
    }

    fn count(&mut self) {
        self.held.copies.total.fetch_add(std::mem::take(&mut self.uncounted), Relaxed);
    }

    /// Takes out the present values.
    pub(crate) fn take(&mut self) -> BeforeImages {
        let empty = BeforeImages::new(Arc::clone(&self.held.copies), self.held.is_loose);
        std::mem::replace(self, empty)
    }

    /// Takes out the present values, into `out` if that is little.
    pub(crate) fn take_into(&mut self, out: &mut Vec<u8>) -> BeforeImages {
        let mut taken = self.take();
        if taken.parts.is_empty() && taken.end.len() <= SPILLED_MIN {
            out.extend_from_slice(&taken.end);
            taken.end.clear();
        }
        taken
    }

    /// Hands out the bytes in their order, and frees them.
    ///
    /// # Errors
    /// The scratch file cannot be read, or `to` fails. The rest is freed then.
    pub fn pour(mut self, mut to: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut buffer = Vec::new();
        for part in std::mem::take(&mut self.parts) {
            let range = match &*part.0.lock() {
                PartState::Memory { bytes, .. } => Err(Arc::clone(bytes)),
                PartState::Spilled(range) => Ok(range.clone()),
            };
            match range {
                Err(bytes) => to(&bytes)?,
                Ok(range) => {
                    for from in range.clone().step_by(PART) {
                        buffer.resize(PART.min((range.end - from) as usize), 0);
                        self.held.copies.read(from, &mut buffer)?;
                        to(&buffer)?;
                    }
                }
            }
        }
        if self.end.is_empty() { Ok(()) } else { to(&self.end) }
    }
}

impl Drop for BeforeImages {
    fn drop(&mut self) {
        self.count();
    }
}

/// A value that was removed from the keyspace before it was written.
pub(crate) struct Removed {
    object: Option<Arc<Object>>,
    bytes: u64,
    copies: Arc<Copies>,
}

/// Larger values are held as they are whatever the limit says: no command is to wait until they are written down.
const REMOVED_MAX: u64 = 16 << 20;

impl Removed {
    /// Makes one, or None if there is no room for it, so that it is to be written down.
    pub(crate) fn new(object: &Arc<Object>, copies: &Arc<Copies>) -> Option<Removed> {
        let bytes = object.memory_usage(SAMPLES) as u64;
        copies.total.fetch_add(bytes, Relaxed);
        if bytes <= REMOVED_MAX && !copies.memory.has_room(bytes) {
            return None;
        }
        copies.hold(bytes);
        Some(Removed { object: Some(Arc::clone(object)), bytes, copies: Arc::clone(copies) })
    }

    pub(crate) fn object(&self) -> Option<&Object> {
        self.object.as_deref()
    }

    /// Returns the object, to be freed, if there is no other reader.
    pub(crate) fn into_object(mut self) -> Option<Object> {
        self.object.take().and_then(Arc::into_inner)
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        self.copies.release(self.bytes);
    }
}

/// Elements from whose sizes the size of all is estimated.
const SAMPLES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    struct InMemory;

    struct Bytes(Vec<u8>);

    impl Scratch for Bytes {
        fn append_at(&mut self, end: u64, bytes: &[u8]) -> io::Result<()> {
            assert_eq!(self.0.len() as u64, end);
            self.0.extend_from_slice(bytes);
            Ok(())
        }

        fn read_at(&mut self, from: u64, to: &mut [u8]) -> io::Result<()> {
            to.copy_from_slice(&self.0[from as usize..from as usize + to.len()]);
            Ok(())
        }
    }

    impl Files for InMemory {
        fn scratch_file(&self) -> io::Result<Box<dyn Scratch>> {
            Ok(Box::new(Bytes(Vec::new())))
        }
    }

    crate::host_defaults!(InMemory: Clock, Memory, Threads, Peers, Process, Log, Connections, Delivery, EffectSink);

    proptest! {
        #[test]
        fn bytes_come_out_as_they_went_in(limit in 0..200_000u64, lengths in proptest::collection::vec((0..30_000usize, 0..3usize), 0..60)) {
            let memory = Arc::new(ImageMemory::default());
            memory.set_limit(limit);
            // Two cuts, of which the second has one of the three.
            let cuts: [Arc<Copies>; 2] =
                std::array::from_fn(|_| Arc::new(Copies::new(Arc::new(InMemory), Arc::clone(&memory))));
            let mut all: [BeforeImages; 3] =
                std::array::from_fn(|n| BeforeImages::new(Arc::clone(&cuts[n / 2]), n == 0));
            let mut expected = [const { Vec::new() }; 3];
            for (n, (len, which)) in lengths.into_iter().enumerate() {
                let bytes = vec![n as u8; len];
                all[which].append(|out| out.extend_from_slice(&bytes));
                expected[which].extend(bytes);
                while cuts.iter().any(|copies| copies.spill()) {}
                // The capacity may be twice the length.
                prop_assert!(memory.held.load(Relaxed) <= limit + 3 * 2 * (SPILLED_MIN + 30_000) as u64);
            }
            for (kept, expected) in all.into_iter().zip(expected) {
                let mut found = Vec::new();
                kept.pour(|bytes| { found.extend_from_slice(bytes); Ok(()) }).unwrap();
                prop_assert_eq!(found, expected);
            }
            for copies in cuts {
                prop_assert_eq!((copies.held.load(Relaxed), copies.waiting()), (0, 0));
            }
            prop_assert_eq!(memory.held.load(Relaxed), 0);
        }
    }
}
