//! The address of an instance: its configured name, and its numeric address.

use std::net::{IpAddr, Ipv4Addr};

/// Host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The configured text; perhaps a number, too.
    pub hostname: String,
    /// Numeric; empty as long as the name is not known.
    pub ip: String,
    /// Port; an instance at port 0 is never connected to.
    pub port: u16,
}

/// The reason that there is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressError {
    /// No port has that number.
    Port,
    /// No host has that name.
    Host,
}

impl Address {
    /// Returns whether the port is equal, and the host by number or by name.
    pub fn is_same(&self, other: &Address) -> bool {
        self.port == other.port && (self.ip == other.ip || self.hostname.eq_ignore_ascii_case(&other.hostname))
    }
}

/// Returns a number in its usual form, if the text is one.
pub(crate) fn numeric(host: &str) -> Option<String> {
    host.parse::<IpAddr>().ok().or_else(|| short_ipv4(host).map(IpAddr::V4)).map(|ip| ip.to_string())
}

/// Parses an address of IPv4 in fewer than four parts or in other bases, as `inet_aton` does: the last part fills the
/// rest.
fn short_ipv4(host: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u32> = host.split('.').map(part).collect::<Option<_>>()?;
    let (last, bytes) = parts.split_last().filter(|(_, bytes)| bytes.len() < 4)?;
    let room = 32 - 8 * bytes.len() as u32;
    if bytes.iter().any(|byte| *byte > 0xff) || last.checked_shr(room).is_some_and(|rest| rest > 0) {
        return None;
    }
    let high = bytes.iter().zip([24, 16, 8]).fold(0, |sum, (byte, shift)| sum | byte << shift);
    Some(Ipv4Addr::from(high | last))
}

/// Parses a number in decimal, in octal behind 0, in hexadecimal behind 0x.
fn part(text: &str) -> Option<u32> {
    let (digits, base) = match text.strip_prefix('0') {
        Some("") | None => (text, 10),
        Some(rest) => rest.strip_prefix(['x', 'X']).map_or((rest, 8), |digits| (digits, 16)),
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, base).ok().filter(|_| is_number)
}

/// Returns `host:port`, with brackets if the host has colons.
pub(crate) fn joined(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_instances() {
        assert_eq!(joined("127.0.0.1", 1), "127.0.0.1:1");
        assert_eq!(joined("::1", 1), "[::1]:1");
        assert_eq!(numeric("0:0::1").as_deref(), Some("::1"));
        assert_eq!(numeric("localhost"), None);
        for (short, whole) in [
            ("127.1", Some("127.0.0.1")),
            ("127.2.3", Some("127.2.0.3")),
            ("2130706433", Some("127.0.0.1")),
            ("0x7f.1", Some("127.0.0.1")),
            ("0177.0.0.010", Some("127.0.0.8")),
            ("1.65536", Some("1.1.0.0")),
            ("256.1", None),
            ("1.16777216", None),
            ("4294967296", None),
            ("1.2.3.4.5", None),
            ("1..2", None),
            ("", None),
            ("+1", None),
            ("0x", None),
            ("08", None),
        ] {
            assert_eq!(numeric(short).as_deref(), whole, "{short}");
        }
    }
}
