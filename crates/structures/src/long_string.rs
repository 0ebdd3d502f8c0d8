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

    /// Returns the bytes on the heap.
    pub fn capacity(&self) -> usize {
        match &self.0 {
            Bytes::Owned(bytes) => bytes.capacity(),
            Bytes::Shared(shared) => shared.capacity(),
        }
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
}
