//! The DEBUG subcommands with replies for tests of clients' libraries: PROTOCOL and ERROR.

use crate::core::args::Args;
use crate::core::context::Context;
use engine::{Error, Word};
use resp::{Protocol, Reply};

/// Replies an error whose text is the argument.
pub fn error(_: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    Err(Error::Verbatim(Word::of(&args[2])))
}

pub fn protocol(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    sample(cx.reply, &args[2])
}

/// Replies one value of each type that the protocol has.
fn sample(reply: &mut Reply, kind: &[u8]) -> Result<(), Error> {
    match &kind.to_ascii_lowercase()[..] {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.int(12345),
        b"double" => reply.double(3141.0 / 1000.0),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"map" => {
            reply.map(3);
            for n in 0..3 {
                reply.int(n);
                reply.boolean(n == 1);
            }
        }
        b"attrib" => {
            if reply.attribute(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.int(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            if reply.protocol() == Protocol::Resp2 {
                return Err(Error::DebugNotInResp2);
            }
            reply.bulk(b"Some real reply following the push reply");
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.int(42);
        }
        b"verbatim" => reply.verbatim(b"txt", b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        _ => return Err(Error::DebugProtocolType),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_the_newer_protocol_have_a_form_in_the_older() {
        let said = |version, kind: &str| {
            let mut reply = Reply::new(Vec::new(), version);
            sample(&mut reply, kind.as_bytes()).map(|()| String::from_utf8(reply.take()).unwrap())
        };
        for (kind, old, new) in [
            ("double", "$5\r\n3.141\r\n", ",3.141\r\n"),
            ("null", "$-1\r\n", "_\r\n"),
            ("MAP", "*6\r\n:0\r\n:0\r\n:1\r\n:1\r\n:2\r\n:0\r\n", "%3\r\n:0\r\n#f\r\n:1\r\n#t\r\n:2\r\n#f\r\n"),
            ("true", ":1\r\n", "#t\r\n"),
        ] {
            assert_eq!(said(Protocol::Resp2, kind).unwrap(), old);
            assert_eq!(said(Protocol::Resp3, kind).unwrap(), new);
        }
        assert!(said(Protocol::Resp2, "push").is_err() && said(Protocol::Resp3, "push").is_ok());
        assert_eq!(said(Protocol::Resp3, "nope"), Err(Error::DebugProtocolType));
    }
}
