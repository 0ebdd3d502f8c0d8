//! A connection that sends batches of commands and reads their replies.
//!
//! A thread of its own writes, so that a server which waits for its replies to be taken before it reads on cannot
//! bring both ends to a standstill.

use crate::grammar::Command;
use crate::value::Value;
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// A server that is silent for so long is taken for hung.
const SILENCE_MAX: Duration = Duration::from_secs(10);

pub struct Client {
    requests: Sender<Vec<u8>>,
    replies: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(addr: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        let mut writer = stream.try_clone()?;
        let (requests, incoming) = channel::<Vec<u8>>();
        // The thread ends with the client, or when the server closes; the reader sees that too and reports it.
        thread::spawn(move || {
            for batch in incoming {
                if writer.write_all(&batch).is_err() {
                    break;
                }
            }
        });
        Ok(Client { requests, replies: BufReader::with_capacity(1 << 16, stream) })
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.replies.get_ref().local_addr()
    }

    /// Hands a batch to the writer and returns at once.
    pub fn send<'a>(&mut self, commands: impl IntoIterator<Item = &'a Command>) {
        let mut batch = Vec::new();
        for command in commands {
            encode(command, &mut batch);
        }
        // When the writer has ended, reading fails and says why.
        let _ = self.requests.send(batch);
    }

    /// The next reply.
    pub fn receive(&mut self) -> io::Result<Value> {
        Value::read(&mut self.replies).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                io::Error::new(error.kind(), format!("nothing came for {} s", SILENCE_MAX.as_secs()))
            }
            _ => error,
        })
    }

    /// Sends one command and waits for its reply.
    pub fn call(&mut self, command: &Command) -> io::Result<Value> {
        self.send([command]);
        self.receive()
    }
}

fn encode(command: &Command, batch: &mut Vec<u8>) {
    batch.extend(format!("*{}\r\n", command.len()).into_bytes());
    for arg in command {
        batch.extend(format!("${}\r\n", arg.len()).into_bytes());
        batch.extend(arg);
        batch.extend(b"\r\n");
    }
}

/// A command written as words without spaces in them.
pub fn command(text: &str) -> Command {
    text.split_whitespace().map(|arg| arg.as_bytes().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn a_server_that_does_not_read_before_it_is_read_blocks_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = Client::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let large = vec![vec![b'x'; 32 << 20]];
        let mut wire = Vec::new();
        encode(&large, &mut wire);
        let server = thread::spawn(move || {
            server.write_all(b"$33554432\r\n").unwrap();
            server.write_all(&vec![b'y'; 32 << 20]).unwrap();
            server.write_all(b"\r\n").unwrap();
            let mut request = vec![0; wire.len()];
            server.read_exact(&mut request).unwrap();
            assert!(request == wire);
        });
        client.send([&large]);
        assert!(client.receive().unwrap() == Value::Bulk(vec![b'y'; 32 << 20]));
        server.join().unwrap();
    }
}
