//! The errors that a client gets in the place of replies that have waited for too long: it is open whether the writes
//! that they confirm are kept.

use resp::reply_value::{Decoder, Value};
use resp::{Protocol, Reply};

/// The text of each error.
pub const TEXT: &str = "UNACKNOWLEDGED Not enough replicas have confirmed what this tells of. The outcome is open: it may be \
                    kept or lost";

/// Returns as many errors as there are replies in `bytes`, and the messages between them; and the number of errors.
/// None: it is not known how many there are, as with a part of a reply.
pub fn instead_of(bytes: &[u8], protocol: Protocol) -> Option<(Vec<u8>, usize)> {
    let mut told = Reply::new(Vec::new(), protocol);
    let (mut rest, mut errors) = (bytes, 0);
    while !rest.is_empty() {
        let (value, len) = Decoder::new().decode(rest).ok()??;
        let (reply, left) = rest.split_at_checked(len)?;
        if matches!(value, Value::Push(_)) {
            told.raw(reply);
        } else {
            told.error(TEXT);
            errors += 1;
        }
        rest = left;
    }
    Some((told.take(), errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reply_is_an_error_and_messages_stay() {
        let error = format!("-{TEXT}\r\n");
        let told = |bytes: &str, protocol| {
            let (text, errors) = instead_of(bytes.as_bytes(), protocol)?;
            Some((String::from_utf8(text).unwrap(), errors))
        };
        assert_eq!(told("+OK\r\n*2\r\n$1\r\nx\r\n:1\r\n", Protocol::Resp2), Some((error.repeat(2), 2)));
        let push = ">2\r\n$1\r\nx\r\n$1\r\ny\r\n";
        assert_eq!(told(&format!("+OK\r\n{push}_\r\n"), Protocol::Resp3), Some((format!("{error}{push}{error}"), 2)));
        assert_eq!(told("*2\r\n$1\r\nx\r\n", Protocol::Resp2), None);
    }
}
