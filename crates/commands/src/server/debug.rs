//! DEBUG: what test suites and the curious need. Only where `enable-debug-command` allows it.

use crate::core::args::Args;
use crate::core::command::{ADMIN, Command, Group, LOADING, NO_SCRIPT, PROTECTED, STALE, SYSTEM};
use crate::core::context::Cx;
use crate::core::dispatch::shown;
use crate::core::help::reply_help;
use crate::keys::flush::empty_all;
use crate::persistence::{aof, load, save};
use crate::server::config::rewrite_file;
use crate::server::debug_values;
use crate::server::digest::Digest;
use engine::clients::registry::ReplyBuffers;
use engine::config::Directive;
use engine::config::value::parse_memory;
use engine::data::event_class::EventClass;
use engine::data::value::{NewString, Object, Value, ValueExt};
use engine::keyspace::edit::Ttl;
use engine::keyspace::keyspace_stats::Overview;
use engine::{Error, Word, glob};
use resp::{Protocol, Reply};
use std::alloc::{Layout, handle_alloc_error};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use structures::hash::Hash;
use structures::listpack::Item;

pub const COMMANDS: &[Command] = &[Command {
    name: "debug",
    group: Group::Server,
    arity: -2,
    flags: ADMIN.and(NO_SCRIPT).and(LOADING).and(STALE).and(PROTECTED).and(SYSTEM),
    summary: "A container for debugging commands.",
    complexity: "Depends on subcommand.",
    run: debug,
    ..Command::DEFAULT
}];

fn debug(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let config = cx.engine.config().snapshot();
    if !config.permits(Directive::ENABLE_DEBUG_COMMAND, cx.session.info.is_local()) {
        return Err(Error::DebugNotAllowed);
    }
    let name = args[1].to_ascii_lowercase();
    match (&name[..], args.len()) {
        (b"help", 2) => reply_help(cx.reply, "debug"),
        (b"assert", 2) => panic!("DEBUG ASSERT: 1 == 2"),
        (b"change-repl-id", 2) => {
            cx.engine.host().log("Changing replication IDs after receiving change-repl-id");
            cx.engine.change_replication_id();
            cx.reply.ok();
        }
        (b"client-eviction", 2) => return client_eviction(cx),
        (b"client-enforce-reply-list", 3) => {
            let enforced = resp::number::parse_i64_c(&args[2]).unwrap_or(0) != 0;
            cx.engine.clients().reply_buffers.skip_first.store(enforced, Relaxed);
            cx.reply.ok();
        }
        (b"config-rewrite-force-all", 2) => return rewrite_file(cx, true),
        (b"crash-and-recover" | b"restart", 2..) => return restart(cx, args, name == b"restart"),
        (b"digest", 2) => digest(cx)?,
        (b"digest-value", 2..) => digest_values(cx, args)?,
        (b"error", 3) => return Err(Error::Verbatim(Word::of(&args[2]))),
        (b"htstats", 3 | 4) => return table_stats(cx, args),
        (b"htstats-key", 3 | 4) => return debug_values::table_of_key(cx, args),
        (b"leak", 3) => {
            std::mem::forget(args[2].to_vec());
            cx.reply.ok();
        }
        (b"loadaof", 2) => return load_aof(cx),
        (b"aof-flush-sleep", 3) => {
            let microseconds = resp::number::parse_i64_c(&args[2]).unwrap_or(0).max(0) as u64;
            if let Some(aof) = persistence::aof::of(cx.engine) {
                aof.stats.flush_sleep.store(microseconds, Relaxed);
            }
            cx.reply.ok();
        }
        (b"listpack", 3) => return debug_values::listpack(cx, args),
        (b"log", 3) => {
            cx.engine.host().log(&format!("DEBUG LOG: {}", String::from_utf8_lossy(&args[2])));
            cx.reply.ok();
        }
        (b"mallctl", 3 | 4) => {
            let new = args.get(3).map(|_| args.int(3)).transpose()?.map(|new| new as u64);
            let name = String::from_utf8_lossy(&args[2]);
            cx.reply.int(cx.engine.host().allocator_number(&name, new).map_err(allocator_error)? as i64);
        }
        (b"mallctl-str", 3) => {
            let name = String::from_utf8_lossy(&args[2]);
            cx.reply.bulk(cx.engine.host().allocator_text(&name).map_err(allocator_error)?.as_bytes());
        }
        (b"object", 3 | 4) => return object(cx, args),
        (b"oom", 2) => handle_alloc_error(Layout::array::<u8>(isize::MAX as usize).unwrap_or(Layout::new::<u8>())),
        (b"panic", 2) => panic!("DEBUG PANIC"),
        (b"populate", 3..=5) => return populate(cx, args),
        (b"protocol", 3) => return protocol(cx.reply, &args[2]),
        (b"pause-cron", 3) => {
            cx.engine.pause_timers(resp::number::parse_i64_c(&args[2]).unwrap_or(0) != 0);
            cx.reply.ok();
        }
        (b"quicklist", 3 | 4) => return debug_values::quicklist(cx, args),
        (b"quicklist-packed-threshold", 3) => return packed_threshold(cx, &args[2]),
        (b"replybuffer", 4) => return reply_buffer(cx, args),
        (b"reload", 2..=5) => return reload(cx, args),
        (b"sdslen", 3) => return debug_values::string_lengths(cx, args),
        (b"segfault", 2) => cx.engine.host().crash(),
        (b"set-active-expire", 3) => {
            cx.engine.pause_expiry(resp::number::parse_i64_c(&args[2]).unwrap_or(0) == 0);
            cx.reply.ok();
        }
        (b"set-disable-deny-scripts", 3) => {
            cx.engine.scripts().allow_all(resp::number::parse_i64_c(&args[2]).unwrap_or(0) != 0);
            cx.reply.ok();
        }
        (b"set-skip-checksum-validation", 3) => {
            cx.engine.saves().skip_checksums(resp::number::parse_i64_c(&args[2]).unwrap_or(0) != 0);
            cx.reply.ok();
        }
        (b"sleep", 3) => sleep(cx, &args[2])?,
        (b"structsize", 2) => debug_values::struct_sizes(cx),
        (b"stringmatch-test", 2) => {
            match_at_random();
            cx.reply.simple("Apparently the server did not crash: test passed");
        }
        (b"stringmatch-len", 4) => {
            let length = usize::try_from(args.int(2)?).map_err(|_| Error::NotPositive)?;
            if length > STRING_MAX {
                return Err(Error::StringTooLong);
            }
            cx.reply.int(glob::matches(&args[3], &vec![b'a'; length]).into());
        }
        _ => return Err(unknown(args)),
    }
    Ok(())
}

/// Bytes of the strings that DEBUG makes, at most.
const STRING_MAX: usize = 512 << 20;

/// Begins the server anew, after so many milliseconds: in good order, with everything saved, or as after a crash.
fn restart(cx: &mut Cx<'_>, args: &Args<'_>, gracefully: bool) -> Result<(), Error> {
    let delay = args.get(2).map(|_| args.int(2)).transpose()?.unwrap_or(0).max(0) as u64;
    let host = cx.engine.host();
    let (has_file, start) = (!host.process().config_file.is_empty(), cx.reply.len());
    let saved = !gracefully
        || (!has_file || rewrite_file(cx, false).is_ok()) && save::before_end(cx.engine, save::Ending::Usual, false);
    if saved {
        std::thread::sleep(Duration::from_millis(delay));
        host.log(&format!("Can't restart: {}", host.restart()));
    }
    cx.reply.truncate(start);
    Err(Error::DebugRestart)
}

/// Sizes of clients, as powers of two, by which they are counted.
const CLIENT_SIZES: std::ops::RangeInclusive<u32> = 15..=33;

/// How many clients of which size there are, and what they take up together.
fn client_eviction(cx: &mut Cx<'_>) -> Result<(), Error> {
    let config = cx.engine.config().snapshot();
    if config.int(Directive::MAXMEMORY_CLIENTS) == 0 {
        return Err(Error::NoClientLimit);
    }
    let clients = cx.engine.clients().all();
    let sizes: Vec<usize> = clients
        .iter()
        .filter(|client| !client.no_evict.load(Relaxed))
        .map(|client| client.memory.load(Relaxed))
        .collect();
    let (first, last) = (*CLIENT_SIZES.start(), *CLIENT_SIZES.end());
    let mut text = String::new();
    for shift in CLIENT_SIZES {
        let from = if shift == first { 0 } else { 1usize << (shift - 1) };
        let to = if shift == last { usize::MAX } else { (1 << shift) - 1 };
        text += &match shift == last {
            true => format!("bucket {from:10}+            : "),
            false => format!("bucket {from:10} - {to:10}: "),
        };
        let chosen = sizes.iter().filter(|size| (from..=to).contains(*size));
        text += &format!("tot-mem: {:10}, clients: {}\n", chosen.clone().sum::<usize>(), chosen.count());
    }
    cx.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// Patterns and texts that nobody has thought of: the matching ends, and reads nothing that is not there.
fn match_at_random() {
    let random = |most: usize| -> Vec<u8> { (0..fastrand::usize(..most)).map(|_| fastrand::u8(..128)).collect() };
    for _ in 0..100_000 {
        std::hint::black_box(glob::matches(&random(128), &random(128)));
    }
}

/// Writes the file, empties the keyspace and reads the file again, each unless it is told otherwise.
fn reload(cx: &mut Cx<'_>, args: &Args<'_>) -> Result<(), Error> {
    let given = |word: &str| (2..args.len()).any(|index| args.is(index, word));
    let known = |index: usize| ["merge", "noflush", "nosave"].iter().any(|word| args.is(index, word));
    if !(2..args.len()).all(known) {
        return Err(Error::DebugReloadOption);
    }
    cx.must_be_alone()?;
    let engine = cx.engine;
    if !given("nosave") {
        save::save_now(engine, Some(cx.session.patience)).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => Error::WouldBlock,
            _ => Error::DebugSave,
        })?;
    }
    if !given("noflush") {
        cx.keys.escalate()?;
        // Nobody is to see the keyspace empty.
        engine.saves().set_loading(true);
        empty_all(cx)?;
        cx.keys.unlock();
    }
    let loaded = load::load_file(engine, given("merge"));
    engine.saves().set_loading(false);
    match loaded {
        Ok(Some(_)) => {
            engine.host().log("DB reloaded by DEBUG RELOAD");
            cx.reply.ok();
            Ok(())
        }
        Ok(None) => Err(Error::DebugLoad),
        Err(failure) => {
            engine.host().log(&failure.text);
            Err(Error::DebugLoad)
        }
    }
}

/// Empties the keyspace and reads the append-only file.
fn load_aof(cx: &mut Cx<'_>) -> Result<(), Error> {
    cx.must_be_alone()?;
    let engine = cx.engine;
    let failed = |aof::LoadFailed| Error::DebugLoadAof;
    cx.keys.escalate()?;
    aof::write_before_loading(engine).map_err(failed)?;
    // Nobody is to see the keyspace empty.
    engine.saves().set_loading(true);
    let logs = engine.has_log();
    engine.set_logging(false);
    empty_all(cx)?;
    cx.keys.unlock();
    let loaded = aof::load_again(engine);
    engine.set_logging(logs);
    engine.saves().set_loading(false);
    loaded.map_err(failed)?;
    engine.host().notice("Append Only File loaded by DEBUG LOADAOF");
    cx.reply.ok();
    Ok(())
}

/// Nobody is served meanwhile, whichever thread he has.
fn sleep(cx: &mut Cx<'_>, seconds: &[u8]) -> Result<(), Error> {
    let seconds = resp::number::parse_f64_c(seconds).unwrap_or(0.0).clamp(0.0, 3600.0);
    cx.keys.escalate()?;
    let time = Duration::from_secs_f64(seconds);
    cx.engine.host().sleep(time);
    // Whoever is served after this command is served that much later.
    cx.now.unix_us += time.as_micros() as i64;
    cx.reply.ok();
    Ok(())
}

/// The whole data set at one moment.
fn digest(cx: &mut Cx<'_>) -> Result<(), Error> {
    cx.keys.escalate()?;
    let mut digest = Digest::default();
    let mut dbs = BTreeSet::new();
    cx.keys.each_shard(|_, shard, _| dbs.extend(shard.dbs.iter().map(|(db, _)| db)))?;
    for db in dbs {
        let mut mixed = false;
        cx.keys.each_shard(|_, shard, _| {
            for entry in shard.dbs[db].table.iter() {
                if !mixed {
                    digest.mix_database(db);
                    mixed = true;
                }
                digest.add_key(entry.key(), &entry.value(), entry.deadline().is_some());
            }
        })?;
    }
    cx.reply.simple(digest.to_string());
    Ok(())
}

fn digest_values(cx: &mut Cx<'_>, args: &Args<'_>) -> Result<(), Error> {
    cx.keys.escalate()?;
    cx.reply.array(args.len() - 2);
    for name in args.from(2) {
        let mut digest = Digest::default();
        let key = cx.keys.key(name);
        if let Some(found) = cx.keys.peek_stale(key) {
            digest.mix_value(&found.value(), found.deadline().is_some());
        }
        cx.reply.simple(digest.to_string());
    }
    Ok(())
}

fn object(cx: &mut Cx<'_>, args: &Args<'_>) -> Result<(), Error> {
    cx.keys.escalate()?;
    let clock = cx.engine.access_clock(cx.now_ms());
    let key = cx.keys.key(&args[2]);
    let Some(found) = cx.keys.peek_stale(key) else { return Err(Error::NoSuchKey) };
    let value = found.value();
    let mut text = format!("Value at:{:p} refcount:1 encoding:{}", found.key().as_ptr(), value.encoding());
    let is_whole = args.get(3).is_none_or(|option| !option.eq_ignore_ascii_case(b"fast"));
    if is_whole {
        text += &format!(" serializedlength:{}", serialized_len(&value));
    }
    let mark = found.meta();
    text += &format!(" lru:{mark} lru_seconds_idle:{}", clock.idle_seconds(mark));
    if cx.engine.counts_frequency() {
        text += &format!(" lfu_freq:{} lfu_access_time_minutes:{}", clock.frequency(mark), mark >> 8);
    }
    if let Value::Payload(Object::List(list)) = value
        && let Some(stats) = list.stats()
    {
        text += &format!(
            " ql_nodes:{} ql_avg_node:{:.2} ql_listpack_max:{} ql_compressed:{}",
            stats.nodes,
            stats.elements as f64 / stats.nodes as f64,
            stats.fill,
            u8::from(stats.is_compressed),
        );
        if is_whole {
            text += &format!(" ql_uncompressed_size:{}", stats.bytes);
        }
    }
    cx.reply.simple(&text);
    Ok(())
}

/// Bytes of the value in a dump without compression; of collections, those of the elements and a length for each.
fn serialized_len(value: &Value<'_>) -> usize {
    let string = |len: usize| match len {
        0..64 => 1 + len,
        64..16384 => 2 + len,
        _ => 5 + len,
    };
    match value {
        Value::Inline(bytes) => string(bytes.len()),
        Value::Int(n) if i8::try_from(*n).is_ok() => 2,
        Value::Int(n) if i16::try_from(*n).is_ok() => 3,
        Value::Int(n) if i32::try_from(*n).is_ok() => 5,
        Value::Int(n) => string(Item::Int(*n).len()),
        Value::Payload(Object::String(bytes)) => string(bytes.len()),
        Value::Payload(Object::Set(set)) => set.iter().map(|member| string(member.len())).sum(),
        Value::Payload(Object::SortedSet(set)) => set.iter().map(|(name, _)| string(name.len()) + 8).sum(),
        Value::Payload(Object::List(list)) => {
            let mut sum = 0;
            list.each(0..list.len(), false, |element| sum += string(element.len()));
            sum
        }
        Value::Packed(_) | Value::Payload(Object::Hash(_)) => {
            let mut sum = 0;
            let hash = value.as_collection::<Hash>();
            hash.into_iter()
                .for_each(|hash| hash.visit(0, |field, value| sum += string(field.len()) + string(value.len())));
            sum
        }
        Value::Payload(Object::Stream(stream)) => {
            stream.nodes().map(|(_, node)| 17 + string(node.listpack_len())).sum()
        }
    }
}

/// How full a database's tables are, all of them together.
fn table_stats(cx: &mut Cx<'_>, args: &Args<'_>) -> Result<(), Error> {
    let overview = Overview::of(&mut cx.keys)?;
    let number = u32::try_from(args.int(2)?).ok().filter(|db| (*db as usize) < cx.engine.databases());
    let number = number.ok_or(Error::DebugDbOutOfRange)?;
    let db = overview.dbs.get(&number).copied().unwrap_or_default();
    let mut text = "[Dictionary HT]\n".to_owned();
    let mut table = |number: u8, name: &str, slots: usize, keys: usize| {
        text += &format!("Hash table {number} stats ({name}):\n table size: {slots}\n number of entries: {keys}\n");
    };
    if db.slots > 0 {
        table(0, "main hash table", db.slots, db.keys);
    }
    if db.resizing > 0 {
        table(1, "rehashing target", db.old_slots, db.keys);
    }
    text += "[Expires HT]\n";
    cx.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn allocator_error(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::AllocatorNoEntry,
        std::io::ErrorKind::PermissionDenied => Error::AllocatorNotPermitted,
        _ => Error::AllocatorArgument,
    }
}

/// From how many bytes on an element of a list has a node of its own; 0: as ever.
fn packed_threshold(cx: &mut Cx<'_>, size: &[u8]) -> Result<(), Error> {
    let bytes = parse_memory(size).and_then(|bytes| u32::try_from(bytes).ok());
    let bytes = bytes.ok_or(Error::DebugListpackSize)?;
    cx.engine.packing().set_large_list_elements(bytes as usize);
    cx.reply.ok();
    Ok(())
}

/// How the buffers follow the size of their clients' replies.
fn reply_buffer(cx: &mut Cx<'_>, args: &Args<'_>) -> Result<(), Error> {
    let buffers = &cx.engine.clients().reply_buffers;
    if args.is(2, "peak-reset-time") {
        let time = match () {
            () if args.is(3, "never") => -1,
            () if args.is(3, "reset") => ReplyBuffers::PEAK_RESET_TIME,
            () => args.int(3)?,
        };
        buffers.peak_reset_time.store(time, Relaxed);
    } else if args.is(2, "resizing") {
        buffers.resizing.store(resp::number::parse_i64_c(&args[3]).unwrap_or(0) != 0, Relaxed);
    } else {
        return Err(unknown(args));
    }
    cx.reply.ok();
    Ok(())
}

fn unknown(args: &Args<'_>) -> Error {
    Error::SubcommandUse(Word::of(shown(&args[1])), "DEBUG")
}

fn populate(cx: &mut Cx<'_>, args: &Args<'_>) -> Result<(), Error> {
    let number = |index: usize| args.int(index).ok().and_then(|n| usize::try_from(n).ok()).ok_or(Error::NotPositive);
    let count = number(2)?;
    let size = args.get(4).map(|_| number(4)).transpose()?;
    if size.is_some_and(|size| size > STRING_MAX) {
        return Err(Error::StringTooLong);
    }
    let prefix = args.get(3).unwrap_or(b"key");
    cx.keys.escalate()?;
    for number in 0..count {
        let name = [prefix, b":", itoa::Buffer::new().format(number).as_bytes()].concat();
        let mut value = format!("value:{number}").into_bytes();
        if let Some(size) = size {
            value.resize(size, 0);
        }
        let mut edit = cx.keys.edit(cx.keys.key(&name));
        if edit.exists() {
            edit.leave();
            continue;
        }
        edit.log_as(|| vec![vec![b"SET".to_vec(), name.clone(), value.clone()]]);
        edit.set_string(NewString::encode(value.into()), Ttl::Clear);
        edit.commit(EventClass::STRING, "set");
    }
    cx.reply.ok();
    Ok(())
}

/// One value of each type that the protocol has.
fn protocol(reply: &mut Reply, kind: &[u8]) -> Result<(), Error> {
    match &kind.to_ascii_lowercase()[..] {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.int(12345),
        b"double" => reply.double(3141.0 / 1000.0),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"map" => {
            reply.map(3);
            for n in 0..3 {
                reply.int(n);
                reply.boolean(n == 1);
            }
        }
        b"attrib" => {
            if reply.attribute(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.int(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            if reply.protocol() == Protocol::Resp2 {
                return Err(Error::DebugNotInResp2);
            }
            reply.bulk(b"Some real reply following the push reply");
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.int(42);
        }
        b"verbatim" => reply.verbatim(b"txt", b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        _ => return Err(Error::DebugProtocolType),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    #[test]
    fn nothing_is_answered_where_it_is_not_allowed() {
        let mut client = Client::new();
        for line in ["DEBUG SLEEP 0", "DEBUG HELP", "DEBUG nope"] {
            assert!(client.run(line).starts_with("-ERR DEBUG command not allowed."), "{line}");
        }
    }

    #[test]
    fn types_of_the_newer_protocol_have_a_form_in_the_older() {
        let said = |version, kind: &str| {
            let mut reply = Reply::new(Vec::new(), version);
            protocol(&mut reply, kind.as_bytes()).map(|()| String::from_utf8(reply.take()).unwrap())
        };
        for (kind, old, new) in [
            ("double", "$5\r\n3.141\r\n", ",3.141\r\n"),
            ("null", "$-1\r\n", "_\r\n"),
            ("MAP", "*6\r\n:0\r\n:0\r\n:1\r\n:1\r\n:2\r\n:0\r\n", "%3\r\n:0\r\n#f\r\n:1\r\n#t\r\n:2\r\n#f\r\n"),
            ("true", ":1\r\n", "#t\r\n"),
        ] {
            assert_eq!(said(Protocol::Resp2, kind).unwrap(), old);
            assert_eq!(said(Protocol::Resp3, kind).unwrap(), new);
        }
        assert!(said(Protocol::Resp2, "push").is_err() && said(Protocol::Resp3, "push").is_ok());
        assert_eq!(said(Protocol::Resp3, "nope"), Err(Error::DebugProtocolType));
    }
}
