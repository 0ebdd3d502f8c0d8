//! One connection's stream that does not block: TCP, TLS or a Unix socket.

use crate::load_generator::Plan;
use cinnabar_tls::client_stream::ClientStream;
use cinnabar_tls::multipath::connect_multipath;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use resp::address::Target;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<ClientStream<TcpStream>>),
}

/// Returns a connection, over several paths if it may.
pub fn connected(address: SocketAddr, multipath: bool) -> io::Result<std::net::TcpStream> {
    if multipath { connect_multipath(address, None) } else { std::net::TcpStream::connect(address) }
}

impl Socket {
    /// Connects to the first of a name's addresses that answers, and from then on does not block.
    pub fn connect(plan: &Plan<'_>, target: &Target, registry: &Registry, token: Token) -> io::Result<Socket> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        Ok(match target {
            Target::Tcp { host, port } => {
                let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
                let found = (host.as_str(), *port)
                    .to_socket_addrs()?
                    .find_map(|address| connected(address, plan.multipath).map_err(|error| last = error).ok());
                let stream = found.ok_or(last)?;
                stream.set_nodelay(true)?;
                if let Some((settings, name)) = plan.tls {
                    let stream = ClientStream::connect(stream, Arc::clone(settings), name.clone())?;
                    let mut stream = stream.map(|stream| {
                        stream.set_nonblocking(true)?;
                        Ok(TcpStream::from_std(stream))
                    })?;
                    registry.register(stream.socket_mut(), token, interest)?;
                    return Ok(Socket::Tls(Box::new(stream)));
                }
                stream.set_nonblocking(true)?;
                let mut stream = TcpStream::from_std(stream);
                registry.register(&mut stream, token, interest)?;
                Socket::Tcp(stream)
            }
            Target::Unix(path) => {
                let stream = std::os::unix::net::UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                let mut stream = UnixStream::from_std(stream);
                registry.register(&mut stream, token, interest)?;
                Socket::Unix(stream)
            }
        })
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
            Socket::Tls(stream) => stream.read(buffer),
        }
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
            Socket::Tls(stream) => stream.write(bytes),
        }
    }

    /// Sends bytes that are encrypted already, as far as the socket takes them.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Socket::Tls(stream) => stream.flush().or_else(|error| match error.kind() {
                ErrorKind::WouldBlock => Ok(()),
                _ => Err(error),
            }),
            _ => Ok(()),
        }
    }

    /// Returns whether a read that found less than it had room for has emptied the socket.
    pub fn is_plain(&self) -> bool {
        !matches!(self, Socket::Tls(_))
    }
}
