//! One answer from the replies of several nodes.

use resp::number::parse_i64;
use std::net::SocketAddr;

/// Way in which the replies of a question's parts become one answer. An error of any part is the answer; of several,
/// the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Join {
    /// The reply of the only part.
    One,
    /// The elements of all replies, in the order of the parts: MGET, KEYS.
    Elements,
    /// The sum of numbers: DEL, EXISTS, DBSIZE.
    Sum,
    /// OK if all replies are: MSET.
    AllOk,
    /// The reply that all nodes give: FLUSHALL, FUNCTION LOAD. An error of some nodes only has the name of its node.
    Alike,
    /// For each element, whether it is 1 in all replies: SCRIPT EXISTS.
    InAll,
    /// A reply that is not null, by this random number: RANDOMKEY.
    Any(u64),
    /// A page of names and a cursor, which becomes a cursor of the whole cluster: SCAN.
    Page(Pages),
}

/// Node of a page of SCAN, and the next node.
///
/// A cursor of the cluster is the node's cursor with the node's number below it. Nodes are scanned in the order of
/// these numbers, whatever slots they have. 0 is the beginning of the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Number of the node that is asked.
    pub node: u16,
    /// Number of the next node; None for the last one.
    pub next: Option<u16>,
}

/// Bits of a node's number: there are no more primaries than slots.
const NODE_BITS: u32 = 14;

impl Pages {
    /// Splits a cursor of the cluster into the node's number and the node's own cursor.
    pub fn split(cursor: u64) -> (u16, u64) {
        ((cursor & ((1 << NODE_BITS) - 1)) as u16, cursor >> NODE_BITS)
    }

    /// Returns the cluster's cursor behind a page with this cursor of the node's own; None if it does not fit.
    fn cursor(self, own: u64) -> Option<u64> {
        match (own, self.next) {
            (0, None) => Some(0),
            // Only the first node has the number 0, so this is not the end.
            (0, Some(next)) => Some(u64::from(next)),
            (own, _) => {
                let fits = own >> (u64::BITS - NODE_BITS) == 0;
                fits.then_some(own << NODE_BITS | u64::from(self.node))
            }
        }
    }
}

const UNFIT: &[u8] = b"-ERR The replies of several nodes do not fit together\r\n";

impl Join {
    /// Returns the answer. `from`: the nodes that were asked, by the index of their replies.
    pub fn answer(&self, replies: Vec<Vec<u8>>, from: &[SocketAddr]) -> Vec<u8> {
        if *self == Join::Alike {
            return alike(replies, from).unwrap_or_else(|| UNFIT.to_vec());
        }
        if let Some(error) = replies.iter().find(|reply| reply.first() == Some(&b'-')) {
            return error.clone();
        }
        let joined = match self {
            Join::One | Join::Alike => replies.into_iter().next(),
            Join::Elements => elements(&replies),
            Join::Sum => sum(&replies),
            Join::AllOk => replies.iter().all(|reply| reply == b"+OK\r\n").then(|| b"+OK\r\n".to_vec()),
            Join::InAll => in_all(&replies),
            Join::Any(random) => any(replies, *random),
            Join::Page(pages) => replies.first().and_then(|reply| page(reply, *pages)),
        };
        joined.unwrap_or_else(|| UNFIT.to_vec())
    }
}

/// Returns the number on a line that begins with this byte, and the bytes behind the line.
fn header(reply: &[u8], kind: u8) -> Option<(i64, &[u8])> {
    let end = memchr::memchr(b'\n', reply)?;
    let text = reply[..end].strip_suffix(b"\r")?.strip_prefix(&[kind])?;
    Some((parse_i64(text)?, &reply[end + 1..]))
}

fn elements(replies: &[Vec<u8>]) -> Option<Vec<u8>> {
    let parts: Vec<(i64, &[u8])> = replies.iter().map(|reply| header(reply, b'*')).collect::<Option<_>>()?;
    let count = parts.iter().try_fold(0i64, |sum, (count, _)| sum.checked_add(*count))?;
    let mut joined = format!("*{count}\r\n").into_bytes();
    parts.iter().for_each(|(_, elements)| joined.extend_from_slice(elements));
    Some(joined)
}

fn sum(replies: &[Vec<u8>]) -> Option<Vec<u8>> {
    let sum = replies.iter().try_fold(0i64, |sum, reply| sum.checked_add(header(reply, b':')?.0))?;
    Some(format!(":{sum}\r\n").into_bytes())
}

/// Returns the reply that all have given, or else the first error, with the node that gave it.
fn alike(replies: Vec<Vec<u8>>, from: &[SocketAddr]) -> Option<Vec<u8>> {
    if replies.windows(2).all(|pair| pair[0] == pair[1]) {
        return replies.into_iter().next();
    }
    let at = replies.iter().position(|reply| reply.first() == Some(&b'-'))?;
    let mut error = replies.into_iter().nth(at)?;
    error.truncate(error.trim_ascii_end().len());
    error.extend_from_slice(format!(" (node {})\r\n", from.get(at)?).as_bytes());
    Some(error)
}

fn in_all(replies: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut joined: Option<Vec<bool>> = None;
    for reply in replies {
        let (count, mut rest) = header(reply, b'*')?;
        let mut flags = Vec::new();
        for _ in 0..count {
            let (flag, after) = header(rest, b':')?;
            flags.push(flag == 1);
            rest = after;
        }
        joined = match joined {
            Some(others) if others.len() != flags.len() => return None,
            Some(others) => Some(others.iter().zip(flags).map(|(other, flag)| *other && flag).collect()),
            None => Some(flags),
        };
    }
    let flags = joined?;
    let mut joined = format!("*{}\r\n", flags.len()).into_bytes();
    flags.iter().for_each(|is_in| joined.extend_from_slice(if *is_in { b":1\r\n" } else { b":0\r\n" }));
    Some(joined)
}

fn any(mut replies: Vec<Vec<u8>>, random: u64) -> Option<Vec<u8>> {
    let is_null = |reply: &[u8]| matches!(reply, b"$-1\r\n" | b"_\r\n");
    let null = replies.iter().find(|reply| is_null(reply)).cloned();
    replies.retain(|reply| !is_null(reply));
    match replies.len() {
        0 => null,
        count => Some(replies.swap_remove((random % count as u64) as usize)),
    }
}

fn page(reply: &[u8], pages: Pages) -> Option<Vec<u8>> {
    let (2, rest) = header(reply, b'*')? else { return None };
    let (len, rest) = header(rest, b'$')?;
    let (cursor, names) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    let own = std::str::from_utf8(cursor).ok()?.parse().ok()?;
    let cursor = pages.cursor(own)?.to_string();
    let mut told = format!("*2\r\n${}\r\n{cursor}", cursor.len()).into_bytes();
    told.extend_from_slice(names);
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(join: &Join, replies: &[&str]) -> String {
        let replies = replies.iter().map(|reply| reply.as_bytes().to_vec()).collect();
        let from = [1, 2, 3].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        String::from_utf8(join.answer(replies, &from)).unwrap()
    }

    #[test]
    fn replies_are_joined_by_their_kind() {
        let mget = ["*1\r\n$1\r\na\r\n", "*2\r\n$-1\r\n$0\r\n\r\n", "*0\r\n"];
        assert_eq!(answer(&Join::Elements, &mget), "*3\r\n$1\r\na\r\n$-1\r\n$0\r\n\r\n");
        assert_eq!(answer(&Join::Sum, &[":1\r\n", ":0\r\n", ":2\r\n"]), ":3\r\n");
        assert_eq!(answer(&Join::AllOk, &["+OK\r\n", "+OK\r\n"]), "+OK\r\n");
        assert_eq!(answer(&Join::Any(3), &["_\r\n", "$1\r\na\r\n", "$1\r\nb\r\n"]), "$1\r\nb\r\n");
        assert_eq!(answer(&Join::Any(3), &["$-1\r\n", "$-1\r\n"]), "$-1\r\n");
        assert_eq!(answer(&Join::One, &["%1\r\n+a\r\n+b\r\n"]), "%1\r\n+a\r\n+b\r\n");
    }

    #[test]
    fn an_error_is_the_answer_and_what_does_not_fit_is_one() {
        for join in [Join::Elements, Join::Sum, Join::AllOk, Join::Any(1), Join::One] {
            assert_eq!(answer(&join, &["-LOADING x\r\n", "-ERR y\r\n"]), "-LOADING x\r\n");
            assert!(answer(&join, &[":1\r\n", "-ERR y\r\n"]).starts_with("-ERR y"));
        }
        for (join, replies) in [
            (Join::Sum, ["+OK\r\n", ":1\r\n"]),
            (Join::Sum, [":9223372036854775807\r\n", ":1\r\n"]),
            (Join::Elements, [":1\r\n", "*0\r\n"]),
            (Join::AllOk, ["+OK\r\n", ":1\r\n"]),
        ] {
            assert_eq!(answer(&join, &replies).as_bytes(), UNFIT, "{join:?}");
        }
    }

    #[test]
    fn an_error_that_not_all_nodes_give_bears_the_name_of_its_node() {
        assert_eq!(answer(&Join::Alike, &["$3\r\nlib\r\n", "$3\r\nlib\r\n"]), "$3\r\nlib\r\n");
        assert_eq!(answer(&Join::Alike, &["-ERR x\r\n", "-ERR x\r\n"]), "-ERR x\r\n");
        let told = answer(&Join::Alike, &["+OK\r\n", "-ERR x\r\n", "-ERR y\r\n"]);
        assert_eq!(told, "-ERR x (node 10.0.0.1:2)\r\n");
        assert_eq!(answer(&Join::Alike, &["+OK\r\n", ":1\r\n"]).as_bytes(), UNFIT);
    }

    #[test]
    fn a_script_exists_that_all_nodes_have() {
        let told = answer(&Join::InAll, &["*3\r\n:1\r\n:1\r\n:0\r\n", "*3\r\n:1\r\n:0\r\n:0\r\n"]);
        assert_eq!(told, "*3\r\n:1\r\n:0\r\n:0\r\n");
        for other in ["*1\r\n:1\r\n", "+OK\r\n", "*2\r\n:1\r\n"] {
            assert_eq!(answer(&Join::InAll, &["*2\r\n:1\r\n:1\r\n", other]).as_bytes(), UNFIT, "{other}");
        }
    }

    #[test]
    fn a_scan_goes_through_the_nodes_by_their_numbers() {
        let page = |own: &str, pages| {
            answer(&Join::Page(pages), &[&format!("*2\r\n${}\r\n{own}\r\n*1\r\n$1\r\nk\r\n", own.len())])
        };
        let first = Pages { node: 0, next: Some(5461) };
        let last = Pages { node: 5461, next: None };
        assert_eq!(page("7", first), "*2\r\n$6\r\n114688\r\n*1\r\n$1\r\nk\r\n");
        assert_eq!(Pages::split(114_688), (0, 7));
        assert_eq!(page("0", first), "*2\r\n$4\r\n5461\r\n*1\r\n$1\r\nk\r\n");
        assert_eq!(Pages::split(5461), (5461, 0));
        assert_eq!(page("0", last), "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n");
        let most = (1u64 << 50) - 1;
        assert_eq!(last.cursor(most).map(Pages::split), Some((5461, most)));
        assert_eq!(last.cursor(most + 1), None);
    }
}
