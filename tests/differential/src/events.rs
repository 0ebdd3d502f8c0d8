//! Events that a server publishes about keys, command by command.
//!
//! A second connection listens to all channels of keyspace events. The events of a command are sent to the listener
//! before the command's reply, so they arrive before the reply to a PING that the listener sends afterwards:
//!
//! ```text
//!   commands   SET k v    +OK
//!   listener                   PING   >4 pmessage ... new   >4 pmessage ... set   +PONG
//! ```
//!
//! Only commands that meet expired keys remove them: no test can know when a background removes them.

use crate::client::{Client, command};
use crate::value::Value;
use std::io::{Error, Result};
use std::net::SocketAddr;

pub struct Listener(Client);

impl Listener {
    pub fn connect(addr: SocketAddr) -> Result<Listener> {
        let mut client = Client::connect(addr)?;
        for line in
            ["HELLO 3", "DEBUG SET-ACTIVE-EXPIRE 0", "CONFIG SET notify-keyspace-events AKEmn", "PSUBSCRIBE __key*"]
        {
            let reply = client.call(&command(line))?;
            if reply.is_error() {
                return Err(Error::other(format!("the server at {addr} answers {line}: {reply}")));
            }
        }
        Ok(Listener(client))
    }

    /// The events since the last call, in their order or sorted: channel, and what was said there.
    pub fn heard(&mut self, in_order: bool) -> Value {
        self.0.send([&command("PING")]);
        let mut heard = Vec::new();
        loop {
            match self.0.receive() {
                Ok(Value::Push(message)) => heard.push(Value::Array(message.into_iter().skip(2).collect())),
                Ok(Value::Simple(_)) => {
                    if !in_order {
                        heard.sort();
                    }
                    return Value::Push(heard);
                }
                Ok(other) => return Value::Lost(format!("the listener was answered {other}")),
                Err(error) => return Value::Lost(error.to_string()),
            }
        }
    }
}

/// The names of events, to tell differences apart.
pub fn names(heard: &[Value]) -> String {
    let by_event = heard.iter().filter_map(|message| message.elements()?.first()?.text()?.strip_prefix(b"__keyevent@"));
    let names = by_event.filter_map(|channel| channel.splitn(2, |byte| *byte == b':').nth(1));
    names.map(|name| name.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
}
