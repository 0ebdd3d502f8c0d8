//! A disk in memory that fails on order, and that a crash leaves as a real one might be left.
//!
//! ```text
//!   bytes   [ durable ........ | dirty ...... | lost ... ]
//!   crash     stays              each page     zeros          and the file may end anywhere behind what is durable
//!                                stays or is zeros
//! ```
//!
//! A sync makes dirty bytes durable. A sync that fails loses them, as on Linux: they are clean in memory, so that the
//! next sync has nothing to do and succeeds. Names change durably.

use engine::host::files::NewFile;
use engine::locks::sync::spin;
use persistence::aof::check;
use persistence::aof::storage::{LogFile, Storage};
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes that a crash keeps or loses together.
const PAGE: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Durable,
    Dirty,
    Lost,
}

#[derive(Clone, Default)]
struct Content {
    bytes: Vec<u8>,
    fates: Vec<Fate>,
}

/// Faults from now on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Bytes that the disk still takes.
    pub room: Option<usize>,
    /// Bytes that one write takes at most.
    pub short: Option<usize>,
    pub write_fails: bool,
    pub sync_fails: bool,
    pub truncate_fails: bool,
    /// Yields to other threads before a sync returns.
    pub slow: u32,
    /// A sync of the log that fails reports success.
    pub lies: bool,
}

#[derive(Clone, Default)]
struct State {
    names: BTreeMap<Vec<u8>, usize>,
    contents: Vec<Content>,
    faults: Faults,
    temporary: usize,
}

#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<State>>);

fn io_error() -> io::Error {
    io::Error::from_raw_os_error(5)
}

impl State {
    fn find(&self, name: &[u8]) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn make(&mut self, name: &[u8]) -> usize {
        self.contents.push(Content::default());
        self.names.insert(name.to_vec(), self.contents.len() - 1);
        self.contents.len() - 1
    }

    fn write(&mut self, file: usize, bytes: &[u8]) -> io::Result<usize> {
        if self.faults.write_fails {
            return Err(io_error());
        }
        let mut taken = bytes.len().min(self.faults.short.unwrap_or(usize::MAX));
        if let Some(room) = &mut self.faults.room {
            taken = taken.min(*room);
            *room -= taken;
            if taken == 0 && !bytes.is_empty() {
                return Err(io::Error::from_raw_os_error(28));
            }
        }
        let content = &mut self.contents[file];
        content.bytes.extend_from_slice(&bytes[..taken]);
        content.fates.resize(content.bytes.len(), Fate::Dirty);
        Ok(taken)
    }

    fn sync(&mut self, file: usize) -> io::Result<()> {
        let fails = self.faults.sync_fails;
        let new = if fails { Fate::Lost } else { Fate::Durable };
        self.contents[file].fates.iter_mut().filter(|fate| **fate == Fate::Dirty).for_each(|fate| *fate = new);
        if fails { Err(io_error()) } else { Ok(()) }
    }
}

impl Content {
    /// Loses pages as a crash does. `in_order`: no dirty page survives behind one that is lost.
    fn crash(&mut self, in_order: bool, random: &mut fastrand::Rng) {
        let mut stays = true;
        for (page, fates) in self.bytes.chunks_mut(PAGE).zip(self.fates.chunks(PAGE)) {
            stays = random.bool() && (stays || !in_order);
            let gone = |fate: &Fate| *fate == Fate::Lost || *fate == Fate::Dirty && !stays;
            page.iter_mut().zip(fates).filter(|(_, fate)| gone(fate)).for_each(|(byte, _)| *byte = 0);
        }
        let durable = self.fates.iter().rposition(|fate| *fate == Fate::Durable).map_or(0, |last| last + 1);
        if random.bool() {
            self.bytes.truncate(random.usize(durable..=self.bytes.len()));
        }
        self.fates = vec![Fate::Durable; self.bytes.len()];
    }
}

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics here")
    }

    pub fn set(&self, faults: Faults) {
        self.state().faults = faults;
    }

    pub fn room(&self) -> Option<usize> {
        self.state().faults.room
    }

    /// Returns a sound disk with the content that a crash of the machine leaves now.
    pub fn crash(&self, seed: u64) -> Disk {
        self.crash_with(false, seed)
    }

    /// Returns such a disk for one that writes pages in their order. A log's commands have no checksum: a reader would
    /// not detect a page that is lost among others.
    pub fn crash_in_order(&self, seed: u64) -> Disk {
        self.crash_with(true, seed)
    }

    fn crash_with(&self, in_order: bool, seed: u64) -> Disk {
        let mut state = self.state().clone();
        let mut random = fastrand::Rng::with_seed(seed);
        state.contents.iter_mut().for_each(|content| content.crash(in_order, &mut random));
        state.faults = Faults::default();
        Disk(Arc::new(Mutex::new(state)))
    }

    pub fn content(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        let state = self.state();
        Ok(state.contents[state.find(name)?].bytes.clone())
    }

    /// Repairs a log that is refused, as an operator does: cuts the first incomplete file, and gives up those after it.
    pub fn repair(&self) {
        let text = String::from_utf8(self.content(b"logs/log.aof.manifest").expect("a manifest")).expect("a text");
        let (mut lines, mut is_cut) = (0, false);
        for line in text.lines().filter(|line| line.ends_with("type i")) {
            let name = line.split(' ').nth(1).expect("a name");
            let path = format!("logs/{name}").into_bytes();
            let content = self.content(&path).expect("it is listed");
            let found = check::analyze(&mut &content[..], 0, name, None, &mut lines).expect("it can be read");
            let good = if is_cut { 0 } else { found.good };
            is_cut |= good < content.len() as u64;
            self.append(&path).expect("it is there").0.truncate(good).expect("the disk is sound");
        }
        assert!(is_cut, "what is whole is read");
    }

    /// Returns a new file that finally takes the place of one of that name.
    pub fn create(&self, name: &[u8]) -> io::Result<Box<dyn NewFile>> {
        let mut state = self.state();
        state.temporary += 1;
        let temporary = format!("temp-{}", state.temporary).into_bytes();
        let file = state.make(&temporary);
        Ok(Box::new(Temporary { disk: self.clone(), file, temporary, name: name.to_vec() }))
    }
}

struct File {
    disk: Disk,
    file: usize,
}

impl LogFile for File {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        // Other threads run meanwhile.
        spin();
        self.disk.state().write(self.file, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        let slow = self.disk.state().faults.slow;
        (0..=slow).for_each(|_| spin());
        let mut state = self.disk.state();
        let result = state.sync(self.file);
        if state.faults.lies { Ok(()) } else { result }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        if state.faults.truncate_fails {
            return Err(io_error());
        }
        let content = &mut state.contents[self.file];
        content.bytes.truncate(len as usize);
        content.fates.truncate(len as usize);
        Ok(())
    }
}

struct Temporary {
    disk: Disk,
    file: usize,
    temporary: Vec<u8>,
    name: Vec<u8>,
}

impl Write for Temporary {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Other threads run meanwhile.
        spin();
        self.disk.state().write(self.file, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NewFile for Temporary {
    fn commit(self: Box<Self>) -> io::Result<()> {
        let mut state = self.disk.state();
        state.sync(self.file)?;
        state.names.insert(self.name.clone(), self.file);
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.disk.state().names.remove(&self.temporary);
    }
}

impl Storage for Disk {
    fn append(&self, name: &[u8]) -> io::Result<(Arc<dyn LogFile>, u64)> {
        let mut state = self.state();
        let file = match state.find(name) {
            Ok(file) => file,
            Err(_) if state.faults.room == Some(0) => return Err(io::Error::from_raw_os_error(28)),
            Err(_) => state.make(name),
        };
        let len = state.contents[file].bytes.len() as u64;
        Ok((Arc::new(File { disk: self.clone(), file }), len))
    }

    fn open(&self, name: &[u8]) -> io::Result<(Box<dyn Read + Send>, u64)> {
        let bytes = self.content(name)?;
        let len = bytes.len() as u64;
        Ok((Box::new(Cursor::new(bytes)), len))
    }

    fn replace(&self, name: &[u8], content: &[u8]) -> io::Result<()> {
        let mut file = self.create(name)?;
        file.write_all(content)?;
        file.commit()
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let file = state.find(from)?;
        if state.faults.write_fails {
            return Err(io_error());
        }
        state.names.remove(from);
        state.names.insert(to.to_vec(), file);
        Ok(())
    }

    fn remove(&self, name: &[u8]) -> io::Result<()> {
        self.state().names.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create_dir(&self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn len(&self, name: &[u8]) -> io::Result<u64> {
        self.content(name).map(|bytes| bytes.len() as u64)
    }
}
