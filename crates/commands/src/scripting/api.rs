//! `redis.*` and `server.*`: the functions by which scripts reach the server.

use super::current_run::{Answer, RUN, append};
use super::debugger;
use super::failure;
use super::lua_memory::native;
use crate::core::args::Args;
use crate::core::command_table::lookup;
use crate::version;
use engine::propagation::change_log::Readers;
use mlua::{Lua, MultiValue, Table, Value};
use resp::Protocol;
use sha1::{Digest, Sha1};

const REPL_AOF: i64 = 1;
const REPL_REPLICA: i64 = 2;
const REPL_ALL: i64 = REPL_AOF | REPL_REPLICA;

const LOG_LEVELS: [(&str, i64); 4] = [("LOG_DEBUG", 0), ("LOG_VERBOSE", 1), ("LOG_NOTICE", 2), ("LOG_WARNING", 3)];

/// Returns the table that scripts know as `redis` and `server`. Fields are set in the order of other servers.
pub(super) fn for_scripts(lua: &Lua) -> mlua::Result<Table> {
    let api = for_functions(lua)?;
    api.raw_set("breakpoint", native(lua, |_, _: MultiValue| Ok(debugger::ask()))?)?;
    let show = |lua: &Lua, words: MultiValue| {
        debugger::show(lua, &words);
        Ok(())
    };
    api.raw_set("debug", native(lua, show)?)?;
    api.raw_set("replicate_commands", native(lua, |_, _: MultiValue| Ok(true))?)?;
    Ok(api)
}

/// Returns the table for functions, which lacks the fields that are for scripts only.
pub(super) fn for_functions(lua: &Lua) -> mlua::Result<Table> {
    let api = lua.create_table()?;
    api.raw_set("call", native(lua, |lua, words: MultiValue| call(lua, &words, true))?)?;
    let pcall = |lua: &Lua, words: MultiValue| {
        let failed = |error: mlua::Error| failure::clean(lua, Value::Error(error.into())).map(Answer::Right);
        call(lua, &words, false).or_else(failed)
    };
    api.raw_set("pcall", native(lua, pcall)?)?;
    shared(lua, &api)?;
    api.raw_set("setresp", native(lua, setresp)?)?;
    api.raw_set("sha1hex", native(lua, sha1hex)?)?;
    api.raw_set("error_reply", native(lua, error_reply)?)?;
    api.raw_set("status_reply", native(lua, status_reply)?)?;
    api.raw_set("set_repl", native(lua, set_repl)?)?;
    for (name, value) in [
        ("REPL_NONE", 0),
        ("REPL_AOF", REPL_AOF),
        ("REPL_SLAVE", REPL_REPLICA),
        ("REPL_REPLICA", REPL_REPLICA),
        ("REPL_ALL", REPL_ALL),
    ] {
        api.raw_set(name, value)?;
    }
    api.raw_set("acl_check_cmd", native(lua, acl_check_cmd)?)?;
    Ok(api)
}

/// Adds the fields that FUNCTION LOAD lets a library's text use, besides registering functions.
pub(super) fn shared(lua: &Lua, api: &Table) -> mlua::Result<()> {
    api.raw_set("log", native(lua, log)?)?;
    for (name, level) in LOG_LEVELS {
        api.raw_set(name, level)?;
    }
    api.raw_set("REDIS_VERSION_NUM", version_number(version::REDIS))?;
    api.raw_set("REDIS_VERSION", version::REDIS)?;
    api.raw_set("VALKEY_VERSION_NUM", version_number(version::VALKEY))?;
    api.raw_set("VALKEY_VERSION", version::VALKEY)?;
    api.raw_set("SERVER_NAME", "valkey")
}

/// Returns the error of one of these functions, which a debugger's client sees.
fn refusal(text: &str) -> mlua::Error {
    debugger::note_error(text.as_bytes());
    failure::refusal(text)
}

/// Returns `8.1.1` as 0x080101.
fn version_number(version: &str) -> i64 {
    version.split('.').fold(0, |number, part| number << 8 | part.parse::<i64>().unwrap_or_default())
}

fn call(lua: &Lua, words: &MultiValue, raise: bool) -> mlua::Result<Answer> {
    if !RUN.is_set() {
        return Err(refusal("server.call can only be called inside a script invocation"));
    }
    RUN.with(|run| run.call(lua, words, raise))
}

/// Returns the one word, a string as Lua converts it.
fn only_string(words: &MultiValue) -> Option<Vec<u8>> {
    match (words.len(), words.front()) {
        (1, Some(Value::String(text))) => Some(text.as_bytes().to_vec()),
        _ => None,
    }
}

const WRONG_ARGUMENTS: &[u8] = b"ERR wrong number or type of arguments";

fn error_reply(lua: &Lua, words: MultiValue) -> mlua::Result<Value> {
    let Some(text) = only_string(&words) else { return failure::table(lua, WRONG_ARGUMENTS, false) };
    let text = engine::before_nul(&text);
    let text = text.strip_prefix(b"-").unwrap_or(text);
    debugger::note_error(&[b"-", text].concat());
    // A text without a code gets one.
    let text = match text.iter().position(|byte| *byte == b' ') {
        Some(end) => [&text[..=end], failure::without_line_ends(&text[end + 1..])].concat(),
        None => [b"ERR ", text].concat(),
    };
    failure::table(lua, &text, false)
}

fn status_reply(lua: &Lua, words: MultiValue) -> mlua::Result<Value> {
    let Some(text) = only_string(&words) else { return failure::table(lua, WRONG_ARGUMENTS, false) };
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("ok", lua.create_string(text)?)?;
    Ok(Value::Table(table))
}

fn sha1hex(lua: &Lua, words: MultiValue) -> mlua::Result<Value> {
    let (1, Some(word)) = (words.len(), words.front()) else { return Err(refusal("wrong number of arguments")) };
    let text = lua.coerce_string(word.clone())?.map(|text| text.as_bytes().to_vec()).unwrap_or_default();
    Ok(Value::String(lua.create_string(hex(&text))?))
}

/// Returns the SHA-1 in lower-case hexadecimal digits.
pub(super) fn hex(text: &[u8]) -> engine::scripts::script_cache::Sha {
    let mut digits = [0; 40];
    for (index, byte) in Sha1::digest(text).iter().enumerate() {
        let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
        (digits[2 * index], digits[2 * index + 1]) = (digit(byte >> 4), digit(byte & 15));
    }
    digits
}

fn log(lua: &Lua, words: MultiValue) -> mlua::Result<()> {
    if words.len() < 2 {
        return Err(refusal("server.log() requires two arguments or more."));
    }
    let mut words = words.into_iter();
    let level = words.next().and_then(|level| lua.coerce_number(level).ok().flatten());
    let Some(level) = level else { return Err(refusal("First argument must be a number (log level).")) };
    if !(0.0..=3.0).contains(&level) {
        return Err(refusal("Invalid log level."));
    }
    let mut line = Vec::new();
    for word in words {
        if let Some(text) = lua.coerce_string(word)? {
            if !line.is_empty() {
                line.push(b' ');
            }
            line.extend_from_slice(&text.as_bytes());
        }
    }
    if RUN.is_set() {
        RUN.with(|run| run.log(level as i64, &String::from_utf8_lossy(&line)));
    }
    Ok(())
}

fn setresp(lua: &Lua, words: MultiValue) -> mlua::Result<()> {
    let (1, Some(version)) = (words.len(), words.front()) else {
        return Err(refusal("server.setresp() requires one argument."));
    };
    // The fraction is ignored.
    let protocol = match lua.coerce_number(version.clone())?.map(f64::trunc) {
        Some(2.0) => Protocol::Resp2,
        Some(3.0) => Protocol::Resp3,
        _ => return Err(refusal("RESP version must be 2 or 3.")),
    };
    RUN.with(|run| run.set_protocol(protocol));
    Ok(())
}

fn set_repl(lua: &Lua, words: MultiValue) -> mlua::Result<()> {
    let (1, Some(flags)) = (words.len(), words.front()) else {
        return Err(refusal("server.set_repl() requires one argument."));
    };
    let flags = lua.coerce_number(flags.clone())?.unwrap_or_default();
    let is_none = flags.is_nan() || flags.abs() > f64::from(i32::MAX);
    let flags = flags as i64;
    if is_none || flags & !REPL_ALL != 0 {
        return Err(refusal("Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."));
    }
    RUN.with(|run| {
        run.set_logging(match flags {
            REPL_ALL => Some(Readers::All),
            REPL_AOF => Some(Readers::File),
            REPL_REPLICA => Some(Readers::Replicas),
            _ => None,
        });
    });
    Ok(())
}

fn acl_check_cmd(_: &Lua, words: MultiValue) -> mlua::Result<bool> {
    if words.is_empty() {
        return Err(refusal("Please specify at least one argument for this call"));
    }
    let mut texts = Vec::new();
    for word in &words {
        let mut text = Vec::new();
        if !append(&mut text, word)? {
            return Err(refusal("Command arguments must be strings or integers"));
        }
        texts.push(text);
    }
    let args: Args<'_> = texts.iter().map(Vec::as_slice).collect();
    match lookup(&args) {
        Some(entry) => Ok(!RUN.is_set() || RUN.with(|run| run.may_call(entry, &args))),
        None => Err(refusal("Invalid command passed to server.acl_check_cmd()")),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    /// Commands of the log since the last look, as lines.
    fn logged(log: &engine::testing::MemoryLog) -> Vec<String> {
        let line = |words: Vec<Vec<u8>>| words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        log.take().into_iter().map(|(_, words)| line(words)).map(|words: Vec<String>| words.join(" ")).collect()
    }

    #[test]
    fn removal_of_an_expired_key_is_logged_whatever_a_script_says_of_its_own_work() {
        for (flags, own) in [("NONE", false), ("SLAVE", false), ("REPLICA", false), ("AOF", true), ("ALL", true)] {
            let mut client = Client::new();
            client.is("SET k v PX 10", "+OK").later(20);
            let log = client.log();
            let script =
                format!("redis.set_repl(redis.REPL_{flags}) redis.call('GET', 'k') redis.call('SET', 'own', '1')");
            assert_eq!(client.run_words(&["EVAL", &script, "0"]), "nil");
            let expected: &[&str] = if own { &["MULTI", "UNLINK k", "SET own 1", "EXEC"] } else { &["UNLINK k"] };
            assert_eq!(logged(&log), expected, "{flags}");
        }
    }
}
