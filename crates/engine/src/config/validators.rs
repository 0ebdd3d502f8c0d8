//! Checks of single directives that their kind cannot express. Each returns the text that the client sees.

use std::net::{Ipv4Addr, Ipv6Addr};

type Checked = Result<(), &'static str>;

fn refuse_when(refused: bool, text: &'static str) -> Checked {
    if refused { Err(text) } else { Ok(()) }
}

pub fn cluster_config_file(value: &[u8]) -> Checked {
    refuse_when(value.is_empty(), "cluster-config-file can't be empty")
}

pub fn db_filename(value: &[u8]) -> Checked {
    refuse_when(value.is_empty(), "dbfilename can't be empty")?;
    refuse_when(is_path(value), "dbfilename can't be a path, just a filename")
}

pub fn append_filename(value: &[u8]) -> Checked {
    refuse_when(value.is_empty(), "appendfilename can't be empty")?;
    refuse_when(is_path(value), "appendfilename can't be a path, just a filename")
}

pub fn append_dirname(value: &[u8]) -> Checked {
    refuse_when(value.is_empty(), "appenddirname can't be empty")?;
    refuse_when(is_path(value), "appenddirname can't be a path, just a dirname")
}

fn is_path(value: &[u8]) -> bool {
    value.contains(&b'/') || value.contains(&b'\\')
}

/// Letters, digits, hyphens and dots, at most 255 of them.
pub fn hostname(value: &[u8]) -> Checked {
    refuse_when(value.len() >= 256, "Hostnames must be less than 256 characters")?;
    refuse_when(
        !value.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.')),
        "Hostnames may only contain alphanumeric characters, hyphens or dots",
    )
}

/// Whether a text would split or quote a line of nodes.conf, where it stands between commas and spaces.
fn splits_a_node_line(value: &[u8]) -> bool {
    let unsafe_there = |c: &u8| b" !\"#$%&'()*+,;<=>?@[\\]^{|}~".contains(c) || c.is_ascii_control();
    value.iter().any(unsafe_there)
}

pub fn node_name(value: &[u8]) -> Checked {
    refuse_when(splits_a_node_line(value), "Announced human node name contained invalid character")
}

/// Length of an address that fits into a message of the bus.
const ANNOUNCED_IP_MAX: usize = 45;

pub fn announce_ip(value: &[u8]) -> Checked {
    refuse_when(value.len() > ANNOUNCED_IP_MAX, "cluster-announce-ip is too long")?;
    refuse_when(splits_a_node_line(value), "cluster-announce-ip contains invalid character")
}

pub fn ipv4(value: &[u8]) -> Checked {
    refuse_when(!value.is_empty() && parse_ip::<Ipv4Addr>(value).is_none(), "Invalid IPv4 address")
}

pub fn ipv6(value: &[u8]) -> Checked {
    refuse_when(!value.is_empty() && parse_ip::<Ipv6Addr>(value).is_none(), "Invalid IPv6 address")
}

fn parse_ip<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Checks that the locale has the order of bytes, the only one here: any character set of `C` and `POSIX`.
pub fn locale(value: &[u8]) -> Checked {
    let (name, set) = value.split_at(value.iter().position(|&c| c == b'.').unwrap_or(value.len()));
    let plain = |c: &u8| c.is_ascii_alphanumeric() || b"-.".contains(c);
    refuse_when(!matches!(name, b"" | b"C" | b"POSIX") || !set.iter().all(plain), "Invalid locale name")
}

/// Names that `proc-title-template` may put in braces.
pub const TITLE_VARIABLES: &[&str] =
    &["title", "listen-addr", "server-mode", "port", "tls-port", "unixsocket", "config-file"];

/// Checks that the braces close around known variables, and that something is left to show: title and socket may be
/// empty. `{{` is a brace.
pub fn title_template(value: &[u8]) -> Checked {
    const TEXT: &str = "template format is invalid or contains unknown variables";
    let mut rest = value;
    let mut shows = false;
    while let Some((&c, after)) = rest.split_first() {
        rest = after;
        if c != b'{' {
            shows |= !c.is_ascii_whitespace();
        } else if let Some(after) = rest.strip_prefix(b"{") {
            shows = true;
            rest = after;
        } else {
            let close = rest.iter().position(|&c| c == b'}').ok_or(TEXT)?;
            let name = &rest[..close];
            let known = TITLE_VARIABLES.iter().any(|known| known.as_bytes() == name);
            refuse_when(!known, TEXT)?;
            shows |= name != b"unixsocket" && name != b"title";
            rest = &rest[close + 1..];
        }
    }
    refuse_when(!shows, TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_have_names_of_a_form() {
        for name in ["", "C", "POSIX", "C.UTF-8"] {
            assert_eq!(locale(name.as_bytes()), Ok(()), "{name}");
        }
        for name in ["abc", "yes", "en_US", "de_AT.UTF-8", "1", "a b", "C/x", "C.a b"] {
            assert_eq!(locale(name.as_bytes()), Err("Invalid locale name"), "{name}");
        }
    }
}
