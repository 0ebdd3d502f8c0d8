//! Answers that are complete, and wait for their clients to be told.

use crate::proxy::asked::ClientKey;

/// Answers for a client, whose connection may have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Client that asked.
    pub to: ClientKey,
    /// Number of bytes.
    len: usize,
    /// Whether no question of this client is open any more.
    pub is_last: bool,
}

/// Answers in one buffer; those in a row for one client are one.
#[derive(Debug, Default)]
pub struct Answers {
    bytes: Vec<u8>,
    list: Vec<Answer>,
}

/// Bytes that are retained.
const KEPT: usize = 64 << 10;

impl Answers {
    pub(super) fn push(&mut self, to: ClientKey, bytes: &[u8], is_last: bool) {
        self.bytes.extend_from_slice(bytes);
        match self.list.last_mut().filter(|last| last.to == to) {
            Some(last) => {
                last.len += bytes.len();
                last.is_last = is_last;
            }
            None => self.list.push(Answer { to, len: bytes.len(), is_last }),
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns each answer with its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (Answer, &[u8])> {
        let mut rest = &self.bytes[..];
        self.list.iter().map(move |answer| {
            let (bytes, others) = rest.split_at(answer.len);
            rest = others;
            (*answer, bytes)
        })
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.list.clear();
        self.list.shrink_to(KEPT / size_of::<Answer>());
    }
}
