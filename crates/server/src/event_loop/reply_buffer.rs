//! The replies of a tick: all are gathered in one buffer, and sent when the commands have run.
//!
//! ```text
//!   bytes  [ connection 7 ... | connection 3 ... | connection 7 ... ]
//!   parts  (7, 0..40) (3, 40..52) (7, 52..60)
//! ```

use resp::{Protocol, Reply, ReplyBytes};
use std::ops::Range;

/// Replies are written before the end of a tick when they are this many bytes.
pub const REPLY_HIGH: usize = 1 << 20;
/// Limit in bytes while memory has a limit, towards which replies would count.
pub const REPLY_LOW: usize = 64 << 10;

/// Room that stays from tick to tick: that of a few large replies, which would be made again and again.
const ROOM_KEPT: usize = 8 << 20;

/// A connection, and where in the bytes a reply to it lies.
pub type ReplyPart = (usize, Range<usize>);

/// Replies that are not sent yet.
pub struct ReplyBuffer {
    bytes: Reply,
    /// Parts of `bytes`, in order, each with its connection.
    parts: Vec<ReplyPart>,
}

impl Default for ReplyBuffer {
    fn default() -> ReplyBuffer {
        ReplyBuffer { bytes: Reply::new(Vec::new(), Protocol::Resp2), parts: Vec::new() }
    }
}

impl ReplyBuffer {
    /// Returns the reply that commands write to.
    #[inline]
    pub fn sink(&mut self) -> &mut Reply {
        &mut self.bytes
    }

    /// Returns the written bytes of all replies.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes of all replies, shared strings included.
    #[inline]
    pub fn wire_len(&self) -> usize {
        self.bytes.wire_len()
    }

    /// Returns whether the replies are so many bytes that they are sent before the tick ends. `is_limited`: memory has
    /// a limit.
    pub fn is_high(&self, is_limited: bool) -> bool {
        self.wire_len() >= if is_limited { REPLY_LOW } else { REPLY_HIGH }
    }

    /// Assigns the bytes from `start` on to this connection. True if they begin a part.
    #[inline]
    pub fn note(&mut self, token: usize, start: usize) -> bool {
        let end = self.bytes.len();
        match self.parts.last_mut() {
            Some((last, range)) if *last == token => {
                range.end = end;
                false
            }
            _ if end > start => {
                self.parts.push((token, start..end));
                true
            }
            _ => false,
        }
    }

    /// Adds bytes for a connection.
    pub fn append(&mut self, token: usize, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.raw(bytes);
        self.note(token, start);
    }

    /// Drops the replies to this connection.
    #[cold]
    pub fn take_back(&mut self, token: usize) {
        let end = self.bytes.len();
        self.parts.iter_mut().filter(|(of, _)| *of == token).for_each(|(_, range)| *range = end..end);
    }

    /// Takes the parts out and passes over each, with its bytes, which may be none; to be [cleared](Self::clear) after
    /// that.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = (usize, ReplyBytes<'_>)> {
        let bytes = &self.bytes;
        self.parts.drain(..).map(|(token, range)| (token, bytes.part(range)))
    }

    /// Drops the bytes. Their room stays for the next tick, unless it was much.
    #[inline]
    pub fn clear(&mut self) {
        let is_large = self.bytes.len() > ROOM_KEPT;
        self.bytes.truncate(0);
        if is_large {
            drop(self.bytes.take());
        }
    }

    /// Frees memory when nothing is to be sent: one large reply makes the buffer large.
    pub fn give_back_room(&mut self) {
        if self.bytes.is_empty() {
            drop(self.bytes.take());
        }
    }

    /// Returns the connections that the replies are for, some perhaps several times.
    pub fn tokens(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().map(|(token, _)| *token)
    }

    /// Takes all replies.
    pub fn take(&mut self) -> (Vec<u8>, Vec<ReplyPart>) {
        if self.wire_len() > self.len() {
            let all = self.extract(|_| true);
            self.bytes.truncate(0);
            return all;
        }
        (self.bytes.take(), std::mem::take(&mut self.parts))
    }

    /// Takes the replies to the connections that match.
    pub fn extract(&mut self, is_one: impl Fn(usize) -> bool) -> (Vec<u8>, Vec<ReplyPart>) {
        let (mut bytes, mut parts) = (Vec::new(), Vec::new());
        self.parts.retain(|(token, range)| {
            if !is_one(*token) {
                return true;
            }
            let start = bytes.len();
            self.bytes.part(range.clone()).copy_to(&mut bytes);
            parts.push((*token, start..bytes.len()));
            false
        });
        (bytes, parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Writes a reply, as a command of the connection does.
    fn reply(replies: &mut ReplyBuffer, token: usize, text: &str) -> bool {
        let start = replies.len();
        replies.sink().raw(text.as_bytes());
        replies.note(token, start)
    }

    fn sent(replies: &mut ReplyBuffer) -> Vec<(usize, String)> {
        let text = |part: ReplyBytes<'_>| {
            let mut bytes = Vec::new();
            part.copy_to(&mut bytes);
            assert_eq!(bytes.len(), part.len());
            String::from_utf8(bytes).unwrap()
        };
        let sent = replies.drain().map(|(token, part)| (token, text(part))).collect();
        replies.clear();
        sent
    }

    fn texts(parts: &[(usize, &str)]) -> Vec<(usize, String)> {
        parts.iter().map(|(token, text)| (*token, (*text).to_owned())).collect()
    }

    #[test]
    fn replies_in_a_row_to_one_connection_are_one_part() {
        let mut replies = ReplyBuffer::default();
        assert!(reply(&mut replies, 7, "+A"));
        assert!(!reply(&mut replies, 7, "+B"), "it is the same part");
        assert!(!reply(&mut replies, 3, ""), "there is none");
        replies.append(3, b"+C");
        assert!(reply(&mut replies, 7, "+D"));
        assert_eq!(sent(&mut replies), texts(&[(7, "+A+B"), (3, "+C"), (7, "+D")]));
        assert_eq!((replies.len(), sent(&mut replies)), (0, texts(&[])));
    }

    #[test]
    fn replies_taken_back_are_not_sent() {
        let mut replies = ReplyBuffer::default();
        reply(&mut replies, 7, "+A");
        reply(&mut replies, 3, "+B");
        replies.take_back(7);
        assert_eq!(sent(&mut replies), texts(&[(7, ""), (3, "+B")]));
    }

    #[test]
    fn some_replies_are_held_and_the_others_sent() {
        let mut replies = ReplyBuffer::default();
        [(7, "+A"), (3, "+B"), (7, "+C")].into_iter().for_each(|(token, text)| _ = reply(&mut replies, token, text));
        assert_eq!(replies.extract(|token| token == 7), (b"+A+C".to_vec(), vec![(7, 0..2), (7, 2..4)]));
        assert_eq!(sent(&mut replies), texts(&[(3, "+B")]));
        reply(&mut replies, 1, "+D");
        assert_eq!(replies.take(), (b"+D".to_vec(), vec![(1, 0..2)]));
        assert_eq!(sent(&mut replies), texts(&[]));
    }

    #[test]
    fn shared_strings_lie_between_the_written_bytes_of_their_connections() {
        let shared = |replies: &mut ReplyBuffer, token, text: &str| {
            let start = replies.len();
            replies.sink().shared_bulk(Arc::new(text.as_bytes().to_vec()));
            replies.note(token, start);
        };
        let filled = || {
            let mut replies = ReplyBuffer::default();
            reply(&mut replies, 7, "+A");
            shared(&mut replies, 7, "one");
            shared(&mut replies, 3, "other");
            reply(&mut replies, 7, "+B");
            replies
        };
        let (first, second) = ("+A$3\r\none\r\n", "$5\r\nother\r\n");
        let mut replies = filled();
        assert_eq!(replies.wire_len(), replies.len() + 8);
        assert_eq!(sent(&mut replies), texts(&[(7, first), (3, second), (7, "+B")]));
        assert_eq!((replies.wire_len(), sent(&mut filled())), (0, texts(&[(7, first), (3, second), (7, "+B")])));
        let (bytes, parts) = filled().take();
        assert_eq!(bytes, [first, second, "+B"].concat().into_bytes());
        assert_eq!(parts, [(7, 0..11), (3, 11..22), (7, 22..24)]);
        let mut replies = filled();
        assert_eq!(replies.extract(|token| token == 3), (second.as_bytes().to_vec(), vec![(3, 0..11)]));
        replies.sink().truncate(2);
        assert_eq!(replies.wire_len(), 2, "shared strings go with the bytes behind them");
    }

    #[test]
    fn much_is_sent_before_the_end_of_the_tick_and_its_room_given_back() {
        let mut replies = ReplyBuffer::default();
        replies.append(1, &vec![b'x'; REPLY_LOW]);
        assert!(replies.is_high(true) && !replies.is_high(false));
        replies.append(1, &vec![b'x'; REPLY_HIGH]);
        assert!(replies.is_high(false));
        replies.clear();
        assert!(replies.take().0.capacity() > 0, "the next ones are as long");
        replies.append(1, &vec![b'x'; ROOM_KEPT + 1]);
        replies.clear();
        assert_eq!(replies.take().0.capacity(), 0);
        replies.append(1, b"+A");
        replies.clear();
        replies.give_back_room();
        assert_eq!(replies.take().0.capacity(), 0);
    }
}
