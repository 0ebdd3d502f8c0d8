//! A script's text as Lua's tokens, and the surroundings of each. The text has been compiled before.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A name or a keyword.
    Name(&'t [u8]),
    /// A text in quotes without escapes.
    Text(&'t [u8]),
    /// A number as it is written.
    Number(&'t [u8]),
    /// Another text.
    Constant,
    Sign(&'t [u8]),
}

/// Kind of the text around a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Statements,
    /// Within brackets: an expression before a comma there is a value.
    Values,
    /// The names of a function's parameters.
    Parameters,
}

/// Surroundings of a token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    pub place: Place,
    /// Beginning of the innermost function that the token is part of; None: it is part of none.
    pub function: Option<usize>,
}

pub(super) fn is_keyword(name: &[u8]) -> bool {
    const KEYWORDS: [&str; 21] = [
        "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not",
        "or", "repeat", "return", "then", "true", "until", "while",
    ];
    KEYWORDS.iter().any(|keyword| keyword.as_bytes() == name)
}

/// Returns the surroundings of each token. None where brackets and blocks do not close as they open.
pub(super) fn scopes(tokens: &[Token<'_>]) -> Option<Vec<Scope>> {
    let outermost = Scope { place: Place::Statements, function: None };
    let (mut open, mut scopes, mut is_header) = (vec![outermost], Vec::with_capacity(tokens.len()), false);
    for (at, token) in tokens.iter().enumerate() {
        if let Token::Sign(b")" | b"]" | b"}") | Token::Name(b"end" | b"until") = token {
            open.pop();
        }
        let scope = *open.last()?;
        scopes.push(scope);
        match token {
            Token::Sign(b"(") => {
                open.push(Scope { place: if is_header { Place::Parameters } else { Place::Values }, ..scope });
                is_header = false;
            }
            Token::Sign(b"[" | b"{") => open.push(Scope { place: Place::Values, ..scope }),
            Token::Name(b"function") => {
                is_header = true;
                open.push(Scope { place: Place::Statements, function: Some(at) });
            }
            Token::Name(b"if" | b"do" | b"repeat") => open.push(Scope { place: Place::Statements, ..scope }),
            _ => {}
        }
    }
    Some(scopes)
}

/// Returns the tokens of a text.
pub(super) fn tokens(text: &[u8]) -> Vec<Token<'_>> {
    // A first line that names an engine is none of Lua's.
    let at = if text.starts_with(b"#!") { end_of_line(text, 0) } else { 0 };
    let mut lexer = Lexer { text, at };
    std::iter::from_fn(|| lexer.next()).collect()
}

struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Lexer<'t> {
    fn next(&mut self) -> Option<Token<'t>> {
        loop {
            self.skip_while(|byte| byte.is_ascii_whitespace() || byte == b'\x0b');
            if !self.rest().starts_with(b"--") {
                break;
            }
            self.at += 2;
            if !self.skip_long_brackets() {
                self.at = end_of_line(self.text, self.at);
            }
        }
        let start = self.at;
        let first = *self.rest().first()?;
        Some(match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                self.skip_while(is_word);
                Token::Name(&self.text[start..self.at])
            }
            b'0'..=b'9' => self.number(),
            b'.' if self.rest().get(1).is_some_and(u8::is_ascii_digit) => self.number(),
            b'"' | b'\'' => self.quoted(first),
            b'[' if self.skip_long_brackets() => Token::Constant,
            _ => {
                const LONG: [&[u8]; 6] = [b"...", b"..", b"==", b"~=", b"<=", b">="];
                self.at += LONG.iter().find(|sign| self.rest().starts_with(sign)).map_or(1, |sign| sign.len());
                Token::Sign(&self.text[start..self.at])
            }
        })
    }

    fn rest(&self) -> &'t [u8] {
        &self.text[self.at..]
    }

    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) {
        self.at += self.rest().iter().take_while(|byte| wanted(**byte)).count();
    }

    fn number(&mut self) -> Token<'t> {
        let start = self.at;
        self.skip_while(|byte| byte.is_ascii_digit() || byte == b'.');
        if let Some(b'e' | b'E') = self.rest().first() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.rest().first() {
                self.at += 1;
            }
        }
        self.skip_while(is_word);
        Token::Number(&self.text[start..self.at])
    }

    fn quoted(&mut self, quote: u8) -> Token<'t> {
        let start = self.at + 1;
        let mut is_plain = true;
        self.at = start;
        while let Some(&byte) = self.rest().first() {
            self.at += 1;
            match byte {
                b'\\' => {
                    is_plain = false;
                    self.at = (self.at + 1).min(self.text.len());
                }
                _ if byte == quote => {
                    let text = &self.text[start..self.at - 1];
                    return if is_plain { Token::Text(text) } else { Token::Constant };
                }
                _ => {}
            }
        }
        Token::Constant
    }

    /// Skips `[[...]]` or `[=[...]=]`, if it begins here.
    fn skip_long_brackets(&mut self) -> bool {
        let Some(rest) = self.rest().strip_prefix(b"[") else { return false };
        let level = rest.iter().take_while(|byte| **byte == b'=').count();
        if rest.get(level) != Some(&b'[') {
            return false;
        }
        let closing = [b"]", &b"=".repeat(level)[..], b"]"].concat();
        let end = rest.windows(closing.len()).position(|window| window == closing);
        let length = end.map_or(rest.len(), |at| at + closing.len());
        self.at += 1 + length;
        true
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn end_of_line(text: &[u8], from: usize) -> usize {
    text[from..].iter().position(|byte| matches!(byte, b'\n' | b'\r')).map_or(text.len(), |at| from + at)
}
