//! The header that a proxy puts before a connection's first byte: PROXY protocol, version 2.
//!
//! ```text
//!   0D 0A 0D 0A 00 0D 0A 51 55 49 54 0A | 2 command | family protocol | length | addresses | TLVs: type length value
//! ```
//!
//! A header names the client of the proxy, in place of the addresses of the proxy's own connection. Its reader asks
//! [`missing`] how many bytes to read, so that none of the bytes behind it is taken.

use crc_fast::{CrcAlgorithm, Digest};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of a header at most. Proxies send some hundreds; certificates among the TLVs make it more.
pub const HEADER_MAX: usize = 8 << 10;

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of the beginning, which states the length of the rest.
const FIXED: usize = 16;
/// The beginning of a header of version 1, a line of text.
const TEXT_SIGNATURE: &[u8] = b"PROXY ";
/// The type of the TLV that has a checksum of the header.
const TLV_CRC32C: u8 = 3;
/// A TLV's type and length.
const TLV_HEAD: usize = 3;

/// The two ends of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoints {
    /// The connection's own ends: the proxy talks for itself, or knows no addresses.
    Connection,
    /// A client over TCP, and its destination.
    Tcp {
        /// The client.
        source: SocketAddr,
        /// The destination.
        destination: SocketAddr,
    },
    /// A client over a Unix socket, and the socket's path; often neither has one.
    Unix {
        /// The client's path.
        source: Vec<u8>,
        /// The path that it has connected to.
        destination: Vec<u8>,
    },
}

/// The reason that bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Another beginning.
    Signature,
    /// Version 1, or an unknown version.
    Version,
    /// A command that is neither LOCAL nor PROXY.
    Command,
    /// An unknown family or protocol.
    Family,
    /// More than [`HEADER_MAX`].
    TooLong,
    /// Addresses or a TLV end behind the header.
    Cut,
    /// An address that no client has.
    Address,
    /// A wrong checksum.
    Checksum,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeaderError::Signature => "no header of the PROXY protocol",
            HeaderError::Version => "a header of the PROXY protocol in another version than 2",
            HeaderError::Command => "a header of the PROXY protocol with an unknown command",
            HeaderError::Family => "a header of the PROXY protocol with an unknown address family",
            HeaderError::TooLong => "a header of the PROXY protocol that is too long",
            HeaderError::Cut => "a header of the PROXY protocol that ends early",
            HeaderError::Address => "a header of the PROXY protocol with a port of 0",
            HeaderError::Checksum => "a header of the PROXY protocol with a wrong checksum",
        })
    }
}

impl std::error::Error for HeaderError {}

/// Returns how many bytes have to be read before more is known of a header that begins with `came`; 0 when it is
/// complete.
///
/// # Errors
/// The bytes cannot become a header.
pub fn missing(came: &[u8]) -> Result<usize, HeaderError> {
    let known = came.len().min(SIGNATURE.len());
    if came[..known] != SIGNATURE[..known] {
        let is_text = came.starts_with(TEXT_SIGNATURE);
        return Err(if is_text { HeaderError::Version } else { HeaderError::Signature });
    }
    let Some(&[version_and_command, _, high, low]) = came.get(SIGNATURE.len()..FIXED) else {
        return Ok(FIXED - came.len());
    };
    if version_and_command >> 4 != 2 {
        return Err(HeaderError::Version);
    }
    let whole = FIXED + usize::from(u16::from_be_bytes([high, low]));
    if whole > HEADER_MAX {
        return Err(HeaderError::TooLong);
    }
    Ok(whole.saturating_sub(came.len()))
}

/// Reads a header of which no byte is [`missing`], and without bytes behind it.
///
/// # Errors
/// The bytes are no header.
pub fn decode(header: &[u8]) -> Result<Endpoints, HeaderError> {
    if missing(header)? > 0 {
        return Err(HeaderError::Cut);
    }
    let (fixed, rest) = header.split_at(FIXED);
    match fixed[SIGNATURE.len()] & 0xF {
        // The rest is ignored, whatever its family.
        0 => return Ok(Endpoints::Connection),
        1 => {}
        _ => return Err(HeaderError::Command),
    }
    let family = fixed[SIGNATURE.len() + 1];
    let len = match family {
        0x00 => 0,
        0x11 | 0x12 => 12,
        0x21 | 0x22 => 36,
        0x31 | 0x32 => 216,
        _ => return Err(HeaderError::Family),
    };
    let (addresses, tlvs) = rest.split_at_checked(len).ok_or(HeaderError::Cut)?;
    // Without addresses the rest may be anything but TLVs.
    if len > 0 {
        verify(header, tlvs)?;
    }
    let (hosts, ports) = addresses.split_at(addresses.len().saturating_sub(4));
    let (source, destination) = hosts.split_at(hosts.len() / 2);
    match family {
        0x11 => tcp(ip_v4(source), ip_v4(destination), ports),
        0x21 => tcp(ip_v6(source), ip_v6(destination), ports),
        0x31 => {
            let (source, destination) = addresses.split_at(len / 2);
            Ok(Endpoints::Unix { source: path(source), destination: path(destination) })
        }
        // Addresses of datagrams do not belong to a connection.
        _ => Ok(Endpoints::Connection),
    }
}

fn ip_v4(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes).ok().map(|bytes| Ipv4Addr::from(bytes).into())
}

/// Parses an IPv6 address; an IPv4 address in the form of one counts as IPv4.
fn ip_v6(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).to_canonical())
}

fn tcp(source: Option<IpAddr>, destination: Option<IpAddr>, ports: &[u8]) -> Result<Endpoints, HeaderError> {
    let (Some(source), Some(destination), &[a, b, c, d]) = (source, destination, ports) else {
        return Err(HeaderError::Cut);
    };
    let [from, to] = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
    if from == 0 {
        return Err(HeaderError::Address);
    }
    Ok(Endpoints::Tcp { source: SocketAddr::new(source, from), destination: SocketAddr::new(destination, to) })
}

/// Returns the bytes up to the first zero byte.
fn path(bytes: &[u8]) -> Vec<u8> {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
}

/// Verifies that all TLVs end where the header does, and that a checksum among them is right.
fn verify(header: &[u8], mut tlvs: &[u8]) -> Result<(), HeaderError> {
    while !tlvs.is_empty() {
        let (head, rest) = tlvs.split_at_checked(TLV_HEAD).ok_or(HeaderError::Cut)?;
        let len = usize::from(u16::from_be_bytes([head[1], head[2]]));
        let (value, rest) = rest.split_at_checked(len).ok_or(HeaderError::Cut)?;
        if head[0] == TLV_CRC32C {
            let expected = u32::from_be_bytes(value.try_into().map_err(|_| HeaderError::Cut)?);
            if checksum(header, header.len() - rest.len() - value.len()) != expected {
                return Err(HeaderError::Checksum);
            }
        }
        tlvs = rest;
    }
    Ok(())
}

/// Returns the header's checksum, which lies at `at` and is taken as zeros.
fn checksum(header: &[u8], at: usize) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&header[..at]);
    digest.update(&[0; 4]);
    digest.update(&header[at + 4..]);
    digest.finalize() as u32
}

/// Fuzz hook: a reader that reads any bytes as from a socket finds a header or an error, and the same when it reads
/// them again.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    let (mut at, mut reads) = (0, 0);
    loop {
        match missing(&data[..at]) {
            Ok(0) => break,
            Ok(more) if at + more <= data.len() => (at, reads) = (at + more, reads + 1),
            Ok(_) | Err(_) => {
                assert!(decode(&data[..at]).is_err());
                return;
            }
        }
    }
    assert!(at <= HEADER_MAX && reads <= 2, "{at} bytes in {reads} reads");
    let found = decode(&data[..at]);
    assert_eq!(decode(&data[..at]), found);
    if let Ok(Endpoints::Tcp { source, destination }) = found {
        assert!(source.port() != 0);
        assert_eq!(decode(&encode(source, destination)), found);
    }
}

/// Returns a header with a checksum, as a proxy writes it.
#[cfg(any(test, feature = "fuzzing"))]
fn encode(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let (family, mut rest) = match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => (0x11, [source.octets(), destination.octets()].concat()),
        (source, destination) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            (0x21, [octets(source), octets(destination)].concat())
        }
    };
    rest.extend(source.port().to_be_bytes());
    rest.extend(destination.port().to_be_bytes());
    rest.extend([TLV_CRC32C, 0, 4, 0, 0, 0, 0]);
    let mut header = SIGNATURE.to_vec();
    header.extend([0x21, family]);
    header.extend((rest.len() as u16).to_be_bytes());
    header.extend(rest);
    let at = header.len() - 4;
    let sum = checksum(&header, at);
    header[at..].copy_from_slice(&sum.to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let len = (rest.len() as u16).to_be_bytes();
        [&SIGNATURE[..], &[command, family], &len, rest].concat()
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// 1.2.3.4:258 to 5.6.7.8:772
    const V4: [u8; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4];

    #[test]
    fn a_client_has_the_addresses_of_the_header() {
        let tcp =
            |source, destination| Ok(Endpoints::Tcp { source: address(source), destination: address(destination) });
        assert_eq!(decode(&header(0x21, 0x11, &V4)), tcp("1.2.3.4:258", "5.6.7.8:772"));
        let mut v6 = [0; 36];
        (v6[15], v6[16], v6[31]) = (1, 0x20, 2);
        v6[32..].copy_from_slice(&[0, 80, 0, 81]);
        assert_eq!(decode(&header(0x21, 0x21, &v6)), tcp("[::1]:80", "[2000::2]:81"));
        (v6[10], v6[11], v6[15]) = (255, 255, 9);
        assert_eq!(decode(&header(0x21, 0x21, &v6)), tcp("0.0.0.9:80", "[2000::2]:81"));
        let mut unix = [0; 216];
        unix[..4].copy_from_slice(b"/a\0b");
        unix[108..].fill(b'x');
        let endpoints = Endpoints::Unix { source: b"/a".to_vec(), destination: vec![b'x'; 108] };
        assert_eq!(decode(&header(0x21, 0x31, &unix)), Ok(endpoints));
    }

    #[test]
    fn a_proxy_that_talks_for_itself_or_knows_nobody_has_its_own_addresses() {
        for (command, family, rest) in [
            (0x20, 0x00, &b""[..]),
            (0x20, 0x11, &V4),
            (0x20, 0xFF, b"whatever"),
            (0x21, 0x00, b""),
            (0x21, 0x00, b"whatever"),
            (0x21, 0x12, &V4),
        ] {
            assert_eq!(decode(&header(command, family, rest)), Ok(Endpoints::Connection), "{command:x} {family:x}");
        }
    }

    #[test]
    fn a_malformed_header_is_refused_as_early_as_can_be() {
        let early = |bytes: &[u8]| missing(bytes).err();
        assert_eq!(early(b"*1\r\n$4\r\nPING\r\n"), Some(HeaderError::Signature));
        assert_eq!(early(b"\r\n\r\n\0\r\nQUIT\r"), Some(HeaderError::Signature));
        assert_eq!(early(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"), Some(HeaderError::Version));
        assert_eq!(early(&header(0x11, 0x11, &V4)), Some(HeaderError::Version));
        assert_eq!(early(&header(0x21, 0x11, &[0; HEADER_MAX - FIXED + 1])), Some(HeaderError::TooLong));
        for (header, error) in [
            (header(0x22, 0x11, &V4), HeaderError::Command),
            (header(0x2F, 0x11, &V4), HeaderError::Command),
            (header(0x21, 0x10, &V4), HeaderError::Family),
            (header(0x21, 0x13, &V4), HeaderError::Family),
            (header(0x21, 0x41, &V4), HeaderError::Family),
            (header(0x21, 0x11, &V4[..11]), HeaderError::Cut),
            (header(0x21, 0x21, &V4), HeaderError::Cut),
            (header(0x21, 0x11, &[&V4[..8], &[0; 4]].concat()), HeaderError::Address),
            (header(0x21, 0x11, &[&V4[..], &[4, 0]].concat()), HeaderError::Cut),
            (header(0x21, 0x11, &[&V4[..], &[4, 0, 2, 1]].concat()), HeaderError::Cut),
            (header(0x21, 0x11, &[&V4[..], &[TLV_CRC32C, 0, 3, 1, 2, 3]].concat()), HeaderError::Cut),
        ] {
            assert_eq!(decode(&header), Err(error));
            assert_eq!(decode(&header[..header.len() - 1]), Err(HeaderError::Cut));
        }
    }

    #[test]
    fn the_checksum_is_that_of_the_specification() {
        // "123456789" has a well-known checksum; here the four bytes that count as zeros cut it.
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        digest.update(b"123456789");
        assert_eq!(digest.finalize(), 0xE306_9283);
        let mut right = encode(address("1.2.3.4:5"), address("[::1]:6"));
        assert!(decode(&right).is_ok());
        right.extend([4, 0, 1, 7]);
        let len = (right.len() - FIXED) as u16;
        right[14..FIXED].copy_from_slice(&len.to_be_bytes());
        assert_eq!(decode(&right), Err(HeaderError::Checksum), "all of the header is in it");
    }

    proptest! {
        #[test]
        fn headers_are_read_as_they_were_written(
            source: IpAddr, destination: IpAddr, from in 1u16.., to: u16, at in 0usize..64, bit in 0u8..8,
        ) {
            let [source, destination] = [(source, from), (destination, to)]
                .map(|(ip, port)| SocketAddr::new(ip.to_canonical(), port));
            let mut header = encode(source, destination);
            prop_assert_eq!(missing(&header), Ok(0));
            prop_assert_eq!(decode(&header), Ok(Endpoints::Tcp { source, destination }));
            fuzz(&header);
            let at = FIXED + at % (header.len() - FIXED);
            header[at] ^= 1 << bit;
            fuzz(&header);
            // Another type of the TLV means that there is no checksum.
            prop_assert!(at == header.len() - 7 || decode(&header).is_err());
        }

        #[test]
        fn any_bytes_are_a_header_or_an_error(
            command: u8, family: u8, len: u16, rest in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            fuzz(&rest);
            fuzz(&[&SIGNATURE[..], &rest].concat());
            fuzz(&[&SIGNATURE[..], &[command, family], &(len % 300).to_be_bytes(), &rest].concat());
        }
    }
}
