//! The mistakes of a request, and the replies that name them.

use std::fmt;

/// A request that breaks the protocol. The connection sends the text and closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolError {
    /// No end of line within [`LINE_MAX`](super::LINE_MAX) bytes of an inline request.
    BigInline,
    /// No end of line within [`LINE_MAX`](super::LINE_MAX) bytes after `*`.
    BigMultibulkCount,
    /// The count of arguments is not an integer or is above [`ARGS_MAX`](super::ARGS_MAX).
    InvalidMultibulkLength,
    /// Over [`UNAUTHENTICATED_ARGS_MAX`](super::UNAUTHENTICATED_ARGS_MAX) arguments before authentication.
    UnauthenticatedMultibulkLength,
    /// No end of line within [`LINE_MAX`](super::LINE_MAX) bytes where an argument's length should be.
    BigBulkCount,
    /// An argument does not begin with `$` but with this byte.
    ExpectedDollar(u8),
    /// The length of an argument is not an integer, is negative or over
    /// [`Limits::max_bulk_len`](super::RequestLimits::max_bulk_len).
    InvalidBulkLength,
    /// An argument over [`UNAUTHENTICATED_BULK_MAX`](super::UNAUTHENTICATED_BULK_MAX) bytes before authentication.
    UnauthenticatedBulkLength,
    /// An argument that is not followed by `\r\n`.
    InvalidCrlf,
    /// An inline argument whose quotes do not close, or do not close at its end.
    UnbalancedQuotes,
}

impl ProtocolError {
    /// Appends the reply, byte for byte as it goes to the client.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"-ERR Protocol error: ");
        match *self {
            ProtocolError::ExpectedDollar(got) => {
                let got = if matches!(got, b'\r' | b'\n') { b' ' } else { got };
                out.extend_from_slice(b"expected '$', got '");
                out.push(got);
                out.push(b'\'');
            }
            _ => out.extend_from_slice(self.reason().as_bytes()),
        }
        out.extend_from_slice(b"\r\n");
    }

    fn reason(&self) -> &'static str {
        match self {
            ProtocolError::BigInline => "too big inline request",
            ProtocolError::BigMultibulkCount => "too big mbulk count string",
            ProtocolError::InvalidMultibulkLength => "invalid multibulk length",
            ProtocolError::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            ProtocolError::BigBulkCount => "too big bulk count string",
            ProtocolError::ExpectedDollar(_) => "expected '$'",
            ProtocolError::InvalidBulkLength => "invalid bulk length",
            ProtocolError::UnauthenticatedBulkLength => "unauthenticated bulk length",
            ProtocolError::InvalidCrlf => "invalid CRLF in request",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
        }
    }
}

impl fmt::Display for ProtocolError {
    /// Writes the reply's text for a log: the wire text without its line end, with a byte that is not ASCII escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut wire = Vec::new();
        self.write_to(&mut wire);
        f.write_str(&wire.trim_ascii_end().escape_ascii().to_string().replace("\\'", "'"))
    }
}

impl std::error::Error for ProtocolError {}
