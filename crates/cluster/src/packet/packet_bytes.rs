//! Numbers and texts in packets.

use crate::node_id::NAME_LEN;

/// Length of an address as text, with the byte 0 after it.
pub(crate) const IP_LEN: usize = 46;

/// Reads a packet from front to back.
pub(crate) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// Takes the next bytes; None if there are not so many.
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|bytes| bytes[0])
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub fn name(&mut self) -> Option<[u8; NAME_LEN]> {
        self.array()
    }

    /// Takes an address as text.
    pub fn ip(&mut self) -> Option<String> {
        self.take(IP_LEN).map(text)
    }
}

/// Returns the text before the first byte 0. A text that does not fit into a line of `nodes.conf` counts as empty.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
    if text.bytes().all(crate::conf::is_plain) { text.to_string() } else { String::new() }
}

/// Writes an address as text; a longer one is truncated.
pub(crate) fn put_ip(out: &mut Vec<u8>, ip: &str) {
    let len = ip.len().min(IP_LEN - 1);
    out.extend_from_slice(&ip.as_bytes()[..len]);
    out.resize(out.len() + IP_LEN - len, 0);
}
