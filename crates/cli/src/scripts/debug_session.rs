//! `--ldb`, `--ldb-sync-mode`: a script is stepped through, line by line, by commands that are typed.
//!
//! ```text
//!   SCRIPT DEBUG yes|sync, EVAL ...   -> lines of text, as an array of simple strings: the script stands
//!   a command of the debugger         -> more of them
//!   ...
//!   "<endsession>" among them         -> the script's reply follows, and the connection ends
//! ```

use resp::Value;

use crate::options::ScriptStepping;
use crate::protocol_client::{Client, ClientFailure};
use crate::reply_format;
use crate::resp_session::RespSession;
use crate::transport::{has_colors, print};

/// The prompt while a script is stopped.
pub const PROMPT: &str = "lua debugger> ";

const INTRODUCTION: &[u8] = b"Lua debugging session started, please use:\n\
    quit    -- End the session.\n\
    restart -- Restart the script in debug mode again.\n\
    help    -- Show Lua script debugging commands.\n\n";

/// Colors of a line by its beginning, the first that fits; any other line is white.
const COLORS: [(&[u8], &str); 9] = [
    (b"<debug>", "1;37"),
    (b"<hint>", "1;37"),
    (b"<command>", "0;32"),
    (b"<reply>", "0;36"),
    (b"<error>", "0;31"),
    (b"<retval>", "0;35"),
    (b"<value>", "0;35"),
    (b"->", "0;33"),
    (b"  #", "1;37"),
];

/// The line that ends a session.
const END: &[u8] = b"<endsession>";

/// Beginning of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// The script is stopped before its first line.
    Stands,
    /// The server does not run it, and has printed why.
    Refused,
}

/// A script that is debugged, now or again.
pub struct ScriptDebugger {
    stepping: ScriptStepping,
    load: Box<dyn Fn() -> Result<Vec<Vec<u8>>, String>>,
    stands: bool,
}

impl ScriptDebugger {
    /// `load` makes the EVAL command of the script's file, which is read again for each session.
    pub fn new(stepping: ScriptStepping, load: impl Fn() -> Result<Vec<Vec<u8>>, String> + 'static) -> ScriptDebugger {
        ScriptDebugger { stepping, load: Box::new(load), stands: false }
    }

    /// Returns whether a script waits for a command of the debugger.
    pub fn stands(&self) -> bool {
        self.stands
    }

    /// Begins a session, on a new connection where one was under way.
    ///
    /// # Errors
    ///
    /// `ErrorReply` if the file cannot be read; the errors of [`RespSession::ask`].
    pub fn begin(&mut self, session: &mut RespSession) -> Result<Beginning, ClientFailure> {
        if std::mem::take(&mut self.stands) {
            session.connect(None)?;
        }
        print(INTRODUCTION);
        let command = (self.load)().map_err(ClientFailure::ErrorReply)?;
        let mode: &[u8] = match self.stepping {
            ScriptStepping::Forked => b"yes",
            ScriptStepping::Synchronous => b"sync",
        };
        let mode = [b"SCRIPT".to_vec(), b"DEBUG".to_vec(), mode.to_vec()];
        let first = match session.ask(&mode)? {
            refusal @ Value::Error(_) => refusal,
            _ => session.ask(&command)?,
        };
        let said = lines(&first);
        if let Some(said) = &said
            && !is_end(said)
        {
            self.stands = true;
            self.show(session, &first)?;
            return Ok(Beginning::Stands);
        }
        // A script that does not run ends the session before its error is sent.
        let refusal = if said.is_some() { session.next_reply()? } else { first };
        print(b"\nEval debugging session can't start:\n");
        print(&formatted(session, &refusal));
        Ok(Beginning::Refused)
    }

    /// Sends a command of the debugger so many times, and shows the result.
    ///
    /// # Errors
    ///
    /// The errors of [`RespSession::ask`].
    pub fn obey(&mut self, session: &mut RespSession, words: &[Vec<u8>], repeat: i64) -> Result<(), ClientFailure> {
        for _ in 0..repeat.max(0) {
            let reply = match session.ask(words) {
                Ok(reply) => reply,
                Err(failure) => {
                    self.stands = false;
                    return Err(failure);
                }
            };
            self.show(session, &reply)?;
            if !self.stands {
                break;
            }
        }
        Ok(())
    }

    fn show(&mut self, session: &mut RespSession, reply: &Value) -> Result<(), ClientFailure> {
        let Some(lines) = lines(reply) else {
            print(&formatted(session, reply));
            return Ok(());
        };
        let in_color = has_colors();
        if lines.is_empty() {
            print(b"\n");
        }
        for line in lines.iter().filter(|line| **line != END) {
            print(&if in_color { colored(line) } else { [line, &b"\n"[..]].concat() });
        }
        if !is_end(&lines) {
            return Ok(());
        }
        self.stands = false;
        let outcome = session.next_reply()?;
        print(b"\n");
        print(&formatted(session, &outcome));
        let rolled_back = match self.stepping {
            ScriptStepping::Forked => " -- dataset changes rolled back",
            ScriptStepping::Synchronous => "",
        };
        print(format!("\n(Lua debugging session ended{rolled_back})\n\n").as_bytes());
        session.connect(None)
    }
}

fn formatted(session: &RespSession, value: &Value) -> Vec<u8> {
    reply_format::reply(value, session.options())
}

/// Returns the debugger's lines, if the reply has any: an array of simple strings.
fn lines(reply: &Value) -> Option<Vec<&[u8]>> {
    let Value::Array(items) = reply else { return None };
    items
        .iter()
        .map(|item| match item {
            Value::Simple(line) => Some(&line[..]),
            _ => None,
        })
        .collect()
}

fn is_end(lines: &[&[u8]]) -> bool {
    lines.contains(&END)
}

/// Splits a line for the debugger into words: code for `eval` stays as it was typed.
pub fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let line = line.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (name, code) = (&line[..end], line[end..].trim_ascii());
    let takes_code = name.eq_ignore_ascii_case(b"eval") || name.eq_ignore_ascii_case(b"e");
    if takes_code && !code.is_empty() {
        return Some(vec![name.to_vec(), code.to_vec()]);
    }
    resp::words::split(line)
}

fn colored(line: &[u8]) -> Vec<u8> {
    let color = COLORS.iter().find(|(beginning, _)| line.starts_with(beginning)).map_or("0;37", |(_, color)| color);
    [format!("\x1b[{color};49m").as_bytes(), line, b"\x1b[0m\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_by_the_beginning_of_a_line() {
        for (line, color) in [("-> 1   x", "0;33"), ("->#1   x", "0;33"), ("  #3   x", "1;37"), ("   3   x", "0;37")] {
            assert_eq!(colored(line.as_bytes()), format!("\x1b[{color};49m{line}\x1b[0m\n").into_bytes());
        }
    }

    #[test]
    fn code_keeps_its_quotes() {
        let words = |line: &str| words(line.as_bytes()).map(|words| words.join(&b'|'));
        assert_eq!(words(" e  error(\"x\")  "), Some(b"e|error(\"x\")".to_vec()));
        assert_eq!(words("print \"a b\""), Some(b"print|a b".to_vec()));
        assert_eq!(words("b \"1"), None);
    }

    #[test]
    fn the_debugger_speaks_in_arrays_of_simple_strings() {
        let simple = Value::Array(vec![Value::Simple(b"* Stopped".to_vec())]);
        assert_eq!(lines(&simple), Some(vec![&b"* Stopped"[..]]));
        assert_eq!(lines(&Value::Array(Vec::new())), Some(Vec::new()));
        assert_eq!(lines(&Value::Array(vec![Value::Bulk(b"k".to_vec())])), None);
        assert_eq!(lines(&Value::Int(1)), None);
    }
}
