//! The keys of one slot: how many, which, and their end. They are found among those of their shard, a piece at a time.

use super::bus_desk::must_be_clustered;
use crate::core::args::Args;
use crate::core::command_table::accepted;
use crate::core::context::{Context, Flow, Piecewise};
use crate::keys::key_walk::{Filter, KeyWalk, PIECE};
use crate::transactions::multi::CommandGroup;
use engine::config::Directive;
use engine::data::key_hash::KeyHash;
use engine::data::slot::SLOTS;
use engine::propagation::change_log::Readers;
use engine::propagation::effects::Garbage;
use engine::{Error, Word};

/// What is wanted of the keys.
enum Purpose {
    Count(usize),
    /// So many names, at most.
    Name {
        names: Vec<Vec<u8>>,
        max: usize,
    },
}

/// A walk over the keys of a slot in the selected database.
struct SlotWalk {
    walk: KeyWalk,
    filter: Filter,
    purpose: Purpose,
}

impl SlotWalk {
    fn begin(cx: &mut Context<'_>, slot: u16, purpose: Purpose) -> Result<(), Error> {
        let (walk, filter) = walk_of(cx, slot);
        let mut walk = SlotWalk { walk, filter, purpose };
        if !walk.piece(cx)? {
            cx.flow = Flow::more(walk);
        }
        Ok(())
    }

    fn piece(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        let SlotWalk { walk, filter, purpose } = self;
        let went = walk.piece(&mut cx.keys, PIECE, filter, |entry| match purpose {
            Purpose::Count(count) => *count += 1,
            Purpose::Name { names, max } if names.len() < *max => names.push(entry.key().to_vec()),
            Purpose::Name { .. } => {}
        })?;
        let has_all = matches!(purpose, Purpose::Name { names, max } if names.len() >= *max);
        if went.is_some() && !has_all {
            return Ok(false);
        }
        match purpose {
            Purpose::Count(count) => cx.reply.int(*count as i64),
            Purpose::Name { names, .. } => {
                cx.reply.array(names.len());
                names.iter().for_each(|name| cx.reply.bulk(name));
            }
        }
        Ok(true)
    }
}

impl Piecewise for SlotWalk {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let done = self.piece(cx);
        cx.ends(done)
    }
}

fn walk_of(cx: &Context<'_>, slot: u16) -> (KeyWalk, Filter) {
    let slots = slot..=slot;
    (KeyWalk::of_slots(&cx.keys, &slots, 0), Filter { slots: Some(slots), shows_hidden: true, ..Filter::default() })
}

/// The keys of some slots go, in all databases, a piece at a time.
pub(super) struct SlotRemoval {
    slots: Vec<u16>,
    db: u32,
    walk: Option<(KeyWalk, Filter)>,
    /// The walk has come to the end of the database.
    is_walked: bool,
    /// Found by the last piece, and still there.
    names: Vec<Vec<u8>>,
    /// What is dear to free is freed in the background.
    is_lazy: bool,
    /// Of the last piece, where it is freed before the reply.
    garbage: Vec<Garbage>,
}

/// Pieces of garbage that are freed in one go: some hundred microseconds' worth.
const FREED_AT_ONCE: usize = 1000;

impl SlotRemoval {
    pub fn of(slots: Vec<u16>, is_lazy: bool) -> SlotRemoval {
        let (walk, names, garbage) = Default::default();
        SlotRemoval { slots, db: 0, walk, is_walked: false, names, is_lazy, garbage }
    }

    /// One piece; true when all are gone.
    pub fn piece(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        if !self.garbage.is_empty() {
            self.garbage.pop_if(|last| last.drain_step(FREED_AT_ONCE));
            return Ok(false);
        }
        let selected = std::mem::replace(&mut cx.session.db, self.db);
        cx.keys.select(self.db);
        let done = self.piece_of_database(cx);
        cx.session.db = selected;
        cx.keys.select(selected);
        done
    }

    fn piece_of_database(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        if !self.names.is_empty() {
            unlink(cx, &mut self.names)?;
            if !self.is_lazy {
                cx.keys.effects.settle(|| false, || false);
                self.garbage = cx.keys.effects.take_foreground();
            }
            return Ok(false);
        }
        let Some(slot) = self.slots.last() else { return Ok(true) };
        if std::mem::take(&mut self.is_walked) {
            self.walk = None;
            self.db += 1;
            if self.db as usize >= cx.engine.databases() {
                self.db = 0;
                self.slots.pop();
            }
            return Ok(false);
        }
        let (walk, filter) = self.walk.get_or_insert_with(|| walk_of(cx, *slot));
        let names = &mut self.names;
        let next = walk.piece(&mut cx.keys, PIECE, filter, |entry| names.push(entry.key().to_vec()))?;
        self.is_walked = next.is_none();
        Ok(false)
    }
}

impl Piecewise for SlotRemoval {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let done = self.piece(cx);
        if matches!(done, Ok(true)) {
            cx.reply.ok();
        }
        cx.ends(done)
    }
}

/// Removes keys as UNLINK does, and logs it as that.
fn unlink(cx: &mut Context<'_>, names: &mut Vec<Vec<u8>>) -> Result<(), Error> {
    let hasher = cx.engine.hasher();
    let hashes: Vec<KeyHash> = names.iter().map(|name| hasher.hash(name)).collect();
    cx.keys.hold(hashes.into_iter())?;
    let mut args: Args<'_> = std::iter::once(&b"UNLINK"[..]).chain(names.iter().map(Vec::as_slice)).collect();
    if let Some(entry) = accepted(&args) {
        let start = cx.reply.len();
        let mut group = CommandGroup::begin(cx);
        group.run(cx, entry, &mut args, Some(Readers::All));
        group.end(cx);
        cx.reply.truncate(start);
    }
    drop(args);
    names.clear();
    Ok(())
}

/// Whether a slot has keys, in whatever database.
pub(super) fn has_keys_in(cx: &mut Context<'_>, slot: u16) -> Result<bool, Error> {
    let (selected, mut found) = (cx.keys.db_index(), false);
    for db in 0..cx.engine.databases() as u32 {
        cx.keys.select(db);
        let (mut walk, filter) = walk_of(cx, slot);
        while !found && walk.piece(&mut cx.keys, PIECE, &filter, |_| found = true)?.is_some() {}
    }
    cx.keys.select(selected);
    Ok(found)
}

/// The slot that an argument is.
pub(super) fn slot_at(args: &Args<'_>, index: usize) -> Result<u16, Error> {
    let slot = args.int(index).ok().and_then(|slot| u16::try_from(slot).ok());
    slot.filter(|slot| usize::from(*slot) < SLOTS).ok_or(Error::BadSlot)
}

pub(super) fn count_keys(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let slot = u16::try_from(args.int(2)?).ok().filter(|slot| usize::from(*slot) < SLOTS).ok_or(Error::InvalidSlot)?;
    SlotWalk::begin(cx, slot, Purpose::Count(0))
}

pub(super) fn get_keys(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let (slot, max) = (u16::try_from(args.int(2)?), usize::try_from(args.int(3)?));
    let (Ok(slot), Ok(max)) = (slot, max) else { return Err(Error::InvalidSlotOrCount) };
    if usize::from(slot) >= SLOTS {
        return Err(Error::InvalidSlotOrCount);
    }
    SlotWalk::begin(cx, slot, Purpose::Name { names: Vec::new(), max })
}

pub(super) fn flush_slot(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let slot = slot_at(args, 2)?;
    let is_lazy = match args.len() {
        3 => cx.engine.config().snapshot().flag(Directive::LAZYFREE_LAZY_USER_FLUSH),
        4 if args.is(3, "async") => true,
        4 if args.is(3, "sync") => false,
        4 => return Err(Error::Syntax),
        _ => return Err(Error::SubcommandUse(Word::of(&args[1]), "CLUSTER")),
    };
    cx.flow = Flow::more(SlotRemoval::of(vec![slot], is_lazy));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;
    use engine::keyspace::origin::Asker;

    /// Pieces in which a slot is flushed that has a set of ten thousand members.
    fn pieces(how: &str, lazyfree_lazy_user_flush: &str) -> usize {
        let members = (0..10_000).map(|n| format!("m{n}")).collect::<Vec<_>>().join(" ");
        let mut client = Client::new();
        client.configure("lazyfree-lazy-user-flush", lazyfree_lazy_user_flush);
        client.is(&format!("SADD {{b}}large {members}"), ":10000").is("SET {b}small x", "+OK");
        client.engine().persistence_status().set_clustered(true);
        client.session().asker = Asker::Replay;
        // The slot of `b`.
        let line = format!("CLUSTER FLUSHSLOT 3300 {how}");
        let mut begun = client.begin(&line.split_whitespace().collect::<Vec<_>>());
        let pieces = (0..).take_while(|_| !begun.step()).count();
        client.is("EXISTS {b}large {b}small", ":0");
        pieces
    }

    #[test]
    fn what_is_flushed_is_freed_before_the_reply_or_in_the_background() {
        let in_background = pieces("ASYNC", "no");
        assert_eq!(pieces("", "yes"), in_background);
        assert!(pieces("sync", "yes") >= in_background + 10);
        assert!(pieces("", "no") >= in_background + 10);
    }
}
