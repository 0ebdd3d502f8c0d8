//! The operations that the log needs of a disk: few, so that tests can let each of them fail.

use std::io::{self, Read};
use std::sync::Arc;

/// Files by name. Relative names are relative to a directory of the implementation's choice.
pub trait Storage: Send + Sync {
    /// Opens a file to append to, which is made if there is none, and returns its length.
    ///
    /// # Errors
    /// The file can neither be opened nor made.
    fn append(&self, name: &[u8]) -> io::Result<(Arc<dyn LogFile>, u64)>;

    /// Opens a file for reading, and returns its length.
    ///
    /// # Errors
    /// There is no such file, or it cannot be opened.
    fn open(&self, name: &[u8]) -> io::Result<(Box<dyn Read + Send>, u64)>;

    /// Replaces a file by `content`; durable when this returns, and at every moment one of the two is there.
    ///
    /// # Errors
    /// One of the steps fails; the old content is still there then.
    fn replace(&self, name: &[u8], content: &[u8]) -> io::Result<()>;

    /// Gives a file a new name, durably.
    ///
    /// # Errors
    /// There is no such file, or the disk refuses.
    fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// There is no such file (`NotFound`), or the disk refuses.
    fn remove(&self, name: &[u8]) -> io::Result<()>;

    /// Makes a directory unless there is one.
    ///
    /// # Errors
    /// The directory can neither be found nor made.
    fn create_dir(&self, name: &[u8]) -> io::Result<()>;

    /// Returns the length of a file; an error of kind `NotFound` if there is none.
    ///
    /// # Errors
    /// There is no such file (`NotFound`), or the disk refuses.
    fn len(&self, name: &[u8]) -> io::Result<u64>;
}

/// A file that only grows. Threads may write and sync at the same time.
pub trait LogFile: Send + Sync {
    /// Appends some of the bytes and returns how many.
    ///
    /// # Errors
    /// The disk takes none of them.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Makes the bytes written before this call survive a crash.
    ///
    /// # Errors
    /// The disk fails; written bytes may be lost.
    fn sync(&self) -> io::Result<()>;

    /// Cuts the file off.
    ///
    /// # Errors
    /// The disk fails; the file is as it was, or shorter.
    fn truncate(&self, len: u64) -> io::Result<()>;
}

/// A disk in memory with faults, for tests.
#[cfg(test)]
pub mod faulty {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Content {
        /// The content, and how much of it survives a crash.
        bytes: Vec<u8>,
        durable: usize,
    }

    #[derive(Default)]
    struct State {
        files: BTreeMap<Vec<u8>, Arc<Mutex<Content>>>,
    }

    /// Faults from now on.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Faults {
        /// Bytes that the disk still takes.
        pub room: Option<usize>,
        /// Bytes that one write takes at most.
        pub short: Option<usize>,
        /// Writes fail.
        pub write_fails: bool,
        /// Syncing fails, and the bytes to be saved will not survive.
        pub sync_fails: bool,
        /// Files are not cut off.
        pub truncate_fails: bool,
    }

    /// Files in memory. A clone is the same disk.
    #[derive(Clone, Default)]
    pub struct Disk {
        state: Arc<Mutex<State>>,
        /// The present faults.
        pub faults: Arc<Mutex<Faults>>,
    }

    impl Disk {
        /// Replaces the faults from now on.
        pub fn set(&self, faults: Faults) {
            *self.faults.lock().unwrap() = faults;
        }

        /// Returns a file's bytes, if there is one.
        pub fn content(&self, name: &[u8]) -> Option<Vec<u8>> {
            self.state.lock().unwrap().files.get(name).map(|file| file.lock().unwrap().bytes.clone())
        }

        /// Crashes the machine: bytes that were not synced are lost.
        pub fn crash(&self) {
            for file in self.state.lock().unwrap().files.values() {
                let mut file = file.lock().unwrap();
                let durable = file.durable;
                file.bytes.truncate(durable);
            }
        }
    }

    fn missing() -> io::Error {
        io::ErrorKind::NotFound.into()
    }

    struct File {
        content: Arc<Mutex<Content>>,
        faults: Arc<Mutex<Faults>>,
    }

    impl LogFile for File {
        fn write(&self, bytes: &[u8]) -> io::Result<usize> {
            let mut faults = self.faults.lock().unwrap();
            if faults.write_fails {
                return Err(io::Error::from_raw_os_error(5));
            }
            let mut taken = bytes.len().min(faults.short.unwrap_or(usize::MAX));
            if let Some(room) = &mut faults.room {
                taken = taken.min(*room);
                *room -= taken;
                if taken == 0 {
                    return Err(io::Error::from_raw_os_error(28));
                }
            }
            self.content.lock().unwrap().bytes.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn sync(&self) -> io::Result<()> {
            if self.faults.lock().unwrap().sync_fails {
                return Err(io::Error::from_raw_os_error(5));
            }
            let mut content = self.content.lock().unwrap();
            content.durable = content.bytes.len();
            Ok(())
        }

        fn truncate(&self, len: u64) -> io::Result<()> {
            let faults = self.faults.lock().unwrap();
            if faults.truncate_fails {
                return Err(io::Error::from_raw_os_error(5));
            }
            let mut content = self.content.lock().unwrap();
            content.bytes.truncate(len as usize);
            content.durable = content.durable.min(len as usize);
            Ok(())
        }
    }

    impl Storage for Disk {
        fn append(&self, name: &[u8]) -> io::Result<(Arc<dyn LogFile>, u64)> {
            let content = Arc::clone(self.state.lock().unwrap().files.entry(name.to_vec()).or_default());
            let len = content.lock().unwrap().bytes.len() as u64;
            Ok((Arc::new(File { content, faults: Arc::clone(&self.faults) }), len))
        }

        fn open(&self, name: &[u8]) -> io::Result<(Box<dyn Read + Send>, u64)> {
            let bytes = self.content(name).ok_or_else(missing)?;
            let len = bytes.len() as u64;
            Ok((Box::new(io::Cursor::new(bytes)), len))
        }

        fn replace(&self, name: &[u8], content: &[u8]) -> io::Result<()> {
            if self.faults.lock().unwrap().write_fails {
                return Err(io::Error::from_raw_os_error(5));
            }
            let content = Content { bytes: content.to_vec(), durable: content.len() };
            self.state.lock().unwrap().files.insert(name.to_vec(), Arc::new(Mutex::new(content)));
            Ok(())
        }

        fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
            let files = &mut self.state.lock().unwrap().files;
            let file = files.remove(from).ok_or_else(missing)?;
            files.insert(to.to_vec(), file);
            Ok(())
        }

        fn remove(&self, name: &[u8]) -> io::Result<()> {
            self.state.lock().unwrap().files.remove(name).map(drop).ok_or_else(missing)
        }

        fn create_dir(&self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn len(&self, name: &[u8]) -> io::Result<u64> {
            self.content(name).map(|bytes| bytes.len() as u64).ok_or_else(missing)
        }
    }
}
