//! CLUSTER SYNCSLOTS and a word, as the other end sends it.

use cluster::migration::SyncWord;

/// Returns the word of a whole command of that kind; None for an unknown one.
pub fn word_of(command: &[u8]) -> Option<SyncWord> {
    let mut lines = command.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    // A number of arguments, and a length before each.
    let word = lines.nth(6)?;
    SyncWord::parse(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_in_its_command() {
        assert_eq!(word_of(&SyncWord::RequestPause.command()), Some(SyncWord::RequestPause));
        assert_eq!(word_of(b"*3\r\n$7\r\nCLUSTER\r\n$9\r\nSYNCSLOTS\r\n$1\r\nx\r\n"), None);
        assert_eq!(word_of(b"CLUSTER SYNCSLOTS ACK\r\n"), None);
    }
}
