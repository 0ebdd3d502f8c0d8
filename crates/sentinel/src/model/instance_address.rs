//! Where an instance is: the name that it was given by, and its numeric address.

use std::net::IpAddr;

/// Host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// As it was given; a number, too, perhaps.
    pub hostname: String,
    /// Numeric; empty as long as the name is not known.
    pub ip: String,
    /// Port; an instance at port 0 is never connected to.
    pub port: u16,
}

/// Why there is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressError {
    /// No port has that number.
    Port,
    /// No host has that name.
    Host,
}

impl Address {
    /// The same port, and the same host by number or by name.
    pub fn is_same(&self, other: &Address) -> bool {
        self.port == other.port && (self.ip == other.ip || self.hostname.eq_ignore_ascii_case(&other.hostname))
    }
}

/// A number in its usual form, if the text is one.
pub(crate) fn numeric(host: &str) -> Option<String> {
    host.parse::<IpAddr>().ok().map(|ip| ip.to_string())
}

/// `host:port`, with brackets where the host has colons.
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
    }
}
