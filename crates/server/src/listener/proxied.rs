//! Connections that a proxy makes for its clients: the header, which comes before all else, names the client.

use crate::connection::socket::SocketStream;
use crate::listener::sockets::Accepted;
use resp::proxy_header::{Endpoints, HeaderError, decode, missing};
use std::io;

/// Bytes that are read at a time.
const READ_MAX: usize = 256;

/// The part of a header that has come.
#[derive(Debug, Default)]
pub struct HeaderReader {
    came: Vec<u8>,
}

impl HeaderReader {
    /// Reads on as far as the socket goes, and nothing of what is behind the header. None: more has to come.
    pub fn read(&mut self, stream: &mut SocketStream) -> io::Result<Option<Endpoints>> {
        let invalid = |error: HeaderError| io::Error::new(io::ErrorKind::InvalidData, error);
        loop {
            let missing = missing(&self.came).map_err(invalid)?;
            if missing == 0 {
                return decode(&self.came).map(Some).map_err(invalid);
            }
            let mut part = [0; READ_MAX];
            match stream.read(&mut part[..missing.min(READ_MAX)])? {
                None => return Ok(None),
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(n) => self.came.extend_from_slice(&part[..n]),
            }
        }
    }

    /// Returns whether nothing has come.
    pub fn is_empty(&self) -> bool {
        self.came.is_empty()
    }
}

/// Gives the connection the addresses of a proxy's client. It is local if both the proxy and the client are: a header
/// alone proves nothing.
pub fn pass_for(accepted: &mut Accepted, endpoints: Endpoints) {
    match endpoints {
        Endpoints::Connection => {}
        Endpoints::Tcp { source, destination } => {
            accepted.local &= source.ip().is_loopback();
            (accepted.addr, accepted.laddr) = (source.to_string(), destination.to_string());
        }
        Endpoints::Unix { source, destination } => {
            let path = if source.is_empty() { &destination } else { &source };
            (accepted.addr, accepted.laddr) = (unix_address(path), unix_address(&destination));
        }
    }
}

/// Returns the path as CLIENT LIST and the log show it, where each address is a word.
fn unix_address(path: &[u8]) -> String {
    let shown = |&byte: &u8| if byte.is_ascii_graphic() { char::from(byte) } else { '?' };
    path.iter().map(shown).chain(":0".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::sockets::Port;
    use mio::net::UnixStream;
    use std::io::{Read, Write};

    fn accepted(local: bool) -> (Accepted, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let stream = SocketStream::Unix(ours);
        (Accepted { stream, addr: "proxy:1".into(), laddr: "here:2".into(), local, port: Port::Resp }, theirs)
    }

    #[test]
    fn a_header_is_read_in_any_parts_and_nothing_behind_it() {
        let header = *b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x01\x02\x03\x04";
        for part in 1..=header.len() {
            let (mut accepted, mut theirs) = accepted(true);
            let (mut reader, mut found) = (HeaderReader::default(), None);
            for bytes in header.chunks(part) {
                assert_eq!((reader.read(&mut accepted.stream).unwrap(), &found), (None, &None));
                theirs.write_all(bytes).unwrap();
            }
            theirs.write_all(b"PING").unwrap();
            found = reader.read(&mut accepted.stream).unwrap();
            pass_for(&mut accepted, found.expect("a header"));
            assert_eq!([&accepted.addr[..], &accepted.laddr], ["1.2.3.4:258", "5.6.7.8:772"]);
            assert!(!accepted.local);
            let mut rest = [0; 9];
            assert_eq!(accepted.stream.read(&mut rest).unwrap(), Some(4));
        }
        let (mut accepted, mut theirs) = accepted(true);
        let mut reader = HeaderReader::default();
        theirs.write_all(b"PING\r\n").unwrap();
        assert_eq!(reader.read(&mut accepted.stream).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(accepted);
        // Unread bytes make the end a reset, on other sockets than this.
        assert!(!matches!(theirs.read(&mut [0; 4]), Ok(1..)));
    }

    #[test]
    fn no_client_becomes_local_by_a_header_or_has_an_address_of_two_words() {
        let tcp = |source: &str| Endpoints::Tcp {
            source: source.parse().unwrap(),
            destination: "5.6.7.8:1".parse().unwrap(),
        };
        for (endpoints, by_local, by_remote) in [
            (Endpoints::Connection, true, false),
            (tcp("127.0.0.1:1"), true, false),
            (tcp("[::1]:1"), true, false),
            (tcp("9.9.9.9:1"), false, false),
            (Endpoints::Unix { source: Vec::new(), destination: b"/a b\n".to_vec() }, true, false),
        ] {
            for (proxy, expected) in [(true, by_local), (false, by_remote)] {
                let (mut accepted, _theirs) = accepted(proxy);
                pass_for(&mut accepted, endpoints.clone());
                assert_eq!(accepted.local, expected, "{endpoints:?}");
                if matches!(endpoints, Endpoints::Unix { .. }) {
                    assert_eq!([&accepted.addr[..], &accepted.laddr], ["/a?b?:0"; 2]);
                }
            }
        }
    }
}
