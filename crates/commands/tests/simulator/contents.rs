//! The contents of an engine's databases, in the model's form.

use crate::machine::Machine;
use crate::model::{Content, Kept, Model};
use crate::operation::{CONSUMERS, HASHES, Key, LISTS, SETS, SORTED, STREAMS, STRINGS};
use crate::streams::{Group, Stream};
use resp::reply_value::{Decoder, Value};

/// Returns the live keys.
pub fn model(machine: &Machine) -> Model {
    let mut model = Model::default();
    for db in 0..2 {
        let mut session = machine.session(0, db);
        let mut ask = |words: &[&str]| {
            Decoder::new().decode(&machine.ask(&mut session, words)).expect("RESP").expect("all of it").0
        };
        for key in [&STRINGS[..], &LISTS, &HASHES, &SETS, &SORTED, &STREAMS].concat() {
            if let Some(content) = content(key, &mut ask) {
                let ends = Some(int(&ask(&["PEXPIRETIME", key]))).filter(|ends| *ends >= 0);
                model.0[db].insert(key, Kept { content, ends });
            }
        }
    }
    model
}

fn content(key: Key, ask: &mut dyn FnMut(&[&str]) -> Value) -> Option<Content> {
    if int(&ask(&["EXISTS", key])) == 0 {
        return None;
    }
    let pairs = |numbers: Vec<i64>| numbers.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    Some(match key.trim_start_matches("{t}").as_bytes()[0] {
        b's' => Content::Number(int(&ask(&["GET", key]))),
        b'l' => Content::List(ints(&ask(&["LRANGE", key, "0", "-1"]))),
        b'h' => Content::Hash(pairs(ints(&ask(&["HGETALL", key])))),
        b't' => Content::Set(ints(&ask(&["SMEMBERS", key])).into_iter().collect()),
        b'z' => Content::Sorted(pairs(ints(&ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"])))),
        _ => Content::Stream(stream(key, ask)),
    })
}

fn stream(key: Key, ask: &mut dyn FnMut(&[&str]) -> Value) -> Stream {
    let entries = ask(&["XRANGE", key, "-", "+"]);
    let entry = |entry: &Value| (id(&items(entry)[0]), int(&items(&items(entry)[1])[1]));
    let entries = items(&entries).iter().map(entry).collect();
    let last = id(named(&ask(&["XINFO", "STREAM", key]), "last-generated-id"));
    let groups = ask(&["XINFO", "GROUPS", key]);
    let last_read = items(&groups).first().map(|group| id(named(group, "last-delivered-id")));
    let group = last_read.map(|last| {
        let pending = ask(&["XPENDING", key, "g", "-", "+", "100"]);
        let owned = |pending: &Value| {
            let name = text(&items(pending)[1]);
            (id(&items(pending)[0]), *CONSUMERS.iter().find(|consumer| **consumer == name).expect("a consumer"))
        };
        Group { last, pending: items(&pending).iter().map(owned).collect() }
    });
    Stream { entries, last, group }
}

/// Returns the value after this name.
fn named<'v>(value: &'v Value, name: &str) -> &'v Value {
    let at = items(value).iter().position(|item| matches!(item, Value::Bulk(text) if text == name.as_bytes()));
    &items(value)[at.expect("it is there") + 1]
}

fn items(value: &Value) -> &[Value] {
    let Value::Array(items) = value else { panic!("{value:?} is no array") };
    items
}

fn text(value: &Value) -> String {
    let Value::Bulk(text) = value else { panic!("{value:?} is no text") };
    String::from_utf8_lossy(text).into_owned()
}

/// Returns the second part of a stream's id.
fn id(value: &Value) -> u64 {
    text(value).strip_prefix("0-").expect("they begin so").parse().expect("a number")
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(n) => *n,
        other => text(other).parse().expect("a number"),
    }
}

fn ints(value: &Value) -> Vec<i64> {
    items(value).iter().map(int).collect()
}
