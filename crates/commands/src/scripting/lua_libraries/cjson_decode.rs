//! JSON to Lua values.
//!
//! The text is split into tokens first, as errors name them; numbers may be any text that C reads as one (`0x10`,
//! `inf`, `nan`) unless an option forbids it.

use super::cjson::{DEPTH_MAX, JsonOptions};
use crate::scripting::failure::message;
use crate::scripting::lua_memory::room_for;
use mlua::{Lua, Value};

/// Bytes of Lua's memory that a value takes besides its text.
const VALUE: usize = 128;

enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Invalid(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::String(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Invalid(what) => what,
        }
    }
}

pub(super) fn decode(lua: &Lua, text: &[u8], options: JsonOptions) -> mlua::Result<Value> {
    if text.len() > 1 && text[..2].contains(&0) {
        return Err(message(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let values = text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
    room_for(text.len().saturating_add(values.saturating_mul(VALUE)))?;
    let mut parser = Parser { lua, text, at: 0, began: 0, options };
    let token = parser.next();
    let value = parser.value(token, 0)?;
    match parser.next() {
        Token::End => Ok(value),
        token => Err(parser.unexpected("the end", &token)),
    }
}

struct Parser<'t> {
    lua: &'t Lua,
    text: &'t [u8],
    at: usize,
    /// Beginning of the last token, or of the error in it.
    began: usize,
    options: JsonOptions,
}

impl Parser<'_> {
    fn unexpected(&self, expected: &str, found: &Token) -> mlua::Error {
        let text = format!("Expected {expected} but found {} at character {}", found.name(), self.began + 1);
        message(self.lua, text)
    }

    fn next(&mut self) -> Token {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.began = self.at;
        let rest = &self.text[self.at..];
        let (token, len) = match rest.first() {
            // A zero ends the text for C.
            None | Some(0) => (Token::End, 0),
            Some(b'{') => (Token::ObjectBegin, 1),
            Some(b'}') => (Token::ObjectEnd, 1),
            Some(b'[') => (Token::ArrayBegin, 1),
            Some(b']') => (Token::ArrayEnd, 1),
            Some(b':') => (Token::Colon, 1),
            Some(b',') => (Token::Comma, 1),
            Some(b'"') => return self.string(),
            _ if rest.starts_with(b"true") => (Token::Boolean(true), 4),
            _ if rest.starts_with(b"false") => (Token::Boolean(false), 5),
            _ if rest.starts_with(b"null") => (Token::Null, 4),
            Some(b'-' | b'+' | b'0'..=b'9' | b'i' | b'I' | b'n' | b'N') => return self.number(),
            Some(_) => (Token::Invalid("invalid token"), 0),
        };
        self.at += len;
        token
    }

    fn number(&mut self) -> Token {
        let rest = &self.text[self.at..];
        // C reads a plus, JSON does not.
        let (sign, digits) = match rest.split_first() {
            Some((sign @ (b'-' | b'+'), digits)) => (Some(*sign), digits),
            _ => (None, rest),
        };
        let negative = sign == Some(b'-');
        let word = |word: &[u8]| digits.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        let run = |from: usize, of: fn(&u8) -> bool| from + digits[from..].iter().take_while(|byte| of(byte)).count();
        let (number, len, strict) = if word(b"infinity") {
            (Some(f64::INFINITY), 8, false)
        } else if word(b"inf") {
            (Some(f64::INFINITY), 3, false)
        } else if word(b"nan") {
            (Some(f64::NAN), 3, false)
        } else if word(b"0x") {
            let end = run(2, u8::is_ascii_hexdigit);
            let text = std::str::from_utf8(&digits[2..end]).unwrap_or_default();
            match end {
                // C reads the zero alone.
                2 => (Some(0.0), 1, false),
                _ => (u64::from_str_radix(text, 16).ok().map(|number| number as f64), end, false),
            }
        } else {
            let mut end = run(0, u8::is_ascii_digit);
            if digits.get(end) == Some(&b'.') {
                end = run(end + 1, u8::is_ascii_digit);
            }
            if matches!(digits.get(end), Some(b'e' | b'E')) {
                let sign = usize::from(matches!(digits.get(end + 1), Some(b'+' | b'-')));
                let exponent = run(end + 1 + sign, u8::is_ascii_digit);
                if exponent > end + 1 + sign {
                    end = exponent;
                }
            }
            let strict = !(digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit());
            let text = std::str::from_utf8(&digits[..end]).unwrap_or_default();
            (text.parse().ok(), end, strict && sign != Some(b'+'))
        };
        let starts_as_number = negative || sign.is_none() && digits.first().is_some_and(u8::is_ascii_digit);
        match number {
            Some(number) if strict || self.options.decode_invalid => {
                self.at += len + usize::from(sign.is_some());
                Token::Number(if negative { -number } else { number })
            }
            _ if starts_as_number || self.options.decode_invalid && sign == Some(b'+') => {
                Token::Invalid("invalid number")
            }
            _ => Token::Invalid("invalid token"),
        }
    }

    fn string(&mut self) -> Token {
        let (start, mut at, mut out) = (self.at, self.at + 1, Vec::new());
        loop {
            match self.text.get(at) {
                // A zero ends the text for C.
                None | Some(0) => {
                    self.began = at;
                    return Token::Invalid("unexpected end of string");
                }
                Some(b'"') => break,
                Some(b'\\') => match self.escape(at, &mut out) {
                    Ok(len) => at += len,
                    Err(what) => {
                        self.began = at;
                        return Token::Invalid(what);
                    }
                },
                Some(byte) => {
                    out.push(*byte);
                    at += 1;
                }
            }
        }
        (self.began, self.at) = (start, at + 1);
        Token::String(out)
    }

    /// Writes the escaped character at `at`; returns the length of its escape.
    fn escape(&self, at: usize, out: &mut Vec<u8>) -> Result<usize, &'static str> {
        let plain = match self.text.get(at + 1) {
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                const INVALID: &str = "invalid unicode escape code";
                let unit = self.unit(at).ok_or(INVALID)?;
                let (code, len) = match unit {
                    0xD800..0xDC00 => {
                        let low = self.unit(at + 6).filter(|low| (0xDC00..0xE000).contains(low)).ok_or(INVALID)?;
                        (0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00), 12)
                    }
                    _ => (unit, 6),
                };
                let character = char::from_u32(code).ok_or(INVALID)?;
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(len);
            }
            _ => return Err("invalid escape code"),
        };
        out.push(plain);
        Ok(2)
    }

    fn unit(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let digits =
            std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        u32::from_str_radix(digits, 16).ok()
    }

    fn value(&mut self, token: Token, depth: usize) -> mlua::Result<Value> {
        match token {
            Token::String(text) => self.lua.create_string(text).map(Value::String),
            Token::Number(number) => Ok(Value::Number(number)),
            Token::Boolean(value) => Ok(Value::Boolean(value)),
            Token::Null => Ok(Value::NULL),
            Token::ObjectBegin => self.object(depth + 1),
            Token::ArrayBegin => self.array(depth + 1),
            token => Err(self.unexpected("value", &token)),
        }
    }

    fn check_depth(&self, depth: usize) -> mlua::Result<()> {
        if depth <= DEPTH_MAX.min(self.options.decode_depth as usize) {
            return Ok(());
        }
        let text = format!("Found too many nested data structures ({depth}) at character {}", self.began + 1);
        Err(message(self.lua, text))
    }

    fn array(&mut self, depth: usize) -> mlua::Result<Value> {
        self.check_depth(depth)?;
        let table = self.lua.create_table()?;
        let mut token = self.next();
        if matches!(token, Token::ArrayEnd) {
            return Ok(Value::Table(table));
        }
        for index in 1.. {
            table.raw_set(index, self.value(token, depth)?)?;
            match self.next() {
                Token::ArrayEnd => break,
                Token::Comma => token = self.next(),
                found => return Err(self.unexpected("comma or array end", &found)),
            }
        }
        Ok(Value::Table(table))
    }

    fn object(&mut self, depth: usize) -> mlua::Result<Value> {
        self.check_depth(depth)?;
        let table = self.lua.create_table()?;
        let mut token = self.next();
        if matches!(token, Token::ObjectEnd) {
            return Ok(Value::Table(table));
        }
        loop {
            let Token::String(key) = token else { return Err(self.unexpected("object key string", &token)) };
            match self.next() {
                Token::Colon => {}
                found => return Err(self.unexpected("colon", &found)),
            }
            let first = self.next();
            let value = self.value(first, depth)?;
            table.raw_set(self.lua.create_string(key)?, value)?;
            match self.next() {
                Token::ObjectEnd => return Ok(Value::Table(table)),
                Token::Comma => token = self.next(),
                found => return Err(self.unexpected("comma or object end", &found)),
            }
        }
    }
}
