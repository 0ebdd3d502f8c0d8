//! Checks of single directives that their kind cannot express. Each answers the text that the client sees.

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
    refuse_when(
        is_path(value),
        "dbfilename can't be a path, just a filename",
    )
}

pub fn append_filename(value: &[u8]) -> Checked {
    refuse_when(value.is_empty(), "appendfilename can't be empty")?;
    refuse_when(
        is_path(value),
        "appendfilename can't be a path, just a filename",
    )
}

pub fn append_dirname(value: &[u8]) -> Checked {
    refuse_when(value.is_empty(), "appenddirname can't be empty")?;
    refuse_when(
        is_path(value),
        "appenddirname can't be a path, just a dirname",
    )
}

fn is_path(value: &[u8]) -> bool {
    value.contains(&b'/') || value.contains(&b'\\')
}

/// Letters, digits, hyphens and dots, at most 255 of them.
pub fn hostname(value: &[u8]) -> Checked {
    refuse_when(
        value.len() >= 256,
        "Hostnames must be less than 256 characters",
    )?;
    refuse_when(
        !value
            .iter()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.')),
        "Hostnames may only contain alphanumeric characters, hyphens or dots",
    )
}

/// The name goes into nodes.conf between commas and spaces: what would split or quote there is refused.
pub fn node_name(value: &[u8]) -> Checked {
    refuse_when(
        value
            .iter()
            .any(|c| b" !\"#$%&'()*+,/:;<=>?@[\\]^`{|}~".contains(c) || c.is_ascii_control()),
        "Announced human node name contained invalid character",
    )
}

pub fn ipv4(value: &[u8]) -> Checked {
    refuse_when(
        !value.is_empty() && parse_ip::<Ipv4Addr>(value).is_none(),
        "Invalid IPv4 address",
    )
}

pub fn ipv6(value: &[u8]) -> Checked {
    refuse_when(
        !value.is_empty() && parse_ip::<Ipv6Addr>(value).is_none(),
        "Invalid IPv6 address",
    )
}

fn parse_ip<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Names that `proc-title-template` may put in braces.
pub const TITLE_VARIABLES: &[&str] = &[
    "title",
    "listen-addr",
    "server-mode",
    "port",
    "tls-port",
    "unixsocket",
    "config-file",
];

/// Known variables in braces that close, and something left to show. `{{` is a brace.
pub fn title_template(value: &[u8]) -> Checked {
    const TEXT: &str = "template format is invalid or contains unknown variables";
    refuse_when(value.is_empty(), TEXT)?;
    let mut rest = value;
    while let Some(open) = rest.iter().position(|&c| c == b'{') {
        rest = &rest[open + 1..];
        if let Some(after) = rest.strip_prefix(b"{") {
            rest = after;
            continue;
        }
        let close = rest.iter().position(|&c| c == b'}').ok_or(TEXT)?;
        let known = TITLE_VARIABLES
            .iter()
            .any(|name| name.as_bytes() == &rest[..close]);
        refuse_when(!known, TEXT)?;
        rest = &rest[close + 1..];
    }
    Ok(())
}
