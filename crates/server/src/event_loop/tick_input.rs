//! The input of a tick, and how far it has been parsed.
//!
//! ```text
//!   inputs   [ connection 7: done | connection 3: half of it | connection 9 ]
//!                                                 ^ place
//! ```

use crate::connection::input::InputBytes;
use engine::time::Nanos;
use std::cell::Cell;
use std::ops::Range;

/// Input of one connection in a tick.
#[derive(Debug)]
pub struct TickInput {
    /// The connection.
    pub token: usize,
    bytes: InputBytes,
    /// Whether all of it has been parsed that can be.
    is_done: Cell<bool>,
    /// Range of the connection's own bytes that could not be parsed or run yet.
    kept: Cell<Option<(usize, usize)>>,
}

impl TickInput {
    /// Creates input of which nothing has been parsed.
    pub fn new(token: usize, bytes: InputBytes) -> TickInput {
        TickInput { token, bytes, is_done: Cell::new(false), kept: Cell::new(None) }
    }

    /// Returns whether all of it has been parsed that can be.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.is_done.get()
    }

    /// Marks all of it as parsed that can be.
    #[inline]
    pub fn set_done(&self) {
        self.is_done.set(true);
    }

    /// Records the part that could not be parsed or run yet. Returns it if the connection has to retain a copy of it.
    #[inline]
    pub fn keep<'b>(&self, bytes: &'b [u8], part: Range<usize>) -> Option<&'b [u8]> {
        match &self.bytes {
            InputBytes::Own(_) => {
                self.kept.set(Some((part.start, part.end)));
                None
            }
            InputBytes::Arena(_) => Some(&bytes[part]),
        }
    }

    /// Returns a copy of the part of its own bytes that the connection retains, once.
    pub fn take_kept(&self) -> Option<Vec<u8>> {
        match &self.bytes {
            InputBytes::Own(own) => self.kept.take().map(|(start, end)| own[start..end].to_vec()),
            InputBytes::Arena(_) => None,
        }
    }

    /// Returns the connection's own bytes, and the part of them that it retains.
    pub fn into_kept(self) -> Option<(Vec<u8>, (usize, usize))> {
        match (self.bytes, self.kept.take()) {
            (InputBytes::Own(own), Some(kept)) => Some((own, kept)),
            _ => None,
        }
    }
}

/// Inputs of a tick, and where the filling of batches stands in them.
#[derive(Clone, Copy, Debug)]
pub struct Unparsed<'b> {
    arena: &'b [u8],
    inputs: &'b [TickInput],
    /// The input that is being parsed, and the offset in it.
    place: usize,
    offset: usize,
    /// Time of the worker's clock when this input's turn came.
    since: Nanos,
}

impl<'b> Unparsed<'b> {
    /// Creates it with all inputs unparsed. `since`: the time of the worker's clock.
    pub fn new(arena: &'b [u8], inputs: &'b [TickInput], since: Nanos) -> Unparsed<'b> {
        Unparsed { arena, inputs, place: 0, offset: 0, since }
    }

    /// Returns all inputs, parsed or not.
    pub fn inputs(&self) -> &'b [TickInput] {
        self.inputs
    }

    /// Returns the input that is being parsed, and its bytes.
    #[inline]
    pub fn current(&self) -> Option<(&'b TickInput, &'b [u8])> {
        let (input, arena) = (self.inputs.get(self.place)?, self.arena);
        let bytes = match &input.bytes {
            InputBytes::Arena(range) => &arena[range.clone()],
            InputBytes::Own(bytes) => &bytes[..],
        };
        Some((input, bytes))
    }

    /// Returns the time of the worker's clock when the present input's turn came.
    #[inline]
    pub fn since(&self) -> Nanos {
        self.since
    }

    /// Records how far the present input has been parsed.
    #[inline]
    pub fn offset(&mut self) -> &mut usize {
        &mut self.offset
    }

    /// Advances to the next input.
    #[inline]
    pub fn go_on(&mut self, since: Nanos) {
        (self.place, self.offset, self.since) = (self.place + 1, 0, since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_parsed_one_after_the_other() {
        let arena = b"..GET aGET b";
        let inputs = [
            TickInput::new(7, InputBytes::Arena(2..7)),
            TickInput::new(3, InputBytes::Own(b"SET x y".to_vec())),
            TickInput::new(9, InputBytes::Arena(7..12)),
        ];
        let mut unparsed = Unparsed::new(arena, &inputs, Nanos(100));
        let mut seen = Vec::new();
        while let Some((input, bytes)) = unparsed.current() {
            seen.push((input.token, bytes, unparsed.since().0));
            *unparsed.offset() += 3;
            let since = unparsed.since().after(1);
            unparsed.go_on(since);
            assert_eq!(*unparsed.offset(), 0);
        }
        assert_eq!(seen, [(7, &b"GET a"[..], 100), (3, b"SET x y", 101), (9, b"GET b", 102)]);
    }

    #[test]
    fn unparsed_bytes_are_copied_from_the_arena_and_stay_in_a_buffer_of_their_own() {
        let shared = TickInput::new(7, InputBytes::Arena(0..4));
        assert_eq!(shared.keep(b"abcd", 2..4), Some(&b"cd"[..]));
        assert!(shared.take_kept().is_none() && shared.into_kept().is_none());
        let own = TickInput::new(3, InputBytes::Own(b"abcd".to_vec()));
        assert!(own.take_kept().is_none(), "all of it was parsed");
        assert_eq!(own.keep(b"abcd", 1..3), None);
        assert_eq!(own.take_kept(), Some(b"bc".to_vec()));
        assert!(own.take_kept().is_none());
        own.keep(b"abcd", 1..4);
        assert!(!own.is_done());
        own.set_done();
        assert!(own.is_done());
        assert_eq!(own.into_kept(), Some((b"abcd".to_vec(), (1, 4))));
    }
}
