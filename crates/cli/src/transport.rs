//! The byte stream to the server, TCP, TLS or Unix socket, and the events that end the wait for its next bytes.
//!
//! Reads block. While a person sits in front, Ctrl-C must end the wait without ending the program, so every wait
//! polls two descriptors: the socket, and a pipe that a SIGINT handler writes to ([`Interrupts`]). Without such a pipe
//! (one command, or commands from a file) SIGINT keeps its default effect.
//!
//! With TLS the socket does not block: two threads may have the stream, and neither waits while it has the lock.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags};

use cinnabar_tls::client_stream::ClientStream;
use cinnabar_tls::multipath::connect_multipath;
use resp::address::Target;

use crate::options::Options;

/// Bytes asked for in one read.
const READ_SIZE: usize = 16 * 1024;

/// A version of the internet protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersion {
    Four,
    Six,
}

/// SIGINT as a readable descriptor.
#[derive(Debug)]
pub struct Interrupts {
    pipe: UnixStream,
}

impl Interrupts {
    /// Catches SIGINT, which no longer ends the program from then on.
    pub fn catch() -> io::Result<Interrupts> {
        let (pipe, write_end) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGINT, write_end)?;
        Ok(Interrupts { pipe })
    }

    /// Clears the interrupts so far; returns whether there were any.
    fn take(&mut self) -> bool {
        let mut bytes = [0; 64];
        let mut any = false;
        while matches!(self.pipe.read(&mut bytes), Ok(count) if count > 0) {
            any = true;
        }
        any
    }
}

/// Event that ended a wait.
#[derive(Debug, PartialEq, Eq)]
pub enum TransportEvent {
    /// The server sent bytes or closed the connection.
    Server,
    Interrupt,
    /// Something can be read from standard input.
    Input,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls { stream: Arc<Mutex<ClientStream<TcpStream>>>, socket: TcpStream },
}

type TlsGuard<'s> = MutexGuard<'s, ClientStream<TcpStream>>;

fn locked(stream: &Mutex<ClientStream<TcpStream>>) -> TlsGuard<'_> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connected stream.
#[derive(Debug)]
pub struct Transport {
    socket: Socket,
}

impl Transport {
    /// Connects to the first of a name's addresses that answers, those of the preferred version first, each within the
    /// timeout if there is one.
    pub fn connect(options: &Options) -> io::Result<Transport> {
        let socket = match &options.target {
            Target::Tcp { host, port } => {
                let addresses = resolve(options, host, *port)?;
                let stream = first_connected(&addresses, options)?;
                stream.set_nodelay(true)?;
                rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
                if options.tls.enabled { encrypted(stream, options)? } else { Socket::Tcp(stream) }
            }
            Target::Unix(path) => Socket::Unix(UnixStream::connect(path)?),
        };
        Ok(Transport { socket })
    }

    /// Returns the same connection once more, for another thread.
    pub fn try_clone(&self) -> io::Result<Transport> {
        let socket = match &self.socket {
            Socket::Tcp(stream) => Socket::Tcp(stream.try_clone()?),
            Socket::Unix(stream) => Socket::Unix(stream.try_clone()?),
            Socket::Tls { stream, socket } => Socket::Tls { stream: Arc::clone(stream), socket: socket.try_clone()? },
        };
        Ok(Transport { socket })
    }

    /// Sends all of `bytes`. A closed peer is an error, not a SIGPIPE.
    pub fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if let Socket::Tls { stream, socket } = &self.socket {
            while !bytes.is_empty() {
                let count = unblocked(socket, PollFlags::OUT, || locked(stream).write(bytes))?;
                bytes = bytes.get(count..).unwrap_or_default();
            }
            return unblocked(socket, PollFlags::OUT, || locked(stream).flush());
        }
        while !bytes.is_empty() {
            match rustix::net::send(self.descriptor(), bytes, SendFlags::NOSIGNAL) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Appends what the server sent to `buffer`; 0 at the end of the stream. Blocks until there is something.
    pub fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let mut chunk = [0; READ_SIZE];
        let count = loop {
            let result = match &mut self.socket {
                Socket::Tcp(stream) => stream.read(&mut chunk),
                Socket::Unix(stream) => stream.read(&mut chunk),
                Socket::Tls { stream, socket } => unblocked(socket, PollFlags::IN, || locked(stream).read(&mut chunk)),
            };
            match result {
                // A server that ends TLS without a closing message has ended all the same.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break 0,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        buffer.extend(&chunk[..count]);
        Ok(count)
    }

    /// Returns whether bytes of the server have been read already, which the descriptor does not show.
    pub fn has_received(&self) -> bool {
        matches!(&self.socket, Socket::Tls { stream, .. } if locked(stream).has_plain())
    }

    /// Waits for the server, for an interrupt and, when `input` is given, for that descriptor.
    pub fn wait(
        &self,
        interrupts: Option<&mut Interrupts>,
        input: Option<BorrowedFd<'_>>,
    ) -> io::Result<TransportEvent> {
        let Some(interrupts) = interrupts.filter(|_| !self.has_received()) else {
            return Ok(TransportEvent::Server);
        };
        loop {
            let (from_server, from_input) = {
                let mut descriptors = vec![
                    PollFd::from_borrowed_fd(self.descriptor(), PollFlags::IN),
                    PollFd::from_borrowed_fd(interrupts.pipe.as_fd(), PollFlags::IN),
                ];
                descriptors.extend(input.map(|input| PollFd::from_borrowed_fd(input, PollFlags::IN)));
                match poll(&mut descriptors, None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
                (is_ready(descriptors.first()), is_ready(descriptors.get(2)))
            };
            if interrupts.take() {
                return Ok(TransportEvent::Interrupt);
            }
            if from_server {
                return Ok(TransportEvent::Server);
            }
            if from_input {
                return Ok(TransportEvent::Input);
            }
        }
    }

    /// Returns whether the server has closed the connection, as far as is known without waiting.
    pub fn is_closed(&self) -> bool {
        if let Socket::Tls { stream, .. } = &self.socket {
            return locked(stream).has_ended();
        }
        let mut byte = [0; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(self.descriptor(), &mut byte[..], flags) {
            Ok((count, _)) => count == 0,
            Err(error) => error != rustix::io::Errno::AGAIN && error != rustix::io::Errno::INTR,
        }
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
            Socket::Tls { socket, .. } => socket.as_fd(),
        }
    }
}

/// Returns the addresses of a name, those of the preferred version first.
pub fn resolve(options: &Options, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let mut addresses: Vec<_> = (host, port).to_socket_addrs()?.collect();
    let first = options.preferred_ip;
    addresses.sort_by_key(|address| first.is_some_and(|first| address.is_ipv4() != (first == IpVersion::Four)));
    Ok(addresses)
}

/// Returns the stream with TLS around it, after the handshake.
fn encrypted(stream: TcpStream, options: &Options) -> io::Result<Socket> {
    stream.set_read_timeout(options.connect_timeout)?;
    let settings = options.tls.settings().map_err(io::Error::other)?;
    let name = options.tls.server_name().map_err(io::Error::other)?;
    let stream = ClientStream::connect(stream, settings, name)?;
    let socket = stream.socket().try_clone()?;
    socket.set_nonblocking(true)?;
    Ok(Socket::Tls { stream: Arc::new(Mutex::new(stream)), socket })
}

/// Retries as soon as the socket is ready for `what`, until the work does not have to wait.
fn unblocked<T>(socket: &TcpStream, what: PollFlags, mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match work() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
        match poll(&mut [PollFd::from_borrowed_fd(socket.as_fd(), what)], None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns a connection to the first of the addresses that answers.
fn first_connected(addresses: &[SocketAddr], options: &Options) -> io::Result<TcpStream> {
    let mut outcome = Err(io::ErrorKind::AddrNotAvailable.into());
    for address in addresses {
        outcome = match options.connect_timeout {
            timeout if options.multipath => connect_multipath(*address, timeout),
            Some(timeout) => TcpStream::connect_timeout(address, timeout),
            None => TcpStream::connect(address),
        };
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// Returns whether a read will not block: the descriptor is readable, closed or broken.
fn is_ready(descriptor: Option<&PollFd<'_>>) -> bool {
    descriptor.is_some_and(|descriptor| !descriptor.revents().is_empty())
}

/// Returns the operating system's text of `error`, without Rust's additions.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text.to_owned(),
    }
}

/// Returns whether the terminal is of a kind that shows colors.
pub fn has_colors() -> bool {
    std::env::var("TERM").is_ok_and(|term| term.contains("xterm"))
}

/// Writes to standard output at once. A reader that has gone away ends the program, as it ends any filter.
pub fn print(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    if stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err() {
        std::process::exit(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{Request, Surroundings, parse};
    use std::net::TcpListener;

    fn pair() -> (Transport, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let line = [b"-p".to_vec(), port.to_string().into_bytes()];
        let Ok(Request::Run(options)) = parse(&line, Surroundings::default()) else { panic!("a valid line") };
        let link = Transport::connect(&options).unwrap();
        (link, listener.accept().unwrap().0)
    }

    #[test]
    fn carries_bytes_and_sees_the_end() {
        let (mut link, mut server) = pair();
        assert!(!link.is_closed());
        link.send(b"hello").unwrap();
        let mut bytes = [0; 5];
        server.read_exact(&mut bytes).unwrap();
        server.write_all(&bytes).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(link.receive(&mut buffer).unwrap(), 5);
        assert_eq!(buffer, b"hello");
        drop(server);
        assert_eq!(link.receive(&mut buffer).unwrap(), 0);
        assert!(link.is_closed());
    }

    #[test]
    fn a_wait_ends_with_what_is_ready() {
        let (link, mut server) = pair();
        let mut interrupts = Interrupts::catch().unwrap();
        let (input, mut typed) = UnixStream::pair().unwrap();
        typed.write_all(b"x").unwrap();
        assert_eq!(link.wait(Some(&mut interrupts), Some(input.as_fd())).unwrap(), TransportEvent::Input);
        server.write_all(b"y").unwrap();
        assert_eq!(link.wait(Some(&mut interrupts), None).unwrap(), TransportEvent::Server);
        signal_hook::low_level::raise(signal_hook::consts::SIGINT).unwrap();
        assert_eq!(link.wait(Some(&mut interrupts), None).unwrap(), TransportEvent::Interrupt);
        assert_eq!(link.wait(Some(&mut interrupts), None).unwrap(), TransportEvent::Server);
    }

    #[test]
    fn reasons_are_those_of_the_operating_system() {
        assert_eq!(reason(&io::Error::from_raw_os_error(111)), "Connection refused");
    }
}
