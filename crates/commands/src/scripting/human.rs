//! Lua values and replies as the debugger shows them to people: tables and arrays spelled out.

use mlua::{Lua, Table, Value};
use resp::words::quote;

/// Depth to which tables and arrays are spelled out.
const DEPTH_MAX: usize = 10;

/// A Lua value: a string as it is, a table with each element followed by `; `, and anything else by its kind and place.
pub(super) fn of_value(lua: &Lua, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write(lua, value, 0, &mut out);
    out
}

fn write(lua: &Lua, value: &Value, depth: usize, out: &mut Vec<u8>) {
    if depth == DEPTH_MAX {
        return out.extend_from_slice(b"<max recursion level reached! Nested table?>");
    }
    match value {
        Value::Nil => out.extend_from_slice(b"nil"),
        Value::Boolean(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::String(text) => out.extend_from_slice(&text.as_bytes()),
        Value::Number(_) | Value::Integer(_) => {
            if let Ok(Some(text)) = lua.coerce_string(value.clone()) {
                out.extend_from_slice(&text.as_bytes());
            }
        }
        Value::Table(table) => write_table(lua, table, depth + 1, out),
        other => out.extend_from_slice(format!(" \"{}@{:p}\"", other.type_name(), other.to_pointer()).as_bytes()),
    }
}

fn write_table(lua: &Lua, table: &Table, depth: usize, out: &mut Vec<u8>) {
    let pairs: Vec<(Value, Value)> = table.pairs().flatten().collect();
    let is_next = |(index, (key, _)): (usize, &(Value, Value))| match key {
        Value::Integer(key) => *key == index as i64 + 1,
        Value::Number(key) => *key == (index + 1) as f64,
        _ => false,
    };
    let is_array = pairs.iter().enumerate().all(is_next);
    out.push(b'{');
    for (key, value) in &pairs {
        if !is_array {
            out.push(b'[');
            write(lua, key, depth, out);
            out.extend_from_slice(b"]=");
        }
        write(lua, value, depth, out);
        out.extend_from_slice(b"; ");
    }
    out.push(b'}');
}

/// Returns a command's reply, which is RESP, in this form.
pub(super) fn of_reply(reply: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = reply;
    read(&mut rest, &mut out);
    out
}

fn read(rest: &mut &[u8], out: &mut Vec<u8>) {
    let end = rest.iter().position(|byte| *byte == b'\r').unwrap_or(rest.len());
    let (line, tail) = rest.split_at(end);
    *rest = tail.get(2..).unwrap_or_default();
    let Some((kind, text)) = line.split_first() else { return };
    let len = resp::number::parse_i64(text).and_then(|len| usize::try_from(len).ok());
    match (kind, len) {
        (b':' | b'(', _) => out.extend_from_slice(text),
        (b'+' | b'-', _) => quote(out, line),
        (b'$' | b'=', Some(len)) => {
            let (blob, tail) = rest.split_at(len.min(rest.len()));
            *rest = tail.get(2..).unwrap_or_default();
            quote(out, blob);
        }
        (b',', _) => out.extend_from_slice(&[b"(double) ", text].concat()),
        (b'#', _) => out.extend_from_slice(if text == b"t" { b"#true" } else { b"#false" }),
        (b'*' | b'>', Some(len)) => read_many(rest, len, [b"[", b",", b"]"], out),
        (b'~', Some(len)) => read_many(rest, len, [b"~(", b",", b")"], out),
        (b'%', Some(len)) => {
            out.push(b'{');
            for index in 0..len {
                read_many(rest, 2, [if index > 0 { b"," } else { b"" }, b" => ", b""], out);
            }
            out.push(b'}');
        }
        (b'_', _) => out.extend_from_slice(b"(null)"),
        _ => out.extend_from_slice(b"NULL"),
    }
}

fn read_many(rest: &mut &[u8], len: usize, [open, between, close]: [&[u8]; 3], out: &mut Vec<u8>) {
    out.extend_from_slice(open);
    for index in 0..len {
        if index > 0 {
            out.extend_from_slice(between);
        }
        read(rest, out);
    }
    out.extend_from_slice(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_spelled_out() {
        let shown = |reply: &[u8]| String::from_utf8(of_reply(reply)).expect("these are");
        assert_eq!(shown(b"+OK\r\n"), "\"+OK\"");
        assert_eq!(shown(b"$3\r\na\x01b\r\n"), "\"a\\x01b\"");
        assert_eq!(shown(b"*3\r\n:1\r\n$-1\r\n*0\r\n"), "[1,NULL,[]]");
        assert_eq!(shown(b"%1\r\n+a\r\n~2\r\n#t\r\n_\r\n"), "{\"+a\" => ~(#true,(null))}");
        assert_eq!(shown(b",1.5\r\n"), "(double) 1.5");
    }

    #[test]
    fn tables_are_spelled_out() {
        let lua = Lua::new();
        let shown = |code: &str| {
            let value = lua.load(code).eval::<Value>().expect("it runs");
            String::from_utf8(of_value(&lua, &value)).expect("these are")
        };
        assert_eq!(shown("{1, 'two', {x = 3.5}, true}"), "{1; two; {[x]=3.5; }; true; }");
        assert_eq!(shown("{}"), "{}");
        assert_eq!(shown("nil"), "nil");
        assert_eq!(shown("(function() local t = {} t[1] = t return t end)()").matches('{').count(), 10);
        assert!(shown("function() end").starts_with(" \"function@0x"));
    }
}
