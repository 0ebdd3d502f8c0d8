//! One connection's TLS, as bytes: received records become plaintext, plaintext becomes records.
//!
//! ```text
//!   came ----> open: whole records -> plaintext: as far as there is room, the rest is kept  (plain)
//!                    a part of one -> kept until the rest has come                          (partial)
//!                    the handshake -> answers                                               (sealed)
//!   replies -> seal -> records
//! ```
//!
//! A connection between two records uses no memory here: the buffers are freed when they are empty.

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{Error, ServerConfig};
use std::sync::Arc;

/// Plaintext of a record, at most.
pub const RECORD_MAX: usize = 16 << 10;
/// Bytes of a record beside its plaintext, at most; and a change of keys that precedes it.
const OVERHEAD: usize = 256;

/// Returns the room that records with so much plaintext need at most, in so many pieces.
pub const fn sealed_max(plain: usize, pieces: usize) -> usize {
    plain + (plain / RECORD_MAX + pieces + 1) * OVERHEAD
}

/// A connection's state and its unfinished input and output.
pub struct Records {
    tls: UnbufferedServerConnection,
    /// An incomplete record of the input.
    partial: Vec<u8>,
    /// Plaintext for which there was no room, and how much of it was taken.
    plain: Vec<u8>,
    taken: usize,
    /// Records to be sent: the protocol's own messages, and bytes that the socket did not take.
    pub sealed: Vec<u8>,
    /// The peer has announced that it sends no more.
    ended: bool,
}

impl Records {
    /// Returns the state of a connection before the first byte.
    ///
    /// # Errors
    /// No connection can be made with these settings.
    pub fn new(settings: Arc<ServerConfig>) -> Result<Records, Error> {
        let tls = UnbufferedServerConnection::new(settings)?;
        Ok(Records { tls, partial: Vec::new(), plain: Vec::new(), taken: 0, sealed: Vec::new(), ended: false })
    }

    /// Returns whether the handshake is still under way.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Returns whether the peer has announced that it sends no more, and all that it sent was taken.
    pub fn has_ended(&self) -> bool {
        self.ended && self.plain.is_empty()
    }

    /// Records that the peer sends no more, without an announcement.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Returns whether there is plaintext that the caller has not taken.
    pub fn has_plain(&self) -> bool {
        !self.plain.is_empty()
    }

    /// Returns the certificate that the peer has shown, which is verified.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        self.tls.peer_certificates().and_then(|chain| chain.first()).map(|certificate| certificate.as_ref())
    }

    /// Returns the bytes of memory of its buffers.
    pub fn memory(&self) -> usize {
        self.partial.capacity() + self.plain.capacity() + self.sealed.capacity()
    }

    /// Returns the input that has to lie before the next bytes, when they are opened.
    pub fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Takes plaintext that there was no room for.
    pub fn take_plain(&mut self, to: &mut [u8]) -> usize {
        let n = to.len().min(self.plain.len() - self.taken);
        to[..n].copy_from_slice(&self.plain[self.taken..self.taken + n]);
        self.taken += n;
        if self.taken == self.plain.len() {
            (self.plain, self.taken) = (Vec::new(), 0);
        }
        n
    }

    /// Opens `came`: the [`partial`](Self::partial) input, and the bytes received since. Returns how many bytes of
    /// plaintext were put in `to`; the caller must have taken all plaintext opened before. An error ends the
    /// connection; the sealed bytes then inform the peer.
    ///
    /// # Errors
    /// The bytes are not allowed from a peer of this connection.
    pub fn open(&mut self, came: &mut [u8], to: &mut [u8]) -> Result<usize, Error> {
        let (mut at, mut filled) = (0, 0);
        let result = loop {
            let UnbufferedStatus { mut discard, state } = self.tls.process_tls_records(&mut came[at..]);
            let goes_on = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
                    let record = match traffic.next_record() {
                        Some(Ok(record)) => record,
                        Some(Err(error)) => break Err(error),
                        None => break Ok(true),
                    };
                    discard += record.discard;
                    let n = record.payload.len().min(to.len() - filled);
                    to[filled..filled + n].copy_from_slice(&record.payload[..n]);
                    filled += n;
                    self.plain.extend_from_slice(&record.payload[n..]);
                },
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(&mut self.sealed, |room| data.encode(room));
                    Ok(true)
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    Ok(true)
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    self.ended = true;
                    // Bytes behind the end are ignored.
                    discard = came.len() - at;
                    Ok(false)
                }
                Ok(_) => Ok(false),
                Err(error) => Err(error),
            };
            at += discard;
            match goes_on {
                Ok(true) => {}
                Ok(false) => break Ok(filled),
                Err(error) => break Err(error),
            }
        };
        self.partial = Vec::from(&came[at..]);
        if result.is_err() {
            self.seal_alert();
        }
        result
    }

    /// Seals the protocol's message about an error, for the peer.
    fn seal_alert(&mut self) {
        if let Ok(ConnectionState::EncodeTlsData(mut data)) = self.tls.process_tls_records(&mut self.partial).state {
            append(&mut self.sealed, |room| data.encode(room));
        }
    }

    /// Makes records of `plain` in `to`, which has the room of [`sealed_max`]. Returns their bytes; sealed bytes go
    /// before them.
    ///
    /// # Errors
    /// There is no room, or the connection may send no more.
    pub fn seal(&mut self, plain: &[u8], to: &mut [u8]) -> Result<usize, Error> {
        self.write(|traffic| match traffic {
            ConnectionState::WriteTraffic(mut traffic) => Some(traffic.encrypt(plain, to)),
            _ => None,
        })
    }

    /// Makes the record in `to` that announces the end.
    ///
    /// # Errors
    /// The errors of [`seal`](Self::seal).
    pub fn seal_end(&mut self, to: &mut [u8]) -> Result<usize, Error> {
        self.write(|traffic| match traffic {
            ConnectionState::WriteTraffic(mut traffic) => Some(traffic.queue_close_notify(to)),
            _ => None,
        })
    }

    fn write(
        &mut self,
        write: impl FnOnce(
            ConnectionState<'_, '_, rustls::server::ServerConnectionData>,
        ) -> Option<Result<usize, EncryptError>>,
    ) -> Result<usize, Error> {
        loop {
            match self.tls.process_tls_records(&mut self.partial).state? {
                ConnectionState::EncodeTlsData(mut data) => append(&mut self.sealed, |room| data.encode(room)),
                ConnectionState::TransmitTlsData(data) => data.done(),
                state => {
                    let failed = |why: &str| Error::General(why.to_owned());
                    return match write(state) {
                        Some(result) => result.map_err(|error| failed(&error.to_string())),
                        None => Err(failed("nothing may be sent now")),
                    };
                }
            }
        }
    }
}

/// Adds the bytes that `encode` writes, which returns the room that it needs.
fn append(sealed: &mut Vec<u8>, mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>) {
    let len = sealed.len();
    let written = match encode(&mut []) {
        Err(EncodeError::InsufficientSize(needed)) => {
            sealed.resize(len + needed.required_size, 0);
            encode(&mut sealed[len..]).unwrap_or(0)
        }
        Ok(written) => written,
        Err(EncodeError::AlreadyEncoded) => 0,
    };
    sealed.truncate(len + written);
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keys and plaintext are left out.
        f.debug_struct("Records").field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// Fuzz hook: any bytes, from a peer without TLS; or a client's, of which one byte is changed on its way. The first
/// bytes select the case. However they are cut, no byte is taken for plaintext that the client has not sent.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    use crate::testing::{give, open, pair, sent};
    use std::io::Write;

    let Some((&[mode, part, low, high, change], rest)) = data.split_first_chunk() else { return };
    let (part, room) = (1 + usize::from(part), 1 + usize::from(mode >> 1));
    if mode & 1 == 0 {
        let fails = |part| open(&mut pair(None).0, rest, part, room).is_err();
        return assert_eq!(fails(part), fails(rest.len().max(1)));
    }
    let (mut records, mut client) = pair(None);
    let mut left = Some(usize::from(u16::from_le_bytes([low, high]) % 3000));
    let mut alter = |mut flight: Vec<u8>| {
        left = left.and_then(|at| match flight.get_mut(at) {
            Some(byte) => {
                *byte ^= change;
                None
            }
            None => Some(at - flight.len()),
        });
        flight
    };
    while records.is_handshaking() || client.is_handshaking() {
        let flight = alter(sent(&mut client));
        match open(&mut records, &flight, part, room) {
            Ok(plain) => assert!(plain.is_empty()),
            Err(_) => return,
        }
        let answer = std::mem::take(&mut records.sealed);
        if give(&mut client, &answer).is_err() || flight.is_empty() && answer.is_empty() {
            return;
        }
    }
    client.writer().write_all(rest).expect("a vector takes everything");
    let whole = sent(&mut client);
    let flight = alter(whole.clone());
    match open(&mut records, &flight, part, room) {
        Ok(plain) if flight == whole => assert!(plain == rest && records.memory() == 0),
        Ok(plain) => assert!(rest.starts_with(&plain)),
        Err(_) => assert!(flight != whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{give, open, pair, sent};
    use proptest::prelude::*;
    use rustls::ClientConnection;
    use std::io::Write;

    fn shaken(part: usize, fragment: Option<usize>) -> (Records, ClientConnection) {
        let (mut records, mut client) = pair(fragment);
        while records.is_handshaking() || client.is_handshaking() {
            assert!(open(&mut records, &sent(&mut client), part, 10).unwrap().is_empty());
            let answer = std::mem::take(&mut records.sealed);
            assert!(give(&mut client, &answer).unwrap().is_empty());
        }
        (records, client)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn bytes_go_both_ways_however_they_are_cut(
            part in 1usize..40_000,
            room in 1usize..20_000,
            fragment in prop_oneof![Just(None), (64usize..2000).prop_map(Some)],
            lens in prop::collection::vec(0usize..70_000, 1..4),
        ) {
            let (mut records, mut client) = shaken(part, fragment);
            for len in lens {
                let text: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
                let mut left = &text[..];
                let mut came = Vec::new();
                while !left.is_empty() {
                    left = &left[client.writer().write(left).unwrap()..];
                    came.extend(sent(&mut client));
                }
                prop_assert!(open(&mut records, &came, part, room).unwrap() == text);
                prop_assert_eq!(records.memory(), 0, "an idle connection keeps nothing");
                let mut sealed = vec![0; sealed_max(len, 1)];
                let n = records.seal(&text, &mut sealed).unwrap();
                prop_assert!(give(&mut client, &sealed[..n]).unwrap() == text);
            }
            client.send_close_notify();
            prop_assert!(open(&mut records, &sent(&mut client), part, room).unwrap().is_empty() && records.has_ended());
            let mut end = [0; sealed_max(2, 1)];
            let n = records.seal_end(&mut end).unwrap();
            prop_assert!(give(&mut client, &end[..n]).unwrap().is_empty() && n > 0);
        }

        #[test]
        fn any_bytes_are_taken(mut data in prop::collection::vec(any::<u8>(), 5..600), is_client: bool) {
            data[0] = u8::from(is_client);
            fuzz(&data);
        }

        #[test]
        fn nonsense_is_an_error_or_waits(bytes in prop::collection::vec(any::<u8>(), 0..600), at in 0usize..600, byte: u8) {
            let (mut records, _) = pair(None);
            let _ = open(&mut records, &bytes, 100, 10);
            let (mut records, mut client) = pair(None);
            let mut hello = sent(&mut client);
            let len = hello.len();
            hello[at % len] = byte;
            let _ = open(&mut records, &hello, 100, 10);
            prop_assert!(records.is_handshaking());
        }
    }

    #[test]
    fn a_forged_record_ends_the_connection() {
        let (mut records, mut client) = shaken(1000, None);
        client.writer().write_all(b"PING").unwrap();
        let mut came = sent(&mut client);
        came[7] ^= 1;
        assert!(open(&mut records, &came, 1000, 10).is_err());
        assert!(!records.sealed.is_empty(), "the peer is told");
    }
}
