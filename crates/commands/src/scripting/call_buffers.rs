//! Buffers for a run's calls of commands, which the next run reuses.

use crate::core::command::CommandEntry;
use mlua::{LuaString, Value};
use resp::Span;
use smallvec::SmallVec;

/// Words of the command that a script calls, and commands that were called before.
#[derive(Default)]
pub(super) struct Buffers {
    pub bytes: Vec<u8>,
    pub spans: Vec<Span>,
    pub names: Names,
}

/// Commands that scripts have called, by the place of their name in Lua.
#[derive(Default)]
pub(super) struct Names {
    known: SmallVec<[(usize, Named); 4]>,
    /// Entry that is replaced next.
    oldest: usize,
}

pub(super) struct Named {
    /// Keeps any other string from taking the place of this one.
    _name: LuaString,
    pub text: Box<[u8]>,
    pub entry: &'static CommandEntry,
}

impl Names {
    const KEPT: usize = 8;

    #[inline]
    pub fn find(&self, name: &Value) -> Option<&Named> {
        let Value::String(name) = name else { return None };
        let at = name.to_pointer() as usize;
        self.known.iter().find(|(other, _)| *other == at).map(|(_, named)| named)
    }

    #[inline(never)]
    pub fn add(&mut self, name: &Value, text: &[u8], entry: &'static CommandEntry) {
        let Value::String(name) = name else { return };
        let known = (name.to_pointer() as usize, Named { _name: name.clone(), text: text.into(), entry });
        if self.known.len() < Names::KEPT {
            return self.known.push(known);
        }
        self.known[self.oldest] = known;
        self.oldest = (self.oldest + 1) % Names::KEPT;
    }
}

impl Buffers {
    /// Limits above which buffers are not kept from run to run, in bytes and words.
    const BYTES_KEPT: usize = 16 << 10;
    const WORDS_KEPT: usize = 256;

    /// Whether the buffers are kept for the next run.
    pub fn is_spare(&self) -> bool {
        self.bytes.capacity() <= Buffers::BYTES_KEPT && self.spans.capacity() <= Buffers::WORDS_KEPT
    }
}
