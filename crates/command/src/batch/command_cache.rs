//! Recent commands: a pipeline repeats its command, and clients that do the same work send the same few.
//!
//! ```text
//!   *2 $3 GET $16 key...          the head of the request picks a slot
//!   |-- head --| -> slot -> (head as it was seen, entry)
//! ```
//!
//! If the head equals the one in the slot, the entry and the number of arguments are known without parsing and looking
//! up either. The table of commands does not change after the start, so an entry found once stays right.

use crate::core::args::{Args, RetainedArgs};
use crate::core::command::CommandEntry;
use crate::core::command_table::{CommandTable, accepted};
use resp::{RequestPrefix, Span};

/// Number of slots: a power of two.
const SLOTS: usize = 16;

/// One worker's recent commands.
#[derive(Default)]
pub struct CommandCache {
    slots: [(RequestPrefix, Option<&'static CommandEntry>); SLOTS],
}

impl CommandCache {
    /// Parses a whole short request and finds its entry, if the entry accepts so many arguments. None, and `spans` as
    /// they were, for any other request. Returns how many bytes it took, too.
    #[inline(always)]
    pub fn parse(&mut self, request: &[u8], spans: &mut Vec<Span>) -> Option<(usize, Option<&'static CommandEntry>)> {
        let (head, entry) = &self.slots[slot(request)?];
        match head.parse(request, spans) {
            Some(end) => Some((end, *entry)),
            None => self.learn(request, spans),
        }
    }

    #[inline(never)]
    fn learn(&mut self, request: &[u8], spans: &mut Vec<Span>) -> Option<(usize, Option<&'static CommandEntry>)> {
        let first = spans.len();
        let end = resp::short(request, spans)?;
        let spans = &spans[first..];
        let args = Args::parsed(request, spans, RetainedArgs::default());
        let entry = accepted(&args);
        // The entry of a subcommand depends on a further argument.
        if entry.is_some_and(|entry| CommandTable::get().find(&args[0]).is_some_and(|found| std::ptr::eq(found, entry)))
            && entry.is_some_and(|entry| entry.subcommands.is_empty())
            && let (Some(slot), Some(head)) = (slot(request), RequestPrefix::of(request, spans))
        {
            self.slots[slot] = (head, entry);
        }
        Some((end, entry))
    }
}

#[inline(always)]
fn slot(request: &[u8]) -> Option<usize> {
    Some((RequestPrefix::number_of(request)?.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60) as usize % SLOTS)
}
