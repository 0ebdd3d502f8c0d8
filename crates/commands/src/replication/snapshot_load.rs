//! A primary's snapshot that replaces the data set.

use crate::core::context::{Context, Now};
use crate::core::dispatch;
use crate::keys::flush::empty_all;
use crate::persistence::load::{LoadFailure, LoadedFile, load_in_place};
use engine::Engine;
use engine::config::Directive;
use engine::time::UnixUs;
use std::io::Read;

/// Reads a snapshot. The data set stays until the first bytes are good. `size`: bytes of the snapshot; 0 if not known.
///
/// # Errors
/// The snapshot cannot be read or is faulty. The data set is empty then, unless the first bytes were the fault.
pub fn load_snapshot(engine: &Engine, reader: &mut dyn Read, size: u64) -> Result<LoadedFile, LoadFailure> {
    let empty = || {
        let now = Now { unix_us: engine.host().unix_us(UnixUs(0)) };
        let background = engine.config().snapshot().flag(Directive::REPLICA_LAZY_FLUSH);
        // Values that are not freed in the background are freed here, when no lock is held any more.
        let mut removed = None;
        let mut empty = |cx: &mut Context<'_>| {
            removed = Some(empty_all(cx, background)?);
            Ok(())
        };
        // The command fails only where a script has a lock for long.
        while dispatch::internal(engine, now, &mut empty).is_err() {}
    };
    load_in_place(engine, reader, size, &empty).inspect(|loaded| take_open_slots(engine, loaded))
}

/// Returns the database that the stream behind a snapshot begins with, if the snapshot states one.
pub fn stream_db(loaded: &LoadedFile) -> Option<u32> {
    loaded.history.map(|(_, _, db)| db)
}

/// Makes a replica in a cluster resume the moves of its primary's slots.
pub(super) fn take_open_slots(engine: &Engine, loaded: &LoadedFile) {
    if !engine.host().take_open_slots(&loaded.open_slots) {
        engine.host().log("The snapshot's list of slots that move is none, and was skipped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    #[test]
    fn keys_stay_until_a_snapshot_proves_to_be_one() {
        let mut client = Client::new();
        client.is("SET k v", "+OK");
        assert!(load_snapshot(client.engine(), &mut &b"REDIS0x11"[..], 9).is_err());
        client.is("GET k", "v");
        let mut half = b"REDIS0011\xfe\x00\x00\x01a".as_slice();
        assert!(load_snapshot(client.engine(), &mut half, 0).is_err());
        client.is("DBSIZE", ":0").is("SET k v", "+OK");
        // There is no checksum behind the end.
        let mut whole = b"REDIS0011\xfe\x00\x00\x01a\x01b\xff\0\0\0\0\0\0\0\0".as_slice();
        let loaded = load_snapshot(client.engine(), &mut whole, 0).map(|loaded| loaded.keys);
        assert_eq!(loaded, Ok(1));
        client.is("GET a", "b").is("GET k", "nil");
    }
}
