//! Redirection of a key by a node of a cluster: `MOVED 3999 10.0.0.1:6381`, for good, or `ASK ...`, for this once.

use resp::Value;

/// Redirections of one command that are followed; a cluster that disagrees with itself could redirect it for ever.
pub const REDIRECTIONS_MAX: usize = 16;

#[derive(Debug, PartialEq, Eq)]
pub struct Redirect {
    pub slot: u16,
    /// None if the node does not know its host: it is the one that was asked.
    pub host: Option<String>,
    pub port: u16,
    /// Whether the node serves the key only behind ASKING.
    pub asking: bool,
}

impl Redirect {
    /// Returns the redirection, if the reply is one.
    pub fn of(reply: &Value) -> Option<Redirect> {
        let Value::Error(text) = reply else { return None };
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        let asking = match words.next()? {
            "ASK" => true,
            "MOVED" => false,
            _ => return None,
        };
        let slot = words.next()?.parse().ok()?;
        // An IPv6 host has colons too.
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host = Some(host).filter(|host| !host.is_empty()).map(str::to_owned);
        Some(Redirect { slot, host, port: port.parse().ok()?, asking })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_are_read() {
        let of = |text: &str| Redirect::of(&Value::Error(text.as_bytes().to_vec()));
        let to = |host: &str| Some(host.to_owned());
        let moved = Redirect { slot: 3999, host: to("10.0.0.1"), port: 6381, asking: false };
        assert_eq!(of("MOVED 3999 10.0.0.1:6381"), Some(moved));
        assert_eq!(of("ASK 1 ::1:7"), Some(Redirect { slot: 1, host: to("::1"), port: 7, asking: true }));
        assert_eq!(of("MOVED 3999 :6381").and_then(|redirect| redirect.host), None);
        for text in ["ERR no", "MOVED", "MOVED x a:1", "MOVED 1 a", "ASK 1 a:99999"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(Redirect::of(&Value::Bulk(b"MOVED 1 a:1".to_vec())), None);
    }
}
