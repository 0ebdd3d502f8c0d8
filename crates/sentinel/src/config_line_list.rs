//! Lines of the configuration file, as they are put together.

use crate::model::effect::ConfigLine;
use resp::words;

/// The lines so far.
#[derive(Default)]
pub(crate) struct ConfigLineList(Vec<ConfigLine>);

impl ConfigLineList {
    /// Puts a line; `needed`: even if the file had none.
    pub fn put(&mut self, option: &'static str, needed: bool, text: &str) {
        self.0.push(ConfigLine { option, line: format!("{option} {text}").into_bytes(), needed });
    }

    /// Puts a line that ends in a value of any bytes.
    pub fn put_quoted(&mut self, option: &'static str, text: &str, values: &[&[u8]]) {
        let mut line = option.as_bytes().to_vec();
        if !text.is_empty() {
            line.extend_from_slice(format!(" {text}").as_bytes());
        }
        for value in values {
            line.push(b' ');
            words::quote(&mut line, value);
        }
        self.0.push(ConfigLine { option, line, needed: true });
    }

    /// Returns the lines.
    pub fn into_lines(self) -> Vec<ConfigLine> {
        self.0
    }
}

/// Returns a word in the form of a line: quoted unless the plain text is read as the same word.
pub(crate) fn word(text: &str) -> String {
    let is_plain = |byte: u8| byte > b' ' && byte != 0x7f && !matches!(byte, b'"' | b'\'' | b'\\');
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    words::quoted(text.as_bytes())
}
