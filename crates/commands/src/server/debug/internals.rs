//! The DEBUG subcommands about parts of the server: its clients' memory, its tables, its allocator, its log, the
//! matching of patterns.

use crate::core::args::Args;
use crate::core::context::Context;
use engine::config::Directive;
use engine::keyspace::keyspace_sums::Overview;
use engine::status::replication_status::new_id;
use engine::{Error, glob};
use replication::replid::History;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of the strings that DEBUG makes, at most.
pub const STRING_MAX: usize = 512 << 20;

pub fn change_replication_id(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.host().log("Changing replication IDs after receiving change-repl-id");
    cx.engine.replication().update_history(|history| *history = History::new(new_id()));
    cx.reply.ok();
    Ok(())
}

/// Sends replicas these words as if they were a command.
pub fn replicate(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.keys.tell_replicas(args.from(2));
    cx.reply.ok();
    Ok(())
}

pub fn log(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.host().log(&format!("DEBUG LOG: {}", String::from_utf8_lossy(&args[2])));
    cx.reply.ok();
    Ok(())
}

/// Sizes of clients, as powers of two, by which they are counted.
const CLIENT_SIZES: std::ops::RangeInclusive<u32> = 15..=33;

/// Replies how many clients of which size there are, and their memory together.
pub fn client_eviction(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
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

/// Replies how full a database's tables are, all of them together.
pub fn table_stats(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let overview = Overview::of(&mut cx.keys);
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

/// `DEBUG MALLCTL name [value]`
pub fn allocator_number(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let new = args.get(3).map(|_| args.int(3)).transpose()?.map(|new| new as u64);
    let name = String::from_utf8_lossy(&args[2]);
    cx.reply.int(cx.engine.host().allocator_number(&name, new).map_err(allocator_error)? as i64);
    Ok(())
}

/// DEBUG MALLCTL-STR name
pub fn allocator_text(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let name = String::from_utf8_lossy(&args[2]);
    cx.reply.bulk(cx.engine.host().allocator_text(&name).map_err(allocator_error)?.as_bytes());
    Ok(())
}

fn allocator_error(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::AllocatorNoEntry,
        std::io::ErrorKind::PermissionDenied => Error::AllocatorNotPermitted,
        _ => Error::AllocatorArgument,
    }
}

/// Matches random patterns and texts: the matching ends, and reads nothing that is not there.
pub fn match_at_random(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let random = |most: usize| -> Vec<u8> { (0..fastrand::usize(..most)).map(|_| fastrand::u8(..128)).collect() };
    for _ in 0..100_000 {
        std::hint::black_box(glob::matches(&random(128), &random(128)));
    }
    cx.reply.simple("Apparently the server did not crash: test passed");
    Ok(())
}

/// DEBUG STRINGMATCH-LEN length pattern: matches a text of so many letters.
pub fn match_long(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let length = usize::try_from(args.int(2)?).map_err(|_| Error::NotPositive)?;
    if length > STRING_MAX {
        return Err(Error::StringTooLong);
    }
    cx.reply.int(glob::matches(&args[3], &vec![b'a'; length]).into());
    Ok(())
}
