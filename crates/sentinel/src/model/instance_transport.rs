//! A link to an instance: a connection for commands, and to servers one that is subscribed to hello messages.

use crate::model::effect::{ConnectionId, Millis};
use crate::model::instance::InstanceId;
use resp::reply_value::{DecodeError, Decoder, Value};
use std::collections::VecDeque;

/// The channel of hello messages.
pub const HELLO_CHANNEL: &str = "__sentinel__:hello";

/// The handler of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyTo {
    Nothing,
    Ping,
    Info,
    Publish,
    /// Whether the primary is down, and the vote.
    DownQuestion,
    /// The replies to the commands of a transaction.
    Transaction,
}

/// A reply that is to come.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    /// The instance; None: it was removed meanwhile.
    pub instance: Option<InstanceId>,
    pub reply_to: ReplyTo,
    /// The command's name.
    pub order: Box<str>,
    /// Names of the transaction's commands.
    pub queued: Vec<Box<str>>,
}

/// One connection of a link.
#[derive(Debug)]
pub(crate) struct Connection {
    pub id: ConnectionId,
    pub since: Millis,
    /// The address on this side, once it is connected.
    pub local_ip: Option<String>,
    pub awaited: VecDeque<Awaited>,
    input: Vec<u8>,
    decoder: Decoder,
}

impl Connection {
    /// Returns a connection that was requested.
    pub fn new(id: ConnectionId, now: Millis) -> Connection {
        let (input, decoder) = (Vec::new(), Decoder::new());
        Connection { id, since: now, local_ip: None, awaited: VecDeque::new(), input, decoder }
    }

    /// Returns all values that these bytes complete.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Vec<Value>, DecodeError> {
        self.input.extend_from_slice(bytes);
        let mut values = Vec::new();
        let mut at = 0;
        while let Some((value, len)) = self.decoder.decode(&self.input[at..])? {
            at += len;
            values.push(value);
        }
        self.input.drain(..at);
        Ok(values)
    }
}

/// A link. Several instances that are one Sentinel share it.
#[derive(Debug)]
pub(crate) struct Transport {
    pub users: usize,
    /// A connection is missing.
    pub disconnected: bool,
    pub command: Option<Connection>,
    pub pubsub: Option<Connection>,
    pub pubsub_activity: Millis,
    /// Time of the last reply without an error.
    pub last_available: Millis,
    /// Time of the unanswered ping; 0: there is none.
    pub open_ping: Millis,
    pub last_ping: Millis,
    pub last_pong: Millis,
    pub last_reconnect: Millis,
}

impl Transport {
    /// Returns a link without connections.
    pub fn new(now: Millis) -> Transport {
        Transport {
            users: 1,
            disconnected: true,
            command: None,
            pubsub: None,
            pubsub_activity: 0,
            last_available: now,
            open_ping: now,
            last_ping: 0,
            last_pong: now,
            last_reconnect: 0,
        }
    }

    /// Returns the number of replies that are to come.
    pub fn pending(&self) -> usize {
        self.command.as_ref().map_or(0, |connection| connection.awaited.len())
    }

    /// Resets the times of a link that was just made. It is connected at once: the time until then counts as silence.
    pub fn restart(&mut self, now: Millis) {
        self.last_reconnect = 0;
        self.open_ping = now;
        self.last_ping = 0;
        self.last_available = now;
        self.last_pong = now;
    }
}
