//! A session in the book protocol, printed as the clients of its tutorials print:
//!
//! ```text
//! (nil)   (str) v   (int) 1   (dbl) 1.5   (err) 1 text
//! (arr) len=2
//! (str) a
//! (dbl) 1
//! (arr) end
//! ```
//!
//! The server closes connections that are idle for a few seconds. A command is therefore sent on a new connection when
//! the old one has been closed, and that is no error.

use std::os::fd::BorrowedFd;
use std::thread;

use resp::book::{BookValue, decode_reply, encode_request};
use resp::{Value, format_double};

use crate::options::Options;
use crate::protocol_client::{Client, ClientFailure};
use crate::resp_session::RespSession;
use crate::transport::{Interrupts, Transport, TransportEvent, print, reason};
use resp::address::Target;

#[derive(Debug)]
pub struct BookSession {
    options: Options,
    link: Option<Transport>,
    /// Bytes received and not yet decoded.
    received: Vec<u8>,
    interrupts: Option<Interrupts>,
}

impl BookSession {
    pub fn new(options: Options, interrupts: Option<Interrupts>) -> BookSession {
        BookSession { options, link: None, received: Vec::new(), interrupts }
    }

    fn run_once(&mut self, request: &[u8]) -> Result<(), ClientFailure> {
        if self.link.as_ref().is_none_or(Transport::is_closed) {
            self.connect(None)?;
        }
        let lost = |error: std::io::Error| ClientFailure::Lost(reason(&error));
        let link = self.link.as_mut().ok_or_else(closed)?;
        link.send(request).map_err(lost)?;
        let value = loop {
            let decoded = decode_reply(&self.received).map_err(|error| ClientFailure::Lost(error.to_string()))?;
            if let Some((value, length)) = decoded {
                self.received.drain(..length);
                break value;
            }
            if link.wait(self.interrupts.as_mut(), None).map_err(lost)? == TransportEvent::Interrupt {
                return Err(ClientFailure::Interrupted);
            }
            if link.receive(&mut self.received).map_err(lost)? == 0 {
                return Err(closed());
            }
        };
        if let BookValue::Err(code, text) = &value
            && self.options.errors_are_fatal
            && self.interrupts.is_none()
        {
            return Err(ClientFailure::ErrorReply(format!("(err) {code} {}", String::from_utf8_lossy(text))));
        }
        let mut out = Vec::new();
        format(&mut out, &value);
        print(&out);
        Ok(())
    }
}

impl Client for BookSession {
    fn prompt(&self) -> String {
        match self.link {
            Some(_) => format!("{}> ", self.options.target),
            None => "not connected> ".to_owned(),
        }
    }

    fn connect(&mut self, target: Option<Target>) -> Result<(), ClientFailure> {
        self.link = None;
        self.received.clear();
        if let Some(target) = target {
            self.options.target = target;
        }
        let target = &self.options.target;
        let refused =
            |error| ClientFailure::Connect(format!("Could not connect to server at {target}: {}", reason(&error)));
        self.link = Some(Transport::connect(&self.options).map_err(refused)?);
        Ok(())
    }

    fn run(&mut self, arguments: &[Vec<u8>], repeat: i64) -> Result<(), ClientFailure> {
        let mut request = Vec::new();
        encode_request(&mut request, arguments).map_err(|error| ClientFailure::Unsendable(error.to_string()))?;
        let mut done = 0;
        while repeat < 0 || done < repeat {
            done = done.saturating_add(1);
            if let Err(failure) = self.run_once(&request) {
                self.link = None;
                return Err(failure);
            }
            thread::sleep(self.options.interval);
        }
        Ok(())
    }

    /// The protocol has no such command.
    fn command_docs(&mut self) -> Option<Value> {
        None
    }

    fn command_table(&mut self) -> Option<Value> {
        None
    }

    /// The protocol has no messages.
    fn is_subscribed(&self) -> bool {
        false
    }

    fn resp_session(&mut self) -> Option<&mut RespSession> {
        None
    }

    fn print_messages(&mut self, _input: Option<BorrowedFd<'_>>) -> Result<(), ClientFailure> {
        Ok(())
    }
}

fn format(out: &mut Vec<u8>, value: &BookValue) {
    match value {
        BookValue::Nil => out.extend(b"(nil)"),
        BookValue::Err(code, text) => {
            out.extend(format!("(err) {code} ").into_bytes());
            out.extend(text);
        }
        BookValue::Str(bytes) => {
            out.extend(b"(str) ");
            out.extend(bytes);
        }
        BookValue::Int(number) => out.extend(format!("(int) {number}").into_bytes()),
        BookValue::Dbl(number) => {
            out.extend(b"(dbl) ");
            out.extend(format_double(*number).as_bytes());
        }
        BookValue::Arr(items) => {
            out.extend(format!("(arr) len={}\n", items.len()).into_bytes());
            for item in items {
                format(out, item);
            }
            out.extend(b"(arr) end");
        }
    }
    out.push(b'\n');
}

fn closed() -> ClientFailure {
    ClientFailure::Lost("Server closed the connection".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_as_in_the_tutorials() {
        let items = vec![
            BookValue::Nil,
            BookValue::Err(3, b"expect zset".to_vec()),
            BookValue::Str(b"a\xff b".to_vec()),
            BookValue::Int(-1),
            BookValue::Dbl(1.5),
            BookValue::Dbl(2.0),
            BookValue::Arr(Vec::new()),
        ];
        let mut out = Vec::new();
        format(&mut out, &BookValue::Arr(items));
        let expected = b"(arr) len=7\n(nil)\n(err) 3 expect zset\n(str) a\xff b\n(int) -1\n(dbl) 1.5\n(dbl) 2\n\
            (arr) len=0\n(arr) end\n(arr) end\n";
        assert_eq!(out, expected);
    }
}
