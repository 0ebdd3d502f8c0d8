//! A blocking connection besides the load: commands in, decoded replies out.

use crate::load_generator::Encryption;
use crate::load_socket::connected;
use crate::options::Options;
use cinnabar_tls::client_stream::ClientStream;
use resp::address::Target;
use resp::reply_value::{DecodeError, Decoder};
use resp::{Value, encode_command};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Reason why a reply cannot be read.
#[derive(Debug)]
pub enum LinkError {
    Io(io::Error),
    /// The server closed the connection.
    Closed,
    /// The bytes are no reply.
    Protocol(DecodeError),
}

/// See the module's documentation.
pub struct ServerLink {
    stream: Box<dyn ReadWrite>,
    decoder: Decoder,
    pending: Vec<u8>,
}

impl ServerLink {
    /// Connects; a read that takes longer than `patience` fails.
    pub fn open(
        options: &Options,
        encryption: Option<Encryption>,
        patience: Option<Duration>,
    ) -> io::Result<ServerLink> {
        let stream: Box<dyn ReadWrite> = match &options.target {
            Target::Tcp { host, port } => {
                let mut outcome = Err(ErrorKind::AddrNotAvailable.into());
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    outcome = connected(address, options.multipath);
                    if outcome.is_ok() {
                        break;
                    }
                }
                let stream: TcpStream = outcome?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(patience)?;
                match encryption {
                    Some((settings, name)) => Box::new(ClientStream::connect(stream, settings, name)?),
                    None => Box::new(stream),
                }
            }
            Target::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(patience)?;
                Box::new(stream)
            }
        };
        Ok(ServerLink { stream, decoder: Decoder::new(), pending: Vec::new() })
    }

    /// Sends commands.
    ///
    /// # Errors
    ///
    /// The socket's.
    pub fn send<'a>(&mut self, commands: impl IntoIterator<Item = &'a Vec<Vec<u8>>>) -> io::Result<()> {
        let mut bytes = Vec::new();
        for command in commands {
            encode_command(&mut bytes, command);
        }
        self.stream.write_all(&bytes)
    }

    /// Returns the next reply.
    ///
    /// # Errors
    ///
    /// `Io` with `WouldBlock` or `TimedOut` once the patience has ended.
    pub fn receive(&mut self) -> Result<Value, LinkError> {
        let mut buffer = [0; 4096];
        loop {
            if let Some((value, used)) = self.decoder.decode(&self.pending).map_err(LinkError::Protocol)? {
                self.pending.drain(..used);
                return Ok(value);
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(count) => self.pending.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(LinkError::Io(error)),
            }
        }
    }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}
