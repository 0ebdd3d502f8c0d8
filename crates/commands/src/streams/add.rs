//! XADD: an entry at the end of a stream.
//!
//! The change log gets the id that the entry got, and trimming to about some length as trimming to the resulting one.

use crate::core::args::Args;
use crate::core::command::{Command, DENY_OOM, FAST, Group, WRITE, key};
use crate::core::context::Context;
use crate::streams::stream::{GivenId, reply_id};
use crate::streams::stream_records;
use crate::streams::trim::{LoggedTrim, Trim};
use engine::data::event_class::EventClass;
use engine::keyspace::caller::Caller;
use engine::keyspace::edit::Edit;
use engine::propagation::effects::Record;
use engine::propagation::logged_words::record_of;
use engine::{Error, Word};
use sha1::{Digest, Sha1};
use structures::stream::{Id, MAX_BYTES, MessageId, Stream};

pub const COMMANDS: &[Command] = &[Command {
    name: "xadd",
    group: Group::Stream,
    since: "5.0.0",
    arity: -5,
    flags: WRITE.and(DENY_OOM).and(FAST),
    keys: &[key(1).rw().update().notes("UPDATE instead of INSERT because of the optional trimming feature")],
    syntax: "key [NOMKSTREAM]@6.2.0 [trim: (strategy: MAXLEN | MINID@6.2.0) [operator: \"=\"=equal | \"~\"=approximately] threshold [LIMIT count:int]@6.2.0] (id-selector: \"*\"=auto-id | id) (data: field value)...",
    summary: "Appends a new message to a stream. Creates the key if it doesn't exist.",
    complexity: "O(1) when adding a new entry, O(N) when trimming where N being the number of entries evicted.",
    history: &[
        ("6.2.0", "Added the `NOMKSTREAM` option, `MINID` trimming strategy and the `LIMIT` option."),
        ("7.0.0", "Added support for the `<ms>-*` explicit ID form."),
    ],
    tips: &["nondeterministic_output"],
    run: xadd,
    ..Command::DEFAULT
}];

/// The options before the fields.
struct Options {
    /// The id; None: `*`.
    id: Option<GivenId>,
    /// Argument of the id.
    id_at: usize,
    no_create: bool,
    trim: Trim,
    idempotency: Option<Producing>,
}

/// A message that is to be added once only.
struct Producing {
    /// Argument of the producer's name.
    producer_at: usize,
    /// Argument of the message's own id; None: it is derived from the message's content.
    message_at: Option<usize>,
}

impl Producing {
    /// Reads IDMP and IDMPAUTO at `at`; returns the index after it, too.
    fn option(args: &Args<'_>, at: usize) -> Result<Option<(Producing, usize)>, Error> {
        let words = match () {
            () if args.is(at, "idmpauto") => 1,
            () if args.is(at, "idmp") => 2,
            () => return Ok(None),
        };
        if at + words >= args.len() {
            return Err(Error::Syntax);
        }
        if (1..=words).any(|word| args[at + word].is_empty()) {
            return Err(Error::IdempotencyIdEmpty);
        }
        let message_at = (words == 2).then_some(at + 2);
        Ok(Some((Producing { producer_at: at + 1, message_at }, at + words + 1)))
    }

    fn message(&self, args: &Args<'_>, first: usize) -> MessageId {
        match self.message_at {
            Some(at) => args[at].into(),
            None => {
                let mut hash = Sha1::new();
                for word in args.from(first) {
                    hash.update(word.len().to_le_bytes());
                    hash.update(word);
                }
                let digest: [u8; 20] = hash.finalize().into();
                digest[..16].into()
            }
        }
    }
}

impl Options {
    fn parse(args: &Args<'_>, caller: Caller) -> Result<Options, Error> {
        let mut options =
            Options { id: None, id_at: args.len(), no_create: false, trim: Trim::default(), idempotency: None };
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
            } else if let Some((idempotency, next)) = Producing::option(args, at)? {
                if options.idempotency.is_some() {
                    return Err(Error::Syntax);
                }
                options.idempotency = Some(idempotency);
                at = next;
            } else {
                options.id = Some(GivenId::parse(&args[at])?);
                options.id_at = at;
                break;
            }
        }
        options.trim.check(caller)?;
        Ok(options)
    }

    /// Returns the argument of the first field. Fields without values are refused, and the id that no entry can have.
    fn first_field(&self, args: &Args<'_>) -> Result<usize, Error> {
        let first = self.id_at + 1;
        if args.len() < first + 2 || (args.len() - first) % 2 == 1 {
            return Err(Error::WrongArity(Word::of("xadd")));
        }
        if self.id == Some(GivenId::Whole(Id::MIN)) {
            return Err(Error::XaddZeroId);
        }
        Ok(first)
    }

    /// Returns the id of an entry after `last`.
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
        id.filter(|id| *id > last).ok_or(Error::XaddIdNotAbove)
    }

    /// Returns whether the log's form differs from the client's.
    fn is_rewritten(&self) -> bool {
        let has_whole_id = matches!(self.id, Some(GivenId::Whole(_)));
        !has_whole_id || self.trim.is_rewritten() || self.idempotency.is_some()
    }

    /// Returns the records for the log: the id that the entry has, the effect of the trimming in its place, and the
    /// message's own id, so that it is known wherever the log is read.
    fn records(&self, args: &Args<'_>, trim: LoggedTrim, id: Id, message: Option<&MessageId>) -> Vec<Record> {
        let mut added = record_of(&[b"XADD", &args[1]], trim.options.iter());
        added.push(id.to_vec());
        added.extend(args.from(self.id_at + 1).map(<[u8]>::to_vec));
        let mut records = vec![added];
        records.extend(trim.after);
        if let (Some(idempotency), Some(message)) = (&self.idempotency, message) {
            records.push(stream_records::message(&args[1], &args[idempotency.producer_at], message, id));
        }
        records
    }
}

/// Returns the entry that this message has become before, if it is remembered.
fn sent_before(edit: &mut Edit<'_>, producer: &[u8], message: &MessageId, now: i64) -> Result<Option<Id>, Error> {
    if edit.collection::<Stream>()?.is_none_or(|stream| stream.idempotency().is_none()) {
        return Ok(None);
    }
    edit.with(|stream: &mut Stream| {
        let idempotency = stream.idempotency_mut();
        let found = idempotency.find(producer, message, now);
        idempotency.duplicates += u64::from(found.is_some());
        found
    })
}

fn xadd(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = Options::parse(args, cx.keys.origin().caller)?;
    let first = options.first_field(args)?;
    let (now, limits) = (cx.now_ms().0, cx.engine.encoding_limits().stream());
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let last = match edit.collection::<Stream>()? {
        Some(stream) => stream.last_id,
        None if options.no_create => {
            cx.reply.null();
            return Ok(());
        }
        None => Id::MIN,
    };
    let message = options.idempotency.as_ref().map(|idempotency| idempotency.message(args, first));
    // A record of the change log gives the id, and no message occurs twice: it is only remembered then.
    if let (Some(idempotency), Some(message), None) = (&options.idempotency, &message, options.id)
        && let Some(id) = sent_before(&mut edit, &args[idempotency.producer_at], message, now)?
    {
        // Watchers and the log need no notice.
        edit.unchanged();
        reply_id(cx.reply, id);
        return Ok(());
    }
    if last == Id::MAX {
        return Err(Error::StreamExhausted);
    }
    let id = options.resolve(last, now)?;
    if args.wire_len() > MAX_BYTES && args.from(first).map(<[u8]>::len).sum::<usize>() > MAX_BYTES {
        return Err(Error::StreamElementTooLarge);
    }
    let pairs = (first..args.len()).step_by(2).map(|at| (&args[at], &args[at + 1]));
    let (has_log, mut logged) = (cx.engine.has_log(), LoggedTrim::default());
    let came_at = stream_records::came_at(cx.engine, id, now);
    let trimmed = edit.with(|stream: &mut Stream| {
        stream.append(id, pairs, limits);
        if let (Some(idempotency), Some(message)) = (&options.idempotency, &message) {
            stream.idempotency_mut().remember(&args[idempotency.producer_at], message.clone(), id, came_at);
        }
        let trimmed = options.trim.run(stream, limits.entries);
        if has_log {
            logged = options.trim.logged(&args[1], stream, &trimmed);
        }
        trimmed.removed
    })?;
    if options.is_rewritten() {
        edit.log_as(|| options.records(args, logged, id, message.as_ref()));
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

#[cfg(test)]
mod tests {
    use crate::testing::Client;
    use engine::Error;

    #[test]
    fn ids_are_made_or_given() {
        let mut client = Client::with_events();
        client.is("XADD s 5-1 a 1", "5-1").is("XADD s 5-* a 2", "5-2").is("XADD s * a 3", "1700000000000-0");
        client.is("XADD s * a 4", "1700000000000-1").is("XADD s 7 a 5", &format!("-{}", Error::XaddIdNotAbove));
        client.is("XADD s 0-0 a 1", "-ERR The ID specified in XADD must be greater than 0-0");
        client.is("XADD z 0-* a 1", "0-1").is("XADD n NOMKSTREAM * a 1", "nil").is("EXISTS n", ":0");
        client.is("XADD s 9-9 a", "-ERR wrong number of arguments for 'xadd' command");
        client.is("XADD z 18446744073709551615-18446744073709551615 a 1", "18446744073709551615-18446744073709551615");
        client.is("XADD z * a 1", &format!("-{}", Error::StreamExhausted)).is("TYPE s", "+stream").is("XLEN s", ":4");
        assert_eq!(client.events()[..2], ["0 new s", "0 xadd s"]);
    }

    #[test]
    fn the_log_gets_what_came_of_it() {
        let mut client = Client::new();
        let log = client.log();
        client.is("CONFIG SET stream-node-max-entries 2", "+OK").is("XADD s MAXLEN ~ 2 * a 1", "1700000000000-0");
        client.is("XADD s 1700000000000-1 a 2", "1700000000000-1").is("XADD s * a 3", "1700000000000-2");
        client.is("XADD s * a 4", "1700000000000-3").is("XADD s MAXLEN ~ 2 * a 5", "1700000000000-4");
        client.is("XTRIM s MINID ~ 1700000000000-4", ":2");
        let logged: Vec<_> =
            log.take().iter().map(|(_, words)| String::from_utf8(words.join(&b' ')).unwrap()).collect();
        let expected = [
            "XADD s MAXLEN = 1 1700000000000-0 a 1",
            "XADD s 1700000000000-1 a 2",
            "XADD s 1700000000000-2 a 3",
            "XADD s 1700000000000-3 a 4",
            "XADD s MAXLEN = 3 1700000000000-4 a 5",
            "XTRIM s MINID = 1700000000000-4",
        ];
        assert_eq!(logged, expected);
    }

    #[test]
    fn a_message_that_is_sent_twice_is_added_once() {
        let mut client = Client::new();
        let log = client.log();
        client.is("XADD s IDMP p m1 * a 1", "1700000000000-0").is("XADD s IDMP p m1 * a 2", "1700000000000-0");
        client.is("XADD s IDMP q m1 * a 1", "1700000000000-1").is("XADD s IDMPAUTO p * a 1", "1700000000000-2");
        client.is("XADD s IDMPAUTO p * a 1", "1700000000000-2").is("XADD s IDMPAUTO p * a1 \"\"", "1700000000000-3");
        client
            .is("XLEN s", ":4")
            .is("XCFGSET s IDMP-DURATION 1", "+OK")
            .is("XADD s IDMP p m1 * a 1", "1700000000000-4");
        client.later(1000).is("XADD s IDMP p m1 * a 1", "1700000001000-0");
        client.is("XCFGSET s IDMP-MAXSIZE 0", "-ERR invalid maxsize").is("XCFGSET s", "-ERR syntax error");
        client
            .is("XCFGSET none IDMP-MAXSIZE 1", "-ERR no such key")
            .is("XADD s IDMP p", "-ERR wrong number of arguments for 'xadd' command");
        let info = client.run("XINFO STREAM s");
        assert!(
            info.contains(
                "idmp-duration :1 idmp-maxsize :100 pids-tracked :1 iids-tracked :1 iids-added :6 iids-duplicates :2"
            ),
            "{info}"
        );
        let expected =
            ["MULTI", "XADD s 1700000000000-0 a 1", "XACK s \0cinnabar-stream IDMP p m1 1700000000000-0", "EXEC"];
        assert_eq!(log.lines()[..4], expected);
    }
}
