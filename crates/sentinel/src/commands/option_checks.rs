//! Refusals of commands, and the checks of their words.

use resp::number::parse_i64;

/// The reason of a refused command; the text is the reply.
pub(crate) type Refusal = String;
pub(crate) type Outcome = Result<(), Refusal>;

/// The reply to a number that is none.
pub(crate) const NOT_INTEGER: &str = "ERR value is not an integer or out of range";

/// Checks words for the configuration file: control characters would end a line there, and bytes that are no text would
/// be read back as others.
pub(crate) fn check_words(words: &[&[u8]], first: usize, command: &str) -> Outcome {
    for (at, word) in words.iter().enumerate() {
        if word.iter().any(|&byte| byte <= 0x1f || byte == 0x7f) {
            let at = at + first;
            return Err(format!(
                "ERR Invalid argument at index {at} for {command}: control characters are not allowed"
            ));
        }
    }
    Ok(())
}

/// Returns the number of an option, which must be above 0.
pub(crate) fn positive(text: &[u8]) -> Option<i64> {
    parse_i64(text).filter(|&number| number > 0)
}
