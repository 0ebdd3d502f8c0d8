//! HyperLogLog: sketches in strings. The bytes and their arithmetic are in [`structures::hyperloglog`].

use crate::core::args::Args;
use crate::core::command::{ADMIN, Command, DENY_OOM, FAST, Group, MAY_REPLICATE, READONLY, SYSTEM, WRITE, key};
use crate::core::context::Context;
use engine::data::event_class::EventClass;
use engine::data::value::{Str, ValueExt};
use engine::keyspace::edit::Edit;
use engine::{Error, Word};
use structures::hyperloglog::{self, Corrupt, Encoding, Registers};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "pfadd",
        group: Group::HyperLogLog,
        since: "2.8.9",
        arity: -2,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().insert()],
        syntax: "key [element]...",
        summary: "Adds elements to a HyperLogLog key. Creates the key if it doesn't exist.",
        complexity: "O(1) to add every element.",
        run: pfadd,
        ..Command::DEFAULT
    },
    Command {
        name: "pfcount",
        group: Group::HyperLogLog,
        since: "2.8.9",
        arity: -2,
        flags: READONLY.and(MAY_REPLICATE),
        keys: &[key(1)
            .rw()
            .access()
            .to(-1, 1)
            .notes("RW because it may change the internal representation of the key, and propagate to replicas")],
        syntax: "key...",
        summary: "Returns the approximated cardinality of the set(s) observed by the HyperLogLog key(s).",
        complexity: "O(1) with a very small average constant time when called with a single key. O(N) with N being the number of keys, and much bigger constant times, when called with multiple keys.",
        run: pfcount,
        ..Command::DEFAULT
    },
    Command {
        name: "pfmerge",
        group: Group::HyperLogLog,
        since: "2.8.9",
        arity: -2,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).rw().access().insert(), key(2).ro().access().to(-1, 1)],
        syntax: "destkey:key [sourcekey:key]...",
        summary: "Merges one or more HyperLogLog values into a single key.",
        complexity: "O(N) to merge N HyperLogLogs, but with high constant times.",
        run: pfmerge,
        ..Command::DEFAULT
    },
    Command {
        name: "pfdebug",
        group: Group::HyperLogLog,
        since: "2.8.9",
        arity: 3,
        flags: WRITE.and(DENY_OOM).and(ADMIN).and(SYSTEM),
        keys: &[key(2).rw().access()],
        syntax: "subcommand key",
        summary: "Internal commands for debugging HyperLogLog values.",
        complexity: "N/A",
        run: pfdebug,
        ..Command::DEFAULT
    },
    Command {
        name: "pfselftest",
        group: Group::HyperLogLog,
        since: "2.8.9",
        arity: 1,
        flags: ADMIN.and(SYSTEM),
        summary: "An internal command for testing HyperLogLog values.",
        complexity: "N/A",
        run: pfselftest,
        ..Command::DEFAULT
    },
];

fn corrupt(_: Corrupt) -> Error {
    Error::CorruptHyperloglog
}

/// Returns the sketch to be changed; None when the key is missing.
fn sketch<'e>(edit: &'e Edit<'_>) -> Result<Option<&'e [u8]>, Error> {
    match edit.string()? {
        Some(Str::Bytes(bytes)) if hyperloglog::encoding(bytes).is_some() => Ok(Some(bytes)),
        Some(_) => Err(Error::NotAHyperloglog),
        None => Ok(None),
    }
}

/// Gives `change` the sketch's bytes, those of a new one when the key is missing.
fn with_sketch<R>(edit: &mut Edit<'_>, change: impl FnOnce(&mut Vec<u8>) -> R) -> Result<R, Error> {
    edit.with_bytes(0, |bytes| {
        if bytes.is_empty() {
            *bytes = hyperloglog::new();
        }
        change(bytes)
    })
}

fn sparse_max(cx: &Context<'_>) -> usize {
    cx.engine.encoding_limits().hll_sparse_max_bytes()
}

fn pfadd(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let sparse_max = sparse_max(cx);
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let is_new = sketch(&edit)?.is_none();
    let mut added = u64::from(is_new);
    let done = with_sketch(&mut edit, |bytes| {
        if is_new {
            // Other servers do not count a new sketch as known to be empty.
            hyperloglog::set_cached_count(bytes, None);
        }
        args.from(2).try_for_each(|element| {
            added += u64::from(hyperloglog::add(bytes, element, sparse_max)?);
            Ok(())
        })
    })?;
    if let Err(error) = done {
        return Err(refuse_rest(edit, &args[1], added, error));
    }
    if added > 0 {
        edit.commit_many(added, EventClass::STRING, "pfadd");
    } else {
        edit.unchanged();
    }
    cx.reply.int(i64::from(added > 0));
    Ok(())
}

/// Refuses the rest of the elements after one showed that the sketch is corrupt: the sketch retains those before, and
/// the log gets its present bytes.
#[cold]
fn refuse_rest(mut edit: Edit<'_>, key: &[u8], added: u64, error: hyperloglog::Corrupt) -> Error {
    let bytes = edit.string().ok().flatten().map(Str::to_vec).unwrap_or_default();
    if added > 0 {
        edit.log_as(|| vec![vec![b"SET".to_vec(), key.to_vec(), bytes, b"KEEPTTL".to_vec()]]);
        edit.commit_silently(added);
    } else {
        edit.unchanged();
    }
    corrupt(error)
}

fn pfcount(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.len() > 2 {
        let mut registers = Registers::for_count();
        for index in 1..args.len() {
            match cx.keys.string(cx.key(args, index))? {
                Some(Str::Bytes(bytes)) if hyperloglog::encoding(bytes).is_some() => {
                    registers.merge(bytes).map_err(corrupt)?;
                }
                Some(_) => return Err(Error::NotAHyperloglog),
                None => {}
            }
        }
        cx.reply.int(registers.count() as i64);
        return Ok(());
    }
    let key = cx.key(args, 1);
    let count = match cx.keys.string(key)? {
        None => 0,
        Some(Str::Bytes(bytes)) if hyperloglog::encoding(bytes).is_some() => match hyperloglog::cached_count(bytes) {
            Some(count) => count,
            None => {
                let count = hyperloglog::count(bytes).map_err(corrupt)?;
                if cx.engine.is_unlogged() {
                    cx.reply.int(count as i64);
                    return Ok(());
                }
                let mut edit = cx.keys.edit(key);
                edit.with_bytes(0, |bytes| hyperloglog::set_cached_count(bytes, Some(count)))?;
                edit.commit_silently(1);
                count
            }
        },
        Some(_) => return Err(Error::NotAHyperloglog),
    };
    cx.reply.int(count as i64);
    Ok(())
}

fn pfmerge(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let sparse_max = sparse_max(cx);
    let mut registers = Registers::default();
    let mut densely = false;
    for index in 1..args.len() {
        match cx.keys.string(cx.key(args, index))? {
            Some(Str::Bytes(bytes)) => match hyperloglog::encoding(bytes).ok_or(Error::NotAHyperloglog)? {
                Encoding::Dense => densely = true,
                Encoding::Sparse => registers.merge(bytes).map_err(corrupt)?,
            },
            Some(_) => return Err(Error::NotAHyperloglog),
            None => {}
        }
    }
    if densely {
        // Dense ones are read after those that may be corrupt, and together.
        let dense = (1..args.len()).filter_map(|index| match cx.keys.together(cx.key(args, index))?.as_string() {
            Ok(Str::Bytes(bytes)) => Some(bytes).filter(|_| hyperloglog::encoding(bytes) == Some(Encoding::Dense)),
            _ => None,
        });
        registers.merge_dense(dense).map_err(corrupt)?;
    }
    let mut edit = cx.keys.edit(cx.key(args, 1));
    // A merged result can be stored.
    with_sketch(&mut edit, |bytes| registers.store(bytes, densely, sparse_max))?.map_err(corrupt)?;
    edit.commit(EventClass::STRING, "pfadd");
    cx.reply.ok();
    Ok(())
}

fn pfdebug(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.is(1, "SIMD") {
        let wide = match args {
            _ if args.is(2, "ON") => true,
            _ if args.is(2, "OFF") => false,
            _ => return Err(Error::NotOnOrOff),
        };
        hyperloglog::set_simd(wide);
        cx.reply.simple(if wide { "enabled" } else { "disabled" });
        return Ok(());
    }
    let mut edit = cx.keys.edit(cx.key(args, 2));
    let Some(bytes) = sketch(&edit)? else { return Err(Error::NoSuchHyperloglog) };
    if args.is(1, "GETREG") {
        let mut registers = Registers::default();
        registers.merge(bytes).map_err(corrupt)?;
        if with_sketch(&mut edit, hyperloglog::make_dense)?.map_err(corrupt)? {
            edit.commit_beside(1, None);
        } else {
            edit.unchanged();
        }
        cx.reply.array(hyperloglog::REGISTERS);
        registers.values().iter().for_each(|register| cx.reply.int(i64::from(*register)));
    } else if args.is(1, "DECODE") {
        let text = hyperloglog::describe(bytes).ok_or(Error::HyperloglogNotSparse)?;
        cx.reply.bulk(text.as_bytes());
    } else if args.is(1, "ENCODING") {
        let dense = hyperloglog::encoding(bytes) == Some(Encoding::Dense);
        cx.reply.simple(if dense { "dense" } else { "sparse" });
    } else if args.is(1, "TODENSE") {
        hyperloglog::count(bytes).map_err(corrupt)?;
        let converted = with_sketch(&mut edit, hyperloglog::make_dense)?.map_err(corrupt)?;
        if converted {
            edit.commit_beside(1, None);
        } else {
            edit.unchanged();
        }
        cx.reply.int(i64::from(converted));
    } else {
        return Err(Error::UnknownPfdebug(Word::up_to_nul(&args[1])));
    }
    Ok(())
}

fn pfselftest(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    match hyperloglog::self_test() {
        Ok(()) => cx.reply.ok(),
        Err(what) => return Err(Error::PfselftestFailed(Word::of(what))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn sketches_count_and_merge() {
        let mut client = Client::with_events();
        client.is("PFADD h a b c", ":1").is("PFADD h a", ":0").is("PFCOUNT h", ":3").is("PFADD e", ":1");
        client.is("PFADD e", ":0").is("PFCOUNT e", ":0").is("PFADD i c d", ":1").is("PFCOUNT h i none", ":4");
        client.is("PFMERGE m h i", "+OK").is("PFCOUNT m", ":4").is("PFMERGE none2", "+OK").is("PFCOUNT none2", ":0");
        assert_eq!(client.events().iter().filter(|event| event.contains("pfadd")).count(), 5);
        client
            .is("PFDEBUG DECODE h", "Z:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603")
            .is("PFDEBUG ENCODING h", "+sparse");
        client.is("PFDEBUG TODENSE h", ":1").is("PFDEBUG TODENSE h", ":0").is("PFDEBUG ENCODING h", "+dense");
        client.is("PFDEBUG DECODE h", "-ERR HLL encoding is not sparse").is("PFCOUNT h", ":3").is("STRLEN h", ":12304");
        client.is("PFMERGE m2 h", "+OK").is("PFDEBUG ENCODING m2", "+dense").is("PFSELFTEST", "+OK");
        client
            .is("PFDEBUG TODENSE m", ":1")
            .is("PFADD o x y", ":1")
            .is("PFDEBUG TODENSE o", ":1")
            .is("PFADD p z", ":1");
        client.is("PFMERGE all m h o none p", "+OK").is("PFCOUNT all", ":7").is("PFDEBUG ENCODING all", "+dense");
        client
            .is("PFMERGE all p", "+OK")
            .is("PFMERGE m all o h", "+OK")
            .is("PFCOUNT m", ":7")
            .is("PFCOUNT m o p", ":7");
    }

    #[test]
    fn a_corrupt_sketch_is_logged_with_the_elements_that_it_took() {
        // Only the first half of its registers has opcodes.
        let sketch = [&b"HYLL\x01\0\0\0"[..], &[0; 7], b"\x80\x5f\xff"].concat();
        let mut client = Client::new();
        let log = client.log();
        client.value_of([&b"SET"[..], b"h", &sketch].into_iter().collect());
        let elements: Vec<String> = (0..40).map(|number| number.to_string()).collect();
        let words = ["PFADD", "h"].into_iter().chain(elements.iter().map(String::as_str)).collect::<Vec<_>>();
        assert_eq!(client.run_words(&words), "-INVALIDOBJ Corrupted HLL object detected");
        let mut replica = Client::new();
        replica.replay(&log);
        let (state, replayed) = (client.value("GET h"), replica.value("GET h"));
        assert_eq!(state, replayed);
        assert_ne!(replica.value_of([&b"STRLEN"[..], b"h"].into_iter().collect()), resp::reply_value::Value::Int(17));
    }

    #[test]
    fn values_that_are_no_sketches_are_refused() {
        let mut client = Client::new();
        let refused = "-WRONGTYPE Key is not a valid HyperLogLog string value.";
        client.is("SET s abc", "+OK").is("SET n 12", "+OK").is("RPUSH l a", ":1");
        client.is("PFADD s a", refused).is("PFCOUNT n", refused).is("PFMERGE d s", refused).is("PFCOUNT s n", refused);
        client.is("PFADD l a", "-WRONGTYPE Operation against a key holding the wrong kind of value");
        client.is("PFADD h a", ":1").is("APPEND h x", ":22");
        client.is("PFCOUNT h", "-INVALIDOBJ Corrupted HLL object detected");
        client.is("PFMERGE d h", "-INVALIDOBJ Corrupted HLL object detected").is("EXISTS d", ":0");
        client.is("PFDEBUG ENCODING none", "-ERR The specified key does not exist");
    }
}
