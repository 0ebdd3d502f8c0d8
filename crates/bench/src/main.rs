//! cinnabar-floor: a server that only counts requests and answers `+OK` to each.
//!
//! A client's measurement against it is the cost of sockets alone: epoll, read, write, the network stack. No server
//! that reads and writes a socket this way can be faster, so a real server's throughput can be read as its distance
//! from this.
//!
//! The server is one thread and one epoll. A turn reads a ready connection once, unless that filled the buffer, counts
//! the requests ([`count::RequestCounter`]) and answers all of them with one write of a prepared block of `+OK`s.
//! Nothing is copied, stored or looked up.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

mod count;

use count::RequestCounter;
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use slab::Slab;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

const USAGE: &str = "usage: cinnabar-floor [--port PORT]\n\
                     Answers +OK to every request on 127.0.0.1, port 6379 by default, and does nothing else.";
const DEFAULT_PORT: u16 = 6379;
const LISTENER: Token = Token(usize::MAX);
/// Bytes that one read takes, at most.
const READ_MAX: usize = 64 << 10;
const REPLY: &[u8] = b"+OK\r\n";
/// Replies that one write sends, at most.
const WRITE_REPLIES: usize = 4096;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(port) = parse_arguments(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match serve(port) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("cinnabar-floor: port {port}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse_arguments(arguments: &[String]) -> Option<u16> {
    match arguments {
        [] => Some(DEFAULT_PORT),
        [option, port] if option == "--port" => port.parse().ok(),
        _ => None,
    }
}

fn serve(port: u16) -> io::Result<std::convert::Infallible> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut floor = Floor {
        connections: Slab::new(),
        input: vec![0; READ_MAX].into_boxed_slice(),
        replies: REPLY.repeat(WRITE_REPLIES).into_boxed_slice(),
    };
    let mut events = Events::with_capacity(1024);
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other?,
        }
        for event in &events {
            match event.token() {
                LISTENER => floor.accept(&poll, &listener)?,
                Token(index) => floor.turn(index, event),
            }
        }
    }
}

struct Floor {
    connections: Slab<Connection>,
    input: Box<[u8]>,
    /// [`WRITE_REPLIES`] replies.
    replies: Box<[u8]>,
}

struct Connection {
    stream: TcpStream,
    counter: RequestCounter,
    /// Bytes of replies that are owed. They end with a whole reply.
    owed: usize,
}

/// The end of a turn.
enum Turn {
    /// The socket has no more input, or takes no more output: its next event resumes the turn.
    Wait,
    Closed,
}

impl Floor {
    fn accept(&mut self, poll: &Poll, listener: &TcpListener) -> io::Result<()> {
        loop {
            match listener.accept() {
                Ok((mut stream, _)) => {
                    stream.set_nodelay(true)?;
                    let place = self.connections.vacant_entry();
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    poll.registry().register(&mut stream, Token(place.key()), interest)?;
                    place.insert(Connection { stream, counter: RequestCounter::default(), owed: 0 });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The client closed before it was served.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn turn(&mut self, index: usize, event: &Event) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let is_first_writable = event.is_writable() && !event.is_readable() && connection.owed == 0;
        if is_first_writable {
            return;
        }
        if let Ok(Turn::Closed) | Err(_) = connection.turn(&mut self.input, &self.replies) {
            self.connections.remove(index);
        }
    }
}

impl Connection {
    fn turn(&mut self, input: &mut [u8], replies: &[u8]) -> io::Result<Turn> {
        loop {
            if !self.pay(replies)? {
                return Ok(Turn::Wait);
            }
            let read = match self.stream.read(input) {
                Ok(0) => return Ok(Turn::Closed),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Turn::Wait),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.owed += self.counter.count(&input[..read]) * REPLY.len();
            if read < input.len() {
                // The socket is drained: bytes that arrive from now on make a new event.
                self.pay(replies)?;
                return Ok(Turn::Wait);
            }
        }
    }

    /// Writes the replies that are owed; false when the socket takes no more for now.
    fn pay(&mut self, replies: &[u8]) -> io::Result<bool> {
        while self.owed > 0 {
            // The owed bytes begin at the right place within a reply.
            let start = (REPLY.len() - self.owed % REPLY.len()) % REPLY.len();
            let end = replies.len().min(start + self.owed);
            match self.stream.write(&replies[start..end]) {
                Ok(written) => self.owed -= written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_a_port_and_nothing_else() {
        let parse = |words: &[&str]| parse_arguments(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>());
        assert_eq!(parse(&[]), Some(DEFAULT_PORT));
        assert_eq!(parse(&["--port", "7000"]), Some(7000));
        assert_eq!(parse(&["--port", "70000"]), None);
        assert_eq!(parse(&["--threads", "2"]), None);
    }

    /// A client that sends without waiting gets every reply, whole.
    #[test]
    fn answers_each_request_once() {
        const REQUESTS: usize = 200_000;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let mut writer = client.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            let requests = b"*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\nPING\r\n".repeat(REQUESTS / 2);
            writer.write_all(&requests).unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let server = std::thread::spawn(move || {
            // The client blocks, so that turns need no events.
            let mut connection =
                Connection { stream: TcpStream::from_std(stream), counter: RequestCounter::default(), owed: 0 };
            let (mut input, replies) = (vec![0; 1000], REPLY.repeat(7));
            while let Turn::Wait = connection.turn(&mut input, &replies).unwrap() {}
        });
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        sender.join().unwrap();
        server.join().unwrap();
        assert!(received == REPLY.repeat(REQUESTS), "{} bytes", received.len());
    }
}
