//! Keeping streams short: XTRIM, and the options of XADD that do the same.

use crate::core::args::Args;
use crate::core::command::{Command, Group, WRITE, key};
use crate::core::context::Context;
use crate::streams::stream::parse_id;
use crate::streams::stream_records::{acknowledged_record, deleted_record};
use engine::Error;
use engine::data::event_class::EventClass;
use engine::keyspace::caller::Caller;
use engine::propagation::effects::Record;
use engine::propagation::logged_words::{record, record_of};
use structures::stream::{Bound, Id, References, Stream, Trimmed};

pub const COMMANDS: &[Command] = &[Command {
    name: "xtrim",
    group: Group::Stream,
    since: "5.0.0",
    arity: -4,
    flags: WRITE,
    keys: &[key(1).rw().delete()],
    syntax: "key (trim: (strategy: MAXLEN | MINID@6.2.0) [operator: \"=\"=equal | \"~\"=approximately] threshold [LIMIT count:int]@6.2.0)",
    summary: "Deletes messages from the beginning of a stream.",
    complexity: "O(N), with N being the number of evicted entries. Constant times are very small however, since entries are organized in macro nodes containing multiple entries that can be released with a single deallocation.",
    history: &[("6.2.0", "Added the `MINID` trimming strategy and the `LIMIT` option.")],
    tips: &["nondeterministic_output"],
    run: xtrim,
    ..Command::DEFAULT
}];

/// Entries that trimming to about some length removes at most, if the command has no limit.
const LIMIT_DEFAULT: u64 = 10_000;
const LIMIT_MAX: u64 = 1_000_000;

/// The parameters of a trimming.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trim {
    pub bound: Option<Bound>,
    pub about: bool,
    limit: Option<u64>,
    pub references: Option<References>,
}

/// Returns the deletion of references that this word names.
pub(crate) fn references(word: &[u8]) -> Option<References> {
    let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    match () {
        () if is("keepref") => Some(References::Keep),
        () if is("delref") => Some(References::Delete),
        () if is("acked") => Some(References::Acknowledged),
        () => None,
    }
}

impl Trim {
    /// Reads the option at `at`, if it is one of trimming; returns the index after it.
    pub fn option(&mut self, args: &Args<'_>, at: usize) -> Result<Option<usize>, Error> {
        let more = args.len() - at - 1;
        if more >= 1 && (args.is(at, "maxlen") || args.is(at, "minid")) {
            if self.bound.is_some() {
                return Err(Error::XtrimMaxlenAndMinid);
            }
            let operator = more >= 2 && matches!(&args[at + 1], b"~" | b"=");
            self.about = operator && args[at + 1] == *b"~";
            let value = at + 1 + usize::from(operator);
            self.bound = Some(if args.is(at, "minid") {
                Bound::MinId(parse_id(&args[value], 0)?)
            } else {
                let max = u64::try_from(args.int(value)?);
                Bound::MaxLen(max.map_err(|_| Error::XtrimMaxlen)?)
            });
            return Ok(Some(value + 1));
        }
        if more >= 1 && args.is(at, "limit") {
            let limit = u64::try_from(args.int(at + 1)?);
            self.limit = Some(limit.map_err(|_| Error::XtrimLimit)?);
            return Ok(Some(at + 2));
        }
        if self.references.is_none()
            && let Some(references) = references(&args[at])
        {
            self.references = Some(references);
            return Ok(Some(at + 1));
        }
        Ok(None)
    }

    /// Checks whether the options go together. Commands from a log or a primary, which were accepted before, trim by
    /// their own options: they were rewritten to remove exactly as many entries as there, and real servers leave the
    /// LIMIT that was given.
    pub fn check(&mut self, caller: Caller) -> Result<(), Error> {
        if caller.is_obeyed() {
            self.limit = Some(0);
            return Ok(());
        }
        match (self.limit, self.bound) {
            (Some(1..), None) => Err(Error::XtrimLimitAlone),
            (Some(_), _) if !self.about => Err(Error::XtrimLimitExact),
            _ => Ok(()),
        }
    }

    /// Trims the stream.
    pub fn run(&self, stream: &mut Stream, node_entries: u64) -> Trimmed {
        let Some(bound) = self.bound else { return Trimmed::default() };
        let limit = match self.limit {
            Some(limit) => limit,
            None if !self.about => 0,
            None if node_entries == 0 => LIMIT_DEFAULT,
            None => node_entries.saturating_mul(100).min(LIMIT_MAX),
        };
        stream.trim(bound, !self.about, limit, self.references.unwrap_or_default())
    }

    /// Returns whether the log's form differs from the client's.
    pub fn is_rewritten(&self) -> bool {
        self.about || self.references.is_some()
    }

    /// Returns a trimming in the log's form: the number of removed entries depends on time and state, and other servers
    /// know no references.
    pub fn logged(&self, key: &[u8], stream: &Stream, trimmed: &Trimmed) -> LoggedTrim {
        let Some(bound) = self.bound else { return LoggedTrim::default() };
        let of_references = self.references == Some(References::Acknowledged);
        let bound = match bound {
            _ if of_references && !trimmed.behind.is_empty() => Bound::MinId(stream.first_id().unwrap_or(Id::MIN)),
            _ if of_references => Bound::MaxLen(stream.len()),
            Bound::MaxLen(max) => Bound::MaxLen(if self.about { stream.len() } else { max }),
            Bound::MinId(min) if self.about => Bound::MinId(stream.first_id().unwrap_or(min)),
            bound => bound,
        };
        let (word, value) = match bound {
            Bound::MaxLen(max) => ("MAXLEN", max.to_string().into_bytes()),
            Bound::MinId(min) => ("MINID", min.to_vec()),
        };
        let deleted = Some(&trimmed.behind).filter(|ids| !ids.is_empty()).map(|ids| deleted_record(key, ids));
        let acknowledged = trimmed.acknowledged.iter().map(|(group, ids)| acknowledged_record(key, group, ids));
        LoggedTrim {
            options: record(&[word.as_bytes(), b"=", &value]),
            after: deleted.into_iter().chain(acknowledged).collect(),
        }
    }
}

/// A trimming, in the log's form.
#[derive(Default)]
pub(crate) struct LoggedTrim {
    /// The options that have the same result now.
    pub options: Record,
    /// Commands that follow.
    pub after: Vec<Record>,
}

fn xtrim(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut trim = Trim::default();
    let mut at = 2;
    while at < args.len() {
        at = trim.option(args, at)?.ok_or(Error::Syntax)?;
    }
    match trim.check(cx.keys.origin().caller) {
        Err(error) if trim.bound.is_some() || error == Error::XtrimLimitAlone => return Err(error),
        _ if trim.bound.is_none() => return Err(Error::XtrimNoStrategy),
        _ => {}
    }
    let node_entries = cx.engine.encoding_limits().stream().entries;
    let mut edit = cx.keys.edit(cx.key(args, 1));
    if edit.collection::<Stream>()?.is_none() {
        cx.reply.int(0);
        return Ok(());
    }
    let mut logged = LoggedTrim::default();
    let has_log = cx.engine.has_log();
    let removed = edit.with(|stream: &mut Stream| {
        let trimmed = trim.run(stream, node_entries);
        if has_log {
            logged = trim.logged(&args[1], stream, &trimmed);
        }
        trimmed.removed
    })?;
    cx.reply.int(removed as i64);
    if removed == 0 {
        edit.unchanged();
        return Ok(());
    }
    if trim.is_rewritten() {
        let LoggedTrim { options, after } = logged;
        edit.log_as(|| [vec![record_of(&[b"XTRIM", &args[1]], options.iter())], after].concat());
    }
    edit.commit_many(removed, EventClass::STREAM, "xtrim");
    Ok(())
}
