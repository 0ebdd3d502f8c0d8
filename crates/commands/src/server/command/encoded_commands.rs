//! The elements of COMMAND INFO, encoded once for each protocol: they never change.

use super::describe;
use crate::core::command::CommandEntry;
use crate::core::command_table::CommandTable;
use crate::core::mode;
use resp::{Protocol, Reply};
use std::ops::Range;
use std::sync::OnceLock;

/// Elements of all commands in the order of the table.
struct Encoded {
    bytes: Vec<u8>,
    /// Place of each command and subcommand, by its number.
    places: Vec<Range<usize>>,
}

/// Elements in each protocol, of the commands of the server and of the Sentinel within it.
static ENCODED: [[OnceLock<Encoded>; 2]; 2] = [const { [const { OnceLock::new() }; 2] }; 2];

fn encoded(protocol: Protocol) -> &'static Encoded {
    let protocols = &ENCODED[usize::from(mode::is_sentinel_within())];
    let place = match protocol {
        Protocol::Resp2 => &protocols[0],
        Protocol::Resp3 => &protocols[1],
    };
    place.get_or_init(|| {
        let mut reply = Reply::new(Vec::new(), protocol);
        let mut places = vec![0..0; CommandTable::get().ids()];
        for entry in CommandTable::get().iter() {
            describe(&mut reply, entry, &mut |entry, place| places[entry.id] = place);
        }
        let mut bytes = reply.take();
        bytes.shrink_to_fit();
        Encoded { bytes, places }
    })
}

/// Writes the elements of all commands.
pub(super) fn all(reply: &mut Reply) {
    reply.raw(&encoded(reply.protocol()).bytes);
}

/// Writes the element of one command.
pub(super) fn one(reply: &mut Reply, entry: &CommandEntry) {
    let encoded = encoded(reply.protocol());
    reply.raw(&encoded.bytes[encoded.places[entry.id].clone()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_encoded_as_it_is_described() {
        crate::install(&[]);
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            for entry in CommandTable::get().by_name() {
                let (mut kept, mut described) = (Reply::new(Vec::new(), protocol), Reply::new(Vec::new(), protocol));
                one(&mut kept, entry);
                describe(&mut described, entry, &mut |_, _| {});
                assert_eq!(kept.as_slice(), described.as_slice(), "{}", entry.full_name);
            }
        }
    }
}
