//! Packets that wait for a link: the node's first, messages of clients when there are no others.

use super::message_batch::packet_len;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of messages that a socket is given at a time: so many are ahead of a packet of the node.
const PIECE: usize = 64 << 10;

/// Packets and messages on their way to a socket, which is given a piece when it has taken the last one.
#[derive(Debug, Default)]
pub struct LinkOutput {
    packets: VecDeque<Arc<[u8]>>,
    messages: VecDeque<Arc<[u8]>>,
    /// Bytes of the first of the messages that have gone.
    gone: usize,
    /// Bytes left of a message that has gone in part: nothing overtakes them.
    begun: usize,
    waiting: usize,
}

impl LinkOutput {
    /// Puts a packet of the node before all messages.
    pub fn add_packet(&mut self, bytes: Arc<[u8]>) {
        self.waiting += bytes.len();
        self.packets.push_back(bytes);
    }

    /// Puts messages, which are whole packets, behind all others.
    pub fn add_messages(&mut self, bytes: Arc<[u8]>) {
        self.waiting += bytes.len();
        self.messages.push_back(bytes);
    }

    /// Returns the bytes that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the bytes that go out next.
    pub fn next_piece(&mut self) -> Option<(Arc<[u8]>, Range<usize>)> {
        if self.begun == 0
            && let Some(packet) = self.packets.pop_front()
        {
            self.waiting -= packet.len();
            let range = 0..packet.len();
            return Some((packet, range));
        }
        let messages = Arc::clone(self.messages.front()?);
        let begin = self.gone;
        let mut end = begin + self.begun.min(PIECE);
        if self.begun > 0 {
            self.begun -= end - begin;
        } else {
            self.begin_messages(&messages, &mut end);
        }
        self.gone = end;
        self.waiting -= end - begin;
        if end >= messages.len() {
            (self.gone, self.begun) = (0, 0);
            self.messages.pop_front();
        }
        Some((messages, begin..end))
    }

    /// Begins as many whole messages as fit, or the beginning of one that does not.
    fn begin_messages(&mut self, messages: &[u8], end: &mut usize) {
        let begin = *end;
        while *end < messages.len() {
            let len = packet_len(&messages[*end..]);
            if *end + len - begin > PIECE {
                break;
            }
            *end += len;
        }
        if *end == begin {
            *end = begin + PIECE;
            self.begun = packet_len(&messages[begin..]) - PIECE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Body, encode_light};

    fn message(len: usize) -> Vec<u8> {
        encode_light(&Body::Publish { channel: b"a".to_vec(), message: vec![7; len], is_sharded: false })
    }

    fn next(output: &mut LinkOutput) -> Option<Vec<u8>> {
        output.next_piece().map(|(bytes, range)| bytes[range].to_vec())
    }

    #[test]
    fn packets_of_the_node_overtake_messages_but_none_that_has_begun() {
        let mut output = LinkOutput::default();
        let long = message(2 * PIECE);
        output.add_messages([message(1), long.clone(), message(2)].concat().into());
        output.add_packet(Arc::from(&b"ping"[..]));
        assert_eq!(next(&mut output), Some(b"ping".to_vec()));
        assert_eq!(next(&mut output), Some(message(1)));
        let mut sent = next(&mut output).expect("its beginning");
        output.add_packet(Arc::from(&b"vote"[..]));
        while sent.len() < long.len() {
            sent.extend(next(&mut output).expect("its rest"));
        }
        assert!(sent == long, "nothing is within a packet");
        assert_eq!(next(&mut output), Some(b"vote".to_vec()));
        assert_eq!(next(&mut output), Some(message(2)));
        assert_eq!((next(&mut output), output.waiting()), (None, 0));
    }

    #[test]
    fn all_bytes_go_in_their_order_and_in_small_pieces() {
        let mut output = LinkOutput::default();
        let batches: Vec<Vec<u8>> = (0..40).map(|at| [message(at * 5000), message(at)].concat()).collect();
        batches.iter().for_each(|batch| output.add_messages(batch.clone().into()));
        assert_eq!(output.waiting(), batches.iter().map(Vec::len).sum::<usize>());
        let mut sent = Vec::new();
        while let Some(piece) = next(&mut output) {
            assert!(!piece.is_empty() && piece.len() <= PIECE);
            sent.extend(piece);
        }
        assert!(sent == batches.concat() && output.waiting() == 0);
    }
}
