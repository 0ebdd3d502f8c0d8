//! A client's TLS over a socket that does not block.

use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

/// A socket and its TLS. Reading and writing end with `WouldBlock` where the socket does.
#[derive(Debug)]
pub struct ClientStream<S> {
    tls: ClientConnection,
    socket: S,
}

impl<S: Read + Write> ClientStream<S> {
    /// Performs the handshake over a socket that still blocks.
    ///
    /// # Errors
    /// The error of the socket, or of the handshake.
    pub fn connect(
        mut socket: S,
        settings: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<ClientStream<S>> {
        let mut tls = ClientConnection::new(settings, name).map_err(io::Error::other)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(ClientStream { tls, socket })
    }

    /// Returns the socket.
    pub fn socket(&self) -> &S {
        &self.socket
    }

    /// Replaces the socket by another form of it.
    ///
    /// # Errors
    /// The errors of `change`.
    pub fn map<T>(self, change: impl FnOnce(S) -> io::Result<T>) -> io::Result<ClientStream<T>> {
        Ok(ClientStream { tls: self.tls, socket: change(self.socket)? })
    }

    /// Returns the socket, to be changed.
    pub fn socket_mut(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Returns whether plaintext can be read without the socket.
    pub fn has_plain(&mut self) -> bool {
        self.tls.process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
    }

    /// Returns whether the server has closed the connection, as far as a socket that does not block shows it.
    pub fn has_ended(&mut self) -> bool {
        let read = self.tls.read_tls(&mut self.socket);
        let is_over = match read {
            Ok(count) => count == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        let nothing_left = |state: rustls::IoState| state.plaintext_bytes_to_read() == 0;
        match self.tls.process_new_packets() {
            Ok(state) => (is_over || state.peer_has_closed()) && nothing_left(state),
            Err(_) => true,
        }
    }

    /// Returns whether sealed bytes wait for the socket to take them.
    pub fn has_sealed(&self) -> bool {
        self.tls.wants_write()
    }

    /// Writes the waiting bytes.
    ///
    /// # Errors
    /// The error of the socket.
    pub fn send(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl<S: Read + Write> Read for ClientStream<S> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(to) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result,
            }
            if self.tls.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            let result = self.tls.process_new_packets();
            // The protocol's answer waits for the next time if the socket is full.
            match self.send() {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
            result.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
    }
}

impl<S: Read + Write> Write for ClientStream<S> {
    /// Takes bytes as soon as all before them have gone.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send()?;
        let taken = self.tls.writer().write(bytes)?;
        match self.send() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_options::ClientOptions;
    use rcgen::{CertificateParams, KeyPair};
    use rustls::crypto::ring;
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use rustls::{ServerConfig, ServerConnection, StreamOwned};
    use std::net::{TcpListener, TcpStream};
    use std::thread::{self, JoinHandle};

    /// Starts a server that echoes its input, and returns the file with its certificate, too.
    fn echo() -> (u16, std::path::PathBuf, JoinHandle<()>) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["db.example".to_owned()]).unwrap().self_signed(&key).unwrap();
        let path = std::env::temp_dir().join(format!("cinnabar-tls-{}.crt", std::process::id()));
        std::fs::write(&path, certificate.pem()).unwrap();
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let settings = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let settings = Arc::new(settings.with_single_cert(vec![certificate.der().clone()], key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let serve = move || {
            for stream in listener.incoming().take(3) {
                let tls = ServerConnection::new(Arc::clone(&settings)).unwrap();
                let mut stream = StreamOwned::new(tls, stream.unwrap());
                let mut buffer = vec![0; 50_000];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    stream.write_all(&buffer[..count]).unwrap();
                    if buffer[..count].ends_with(b"bye") {
                        stream.conn.send_close_notify();
                        let _ = stream.flush();
                        break;
                    }
                }
            }
        };
        (port, path, thread::spawn(serve))
    }

    #[test]
    fn bytes_come_back_from_a_server_that_is_trusted() {
        let (port, path, server) = echo();
        let connect = |options: ClientOptions| {
            let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            ClientStream::connect(stream, options.settings().unwrap(), options.server_name().unwrap())
        };
        let authorities = Some(path.to_string_lossy().into_owned());
        let trusting = ClientOptions { authorities, ..ClientOptions::default() };
        let mut stream = connect(trusting).unwrap();
        let text: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).chain(*b"bye").collect();
        stream.socket().set_nonblocking(true).unwrap();
        let (mut sent, mut came, mut buffer) = (0, Vec::new(), vec![0; 1000]);
        while came.len() < text.len() {
            if sent < text.len() {
                sent += stream.write(&text[sent..]).unwrap_or(0);
            }
            let _ = stream.flush();
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                came.extend_from_slice(&buffer[..count]);
            }
        }
        assert!(came == text && !stream.has_plain());
        while !stream.has_ended() {
            thread::yield_now();
        }
        assert!(connect(ClientOptions { insecure: true, ..ClientOptions::default() }).is_ok());
        let other = other_certificate();
        let stranger = ClientOptions { authorities: Some(other.clone()), ..ClientOptions::default() };
        assert!(connect(stranger).is_err(), "another has signed it");
        server.join().unwrap();
        [path, other.into()].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }

    /// Returns a certificate that no server shows.
    fn other_certificate() -> String {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
        let path = std::env::temp_dir().join(format!("cinnabar-tls-{}-other.crt", std::process::id()));
        std::fs::write(&path, certificate.pem()).unwrap();
        path.to_string_lossy().into_owned()
    }
}
