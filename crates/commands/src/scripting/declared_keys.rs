//! Whether the text of a script or a library shows that it touches only keys that it is given.
//!
//! Such a script never needs more locks than it begins with, so it changes data without the right to take more
//! ([`engine::locks::protocol`]). The answer is yes only where the text is plain: a script that hides its commands or
//! their keys gets no, and loses nothing but this shortcut. Yes means, token by token:
//!
//! - `redis` and `server` stand before `.` and a name only, and `call` and `pcall` before `(`, a command's name as a
//!   text, and keys where the command has them. A count of keys, where a command takes one, is a number. `local call =
//!   redis.call` declares another name for the function, which stands for nothing else anywhere.
//! - A key is `KEYS[...]`, or a local variable that is declared with such a value, and is nothing else anywhere.
//! - `KEYS` stands in `KEYS[...]` and `#KEYS` only, and nothing is assigned to it.
//! - Nothing loads code or reaches the table of globals.
//!
//! In a library each registered function obeys these rules, with its first parameter in the place of `KEYS`. Such a
//! function is written where it is registered, or is `local` and stands nowhere else. Functions within it do not count
//! as given its keys: a library may retain them, and a later call would use the keys of an earlier one.
//!
//! A script that calls nil or a table as a key gets an error and touches no key.

use super::current_run::Reach;
use super::lua_tokens::{Place, Scope, Token, is_keyword, scopes, tokens};
use crate::core::command::{Begin, CommandEntry, FindKeys, KeyPlan};
use crate::core::command_table::CommandTable;
use smallvec::SmallVec;
use std::ops::Range;

/// Limit of variables that hold keys or call commands; more than scripts have.
const LOCALS_MAX: usize = 16;

/// Returns the reach that a script's text shows.
pub(super) fn reach_of_script(text: &[u8]) -> Reach {
    Analysis::of(text, false).map_or(Reach::Unknown, Analysis::reach)
}

/// Returns the reach that a library's text shows of its functions.
pub(super) fn reach_of_library(text: &[u8]) -> Reach {
    Analysis::of(text, true).map_or(Reach::Unknown, Analysis::reach)
}

struct Analysis<'t> {
    tokens: Vec<Token<'t>>,
    scopes: Vec<Scope>,
    /// Beginnings of the functions that a library registers, with the names of their first parameters, in ascending
    /// order. None: the text is a script.
    registered: Option<Vec<(usize, &'t [u8])>>,
    /// Names of variables that hold keys, and of variables that call commands.
    key_locals: SmallVec<[&'t [u8]; 4]>,
    call_locals: SmallVec<[&'t [u8]; 2]>,
    /// Places of their declarations, and of the `redis.call` that is assigned to them, in ascending order.
    bindings: Vec<usize>,
}

impl<'t> Analysis<'t> {
    fn of(text: &'t [u8], is_library: bool) -> Option<Analysis<'t>> {
        let tokens = tokens(text);
        let scopes = scopes(&tokens)?;
        let (key_locals, call_locals) = (SmallVec::new(), SmallVec::new());
        let mut analysis = Analysis { tokens, scopes, registered: None, key_locals, call_locals, bindings: Vec::new() };
        analysis.registered = is_library.then(|| analysis.registered_functions());
        Some(analysis)
    }

    fn reach(mut self) -> Reach {
        if self.touches_no_others() { Reach::Confined } else { Reach::Unknown }
    }

    fn touches_no_others(&mut self) -> bool {
        (0..self.tokens.len()).all(|at| !self.is_name(at, b"local") || self.note_locals(at))
            && !self.key_locals.iter().any(|name| self.call_locals.contains(name))
            && (0..self.tokens.len()).all(|at| self.is_harmless(at))
    }

    fn is_name(&self, at: usize, name: &[u8]) -> bool {
        self.tokens.get(at) == Some(&Token::Name(name))
    }

    fn is_sign(&self, at: usize, sign: &[u8]) -> bool {
        self.tokens.get(at) == Some(&Token::Sign(sign))
    }

    fn is_member(&self, at: usize) -> bool {
        at > 0 && matches!(self.tokens[at - 1], Token::Sign(b"." | b":"))
    }

    /// Returns the functions of a library that only its callers call.
    fn registered_functions(&self) -> Vec<(usize, &'t [u8])> {
        let mut functions = Vec::new();
        let callbacks: Vec<usize> = (0..self.tokens.len()).filter_map(|at| self.callback(at)).collect();
        for &at in &callbacks {
            let function = match self.tokens[at] {
                Token::Name(b"function") => Some(at),
                Token::Name(name) => self.local_function(name, &callbacks),
                _ => None,
            };
            // `function(keys`, or `function name(keys`.
            if let Some(function) = function
                && let Some(Token::Name(parameter)) = self.tokens.get(self.first_parameter(function))
            {
                functions.push((function, *parameter));
            }
        }
        functions.sort_unstable();
        functions.dedup();
        functions
    }

    /// Returns the place of the first parameter of the function that begins here, if it has one.
    fn first_parameter(&self, function: usize) -> usize {
        function + if self.is_sign(function + 1, b"(") { 2 } else { 3 }
    }

    /// Returns the place of the function that `redis.register_function` at this token is given.
    fn callback(&self, at: usize) -> Option<usize> {
        let is_registration = self.is_name(at, b"register_function") && at >= 2 && self.is_sign(at - 1, b".");
        if !is_registration || !(self.is_name(at - 2, b"redis") || self.is_name(at - 2, b"server")) {
            return None;
        }
        let open = at + 1 + usize::from(self.is_sign(at + 1, b"(") && self.is_sign(at + 2, b"{"));
        if self.is_sign(open, b"{") {
            let value = self.callback_field(open)?;
            return self.is_whole(value, &[b",", b";", b"}"]).then_some(value);
        }
        let is_pair = self.is_sign(open, b"(") && self.is_sign(open + 2, b",");
        (is_pair && self.is_whole(open + 3, &[b")"])).then_some(open + 3)
    }

    /// Whether a function begins here, or a name that one of these signs follows.
    fn is_whole(&self, at: usize, ends: &[&[u8]]) -> bool {
        self.is_name(at, b"function") || ends.iter().any(|end| self.is_sign(at + 1, end))
    }

    /// Returns the place of the value of `callback` in the table that opens here.
    fn callback_field(&self, open: usize) -> Option<usize> {
        let mut depth = 0;
        for at in open..self.tokens.len() {
            match self.tokens[at] {
                Token::Sign(b"[" | b"(" | b"{") | Token::Name(b"function" | b"if" | b"do" | b"repeat") => depth += 1,
                Token::Sign(b"]" | b")" | b"}") | Token::Name(b"end" | b"until") => depth -= 1,
                Token::Name(b"callback") if depth == 1 && self.is_sign(at + 1, b"=") => {
                    let is_field = matches!(self.tokens[at - 1], Token::Sign(b"{" | b"," | b";"));
                    return is_field.then_some(at + 2);
                }
                _ => {}
            }
            if depth == 0 {
                return None;
            }
        }
        None
    }

    /// Returns the place of `function` in `local function name`, if the name stands nowhere else but where it is
    /// registered.
    fn local_function(&self, name: &[u8], callbacks: &[usize]) -> Option<usize> {
        let is_declared = |at: &usize| *at >= 2 && self.is_name(at - 2, b"local") && self.is_name(at - 1, b"function");
        let mut others = (0..self.tokens.len())
            .filter(|at| self.is_name(*at, name) && !self.is_member(*at) && !callbacks.contains(at));
        let declared = others.next().filter(is_declared)?;
        others.next().is_none().then_some(declared - 1)
    }

    /// Records the variables of `local a, b = KEYS[1], redis.call`, which hold keys or call commands. False if there
    /// are too many.
    fn note_locals(&mut self, local: usize) -> bool {
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
            let value = at + 1;
            let key = self.end_of_key(value);
            let Some(end) = key.or_else(|| self.end_of_call(value)) else { break };
            let more = self.is_sign(end, b",");
            if !more && !self.begins_statement(end) {
                break;
            }
            let Token::Name(name) = self.tokens[binding] else { break };
            self.bindings.push(binding);
            if key.is_some() {
                self.key_locals.push(name);
            } else {
                self.call_locals.push(name);
                self.bindings.push(value);
            }
            if !more {
                break;
            }
            at = end;
        }
        self.bindings.sort_unstable();
        self.key_locals.len() + self.call_locals.len() <= LOCALS_MAX
    }

    /// Whether the name at this token is that of the table of keys.
    fn is_table(&self, at: usize) -> bool {
        let Some(Token::Name(name)) = self.tokens.get(at) else { return false };
        match &self.registered {
            None => *name == b"KEYS",
            Some(functions) => functions.iter().any(|(_, table)| table == name),
        }
    }

    /// Whether the keys that are known at this token belong to the present call.
    fn is_of_this_call(&self, at: usize) -> bool {
        let Some(functions) = &self.registered else { return true };
        self.scopes[at].function.is_some_and(|own| functions.iter().any(|(function, _)| *function == own))
    }

    /// Returns the end of the `redis.call` that begins here.
    fn end_of_call(&self, at: usize) -> Option<usize> {
        let is_api = self.is_name(at, b"redis") || self.is_name(at, b"server");
        let is_call = self.is_name(at + 2, b"call") || self.is_name(at + 2, b"pcall");
        (is_api && self.is_sign(at + 1, b".") && is_call).then_some(at + 3)
    }

    /// Returns the end of the `KEYS[...]` that begins here.
    fn end_of_key(&self, at: usize) -> Option<usize> {
        if !self.is_table(at) || !self.is_sign(at + 1, b"[") {
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
        if self.is_member(at) {
            return true;
        }
        let is_binding = self.bindings.binary_search(&at).is_ok();
        match name {
            b"_G" | b"load" | b"loadstring" | b"getfenv" | b"setfenv" => false,
            b"redis" | b"server" => is_binding || self.calls_with_keys(at),
            _ if self.is_table(at) => {
                let is_length = at > 0 && self.is_sign(at - 1, b"#");
                let is_element = || self.end_of_key(at).is_some_and(|end| self.is_value(at, end));
                self.is_given(at) || self.is_of_this_call(at) && (is_length || is_element())
            }
            _ if self.call_locals.contains(&name) => {
                is_binding || !(at > 0 && self.is_name(at - 1, b"function")) && self.is_call_with_keys(at + 1)
            }
            _ if !self.key_locals.contains(&name) => true,
            // The name stands for a text where the variable is not known.
            b"_VERSION" => false,
            _ => is_binding || self.is_of_this_call(at) && self.is_value(at, at + 1),
        }
    }

    /// Whether the table of keys at this token is the parameter of a registered function.
    fn is_given(&self, at: usize) -> bool {
        let functions = self.registered.iter().flatten();
        functions.into_iter().any(|(function, _)| self.first_parameter(*function) == at)
    }

    /// Whether the expression from `start` to `end` is read, and neither declared nor assigned to.
    fn is_value(&self, start: usize, end: usize) -> bool {
        if self.scopes[start].place == Place::Parameters || self.is_sign(end, b"=") {
            return false;
        }
        match start.checked_sub(1).map(|before| self.tokens[before]) {
            // The expression is one of several targets, or one of several values.
            Some(Token::Sign(b",")) => self.scopes[start].place == Place::Values || self.is_among_values(start),
            Some(Token::Sign(sign)) => !matches!(sign, b";" | b")" | b"]" | b"}" | b"..."),
            Some(Token::Name(word)) => {
                matches!(word, b"and" | b"or" | b"not" | b"return" | b"in" | b"if" | b"elseif" | b"while" | b"until")
            }
            _ => false,
        }
    }

    /// Whether only keys and `redis.call` stand between this token and the sign of an assignment before it.
    fn is_among_values(&self, at: usize) -> bool {
        let before = self.tokens[..at].iter().rposition(|token| *token == Token::Sign(b"="));
        let Some(mut next) = before.map(|sign| sign + 1) else { return false };
        while let Some(end) = self.end_of_key(next).or_else(|| self.end_of_call(next)) {
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

    /// Whether `redis.call('name', ...)` stands here with keys where the command has them, or `redis.` with a name that
    /// calls no command.
    fn calls_with_keys(&self, at: usize) -> bool {
        let (true, Some(Token::Name(member))) = (self.is_sign(at + 1, b"."), self.tokens.get(at + 2)) else {
            return false;
        };
        if !matches!(*member, b"call" | b"pcall") {
            return true;
        }
        self.is_call_with_keys(at + 3)
    }

    /// Whether `('name', ...)` stands here with keys where the command has them.
    fn is_call_with_keys(&self, open: usize) -> bool {
        let Some(arguments) = self.arguments(open) else { return false };
        let only = |index: usize| {
            let argument = arguments.get(index).filter(|argument| argument.len() == 1)?;
            self.tokens.get(argument.start)
        };
        let Some(Token::Text(name)) = only(0) else { return false };
        let given = Given {
            count: arguments.len(),
            is_key: &|index| arguments.get(index).is_some_and(|argument| self.is_key(argument)),
            number: &|index| match only(index)? {
                Token::Number(digits) | Token::Text(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
                _ => None,
            },
        };
        CommandTable::get().find(name).is_some_and(|entry| given.fits(entry))
    }

    /// Returns the arguments of a call whose `(` stands here, if one comma after the other divides them.
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

/// Arguments of a call as its text shows them. All but the last of `count` are one value each.
struct Given<'g> {
    count: usize,
    is_key: &'g dyn Fn(usize) -> bool,
    number: &'g dyn Fn(usize) -> Option<usize>,
}

impl Given<'_> {
    /// Whether the arguments at which the command has keys are keys.
    fn fits(&self, entry: &CommandEntry) -> bool {
        if entry.may_touch_more || !entry.subcommands.is_empty() {
            return false;
        }
        let is_key = self.is_key;
        match entry.plan {
            KeyPlan::None => true,
            KeyPlan::One(index) => is_key(index),
            KeyPlan::Range { first, last: -1, step: 1 } => first < self.count && (first..self.count).all(is_key),
            KeyPlan::Range { first, last, step } => {
                usize::try_from(last).is_ok_and(|last| (first..=last).step_by(step.max(1)).all(is_key))
            }
            KeyPlan::Counted(index) => self.are_keys(index, 1, 1),
            KeyPlan::Specs => entry.command.keys.iter().all(|spec| match (spec.begin, spec.find) {
                (Begin::Index(begin), FindKeys::Range { last: 0, .. }) => is_key(begin),
                (Begin::Index(begin), FindKeys::Counted { count, first, step }) => {
                    self.are_keys(begin + count, first - count, step)
                }
                _ => false,
            }),
        }
    }

    /// Whether as many arguments are keys as the one at `count` says; the first is `first` places after it.
    fn are_keys(&self, count: usize, first: usize, step: usize) -> bool {
        let Some(keys) = (self.number)(count) else { return false };
        (0..keys).all(|key| (self.is_key)(count + first + key * step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    fn confined(text: &str) -> bool {
        // Commands are known when there is an engine.
        let _ = Client::new();
        reach_of_script(text.as_bytes()) == Reach::Confined
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
            "local call = redis.call call('set', KEYS[1], 1) return call('get', KEYS[1])",
            "local call, try, key = redis.call, server.pcall, KEYS[1] if try('get', key) then return call('del', key) end",
            "local key, call = KEYS[1], redis.call\nreturn (function() return call('get', key) end)()",
            "redis.call('sintercard', 2, KEYS[1], KEYS[2], 'limit', ARGV[1])",
            "redis.call('zunionstore', KEYS[1], 2, KEYS[2], KEYS[3], 'weights', unpack(ARGV))",
            "return redis.call('lmpop', '1', KEYS[1], 'left')",
        ] {
            assert!(confined(text), "{text}");
        }
    }

    #[test]
    fn a_script_that_is_not_plain_may_touch_other_keys() {
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
            "redis.call('zunionstore', KEYS[1], 2, KEYS[2])",
            "redis.call('zunionstore', 'x', 1, KEYS[2])",
            "redis.call('zunionstore', KEYS[1], 1, ARGV[1])",
            "redis.call('sintercard', #KEYS, KEYS[1], KEYS[2])",
            "redis.call('sintercard', 2, KEYS[1], unpack(KEYS))",
            "redis.call('sintercard', 18446744073709551615, KEYS[1])",
            "redis.call('sintercard', 1.5, KEYS[1], 'x')",
            "redis.call('set', function() return 1, 2 end, KEYS[1])",
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
    #[test]
    fn another_name_for_call_is_not_plain_where_it_may_be_something_else() {
        for text in [
            "local call = redis.call call('set', 'x', 1)",
            "local call = redis.call pcall(call, 'set', 'x', 1)",
            "local call = redis.call local other = call other('set', 'x', 1)",
            "local call = redis.call local function call(a, b) redis.call('set', b, 1) end",
            "local call = redis.call or 1 call('set', KEYS[1], 1)",
            "local call = redis.call ('set', 'x', 1)",
            "local call = redis.call call = 1",
            "local call = redis.call for call in pairs({}) do end",
            "local x = KEYS[1] do local x = redis.call x('set', x, 1) end",
            "local call, x = redis.call, redis x.call('set', 'x', 1)",
            "local a, call = 1, redis.call call('set', 'x', 1)",
            "local call call = redis.call call('set', 'x', 1)",
        ] {
            assert!(!confined(text), "{text}");
        }
    }

    fn confined_library(text: &str) -> bool {
        let _ = Client::new();
        reach_of_library(format!("#!lua name=l\n{text}").as_bytes()) == Reach::Confined
    }

    #[test]
    fn plain_functions_touch_what_they_are_given() {
        for text in [
            "redis.register_function('f', function(keys, args) return redis.call('set', keys[1], args[1]) end)",
            "server.register_function('f', function(keys) local k = keys[1] return redis.call('get', k) end)",
            "redis.register_function{function_name='f', callback=function(k, a) return redis.call('get', k[1]) end, flags={'no-writes'}}",
            "redis.register_function({callback=function(k, a) return #k end; function_name='f'})",
            "local function f(keys, args) return redis.call('incr', keys[1]) end redis.register_function('f', f)",
            "local function f(keys, args) return redis.call('incr', keys[1]) end\nredis.register_function{function_name='f', callback=f}",
            "local function one(keys) return redis.call('get', keys[1]) end local function two(k, args) return redis.call('mget', k[1], k[2]) end \
             redis.register_function('one', one) redis.register_function('again', one) redis.register_function('two', two)",
            "local count = 0 redis.register_function('f', function() count = count + 1 return count end)",
            "local function double(n) return 2 * n end redis.register_function('f', function(keys, args) return redis.call('incrby', keys[1], double(args[1])) end)",
            "redis.register_function('f', function(keys) local call = redis.call return call('sunion', keys[1], keys[2]) end)",
        ] {
            assert!(confined_library(text), "{text}");
        }
    }

    #[test]
    fn functions_that_are_not_plain_may_touch_others() {
        for text in [
            "redis.register_function('f', function(keys, args) return redis.call('set', args[1], 1) end)",
            "redis.register_function('f', function(keys) return redis.call('set', KEYS[1], 1) end)",
            // A key that a library retains belongs to another call.
            "local kept redis.register_function('f', function(keys) kept = keys end)",
            "local kept redis.register_function('f', function(keys) kept = function() return redis.call('get', keys[1]) end end)",
            "local kept redis.register_function('f', function(keys) local key = keys[1] kept = kept or function() return redis.call('get', key) end return kept() end)",
            "local kept redis.register_function('f', function(keys) kept = kept or keys[1] return redis.call('get', kept) end)",
            // Another caller of the function gives it other keys.
            "local function f(keys) return redis.call('get', keys[1]) end redis.register_function('f', function(keys) return f({'x'}) end)",
            "local function f(keys) return redis.call('get', keys[1]) end redis.register_function('f', f) redis.register_function('g', function() return f({'x'}) end)",
            "local function f(keys) return redis.call('get', keys[1]) end local f = f redis.register_function('f', f)",
            "function f(keys) return redis.call('get', keys[1]) end redis.register_function('f', f)",
            "local t = {callback = function(keys) return redis.call('get', keys[1]) end} redis.register_function(t)",
            "redis.register_function('f', function(a) local g = function(keys) return redis.call('get', keys[1]) end return g({'x'}) end)",
            "redis.register_function('f', (function(keys) return redis.call('get', keys[1]) end))",
            "redis.register_function('f', pick(function(keys) return redis.call('get', keys[1]) end))",
            "local r = {register_function = call} r.register_function('f', function(keys) return redis.call('get', keys[1]) end)",
            // The name of one function's keys is another function's argument.
            "redis.register_function('f', function(k) return #k end) redis.register_function('g', function(keys, k) return redis.call('get', k[1]) end)",
            "redis.register_function('f', function(keys, keys) return redis.call('get', keys[1]) end)",
            "redis.register_function('f', function(keys) keys[1] = 'x' return redis.call('get', keys[1]) end)",
            "redis.register_function('f', function(keys) local keys = {'x'} return redis.call('get', keys[1]) end)",
            "local keys = {'x'} redis.register_function('f', function(keys) return redis.call('get', keys[1]) end)",
            "redis.register_function{callback=function(keys) return 1 end, x={callback=function(keys) return redis.call('get', keys[1]) end}}",
        ] {
            assert!(!confined_library(text), "{text}");
        }
    }
}
