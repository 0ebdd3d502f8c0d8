//! What a fuzzer calls.

use super::{Conf, read, write};

/// A file: must not panic; what is accepted is written so that it is read again as the same.
///
/// # Panics
/// When that does not hold.
pub fn fuzz(data: &[u8]) {
    let random = || fastrand::Rng::with_seed(1);
    let Ok(conf) = read(data, false, &mut random(), 1) else {
        return;
    };
    let text = written(&conf);
    // A handshake is not written, though others may name it.
    if conf.nodes.iter().any(|node| node.is_in_handshake()) {
        return;
    }
    let again = read(text.as_bytes(), false, &mut random(), 1).expect("what is written is read");
    assert_eq!(written(&again), text);
}

fn written(conf: &Conf) -> String {
    write(&conf.nodes, conf.current_epoch, conf.last_vote_epoch, conf.is_unsynchronized)
}
