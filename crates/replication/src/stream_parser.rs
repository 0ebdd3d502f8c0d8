//! A primary's stream as units that may be applied: commands, and transactions as a whole.
//!
//! ```text
//!   *2 SELECT 0 | *3 SET k v | *1 MULTI | *2 INCR a | *1 EXEC | *3 REPLCONF GETACK * | *1 MULTI | *2 IN
//!   [ units, in one go as far as they are there              ]  [ asks for an answer ]  [ not yet      ]
//! ```
//!
//! The stream is read only as far as these differ. Every byte counts, also that of an empty line.

use crate::in_sync_set::WORD;
use crate::link_event::{Arrived, LinkError};

/// Next part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Length of whole commands and transactions.
    Commands(usize),
    /// Length of a request for the replica's offset; nothing is to be run.
    GetAck(usize),
    /// Length of an announcement of the in-sync set; nothing is to be run.
    InSync(usize),
    /// Length of a message of the other end of a slot migration about its progress; only in a stream of a migration.
    SyncSlots(usize),
    /// More bytes have to arrive first.
    Incomplete,
}

impl Unit {
    /// Returns the part's length and its bytes, which `input` begins with.
    pub(crate) fn arrived(self, input: &[u8]) -> (usize, Arrived<'_>) {
        match self {
            Unit::Incomplete => (0, Arrived::Nothing),
            Unit::Commands(len) | Unit::SyncSlots(len) => (len, Arrived::Commands(&input[..len])),
            Unit::GetAck(len) => (len, Arrived::GetAck(&input[..len])),
            Unit::InSync(len) => (len, Arrived::InSync(&input[..len])),
        }
    }
}

/// Greatest length of a line that has a number or a length.
const LINE_MAX: usize = 64 << 10;

/// Bytes that are handed out at once, if they are whole.
const AT_ONCE: usize = 1 << 20;

/// Length of the longest word that matters.
const WORD_MAX: usize = 9;

/// Position in a stream. The caller passes the same input again, with more behind it, until its bytes have been handed
/// out.
#[derive(Debug, Default)]
pub struct Units {
    /// Next byte to read.
    at: usize,
    /// End of the whole units.
    whole: usize,
    /// Arguments of the present command that are not read yet.
    missing: u64,
    /// Arguments of the present command that are read.
    seen: u32,
    in_multi: bool,
    /// End of the argument that is not all there; 0: there is none.
    expected: usize,
    kind: Kind,
    /// Whether CLUSTER SYNCSLOTS is a unit of its own.
    has_sync_slots: bool,
}

/// Kind of the present command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Other,
    Multi,
    Exec,
    Replconf,
    GetAck,
    Ping,
    InSync,
    Cluster,
    SyncSlots,
}

impl Units {
    /// Reads the stream of a node from which slots come, or to which they go.
    pub fn of_migration() -> Units {
        Units { has_sync_slots: true, ..Units::default() }
    }

    /// Takes the next unit off the beginning of `input`; the next call expects the input behind that unit.
    ///
    /// # Errors
    /// Returns [`LinkError::Protocol`] if the bytes are no commands.
    pub fn next(&mut self, input: &[u8]) -> Result<Unit, LinkError> {
        while let Some(kind) = self.command(input)? {
            let unit: Option<fn(usize) -> Unit> = match kind {
                Kind::GetAck => Some(Unit::GetAck),
                Kind::InSync => Some(Unit::InSync),
                Kind::SyncSlots if self.has_sync_slots => Some(Unit::SyncSlots),
                _ => None,
            };
            match (kind, unit) {
                (Kind::Multi, _) => self.in_multi = true,
                (Kind::Exec, _) => self.in_multi = false,
                (_, Some(_)) if !self.in_multi && self.whole > 0 => {
                    // Units before this one are to be applied first: this one is read again.
                    return Ok(Unit::Commands(self.hand_out()));
                }
                (_, Some(unit)) if !self.in_multi => {
                    self.whole = self.at;
                    return Ok(unit(self.hand_out()));
                }
                _ => {}
            }
            if !self.in_multi {
                self.whole = self.at;
            }
        }
        match self.whole {
            0 => Ok(Unit::Incomplete),
            _ => {
                // The partial command behind the units need not be read again.
                let (at, whole) = (self.at, std::mem::take(&mut self.whole));
                self.at = at - whole;
                self.expected = self.expected.saturating_sub(whole);
                Ok(Unit::Commands(whole))
            }
        }
    }

    /// Takes the next unit off some of the input, and reads more of it only if that part is not whole.
    ///
    /// # Errors
    /// Returns [`LinkError::Protocol`] if the bytes are no commands.
    pub fn next_of(&mut self, input: &[u8]) -> Result<Unit, LinkError> {
        let mut len = AT_ONCE;
        loop {
            let unit = self.next(&input[..len.min(input.len())])?;
            if unit != Unit::Incomplete || len >= input.len() {
                return Ok(unit);
            }
            len = len.saturating_mul(2);
        }
    }

    /// Returns the length that the input will have at the end of the argument that is not all there; 0: there is none.
    pub fn expected(&self) -> usize {
        self.expected
    }

    /// Hands out the whole units; the bytes behind them are read again.
    fn hand_out(&mut self) -> usize {
        let whole = std::mem::take(&mut self.whole);
        (self.at, self.expected) = (0, 0);
        whole
    }

    /// Reads up to the end of a command.
    fn command(&mut self, input: &[u8]) -> Result<Option<Kind>, LinkError> {
        if self.missing == 0 {
            match input.get(self.at) {
                None => return Ok(None),
                Some(b'*') => {
                    let Some((count, next)) = number(input, self.at)? else { return Ok(None) };
                    (self.at, self.seen, self.kind) = (next, 0, Kind::Other);
                    let Ok(count) = u64::try_from(count) else { return Ok(Some(Kind::Other)) };
                    if count == 0 {
                        return Ok(Some(Kind::Other));
                    }
                    self.missing = count;
                }
                Some(_) => return self.line(input),
            }
        }
        while self.missing > 0 {
            if input.get(self.at).is_some_and(|byte| *byte != b'$') {
                return Err(LinkError::Protocol);
            }
            let Some((len, start)) = number(input, self.at)? else { return Ok(None) };
            let len = usize::try_from(len).map_err(|_| LinkError::Protocol)?;
            let end = start.checked_add(len).and_then(|end| end.checked_add(2)).ok_or(LinkError::Protocol)?;
            if end > input.len() {
                self.expected = end;
                return Ok(None);
            }
            self.expected = 0;
            if self.seen < 2 && (len <= WORD_MAX || self.kind == Kind::Ping) {
                self.kind = kind(self.kind, self.seen, &input[start..start + len]);
            }
            self.at = end;
            self.seen += 1;
            self.missing -= 1;
        }
        Ok(Some(self.kind))
    }

    /// Reads a command on a line of its own, or an empty line.
    fn line(&mut self, input: &[u8]) -> Result<Option<Kind>, LinkError> {
        let rest = &input[self.at..];
        let Some(end) = rest.iter().take(LINE_MAX).position(|byte| *byte == b'\n') else {
            return if rest.len() >= LINE_MAX { Err(LinkError::Protocol) } else { Ok(None) };
        };
        let words = rest[..end].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        self.kind = words.take(2).zip(0..).fold(Kind::Other, |known, (word, index)| kind(known, index, word));
        self.at += end + 1;
        Ok(Some(self.kind))
    }
}

/// Returns the kind of a command, once its word number `index` is read.
fn kind(known: Kind, index: u32, word: &[u8]) -> Kind {
    match (index, known) {
        (0, _) if word.eq_ignore_ascii_case(b"multi") => Kind::Multi,
        (0, _) if word.eq_ignore_ascii_case(b"exec") || word.eq_ignore_ascii_case(b"discard") => Kind::Exec,
        (0, _) if word.eq_ignore_ascii_case(b"replconf") => Kind::Replconf,
        (0, _) if word.eq_ignore_ascii_case(b"ping") => Kind::Ping,
        (0, _) if word.eq_ignore_ascii_case(b"cluster") => Kind::Cluster,
        (1, Kind::Cluster) if word.eq_ignore_ascii_case(b"syncslots") => Kind::SyncSlots,
        (1, Kind::Cluster) => Kind::Other,
        (1, Kind::Ping) if word.starts_with(WORD) => Kind::InSync,
        (1, Kind::Replconf) if word.eq_ignore_ascii_case(b"getack") => Kind::GetAck,
        (1, Kind::Replconf) => Kind::Other,
        _ => known,
    }
}

/// Returns the number on the line at `at`, behind the line's first byte, and where the next line begins.
fn number(input: &[u8], at: usize) -> Result<Option<(i64, usize)>, LinkError> {
    /// Digits of the longest number, with a sign and the line's end.
    const DIGITS_MAX: usize = 24;
    let Some(rest) = input.get(at + 1..) else { return Ok(None) };
    let Some(end) = rest.iter().take(DIGITS_MAX).position(|byte| *byte == b'\r') else {
        return if rest.len() >= DIGITS_MAX { Err(LinkError::Protocol) } else { Ok(None) };
    };
    if rest.len() < end + 2 {
        return Ok(None);
    }
    let text = std::str::from_utf8(&rest[..end]).ok().and_then(|digits| digits.parse().ok());
    text.map(|number| Some((number, at + 1 + end + 2))).ok_or(LinkError::Protocol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(lines: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in lines {
            resp::encode_command(&mut bytes, &line.split(' ').collect::<Vec<_>>());
        }
        bytes
    }

    /// Whether an answer is asked for, and the bytes.
    type Found = (bool, Vec<u8>);

    /// Returns the units of an input that arrives in these chunks, as text, and the bytes that are left.
    fn units(pieces: &[&[u8]]) -> Result<(Vec<Found>, Vec<u8>), LinkError> {
        let (mut units, mut pending, mut found) = (Units::default(), Vec::new(), Vec::new());
        for piece in pieces {
            pending.extend_from_slice(piece);
            loop {
                let (asks, len) = match units.next(&pending)? {
                    Unit::Incomplete => break,
                    Unit::Commands(len) | Unit::InSync(len) | Unit::SyncSlots(len) => (false, len),
                    Unit::GetAck(len) => (true, len),
                };
                found.push((asks, pending.drain(..len).collect()));
            }
        }
        Ok((found, pending))
    }

    #[test]
    fn transactions_are_handed_out_whole_and_requests_for_an_answer_apart() {
        let before = bytes(&["SELECT 0", "SET k v", "MULTI", "INCR a", "EXEC"]);
        let asks = bytes(&["replconf getack *"]);
        let after = bytes(&["REPLCONF ACK 1", "MULTI", "DEL a", "REPLCONF GETACK *"]);
        let all = [&before[..], &asks, &after].concat();
        let (found, left) = units(&[&all]).unwrap();
        let ack = bytes(&["REPLCONF ACK 1"]);
        assert_eq!(found, [(false, before), (true, asks), (false, ack.clone())]);
        assert_eq!(left, after[ack.len()..]);
    }

    #[test]
    fn a_malformed_command_ends_the_link() {
        for text in ["*x\r\n", "*1\r\n!3\r\n", "*1\r\n$-1\r\n", "*1\r\n$99999999999999999999999999\r\n"] {
            assert_eq!(units(&[text.as_bytes()]), Err(LinkError::Protocol), "{text}");
        }
        let most = format!("*1\r\n${}\r\n", i64::MAX);
        assert_eq!(units(&[most.as_bytes()]).unwrap().0, []);
        let (found, left) = units(&[b"\n\r\nPING\r\nMULTI\r\nset a b\r\n"]).unwrap();
        assert_eq!(found, [(false, b"\n\r\nPING\r\n".to_vec())]);
        assert_eq!(left, b"MULTI\r\nset a b\r\n");
    }

    proptest! {
        #[test]
        fn units_of_a_stream_are_the_same_however_it_is_cut(
            lines in prop::collection::vec(prop::sample::select(vec![
                "SET k v", "MULTI", "EXEC", "REPLCONF GETACK *", "PING", "SELECT 3", "SET key aaaaaaaaaaaaaaaaaaaaaaaaa",
            ]), 0..40),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let all = bytes(&lines);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(all.len() + 1)).collect();
            cuts.extend([0, all.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &all[cut[0]..cut[1]]).collect();
            let (found, left) = units(&pieces).unwrap();
            let (whole, left_of_whole) = units(&[&all]).unwrap();
            let joined = |units: &[(bool, Vec<u8>)]| units.iter().flat_map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>();
            prop_assert_eq!(&left, &left_of_whole);
            prop_assert_eq!(joined(&found), joined(&whole));
            let asks = |units: Vec<(bool, Vec<u8>)>| units.into_iter().filter(|(asks, _)| *asks).count();
            prop_assert_eq!(asks(found), asks(whole));
        }
    }

    #[test]
    fn the_end_of_an_argument_on_its_way_is_known() {
        let (ping, set) = (bytes(&["PING"]), bytes(&["SET k 0123456789", "PING"]));
        let end = set.len() - ping.len();
        let mut units = Units::default();
        let begun = [&ping[..], &set[..end - 8]].concat();
        assert_eq!((units.next(&begun), units.expected()), (Ok(Unit::Commands(ping.len())), end));
        assert_eq!((units.next(&begun[ping.len()..]), units.expected()), (Ok(Unit::Incomplete), end));
        assert_eq!((units.next(&set), units.expected()), (Ok(Unit::Commands(set.len())), 0));
        assert_eq!((units.next(b"*1\r\n$4"), units.expected()), (Ok(Unit::Incomplete), 0));
    }

    #[test]
    fn words_between_ends_of_a_migration_are_units_where_they_are_asked_for() {
        let text = b"*1\r\n$4\r\nPING\r\n*3\r\n$7\r\ncluster\r\n$9\r\nsyncslots\r\n$3\r\nACK\r\n*1\r\n$4\r\nPING\r\n";
        assert_eq!(Units::default().next(text), Ok(Unit::Commands(text.len())));
        let mut units = Units::of_migration();
        let (head, word) = (14, text.len() - 28);
        assert_eq!(units.next(text), Ok(Unit::Commands(head)));
        assert_eq!(units.next(&text[head..]), Ok(Unit::SyncSlots(word)));
        assert_eq!(units.next(&text[head + word..]), Ok(Unit::Commands(14)));
    }
}
