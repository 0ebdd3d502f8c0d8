//! `--askpass` and the like: a password that is typed, a star for each character.

use std::io::{self, BufRead};
use std::os::fd::AsFd;

use crate::interactive::KeyByKey;

const BACKSPACE: [u8; 2] = [0x08, 0x7f];

/// Reads standard input up to the end of a line; on a terminal, prompts on standard error.
pub fn ask(prompt: &str) -> io::Result<Vec<u8>> {
    let stdin = io::stdin();
    let Some(_keys) = KeyByKey::enter(stdin.as_fd()) else {
        return typed(stdin.lock(), |_| {});
    };
    eprint!("{prompt}");
    let password = typed(stdin.lock(), |text| eprint!("{text}"));
    eprintln!();
    password
}

/// Returns the characters up to the end of the line or of the input; `echo` shows their effect on the line.
fn typed(input: impl BufRead, mut echo: impl FnMut(&str)) -> io::Result<Vec<u8>> {
    let mut password = Vec::new();
    for byte in input.bytes() {
        match byte? {
            b'\n' | b'\r' => break,
            byte if BACKSPACE.contains(&byte) => {
                if password.pop().is_some() {
                    echo("\x08 \x08");
                }
            }
            byte => {
                password.push(byte);
                echo("*");
            }
        }
    }
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_and_shown_as_stars() {
        let mut shown = String::new();
        let password = typed(&b"ab\x7fc\x08\x08\x08xy\nrest"[..], |text| shown.push_str(text)).unwrap();
        assert_eq!(password, b"xy");
        assert_eq!(shown, "**\x08 \x08*\x08 \x08\x08 \x08**");
    }
}
