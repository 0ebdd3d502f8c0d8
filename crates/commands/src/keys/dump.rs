//! DUMP and RESTORE: a value as bytes, in the form of Redis and Valkey.

use crate::core::args::Args;
use crate::core::command::{ASKING, Command, DENY_OOM, Group, READONLY, SYSTEM, WRITE, key};
use crate::core::context::Context;
use crate::persistence::{load, write_options};
use engine::Error;
use engine::config::Directive;
use engine::data::event_class::EventClass;
use engine::data::value::{Object, Value};
use engine::propagation::effects::Record;
use engine::propagation::logged_words::stream_state;
use engine::time::UnixMs;
use persistence::{Style, dump};
use std::sync::atomic::Ordering::Relaxed;

const RESTORE: Command = Command {
    name: "restore",
    group: Group::Generic,
    since: "2.6.0",
    arity: -4,
    flags: WRITE.and(DENY_OOM),
    categories: &["keyspace", "dangerous"],
    keys: &[key(1).ow().update()],
    syntax: "key ttl:int serialized-value [REPLACE]@3.0.0 [ABSTTL]@5.0.0 [IDLETIME seconds:int]@5.0.0 [FREQ frequency:int]@5.0.0",
    summary: "Creates a key from the serialized representation of a value.",
    complexity: "O(1) to create the new key and additional O(N*M) to reconstruct the serialized value, where N is the number of objects composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1). However for sorted set values the complexity is O(N*M*log(N)) because inserting values into sorted sets is O(log(N)).",
    history: &[
        ("3.0.0", "Added the `REPLACE` modifier."),
        ("5.0.0", "Added the `ABSTTL` modifier."),
        ("5.0.0", "Added the `IDLETIME` and `FREQ` options."),
    ],
    run: restore,
    ..Command::DEFAULT
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "dump",
        group: Group::Generic,
        since: "2.6.0",
        arity: 2,
        flags: READONLY,
        categories: &["keyspace"],
        keys: &[key(1).ro().access()],
        syntax: "key",
        summary: "Returns a serialized representation of the value stored at a key.",
        complexity: "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of objects composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1).",
        tips: &["nondeterministic_output"],
        run: dump_key,
        ..Command::DEFAULT
    },
    RESTORE,
    Command {
        name: "restore-asking",
        group: Group::Server,
        since: "3.0.0",
        flags: RESTORE.flags.and(ASKING).and(SYSTEM),
        summary: "An internal command for migrating keys in a cluster.",
        ..RESTORE
    },
];

fn dump_key(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let key = cx.key(args, 1);
    match cx.keys.find(key) {
        None => cx.reply.null(),
        Some(entry) => {
            let style = write_options::style(&cx.engine.config().snapshot());
            cx.reply.bulk(&dump::dump(&entry.value(), &style));
        }
    }
    Ok(())
}

/// The options after the value.
#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle: Option<i64>,
    frequency: Option<i64>,
}

fn options(args: &Args<'_>) -> Result<Options, Error> {
    let mut options = Options::default();
    let mut at = 4;
    while at < args.len() {
        let has_more = at + 1 < args.len();
        if args.is(at, "replace") {
            options.replace = true;
        } else if args.is(at, "absttl") {
            options.absolute = true;
        } else if args.is(at, "idletime") && has_more && options.frequency.is_none() {
            at += 1;
            let idle = args.int(at)?;
            if idle < 0 {
                return Err(Error::InvalidIdleTime);
            }
            options.idle = Some(idle);
        } else if args.is(at, "freq") && has_more && options.idle.is_none() {
            at += 1;
            let frequency = args.int(at)?;
            if !(0..=255).contains(&frequency) {
                return Err(Error::InvalidFrequency);
            }
            options.frequency = Some(frequency);
        } else {
            return Err(Error::Syntax);
        }
        at += 1;
    }
    Ok(options)
}

fn restore(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = options(args)?;
    let (engine, now, key) = (cx.engine, cx.now_ms(), cx.key(args, 1));
    let mut edit = if options.replace { cx.keys.edit_stale(key) } else { cx.keys.edit(key) };
    let existed = edit.exists();
    if existed && !options.replace {
        return Err(Error::BusyKey);
    }
    let ttl = args.int(2)?;
    if ttl < 0 {
        return Err(Error::InvalidTtl);
    }
    let config = engine.config().snapshot();
    let relaxed = config.choice(Directive::RDB_VERSION_CHECK) == "relaxed";
    let skip_sum = engine.persistence_status().skips_checksums();
    let payload = dump::verify(&args[3], relaxed, skip_sum).ok_or(Error::BadPayload)?;
    engine.persistence_status().sanitizations.fetch_add(1, Relaxed);
    let value = dump::restore(payload, engine.encoding_limits()).map_err(|fault| {
        engine.host().detail(&load::describe(&fault, "restoreCommand"));
        Error::BadPayloadData
    })?;
    let expiry = match ttl {
        0 => None,
        at if options.absolute => Some(UnixMs(at)),
        left => Some(UnixMs(left.checked_add(now.0).ok_or(Error::InvalidTtl)?)),
    };
    if expiry.is_some_and(|at| edit.is_past(at)) {
        if existed {
            edit.remove();
            let is_lazy = engine.config().snapshot().flag(Directive::LAZYFREE_LAZY_SERVER_DEL);
            let word: &[u8] = if is_lazy { b"UNLINK" } else { b"DEL" };
            edit.log_as(|| vec![vec![word.to_vec(), key.name.to_vec()]]);
            edit.commit(EventClass::GENERIC, "del");
        }
        cx.reply.ok();
        return Ok(());
    }
    let clock = engine.access_clock(now);
    let meta = clock.marked(options.idle.map(|idle| idle as u64), options.frequency.map(|frequency| frequency as u8));
    edit.put(value.into_entry(key.name, expiry.map(|at| at.0.max(0) as u64), meta));
    let style = write_options::style(&config);
    if engine.has_log()
        && let Some(records) =
            edit.value().and_then(|value| logged(args, &value, &style, expiry.filter(|_| !options.absolute)))
    {
        edit.log_as(|| records);
    }
    edit.commit(EventClass::GENERIC, "restore");
    cx.reply.ok();
    Ok(())
}

/// Returns a RESTORE in the log's form, if that differs from the client's: with the expiry's time, as the log is read
/// at another time, and a payload that other servers read.
fn logged(args: &Args<'_>, value: &Value<'_>, style: &Style, expiry: Option<UnixMs>) -> Option<Vec<Record>> {
    let payload = dump::for_others(&args[3], value, style);
    if payload.is_none() && expiry.is_none() {
        return None;
    }
    let mut words: Record = args.iter().map(<[u8]>::to_vec).collect();
    if let Some(payload) = payload {
        words[3] = payload;
    }
    if let Some(at) = expiry {
        words[2] = at.0.to_string().into_bytes();
        words.push(b"ABSTTL".to_vec());
    }
    let state = if let Value::Payload(Object::Stream(stream)) = value { dump::stream_state(stream) } else { None };
    Some([words].into_iter().chain(state.map(|state| stream_state(&args[1], &state))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;
    use resp::reply_value::Value;

    #[test]
    fn options_and_payloads_are_checked_in_order() {
        let mut client = Client::new();
        client.is("SET k v", "+OK");
        client.is("RESTORE k 0 x", "-BUSYKEY Target key name already exists.");
        client.is("RESTORE k 0 x nope", "-ERR syntax error").is("RESTORE k 0 x FREQ", "-ERR syntax error");
        client.is("RESTORE k -1 x REPLACE", "-ERR Invalid TTL value, must be >= 0");
        client.is("RESTORE k 0 x REPLACE", "-ERR DUMP payload version or checksum are wrong");
        client.is("RESTORE k 0 x FREQ 256", "-ERR Invalid FREQ value, must be >= 0 and <= 255");
        client.is("RESTORE k 0 x IDLETIME -1", "-ERR Invalid IDLETIME value, must be >= 0");
        client.is("RESTORE-ASKING k 0 x REPLACE", "-ERR DUMP payload version or checksum are wrong");
        client.is("DUMP nope", "nil").is("GET k", "v");
    }

    #[test]
    fn payloads_are_logged_in_a_form_that_other_servers_read() {
        let (mut client, mut replica) = (Client::new(), Client::new());
        for line in ["XADD s IDMP p m 1-1 a 1", "XGROUP CREATE s g 0", "XNACK s g FAIL IDS 1 1-1 FORCE"] {
            client.run(line);
        }
        let Value::Bulk(stream) = client.value("DUMP s") else { panic!("a stream") };
        // The string is one of Redis 8.
        let string = b"\x00\x01v\x0c\x00Z~\xfar\xe3\x12\x14\x87";
        let log = client.log();
        for (key, payload) in [("k", &string[..]), ("s", &stream)] {
            client.value_of([b"RESTORE", key.as_bytes(), b"0", payload, b"REPLACE"].into_iter().collect());
        }
        let records = log.take();
        let restored = |record: &Record| record[0] == b"RESTORE";
        let versions = records.iter().map(|(_, record)| record).filter(|record| restored(record)).map(|record| {
            let footer = record[3].len() - 10;
            u16::from_le_bytes([record[3][footer], record[3][footer + 1]])
        });
        assert_eq!(versions.collect::<Vec<_>>(), [11, 11]);
        let state = ["GET k", "DUMP s", "XINFO STREAM s FULL"].map(|line| client.run(line));
        replica.apply(records).is("GET k", &state[0]).is("DUMP s", &state[1]).is("XINFO STREAM s FULL", &state[2]);
    }
}
