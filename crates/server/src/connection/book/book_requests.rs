//! Frames of the book protocol to commands in a connection's queue.

use crate::connection::book::book_commands;
use commands::batch::Batch;
use commands::batch::parse::{Filled, RequestSource};
use commands::batch::requests::{QueuedRequest, Requests};
use commands::{Args, RetainedArgs};
use resp::{ProtocolError, Span};

/// Adds the requests of a connection's input to a batch. Continues at `offset` of it and stores its progress there.
pub fn fill<'b>(
    source: &mut RequestSource<'_>,
    requests: &mut Requests,
    bytes: &'b [u8],
    offset: &mut usize,
    batch: &mut Batch<'b>,
) -> Filled {
    requests.begin_batch();
    let mut spans = Vec::new();
    loop {
        let ends = requests.has_violation();
        if !batch.fill_queued(source, requests) {
            return Filled::Batch;
        }
        if ends {
            return Filled::Input { keep: bytes.len()..bytes.len() };
        }
        let rest = &bytes[*offset..];
        spans.clear();
        match resp::book::parse_request(rest, &mut spans) {
            Ok(Some(consumed)) => {
                requests.push(request(rest, &spans));
                *offset += consumed;
            }
            Ok(None) => return Filled::Input { keep: *offset..bytes.len() },
            Err(_) => requests.push_violation(ProtocolError::InvalidMultibulkLength),
        }
    }
}

/// Returns the command of a request: one that does not exist, if the protocol has none of this name and length.
pub fn request(bytes: &[u8], spans: &[Span]) -> QueuedRequest {
    let args = Args::parsed(bytes, spans, RetainedArgs::default()).into_owned();
    match book_commands::find(&args) {
        Some(entry) => QueuedRequest { args, entry: Some(entry) },
        None => QueuedRequest { args: [&b""[..]].into_iter().collect::<Args<'_>>().into_owned(), entry: None },
    }
}
