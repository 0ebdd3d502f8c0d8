//! Keeping streams short: XTRIM, and the options of XADD that do the same.

use crate::core::args::Args;
use crate::core::command::{Command, Group, WRITE, key};
use crate::core::context::Context;
use crate::streams::stream::parse_id;
use engine::Error;
use engine::data::event_class::EventClass;
use engine::keyspace::origin::Asker;
use engine::propagation::effects::Record;
use structures::stream::{Bound, References, Stream};

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

/// Entries that trimming to about some length removes at most, where nothing else is said.
const LIMIT_DEFAULT: u64 = 10_000;
const LIMIT_MAX: u64 = 1_000_000;

/// How to trim.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trim {
    pub bound: Option<Bound>,
    pub about: bool,
    limit: Option<u64>,
    pub references: Option<References>,
}

/// Which deletion of references these words name.
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
    /// Reads the option at `at`, if it is one of trimming; the index after it.
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

    /// Whether the options go together. Commands that were accepted before trim as far as they say: they were rewritten
    /// to remove exactly as many entries as there, and real servers leave the LIMIT that was given.
    pub fn check(&mut self, asker: Asker) -> Result<(), Error> {
        if asker.is_obeyed() {
            self.limit = Some(0);
            return Ok(());
        }
        match (self.limit, self.bound) {
            (Some(1..), None) => Err(Error::XtrimLimitAlone),
            (Some(_), _) if !self.about => Err(Error::XtrimLimitExact),
            _ => Ok(()),
        }
    }

    /// Trims; how many entries went.
    pub fn run(&self, stream: &mut Stream, node_entries: u64) -> u64 {
        let Some(bound) = self.bound else { return 0 };
        let limit = match self.limit {
            Some(limit) => limit,
            None if !self.about => 0,
            None if node_entries == 0 => LIMIT_DEFAULT,
            None => node_entries.saturating_mul(100).min(LIMIT_MAX),
        };
        stream.trim(bound, !self.about, limit, self.references.unwrap_or_default())
    }

    /// The options that do now what these did, exactly.
    pub fn words(&self, stream: &Stream, words: &mut Record) {
        let Some(bound) = self.bound else { return };
        match bound {
            Bound::MaxLen(max) => {
                let max = if self.about { stream.len() } else { max };
                words.extend([b"MAXLEN".to_vec(), b"=".to_vec(), max.to_string().into_bytes()]);
            }
            Bound::MinId(min) => {
                let min = if self.about { stream.first_id().unwrap_or(min) } else { min };
                words.extend([b"MINID".to_vec(), b"=".to_vec(), min.to_vec()]);
            }
        }
        match self.references.unwrap_or_default() {
            References::Keep => {}
            References::Delete => words.push(b"DELREF".to_vec()),
            References::Acknowledged => words.push(b"ACKED".to_vec()),
        }
    }
}

fn xtrim(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut trim = Trim::default();
    let mut at = 2;
    while at < args.len() {
        at = trim.option(args, at)?.ok_or(Error::Syntax)?;
    }
    match trim.check(cx.keys.origin().asker) {
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
    let mut words = Record::new();
    let has_log = cx.engine.has_log();
    let removed = edit.with(|stream: &mut Stream| {
        let removed = trim.run(stream, node_entries);
        if has_log {
            trim.words(stream, &mut words);
        }
        removed
    })?;
    cx.reply.int(removed as i64);
    if removed == 0 {
        edit.unchanged();
        return Ok(());
    }
    if trim.about {
        edit.log_as(|| vec![[vec![b"XTRIM".to_vec(), args[1].to_vec()], words].concat()]);
    }
    edit.commit_many(removed, EventClass::STREAM, "xtrim");
    Ok(())
}
