//! The address of a server in the form of the command-line tools: host and port, the path of a socket, or a URI.
//!
//! ```text
//! valkey://[[user]:password@][host[:port]][/database]        valkeys, redis, rediss; an IPv6 host stands in brackets
//! ```
//!
//! User and password are percent-encoded. A part that is left out is `None`, for the caller's defaults. No name is
//! looked up and no connection opened here.

use std::fmt;
use std::net::Ipv6Addr;

/// The address at which a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A TCP port.
    Tcp {
        /// The host's name or address, without brackets.
        host: String,
        /// The port's number.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(String),
}

/// Writes `host:port` with brackets around an IPv6 host, or the socket's path.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Tcp { host, port } if host.parse::<Ipv6Addr>().is_ok() => write!(f, "[{host}]:{port}"),
            Target::Tcp { host, port } => write!(f, "{host}:{port}"),
            Target::Unix(path) => f.write_str(path),
        }
    }
}

/// A URI's description of a server and its user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uri {
    /// The host; None where the URI leaves it out, as with all fields.
    pub host: Option<String>,
    /// The TCP port.
    pub port: Option<u16>,
    /// The user's name, with `%` escapes resolved.
    pub user: Option<Vec<u8>>,
    /// The password, with `%` escapes resolved.
    pub password: Option<Vec<u8>>,
    /// The number of the database.
    pub database: Option<u32>,
    /// `valkeys` or `rediss`: the connection is encrypted.
    pub tls: bool,
}

/// The reason that a text is no such URI, in words for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UriError(pub &'static str);

impl Uri {
    /// Reads `valkey://user:password@host:port/database`; `redis://` is the same.
    ///
    /// # Errors
    /// Another scheme, a bad escape, port or database.
    pub fn parse(text: &str) -> Result<Uri, UriError> {
        let mut uri = Uri::default();
        let (scheme, rest) = text.split_once("://").ok_or(UriError("Invalid URI scheme"))?;
        match scheme.to_ascii_lowercase().as_str() {
            "valkey" | "redis" => {}
            "valkeys" | "rediss" => uri.tls = true,
            _ => return Err(UriError("Invalid URI scheme")),
        }
        let (login, rest) = rest.split_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
        if let Some(login) = login {
            let (user, password) = login.split_once(':').map_or((None, login), |(user, rest)| (Some(user), rest));
            uri.user = user.filter(|user| !user.is_empty()).map(percent_decode).transpose()?;
            uri.password = Some(percent_decode(password)?);
        }
        let (address, database) = rest.split_once('/').unwrap_or((rest, ""));
        // An IPv6 address has colons of its own.
        let (host, port) = match address.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
        };
        uri.host = Some(host).filter(|host| !host.is_empty()).map(str::to_owned);
        uri.port = port.map(|port| port.parse().map_err(|_| UriError("Invalid server port."))).transpose()?;
        if !database.is_empty() {
            uri.database = Some(database.parse().map_err(|_| UriError("Invalid database number."))?);
        }
        Ok(uri)
    }
}

fn percent_decode(text: &str) -> Result<Vec<u8>, UriError> {
    let mut decoded = Vec::new();
    let mut rest = text.as_bytes();
    loop {
        match rest {
            [] => return Ok(decoded),
            [b'%', high, low, tail @ ..] => {
                let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                let byte = digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low);
                decoded.push(byte.ok_or(UriError("Illegal character in URI encoding"))?);
                rest = tail;
            }
            [b'%', ..] => return Err(UriError("Incomplete URI encoding")),
            [byte, tail @ ..] => {
                decoded.push(*byte);
                rest = tail;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_may_be_left_out() {
        let whole = Uri {
            host: Some("db.example".into()),
            port: Some(7000),
            user: Some(b"al".to_vec()),
            password: Some(b"p@ss".to_vec()),
            database: Some(3),
            tls: false,
        };
        assert_eq!(Uri::parse("Redis://al:p%40ss@db.example:7000/3"), Ok(whole));
        assert_eq!(Uri::parse("valkey://"), Ok(Uri::default()));
        assert_eq!(Uri::parse("valkey:///2"), Ok(Uri { database: Some(2), ..Uri::default() }));
        assert_eq!(Uri::parse("rediss://"), Ok(Uri { tls: true, ..Uri::default() }));
        let ipv6 = Uri { host: Some("::1".into()), port: Some(7), ..Uri::default() };
        assert_eq!(Uri::parse("valkey://[::1]:7"), Ok(ipv6));
        let password = Uri { password: Some(b"secret".to_vec()), ..Uri::default() };
        assert_eq!(Uri::parse("valkey://secret@"), Ok(password.clone()));
        assert_eq!(Uri::parse("valkey://:secret@"), Ok(password));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (text, error) in [
            ("db.example", "Invalid URI scheme"),
            ("http://a", "Invalid URI scheme"),
            ("redis://%4@a", "Incomplete URI encoding"),
            ("redis://%+4@a", "Illegal character in URI encoding"),
            ("redis://a:70000", "Invalid server port."),
            ("redis://a/x", "Invalid database number."),
        ] {
            assert_eq!(Uri::parse(text), Err(UriError(error)), "{text}");
        }
    }

    #[test]
    fn a_target_reads_as_it_is_typed() {
        let tcp = |host: &str| Target::Tcp { host: host.to_owned(), port: 7 }.to_string();
        assert_eq!((tcp("a"), tcp("::1")), ("a:7".to_owned(), "[::1]:7".to_owned()));
        assert_eq!(Target::Unix("/tmp/s".to_owned()).to_string(), "/tmp/s");
    }
}
