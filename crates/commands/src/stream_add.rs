//! XADD: an entry at the end of a stream.
//!
//! The change log gets the id that the entry got, and trimming to about some length as trimming to what came of it.

use crate::args::Args;
use crate::cx::Cx;
use crate::row::{Command, DENY_OOM, FAST, Group, ROW, WRITE, key};
use crate::stream::{GivenId, reply_id};
use crate::stream_trim::Trim;
use engine::Error;
use engine::effects::{EventClass, Record};
use structures::stream::{Id, MAX_BYTES, Stream};

pub const COMMANDS: &[Command] = &[Command {
    name: "xadd",
    group: Group::Stream,
    since: "5.0.0",
    arity: -5,
    flags: WRITE.and(DENY_OOM).and(FAST),
    keys: &[key(1).rw().update()],
    syntax: "key [NOMKSTREAM]@6.2.0 [trim: (strategy: MAXLEN | MINID@6.2.0) [operator: \"=\"=equal | \"~\"=approximately] threshold [LIMIT count:int]@6.2.0] (id-selector: \"*\"=auto-id | id) (data: field value)...",
    summary: "Appends a new message to a stream. Creates the key if it doesn't exist.",
    complexity: "O(1) when adding a new entry, O(N) when trimming where N being the number of entries evicted.",
    history: &[
        ("6.2.0", "Added the `NOMKSTREAM` option, `MINID` trimming strategy and the `LIMIT` option."),
        ("7.0.0", "Added support for the `<ms>-*` explicit ID form."),
    ],
    run: xadd,
    ..ROW
}];

const ZERO_ID: Error = Error::text("ERR The ID specified in XADD must be greater than 0-0");
const NOT_ABOVE: Error =
    Error::text("ERR The ID specified in XADD is equal or smaller than the target stream top item");
const EXHAUSTED: Error = Error::text("ERR The stream has exhausted the last possible ID, unable to add more items");
const TOO_LARGE: Error = Error::text("ERR Elements are too large to be stored");

/// What comes before the fields.
struct Options {
    /// None: `*`.
    id: Option<GivenId>,
    /// Where the id stands.
    id_at: usize,
    no_create: bool,
    trim: Trim,
}

impl Options {
    fn parse(args: &Args<'_>) -> Result<Options, Error> {
        let mut options = Options { id: None, id_at: args.len(), no_create: false, trim: Trim::default() };
        let mut at = 2;
        while at < args.len() {
            if args[at] == *b"*" {
                options.id_at = at;
                break;
            } else if let Some(next) = options.trim.option(args, at)? {
                at = next;
            } else if args.is(at, "nomkstream") {
                options.no_create = true;
                at += 1;
            } else {
                options.id = Some(GivenId::parse(&args[at])?);
                options.id_at = at;
                break;
            }
        }
        options.trim.check()?;
        Ok(options)
    }

    /// The id of an entry after `last`.
    fn resolve(&self, last: Id, now_ms: i64) -> Result<Id, Error> {
        let id = match self.id {
            None => {
                let now = u64::try_from(now_ms).unwrap_or(0);
                if now > last.ms { Some(Id::new(now, 0)) } else { last.next() }
            }
            Some(GivenId::Whole(id)) => Some(id),
            Some(GivenId::Time(ms)) if ms == last.ms => last.seq.checked_add(1).map(|seq| Id::new(ms, seq)),
            Some(GivenId::Time(ms)) => Some(Id::new(ms, 0)),
        };
        id.filter(|id| *id > last).ok_or(NOT_ABOVE)
    }
}

fn xadd(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = Options::parse(args)?;
    let first = options.id_at + 1;
    if args.len() < first + 2 || (args.len() - first) % 2 == 1 {
        return Err(Error::wrong_arity("xadd"));
    }
    if options.id == Some(GivenId::Whole(Id::MIN)) {
        return Err(ZERO_ID);
    }
    let (now, limits) = (cx.now_ms(), cx.engine.packing().stream());
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let last = match edit.collection::<Stream>()? {
        Some(stream) => stream.last_id,
        None if options.no_create => {
            cx.reply.null();
            return Ok(());
        }
        None => Id::MIN,
    };
    if last == Id::MAX {
        return Err(EXHAUSTED);
    }
    let id = options.resolve(last, now)?;
    if args.wire_len() > MAX_BYTES && args.from(first).map(<[u8]>::len).sum::<usize>() > MAX_BYTES {
        return Err(TOO_LARGE);
    }
    let pairs = (first..args.len()).step_by(2).map(|at| (&args[at], &args[at + 1]));
    let (has_log, mut words) = (cx.engine.has_log(), Record::new());
    let trimmed = edit.with(|stream: &mut Stream| {
        stream.append(id, pairs, limits);
        let trimmed = options.trim.run(stream, limits.entries);
        if has_log {
            options.trim.words(stream, &mut words);
        }
        trimmed
    })?;
    if options.trim.about || !matches!(options.id, Some(GivenId::Whole(_))) {
        edit.log_as(|| {
            let mut record = vec![b"XADD".to_vec(), args[1].to_vec()];
            record.append(&mut words);
            record.push(id.to_vec());
            record.extend(args.from(first).map(<[u8]>::to_vec));
            vec![record]
        });
    }
    reply_id(cx.reply, id);
    if trimmed > 0 {
        edit.event(EventClass::STREAM, "xadd");
        edit.commit(EventClass::STREAM, "xtrim");
    } else {
        edit.commit(EventClass::STREAM, "xadd");
    }
    Ok(())
}
