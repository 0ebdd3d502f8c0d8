//! Entry point for a fuzzer.

use super::{Conf, read, write};

/// Reads a file: this must not panic, and an accepted file is written so that it is read as the same.
///
/// # Panics
/// Panics if one of these fails.
pub fn fuzz(data: &[u8]) {
    let random = || fastrand::Rng::with_seed(1);
    let Ok(conf) = read(data, false, &mut random(), 1) else {
        return;
    };
    let text = written(&conf);
    // A handshake is not written, though other nodes may name it.
    if conf.nodes.iter().any(|node| node.is_in_handshake()) {
        return;
    }
    let again = read(text.as_bytes(), false, &mut random(), 1).expect("what is written is read");
    assert_eq!(written(&again), text);
}

fn written(conf: &Conf) -> String {
    write(&conf.nodes, &conf.vars)
}
