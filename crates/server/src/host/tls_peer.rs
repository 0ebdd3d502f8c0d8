//! A connection to another server with TLS.

use crate::host::blocking_pool::Tcp;
use engine::host::peers::{Line, Peer};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The connection; its handshake is made with the first write or read.
pub struct TlsPeer(StreamOwned<ClientConnection, Tcp>);

impl TlsPeer {
    /// Puts TLS around a connection.
    pub fn new(tcp: Tcp, settings: Arc<ClientConfig>) -> io::Result<TlsPeer> {
        // Names are not compared, and none is sent.
        let nobody = ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let tls = ClientConnection::new(settings, nobody).map_err(io::Error::other)?;
        Ok(TlsPeer(StreamOwned::new(tls, tcp)))
    }
}

impl Peer for TlsPeer {
    fn set_patience(&mut self, patience: Duration) -> io::Result<()> {
        self.0.sock.set_patience(patience)
    }

    fn is_encrypted(&self) -> bool {
        true
    }

    fn local_end(&self) -> (String, i32) {
        self.0.sock.local_end()
    }

    fn line(&self) -> Option<Weak<dyn Line>> {
        self.0.sock.line()
    }
}

impl Read for TlsPeer {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for TlsPeer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
