//! A connection to another server, from here or to here, as held by the thread of a Sentinel or of a cluster's bus.

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// The connection, from the moment on that it is asked for.
pub struct Peer {
    stream: TcpStream,
    /// Bytes not sent yet; with TLS they are in there.
    output: Vec<u8>,
    tls: Option<Box<Connection>>,
    /// Bytes that TLS was given since it had sent all.
    given: usize,
    is_open: bool,
}

/// Bytes that may wait to be sent: a peer that takes so few is not well.
const OUTPUT_MAX: usize = 16 << 20;

impl Peer {
    /// Asks for a connection, from the address `source` if it is not empty and can be had.
    pub fn open(ip: &str, port: u16, source: &str, tls: Option<Arc<ClientConfig>>) -> io::Result<Peer> {
        let unknown = || io::Error::from(ErrorKind::InvalidInput);
        let address = SocketAddr::new(ip.parse().map_err(|_| unknown())?, port);
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if !source.is_empty()
            && let Some(own) = (source, 0).to_socket_addrs()?.find(|own| own.is_ipv4() == address.is_ipv4())
        {
            // A source that cannot be had is passed over, as with all connections to other servers.
            let _ = socket.bind(&own.into());
        }
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(nix::errno::Errno::EINPROGRESS as i32) => return Err(error),
            _ => {}
        }
        let stream = TcpStream::from_std(socket.into());
        let tls = tls.map(|settings| encrypted(settings, address)).transpose()?;
        Ok(Peer { stream, output: Vec::new(), tls, given: 0, is_open: false })
    }

    /// Wraps a connection that another server has made.
    pub fn accepted(stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> io::Result<Peer> {
        // The option is a wish: a connection without it still works.
        let _ = stream.set_nodelay(true);
        let tls = tls.map(|settings| ServerConnection::new(settings).map_err(io::Error::other)).transpose()?;
        let tls = tls.map(|tls| limited(tls.into()));
        Ok(Peer { stream, output: Vec::new(), tls, given: 0, is_open: true })
    }

    /// Has the system end the connection once the other host takes nothing, or does not answer, for so long.
    pub fn end_when_unheard(&self, time: Duration) {
        let socket = SockRef::from(&self.stream);
        let third = (time / 3).max(Duration::from_secs(1));
        let times = TcpKeepalive::new().with_time(third).with_interval(third).with_retries(3);
        // The options are wishes: a connection without them still works.
        let _ = socket.set_tcp_keepalive(&times);
        #[cfg(target_os = "linux")]
        let _ = socket.set_tcp_user_timeout(Some(time));
    }

    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.stream, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Returns the address on this side, once: when the connection has just opened.
    pub fn opened(&mut self) -> io::Result<Option<String>> {
        if self.is_open {
            return Ok(None);
        }
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(None),
            result => result?,
        };
        self.is_open = true;
        Ok(Some(self.stream.local_addr()?.ip().to_string()))
    }

    /// Sends bytes, now or as soon as it can.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.writer().write_all(bytes)?;
            self.given += bytes.len();
            return self.flush();
        }
        let sent = if self.output.is_empty() { self.send_some(bytes)? } else { 0 };
        self.output.extend_from_slice(&bytes[sent..]);
        if self.output.len() > OUTPUT_MAX {
            return Err(ErrorKind::OutOfMemory.into());
        }
        self.flush()
    }

    /// Gives bytes to the socket. Returns how many it takes now.
    fn send_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        while self.is_open && sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    /// Returns the bytes that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.output.len() + self.given
    }

    pub fn flush(&mut self) -> io::Result<()> {
        while let Some(tls) = self.tls.as_mut().filter(|tls| self.is_open && tls.wants_write()) {
            match tls.write_tls(&mut self.stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => _ = result?,
            }
        }
        if self.tls.as_ref().is_some_and(|tls| !tls.is_handshaking() && !tls.wants_write()) {
            self.given = 0;
        }
        let output = std::mem::take(&mut self.output);
        let sent = self.send_some(&output)?;
        self.output = output;
        self.output.drain(..sent);
        Ok(())
    }

    /// Returns whether all bytes that were given to it have gone.
    pub fn is_drained(&self) -> bool {
        self.waiting() == 0
    }

    /// Returns all bytes that are there, and whether more may come.
    pub fn read(&mut self) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        let is_open = self.read_some(&mut bytes, usize::MAX).is_ok();
        (bytes, is_open)
    }

    /// Reads about `most` of the bytes that are there; true if there may be more now. An error: the connection has
    /// ended.
    pub fn read_some(&mut self, bytes: &mut Vec<u8>, most: usize) -> io::Result<bool> {
        if let Some(tls) = &mut self.tls {
            let more = read_records(tls, &mut self.stream, bytes, most)?;
            self.flush()?;
            return Ok(more);
        }
        let mut part = [0; 16 << 10];
        while bytes.len() < most {
            match self.stream.read(&mut part) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => bytes.extend_from_slice(&part[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Creates the TLS state of a connection to this address, with a limit of bytes that wait.
fn encrypted(settings: Arc<ClientConfig>, address: SocketAddr) -> io::Result<Box<Connection>> {
    let tls = ClientConnection::new(settings, address.ip().into()).map_err(io::Error::other)?;
    Ok(limited(tls.into()))
}

fn limited(mut tls: Connection) -> Box<Connection> {
    tls.set_buffer_limit(Some(OUTPUT_MAX));
    Box::new(tls)
}

/// Takes about `most` of the bytes that have come; true if there may be more now, an error at the end of the
/// connection.
fn read_records(tls: &mut Connection, stream: &mut TcpStream, bytes: &mut Vec<u8>, most: usize) -> io::Result<bool> {
    while bytes.len() < most {
        match tls.read_tls(stream) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            result => _ = result?,
        }
        tls.process_new_packets().map_err(io::Error::other)?;
        match tls.reader().read_to_end(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            result => _ = result?,
        }
    }
    Ok(true)
}
