//! The DEBUG subcommands that show how a value lies in memory: LISTPACK, QUICKLIST, HTSTATS-KEY, SDSLEN,
//! STRUCTSIZE, OBJECT.
//!
//! The words are Valkey's, since tools look for them; the numbers are of the structures that are here:
//!
//! ```text
//!   SDSLEN       obj_alloc  the entry: header, key, and the value if it is inside    val_alloc  the value otherwise
//!                avail      bytes that it may grow by where it is
//!   HTSTATS-KEY  table size places in buckets; the children are the lines chained to buckets that were full
//!   LISTPACK, QUICKLIST     go to the log, which is the standard output unless a file is configured
//! ```

use crate::core::args::Args;
use crate::core::context::Context;
use engine::Error;
use engine::data::value::{Collection, Object, Value, ValueExt};
use resp::words::quoted;
use structures::hash::Hash;
use structures::hashtable::{PLACES, TableStats};
use structures::listpack::Item;
use structures::quicklist::NodeView;

/// `DEBUG OBJECT key [fast]`
pub fn object(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.keys.escalate()?;
    let clock = cx.engine.access_clock(cx.now_ms());
    let key = cx.keys.key(&args[2]);
    let Some(found) = cx.keys.lookup_no_expire(key) else { return Err(Error::NoSuchKey) };
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

/// Returns the bytes of the value in a dump without compression; of collections, the elements and a length for each.
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
        Value::Payload(Object::Other(value)) => value.parts().len(),
        Value::Payload(Object::Stream(stream)) => {
            stream.nodes().map(|(_, node)| 17 + string(node.listpack_len())).sum()
        }
    }
}

/// DEBUG LISTPACK key
pub fn listpack(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.keys.escalate()?;
    let found = cx.keys.lookup_no_expire(cx.keys.key(&args[2])).ok_or(Error::NoSuchKey)?;
    let value = found.value();
    if value.encoding() != "listpack" {
        return Err(Error::NotAListpack);
    }
    let (mut lines, mut bytes) = (Vec::new(), 0);
    each_element(&value, &mut |element| {
        bytes += element.len();
        lines.push(format!("{{{}}} {}", lines.len(), shown(element)));
    });
    let host = cx.engine.host();
    host.log(&format!("{{total bytes of elements {bytes}}} {{num entries {}}}", lines.len()));
    lines.iter().for_each(|line| host.log(line));
    cx.reply.simple("Listpack structure printed on stdout");
    Ok(())
}

/// DEBUG QUICKLIST key [0|1]: the nodes; with 1 their elements, too.
pub fn quicklist(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let full = args.get(3).and_then(resp::number::parse_i64_c).unwrap_or(0) != 0;
    cx.keys.escalate()?;
    let found = cx.keys.lookup_no_expire(cx.keys.key(&args[2])).ok_or(Error::NoSuchKey)?;
    let Value::Payload(Object::List(list)) = found.value() else { return Err(Error::NotAQuicklist) };
    let Some(stats) = list.stats() else { return Err(Error::NotAQuicklist) };
    let host = cx.engine.host();
    host.log(&format!("{{count: {}}} {{nodes: {}}} {{bytes: {}}}", stats.elements, stats.nodes, stats.bytes));
    list.each_node(|number, node| host.log(&format!("{{quicklist node({number})}} {}", described(node))));
    if full {
        let mut number = 0;
        list.each(0..list.len(), false, |element| {
            host.log(&format!("[{number}] {}", shown(element)));
            number += 1;
        });
    }
    cx.reply.simple("Quicklist structure printed on stdout");
    Ok(())
}

fn described(node: NodeView<'_>) -> String {
    let container = if node.is_plain { "PLAIN" } else { "PACKED" };
    let encoding = if node.compressed_from.is_some() { "lzf" } else { "raw" };
    let size = node.compressed_from.unwrap_or(node.bytes.len());
    format!("{{container : {container}}} {{encoding: {encoding}}} {{size: {size}}} {{in memory: {}}}", node.bytes.len())
}

fn shown(element: Item<'_>) -> String {
    match element {
        Item::Int(n) => format!("[int] {n}"),
        Item::Bytes(bytes) => format!("[str] {}", quoted(bytes)),
    }
}

/// Visits all elements of a collection in the order in which they are stored, fields and members before their values.
fn each_element(value: &Value<'_>, see: &mut dyn FnMut(Item<'_>)) {
    if let Some(hash) = Hash::read(value) {
        return hash.visit(0, |field, value| {
            see(field);
            see(value);
        });
    }
    let Value::Payload(object) = value else { return };
    match object {
        Object::List(list) => list.each(0..list.len(), false, see),
        Object::Set(set) => set.iter().for_each(see),
        Object::SortedSet(set) => set.iter().for_each(|(member, score)| {
            see(Item::Bytes(member));
            see(Item::Bytes(resp::double::format_double(score).as_bytes()));
        }),
        Object::String(_) | Object::Hash(_) | Object::Stream(_) | Object::Other(_) => {}
    }
}

/// `DEBUG HTSTATS-KEY key [full]`
pub fn table_of_key(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.keys.escalate()?;
    let found = cx.keys.lookup_no_expire(cx.keys.key(&args[2])).ok_or(Error::NoSuchKey)?;
    let stats = match found.value() {
        Value::Payload(Object::Set(set)) => set.table_stats(),
        Value::Payload(Object::Hash(hash)) => hash.table_stats(),
        Value::Payload(Object::SortedSet(set)) => set.table_stats(),
        _ => None,
    };
    let text = table_text(&stats.ok_or(Error::NoHashTable)?, args.is(3, "full"));
    cx.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn table_text(stats: &TableStats, full: bool) -> String {
    let mut text = String::new();
    let mut table = |number: u8, name: &str, buckets: usize| {
        let (slots, entries) = (buckets * PLACES, stats.entries);
        text += &format!("Hash table {number} stats ({name}):\n table size: {slots}\n number of entries: {entries}\n");
        if full {
            text += &format!(" top-level buckets: {buckets}\n child buckets: {}\n", stats.child_lines);
        }
    };
    match stats.resize {
        None => table(0, "main hash table", stats.buckets),
        Some((old, _)) => {
            table(0, "main hash table", old);
            table(1, "rehashing target", stats.buckets);
        }
    }
    text
}

/// DEBUG SDSLEN key
pub fn string_lengths(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.keys.escalate()?;
    let found = cx.keys.lookup_no_expire(cx.keys.key(&args[2])).ok_or(Error::NoSuchKey)?;
    let (len, avail, beyond) = match found.value() {
        Value::Inline(bytes) => (bytes.len(), found.room(), 0),
        Value::Payload(Object::String(bytes)) => (bytes.len(), bytes.capacity() - bytes.len(), bytes.capacity()),
        _ => return Err(Error::NotAnSds),
    };
    cx.reply.simple(format!(
        "key_sds_len:{} key_sds_avail:0 obj_alloc:{} val_sds_len:{len} val_sds_avail:{avail} val_alloc:{beyond}",
        found.key().len(),
        found.allocated(),
    ));
    Ok(())
}

/// DEBUG STRUCTSIZE: `robj` is the size of a key and its value beside their bytes.
pub fn struct_sizes(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let object = size_of::<Object>();
    let header = structures::entry::HEADER;
    cx.reply.simple(format!("bits:{} robj:{header} object:{object} client:{}", usize::BITS, size_of_client()));
    Ok(())
}

fn size_of_client() -> usize {
    size_of::<crate::core::session::Session>() + size_of::<engine::clients::registry::ClientInfo>()
}
