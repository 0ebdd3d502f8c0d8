//! What the one-shot and the interactive program need of a connection, whichever protocol it speaks.

use std::fmt;
use std::os::fd::BorrowedFd;

use resp::Value;
use resp::address::Target;

use crate::resp_session::RespSession;

/// Why a command has no reply.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientFailure {
    /// There is no connection and none could be made.
    Connect(String),
    /// The connection ended or is of no more use. The next command opens another.
    Lost(String),
    /// An error reply, where the user asked that errors end the program.
    ErrorReply(String),
    /// The command cannot be sent.
    Unsendable(String),
    /// Ctrl-C while waiting for a reply.
    Interrupted,
}

impl fmt::Display for ClientFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientFailure::Connect(text) | ClientFailure::ErrorReply(text) => f.write_str(text),
            ClientFailure::Lost(text) | ClientFailure::Unsendable(text) => write!(f, "Error: {text}"),
            ClientFailure::Interrupted => f.write_str("Interrupted"),
        }
    }
}

pub trait Client {
    /// The text before the place where the user types.
    fn prompt(&self) -> String;

    /// Opens a connection in place of the one there is, to `target` from now on if one is given.
    fn connect(&mut self, target: Option<Target>) -> Result<(), ClientFailure>;

    /// Sends a command `repeat` times (negative: for ever) and prints the replies. Connects first if need be.
    fn run(&mut self, arguments: &[Vec<u8>], repeat: i64) -> Result<(), ClientFailure>;

    /// The reply to COMMAND DOCS, if the server can be asked now and does not refuse.
    fn command_docs(&mut self) -> Option<Value>;

    /// The same of COMMAND, which servers have that know no COMMAND DOCS.
    fn command_table(&mut self) -> Option<Value>;

    /// Whether the server sends messages on its own.
    fn is_subscribed(&self) -> bool;

    /// The session itself, if it is one of RESP.
    fn resp_session(&mut self) -> Option<&mut RespSession>;

    /// Prints messages until the subscription ends or, if `input` is given, something can be read there.
    fn print_messages(&mut self, input: Option<BorrowedFd<'_>>) -> Result<(), ClientFailure>;
}
