//! A string that lies apart from its key, and that replies on their way out share.
//!
//! ```text
//!   owned:  the string's own vector
//!   shared: Arc of the vector   <- this string, and each reply that is not sent to its end
//! ```
//!
//! A shared string is not changed: its first change after it was shared copies it, unless all others have gone.

use std::ops::Deref;
use std::sync::Arc;

/// Most bytes that a string has room to grow by; a shorter one may double.
const LONGEST_ROOM: usize = 1 << 20;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct LongString(Bytes);

#[derive(Clone, Debug)]
enum Bytes {
    Owned(Vec<u8>),
    Shared(Arc<Vec<u8>>),
}

impl LongString {
    /// Returns the string as others may share it.
    pub fn share(&mut self) -> Arc<Vec<u8>> {
        let shared = match &mut self.0 {
            Bytes::Owned(bytes) => Arc::new(std::mem::take(bytes)),
            Bytes::Shared(shared) => return Arc::clone(shared),
        };
        self.0 = Bytes::Shared(Arc::clone(&shared));
        shared
    }

    /// Returns the bytes to be changed.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        if let Bytes::Shared(shared) = &mut self.0 {
            let bytes = std::mem::take(shared);
            self.0 = Bytes::Owned(Arc::try_unwrap(bytes).unwrap_or_else(|others| others.to_vec()));
        }
        match &mut self.0 {
            Bytes::Owned(bytes) => bytes,
            Bytes::Shared(_) => unreachable!("it was made the only owner just now"),
        }
    }

    /// Adds zero bytes up to this length, if the string is shorter.
    pub fn lengthen(&mut self, len: usize) {
        let bytes = self.bytes_mut();
        if bytes.capacity() == 0 {
            // The system's pages are zero already.
            *bytes = vec![0; len];
        } else if bytes.len() < len {
            make_room(bytes, len - bytes.len());
            bytes.resize(len, 0);
        }
    }

    /// Returns the bytes on the heap.
    pub fn capacity(&self) -> usize {
        match &self.0 {
            Bytes::Owned(bytes) => bytes.capacity(),
            Bytes::Shared(shared) => shared.capacity(),
        }
    }
}

/// Makes room for so many more bytes. A long string gets some bytes to grow by, not as many as it has.
pub fn make_room(bytes: &mut Vec<u8>, more: usize) {
    if bytes.len() + more > LONGEST_ROOM && bytes.capacity() - bytes.len() < more {
        bytes.reserve_exact(more + LONGEST_ROOM);
    }
}

impl From<Vec<u8>> for LongString {
    fn from(bytes: Vec<u8>) -> LongString {
        LongString(Bytes::Owned(bytes))
    }
}

impl Deref for LongString {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Owned(bytes) => bytes,
            Bytes::Shared(shared) => shared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_string_is_copied_when_it_changes_and_only_then() {
        let mut string = LongString::from(b"abc".to_vec());
        let (one, other) = (string.share(), string.share());
        assert!(Arc::ptr_eq(&one, &other) && std::ptr::eq(&*string, &one[..]));
        string.bytes_mut().push(b'd');
        assert_eq!((&*string, &one[..], string.capacity() >= 4), (&b"abcd"[..], &b"abc"[..], true));
        let at = string.share().as_ptr();
        string.bytes_mut()[0] = b'x';
        assert_eq!((string.as_ptr(), &*string), (at, &b"xbcd"[..]), "all others have gone");
        drop((one, other));
    }

    #[test]
    fn a_long_string_that_grows_by_a_byte_does_not_double() {
        let mut string = LongString::from(vec![1; 8 * LONGEST_ROOM]);
        for len in [8 * LONGEST_ROOM + 1, 9 * LONGEST_ROOM + 2] {
            string.lengthen(len);
            assert_eq!((string.bytes_mut().len(), string.bytes_mut()[len - 1]), (len, 0));
            assert!(string.capacity() <= len + LONGEST_ROOM, "{}", string.capacity());
        }
        let mut short = vec![1; 100];
        make_room(&mut short, 1);
        short.push(2);
        assert_eq!(short.len(), 101);
        let mut empty = LongString::from(Vec::new());
        empty.lengthen(3);
        assert_eq!(*empty.bytes_mut(), [0; 3]);
    }
}
