//! The place of an argument in a request.

/// The place of an argument, from the first byte of its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Span {
    /// Offset of the argument's first byte.
    pub start: usize,
    /// Length in bytes.
    pub len: usize,
}

impl Span {
    /// Returns the argument's bytes; `command` is the buffer from the first byte of the command on.
    #[inline]
    pub fn of<'b>(&self, command: &'b [u8]) -> &'b [u8] {
        &command[self.start..self.start + self.len]
    }
}
