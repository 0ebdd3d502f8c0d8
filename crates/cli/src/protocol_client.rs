//! The interface of a connection for the one-shot and the interactive program, whichever protocol it speaks.

use std::fmt;
use std::os::fd::BorrowedFd;

use resp::Value;
use resp::address::Target;

use crate::resp_session::RespSession;

/// Reason why a command has no reply.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientFailure {
    /// There is no connection and none could be made.
    Connect(String),
    /// The connection ended or cannot be used further. The next command opens another.
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
    /// Returns the prompt.
    fn prompt(&self) -> String;

    /// Opens a connection in place of the present one, to `target` from now on if one is given.
    fn connect(&mut self, target: Option<Target>) -> Result<(), ClientFailure>;

    /// Sends a command `repeat` times (negative: for ever) and prints the replies. Connects first if needed.
    fn run(&mut self, arguments: &[Vec<u8>], repeat: i64) -> Result<(), ClientFailure>;

    /// Returns the reply to COMMAND DOCS, if the server can be asked now and does not refuse.
    fn command_docs(&mut self) -> Option<Value>;

    /// Returns the reply to COMMAND, for servers without COMMAND DOCS.
    fn command_table(&mut self) -> Option<Value>;

    /// Returns whether the server sends messages on its own.
    fn is_subscribed(&self) -> bool;

    /// Returns the session itself, if it is one of RESP.
    fn resp_session(&mut self) -> Option<&mut RespSession>;

    /// Prints messages until the subscription ends or, if `input` is given, something can be read there.
    fn print_messages(&mut self, input: Option<BorrowedFd<'_>>) -> Result<(), ClientFailure>;
}
