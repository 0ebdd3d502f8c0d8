//! Whether a script's text shows that it touches no keys but those that it is given.
//!
//! Such a script never needs a lock more than it begins with, so it changes things without the right to take one
//! ([`engine::locks::protocol`]). The answer is yes only where that is plain: a script that hides what it calls, or
//! with which keys, is answered no and loses nothing but that. Yes means, token by token:
//!
//! - `redis` and `server` stand before `.` and a name only, and `call` and `pcall` before `(`, a command's name as a
//!   text, and keys where the command has them.
//! - A key is `KEYS[...]`, or a local variable that is given that where it is declared, and nothing else anywhere.
//! - `KEYS` stands in `KEYS[...]` and `#KEYS` only, and nothing is assigned to it.
//! - Nothing loads code or reaches the table of globals.
//!
//! The text has been compiled before, so its tokens are Lua's. Who calls nil or a table a key is told so and touches
//! none.

use crate::core::command::{CommandEntry, KeyPlan};
use crate::core::command_table::CommandTable;
use smallvec::SmallVec;
use std::ops::Range;

/// Variables that hold keys, more than scripts have.
const KEY_LOCALS_MAX: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    /// A keyword too.
    Name(&'t [u8]),
    /// A text in quotes that says what it is.
    Text(&'t [u8]),
    /// A number, or another text.
    Constant,
    Sign(&'t [u8]),
}

/// What a token stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Statements,
    /// Within brackets: what stands before a comma there is a value.
    Values,
    /// The names of a function's parameters.
    Parameters,
}

/// Whether the script touches declared keys only.
pub(super) fn touches_no_others(text: &[u8]) -> bool {
    let tokens = Lexer::tokens(text);
    let Some(places) = places(&tokens) else { return false };
    Analysis { tokens, places, key_locals: SmallVec::new(), bindings: Vec::new() }.passes()
}

struct Analysis<'t> {
    tokens: Vec<Token<'t>>,
    places: Vec<Place>,
    /// Names of variables that hold keys.
    key_locals: SmallVec<[&'t [u8]; 4]>,
    /// Where they are declared, in ascending order.
    bindings: Vec<usize>,
}

impl<'t> Analysis<'t> {
    fn passes(mut self) -> bool {
        (0..self.tokens.len()).all(|at| !self.is_name(at, b"local") || self.note_key_locals(at))
            && (0..self.tokens.len()).all(|at| self.is_harmless(at))
    }

    fn is_name(&self, at: usize, name: &[u8]) -> bool {
        self.tokens.get(at) == Some(&Token::Name(name))
    }

    fn is_sign(&self, at: usize, sign: &[u8]) -> bool {
        self.tokens.get(at) == Some(&Token::Sign(sign))
    }

    /// `local a, b = KEYS[1], KEYS[2]`: these variables hold keys. False if there are too many.
    fn note_key_locals(&mut self, local: usize) -> bool {
        let mut names: SmallVec<[usize; 4]> = SmallVec::new();
        let mut at = local + 1;
        while let Some(Token::Name(name)) = self.tokens.get(at)
            && !is_keyword(name)
        {
            names.push(at);
            at += 1;
            if !self.is_sign(at, b",") {
                break;
            }
            at += 1;
        }
        if !self.is_sign(at, b"=") {
            return true;
        }
        for binding in names {
            let Some(end) = self.end_of_key(at + 1) else { break };
            let more = self.is_sign(end, b",");
            if !more && !self.begins_statement(end) {
                break;
            }
            if let Token::Name(name) = self.tokens[binding] {
                self.bindings.push(binding);
                if !self.key_locals.contains(&name) {
                    self.key_locals.push(name);
                }
            }
            if !more {
                break;
            }
            at = end;
        }
        self.key_locals.len() <= KEY_LOCALS_MAX
    }

    /// Where `KEYS[...]` ends that begins here.
    fn end_of_key(&self, at: usize) -> Option<usize> {
        if !self.is_name(at, b"KEYS") || !self.is_sign(at + 1, b"[") {
            return None;
        }
        let mut depth = 0;
        for (offset, token) in self.tokens[at + 1..].iter().enumerate() {
            match token {
                Token::Sign(b"[" | b"(" | b"{") => depth += 1,
                Token::Sign(b"]" | b")" | b"}") => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(at + 2 + offset);
            }
        }
        None
    }

    /// Whether the expression before this token has ended, and not within brackets.
    fn begins_statement(&self, at: usize) -> bool {
        match self.tokens.get(at) {
            None | Some(Token::Sign(b";")) => true,
            Some(Token::Name(name)) => !matches!(*name, b"and" | b"or"),
            _ => false,
        }
    }

    fn is_harmless(&self, at: usize) -> bool {
        let Token::Name(name) = self.tokens[at] else { return true };
        if at > 0 && matches!(self.tokens[at - 1], Token::Sign(b"." | b":")) {
            return true;
        }
        match name {
            b"_G" | b"load" | b"loadstring" => false,
            b"redis" | b"server" => self.calls_with_keys(at),
            b"KEYS" if at > 0 && self.is_sign(at - 1, b"#") => true,
            b"KEYS" => self.end_of_key(at).is_some_and(|end| self.is_value(at, end)),
            _ if !self.key_locals.contains(&name) => true,
            // It is a text where the variable is not known.
            b"_VERSION" => false,
            _ => self.bindings.binary_search(&at).is_ok() || self.is_value(at, at + 1),
        }
    }

    /// Whether what stands from `start` to `end` is read, and neither declared nor assigned to.
    fn is_value(&self, start: usize, end: usize) -> bool {
        if self.places[start] == Place::Parameters || self.is_sign(end, b"=") {
            return false;
        }
        match start.checked_sub(1).map(|before| self.tokens[before]) {
            // One of several that are assigned to, or one of several values.
            Some(Token::Sign(b",")) => self.places[start] == Place::Values || self.is_among_keys(start),
            Some(Token::Sign(sign)) => !matches!(sign, b";" | b")" | b"]" | b"}" | b"..."),
            Some(Token::Name(word)) => {
                matches!(word, b"and" | b"or" | b"not" | b"return" | b"in" | b"if" | b"elseif" | b"while" | b"until")
            }
            _ => false,
        }
    }

    /// Whether only keys stand between this one and an assignment's sign before it.
    fn is_among_keys(&self, at: usize) -> bool {
        let before = self.tokens[..at].iter().rposition(|token| *token == Token::Sign(b"="));
        let Some(mut next) = before.map(|sign| sign + 1) else { return false };
        while let Some(end) = self.end_of_key(next) {
            if !self.is_sign(end, b",") {
                return false;
            }
            next = end + 1;
            if next >= at {
                return next == at;
            }
        }
        false
    }

    /// `redis.call('name', ...)` with keys where the command has them, or `redis.` and what calls nothing.
    fn calls_with_keys(&self, at: usize) -> bool {
        let (true, Some(Token::Name(member))) = (self.is_sign(at + 1, b"."), self.tokens.get(at + 2)) else {
            return false;
        };
        if !matches!(*member, b"call" | b"pcall") {
            return true;
        }
        let Some(arguments) = self.arguments(at + 3) else { return false };
        let Some(Token::Text(name)) =
            arguments.first().filter(|first| first.len() == 1).map(|first| self.tokens[first.start])
        else {
            return false;
        };
        let is_key = |index: usize| arguments.get(index).is_some_and(|argument| self.is_key(argument));
        CommandTable::get().find(name).is_some_and(|entry| has_keys_at(entry, arguments.len(), is_key))
    }

    /// The arguments of a call whose `(` stands here, if one comma after the other divides them.
    fn arguments(&self, open: usize) -> Option<Vec<Range<usize>>> {
        if !self.is_sign(open, b"(") {
            return None;
        }
        let (mut arguments, mut start, mut depth) = (Vec::new(), open + 1, 0);
        for at in open..self.tokens.len() {
            match self.tokens[at] {
                Token::Sign(b"[" | b"(" | b"{") => depth += 1,
                Token::Sign(b"]" | b")" | b"}") => depth -= 1,
                Token::Name(b"function") => return None,
                _ => {}
            }
            if depth == 0 || depth == 1 && self.is_sign(at, b",") {
                arguments.push(start..at);
                start = at + 1;
            }
            if depth == 0 {
                return Some(arguments);
            }
        }
        None
    }

    fn is_key(&self, argument: &Range<usize>) -> bool {
        match self.tokens.get(argument.start) {
            Some(Token::Name(name)) if argument.len() == 1 => self.key_locals.contains(name),
            _ => self.end_of_key(argument.start) == Some(argument.end),
        }
    }
}

/// Whether the arguments at which the command has keys are keys. All but the last of `count` are one value each.
fn has_keys_at(entry: &CommandEntry, count: usize, is_key: impl Fn(usize) -> bool) -> bool {
    if entry.may_touch_more || !entry.subcommands.is_empty() {
        return false;
    }
    match entry.plan {
        KeyPlan::None => true,
        KeyPlan::One(index) => is_key(index),
        KeyPlan::Range { first, last: -1, step: 1 } => first < count && (first..count).all(is_key),
        KeyPlan::Range { first, last, step } => {
            usize::try_from(last).is_ok_and(|last| (first..=last).step_by(step.max(1)).all(is_key))
        }
        KeyPlan::Counted(_) | KeyPlan::Specs => false,
    }
}

fn is_keyword(name: &[u8]) -> bool {
    const KEYWORDS: [&str; 21] = [
        "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not",
        "or", "repeat", "return", "then", "true", "until", "while",
    ];
    KEYWORDS.iter().any(|keyword| keyword.as_bytes() == name)
}

/// What each token stands in. None where brackets and blocks do not close as they open.
fn places(tokens: &[Token<'_>]) -> Option<Vec<Place>> {
    let (mut open, mut places, mut is_header) = (vec![Place::Statements], Vec::with_capacity(tokens.len()), false);
    for token in tokens {
        if let Token::Sign(b")" | b"]" | b"}") | Token::Name(b"end" | b"until") = token {
            open.pop();
        }
        places.push(*open.last()?);
        match token {
            Token::Sign(b"(") => {
                open.push(if is_header { Place::Parameters } else { Place::Values });
                is_header = false;
            }
            Token::Sign(b"[" | b"{") => open.push(Place::Values),
            Token::Name(b"function" | b"if" | b"do" | b"repeat") => {
                is_header |= *token == Token::Name(b"function");
                open.push(Place::Statements);
            }
            _ => {}
        }
    }
    Some(places)
}

/// Divides a text into Lua's tokens.
struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Lexer<'t> {
    fn tokens(text: &'t [u8]) -> Vec<Token<'t>> {
        // A first line that names an engine is none of Lua's.
        let at = if text.starts_with(b"#!") { end_of_line(text, 0) } else { 0 };
        let mut lexer = Lexer { text, at };
        std::iter::from_fn(|| lexer.next()).collect()
    }

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
        self.skip_while(|byte| byte.is_ascii_digit() || byte == b'.');
        if let Some(b'e' | b'E') = self.rest().first() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.rest().first() {
                self.at += 1;
            }
        }
        self.skip_while(is_word);
        Token::Constant
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    fn confined(text: &str) -> bool {
        // Commands are known when there is an engine.
        let _ = Client::new();
        touches_no_others(text.as_bytes())
    }

    #[test]
    fn plain_scripts_touch_what_they_are_given() {
        for text in [
            "return 1",
            "redis.call('SET', KEYS[1], ARGV[1])",
            "#!lua flags=no-writes\nreturn redis.call(\"get\", KEYS[1])",
            "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
            "local key = KEYS[1] local n = redis.call('incr', key) if n == 1 then redis.call('expire', key, ARGV[1]) end return n",
            "local a, b, limit = KEYS[1], KEYS[2], tonumber(ARGV[1])\nreturn redis.pcall('del', a, b)",
            "local a, b = KEYS[1], KEYS[2]; return {a, b, server.pcall('mget', b, a, KEYS[3])}",
            "for i = 1, #KEYS do redis.call('del', KEYS[i]) end return #KEYS",
            "for i, k in pairs(ARGV) do redis.call('rpush', KEYS[(i % #KEYS) + 1], k, unpack(ARGV)) end",
            "redis.call('publish', 'channel', 'x') -- redis.call('set', 'other', 1)\nreturn redis.sha1hex('x')",
            "--[==[ redis.call(ARGV[1]) ]==] local t = {x = 1, y = function(a, b) return a, b end} return t.x",
            "local function add(n) return redis.call('incrby', KEYS[1], n) end return add(1) + add(2)",
            "return cjson.encode({redis.call('get', KEYS[1]), KEYS[2], KEYS[1] .. 'x'})",
            "local ttl = 3..'' local key = KEYS[1] while false do return key end return redis.call('get', key)",
        ] {
            assert!(confined(text), "{text}");
        }
    }

    #[test]
    fn what_is_not_plain_may_touch_others() {
        for text in [
            "redis.call('set', ARGV[1], 1)",
            "redis.call('set', 'k', 1)",
            "redis.call('set', KEYS[1] .. 'x', 1)",
            "redis.call(ARGV[1], KEYS[1])",
            "redis.call('s\\101t', KEYS[1], 1)",
            "redis.call('set', unpack(ARGV))",
            "redis.call('del', KEYS[1], unpack(ARGV))",
            "redis.call('mset', KEYS[1], 1, KEYS[2], 2)",
            "redis.call('nonsense', KEYS[1])",
            "redis.call('eval', 'x', 1, KEYS[1])",
            "redis.call('sort', KEYS[1])",
            "redis.call('keys', '*')",
            "redis.call('dbsize')",
            "redis.call('object', 'encoding', KEYS[1])",
            "redis.call('zunionstore', KEYS[1], 1, KEYS[2])",
            "redis.call('set', function() return 1, 2 end, KEYS[1])",
            "local call = redis.call call('set', 'x', 1)",
            "redis['call']('set', 'x', 1)",
            "local r = redis r.call('set', 'x', 1)",
            "pcall(redis.call, 'set', 'x', 1)",
            "local server = {call = 1} return 1",
            "_G['redis'].call('set', 'x', 1)",
            "return loadstring(ARGV[1])()",
            "load(function() return ARGV[1] end)()",
            "KEYS[1] = 'x' redis.call('set', KEYS[1], 1)",
            "local x x, KEYS[1] = 1, 'x' redis.call('set', KEYS[1], 1)",
            "local x KEYS[1], x = 'x', 1 redis.call('set', KEYS[1], 1)",
            "local x, y x, KEYS[1], y = 1, 'x', 1 redis.call('set', KEYS[1], 1)",
            "local t = KEYS t[1] = 'x' redis.call('set', KEYS[1], 1)",
            "local KEYS = {'x'} redis.call('set', KEYS[1], 1)",
            "local function f(KEYS) redis.call('set', KEYS[1], 1) end f({'x'})",
            "for _, KEYS in pairs({{'x'}}) do redis.call('set', KEYS[1], 1) end",
            "table.insert(KEYS, 1, 'x') redis.call('set', KEYS[1], 1)",
            "rawset(KEYS, 1, 'x') redis.call('set', KEYS[1], 1)",
            "local key = KEYS[1] key = 'x' redis.call('set', key, 1)",
            "local key = KEYS[1] local x x, key = 1, 'x' redis.call('set', key, 1)",
            "local key = KEYS[1] local x key, x = 'x', 1 redis.call('set', key, 1)",
            "local key = KEYS[1] do local key redis.call('set', key, 1) end",
            "local key = KEYS[1] or 'x' redis.call('set', key, 1)",
            "local key = KEYS[1]:upper() redis.call('set', key, 1)",
            "local key = KEYS[1]\n('x'):f() redis.call('set', key, 1)",
            "local a, key = 'x', KEYS[1] redis.call('set', a, 1)",
            "local key = KEYS[1] local function f(key) redis.call('set', key, 1) end f('x')",
            "local key = KEYS[1] local f = function(a, key) redis.call('set', key, 1) end f(1, 'x')",
            "local key = KEYS[1] for key in pairs({x = 1}) do redis.call('set', key, 1) end",
            "local key = KEYS[1] for i, key in ipairs({'x'}) do redis.call('set', key, 1) end",
            "local key = KEYS[1] pcall(function() local x x, key, x = 1, 'x', 2 end) redis.call('set', key, 1)",
            "local key = KEYS[1] local function key() end redis.call('set', key, 1)",
            "do local _VERSION = KEYS[1] end redis.call('set', _VERSION, 1)",
            "local x = [[ \n]] .. [=[]]]=] redis.call('set', x, KEYS[1])",
        ] {
            assert!(!confined(text), "{text}");
        }
    }
}
