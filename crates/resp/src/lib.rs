//! Bytes to values and back: everything that Cinnabar speaks on a wire, and nothing else.
//!
//! | module | what it turns into what |
//! | --- | --- |
//! | [`request`] | a client's bytes into commands (multibulk and inline), on the server |
//! | [`reply`] | a handler's answer into RESP2 or RESP3 bytes |
//! | [`reply_scan`] | reply bytes into the places where replies end |
//! | [`reply_value`] | commands into bytes and reply bytes into values, on the client |
//! | [`reply_fields`] | replies with names and values into the value of a name |
//! | [`book`] | the small length-prefixed binary protocol, both sides |
//! | [`json`] | values into JSON, as the tools print them |
//! | [`number`] | text into integers and floats, by the rules of each place that reads one |
//! | [`double`] | a float into text as Valkey prints it |
//! | [`long_double`] | the extended arithmetic of INCRBYFLOAT |
//! | [`words`] | lines of text into words, with quotes and escapes, and back |
//! | [`address`] | where a server is: host and port, socket, URI |
//! | [`served_version`] | which versions programs name, and how |
//! | [`proxy_header`] | the header that a proxy puts before a connection's bytes into addresses |
//!
//! No module opens a socket, reads a clock or trusts a length from its input.

#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

pub mod address;
pub mod book;
pub mod double;
pub mod json;
pub mod long_double;
pub mod number;
pub mod proxy_header;
pub mod reply;
pub mod reply_fields;
pub mod reply_scan;
pub mod reply_value;
pub mod request;
pub mod served_version;
pub mod words;

pub use double::{DoubleText, format_17_digits, format_by_digits, format_double};
pub use reply::{Piece, Protocol, Reply, ReplyBytes};
pub use reply_value::{Value, encode_command};
pub use request::{LARGE, LargeArg, Progress, ProtocolError, RequestLimits, RequestParser, RequestPrefix, Span, short};
