//! The keys of one slot: their number, their names, and their removal. They are counted when they are added and
//! removed, and found among those of their shard, a piece at a time.

use super::node_access::must_be_clustered;
use crate::core::args::Args;
use crate::core::command_table::accepted;
use crate::core::context::{Context, Flow, Resumable};
use crate::keys::key_walk::{Filter, KeyWalk, PIECE};
use crate::transactions::multi::CommandGroup;
use cluster::slot_set::SlotSet;
use engine::config::Directive;
use engine::data::key_hash::KeyHash;
use engine::data::slot::{SLOTS, slot_of};
use engine::data::value::KeyEntry;
use engine::propagation::change_log::Readers;
use engine::propagation::effects::Garbage;
use engine::{Engine, Error, Word};
use std::ops::RangeInclusive;

/// Looks for names of keys of a slot in the selected database.
struct SlotNames {
    walk: KeyWalk,
    filter: Filter,
    names: Vec<Vec<u8>>,
    /// Number of names that are wanted, and exist.
    wanted: usize,
    /// Entries of the next piece. The first one is small: most entries may be of the slot.
    size: usize,
}

impl SlotNames {
    fn piece(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        let SlotNames { walk, filter, names, wanted, size } = self;
        while names.len() < *wanted {
            let find = |entry: &KeyEntry| {
                if names.len() < *wanted {
                    names.push(entry.key().to_vec());
                }
            };
            let went = walk.piece(&mut cx.keys, *size, filter, find)?;
            let was_small = std::mem::replace(size, PIECE) < PIECE;
            match went {
                None => break,
                Some(_) if was_small => {}
                Some(_) if names.len() < *wanted => return Ok(false),
                Some(_) => {}
            }
        }
        cx.reply.array(names.len());
        names.iter().for_each(|name| cx.reply.bulk(name));
        Ok(true)
    }
}

impl Resumable for SlotNames {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let done = self.piece(cx);
        cx.ends(done)
    }
}

/// Counts the keys of a slot in the selected database.
fn count_in_slot(cx: &mut Context<'_>, slot: u16) -> Result<usize, Error> {
    let (engine, db) = (cx.engine, cx.keys.db_index());
    cx.keys.with_shard(engine.hasher().shard_of(slot), |_, _| engine.slot_counts().of(slot, db))
}

fn walk_of(cx: &Context<'_>, slots: RangeInclusive<u16>) -> (KeyWalk, Filter) {
    (KeyWalk::of_slots(&cx.keys, &slots, 0), Filter { slots: Some(slots), shows_hidden: true, ..Filter::default() })
}

/// Manner in which keys of slots are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removal {
    /// The slots went to another node, with their keys: clients of this one get no events. Values that are expensive to
    /// free are freed in the background.
    Moved,
    /// An operator wants the keys removed; `is_lazy`: values are freed as above.
    Flushed { is_lazy: bool },
}

/// Removes the keys of some slots, in all databases, a piece at a time. A shard's table is walked once for all of its
/// slots.
pub(super) struct SlotRemoval {
    slots: SlotSet,
    /// First and last slot of each shard that is still to be walked.
    shards: Vec<RangeInclusive<u16>>,
    db: u32,
    walk: Option<(KeyWalk, Filter)>,
    /// The walk has reached the end of the shard's part of the database.
    is_walked: bool,
    /// Names that the last piece found, and that still exist.
    names: Vec<Vec<u8>>,
    how: Removal,
    /// Garbage of the last piece, where it is freed before the reply.
    garbage: Vec<Garbage>,
}

/// Pieces of garbage that are freed at once: some hundred microseconds' worth.
const FREED_AT_ONCE: usize = 1000;

impl SlotRemoval {
    pub fn of(engine: &Engine, slots: SlotSet, how: Removal) -> SlotRemoval {
        let mut shards: Vec<RangeInclusive<u16>> = Vec::new();
        for slot in slots.iter() {
            let is_same = |last: &&mut RangeInclusive<u16>| {
                engine.hasher().shard_of(*last.end()) == engine.hasher().shard_of(slot)
            };
            match shards.last_mut().filter(is_same) {
                Some(last) => *last = *last.start()..=slot,
                None => shards.push(slot..=slot),
            }
        }
        let (walk, names, garbage) = Default::default();
        SlotRemoval { slots, shards, db: 0, walk, is_walked: false, names, how, garbage }
    }

    /// Removes one piece; true when all keys are removed.
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
            unlink(cx, &mut self.names, self.how)?;
            if self.how == (Removal::Flushed { is_lazy: false }) {
                cx.keys.effects.settle(|| false, || false);
                self.garbage = cx.keys.effects.take_foreground();
            }
            return Ok(false);
        }
        let Some(slots) = self.shards.last() else { return Ok(true) };
        if std::mem::take(&mut self.is_walked) {
            self.walk = None;
            self.db += 1;
            if self.db as usize >= cx.engine.databases() {
                self.db = 0;
                self.shards.pop();
            }
            return Ok(false);
        }
        let (walk, filter) = self.walk.get_or_insert_with(|| walk_of(cx, slots.clone()));
        let (wanted, names) = (&self.slots, &mut self.names);
        let next = walk.piece(&mut cx.keys, PIECE, filter, |entry| {
            if wanted.contains(slot_of(entry.key())) {
                names.push(entry.key().to_vec());
            }
        })?;
        self.is_walked = next.is_none();
        Ok(false)
    }
}

impl Resumable for SlotRemoval {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let done = self.piece(cx);
        if matches!(done, Ok(true)) {
            cx.reply.ok();
        }
        cx.ends(done)
    }
}

/// Removes keys as UNLINK does, and logs it as that.
fn unlink(cx: &mut Context<'_>, names: &mut Vec<Vec<u8>>, how: Removal) -> Result<(), Error> {
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
        if how == Removal::Moved {
            cx.keys.effects.drop_events();
        }
    }
    drop(args);
    names.clear();
    Ok(())
}

/// Whether a slot has keys, in any database.
pub(super) fn has_keys_in(cx: &mut Context<'_>, slot: u16) -> Result<bool, Error> {
    let (engine, at) = (cx.engine, usize::from(slot));
    cx.keys.with_shard(engine.hasher().shard_of(slot), |_, _| engine.slot_counts().in_all(at..at + 1) != [0])
}

/// Returns the slot in an argument.
pub(super) fn slot_at(args: &Args<'_>, index: usize) -> Result<u16, Error> {
    let slot = args.int(index).ok().and_then(|slot| u16::try_from(slot).ok());
    slot.filter(|slot| usize::from(*slot) < SLOTS).ok_or(Error::BadSlot)
}

pub(super) fn count_keys(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let slot = u16::try_from(args.int(2)?).ok().filter(|slot| usize::from(*slot) < SLOTS).ok_or(Error::InvalidSlot)?;
    let count = count_in_slot(cx, slot)?;
    cx.reply.int(count as i64);
    Ok(())
}

pub(super) fn get_keys(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let (slot, max) = (u16::try_from(args.int(2)?), usize::try_from(args.int(3)?));
    let (Ok(slot), Ok(max)) = (slot, max) else { return Err(Error::InvalidSlotOrCount) };
    if usize::from(slot) >= SLOTS {
        return Err(Error::InvalidSlotOrCount);
    }
    let (wanted, (walk, filter)) = (max.min(count_in_slot(cx, slot)?), walk_of(cx, slot..=slot));
    let mut names = SlotNames { walk, filter, names: Vec::new(), wanted, size: wanted.clamp(1, PIECE) };
    if !names.piece(cx)? {
        cx.flow = Flow::more(names);
    }
    Ok(())
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
    cx.flow = Flow::more(SlotRemoval::of(cx.engine, SlotSet::of([slot..=slot]), Removal::Flushed { is_lazy }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::cluster::node_tasks;
    use crate::testing::Client;
    use cluster::slot_map::SlotMap;
    use cluster::slot_set::SlotSet;
    use engine::data::slot::SLOTS;
    use engine::keyspace::caller::Caller;

    /// Counts the pieces in which a slot is flushed that has a set of ten thousand members.
    fn pieces(how: &str, lazyfree_lazy_user_flush: &str) -> usize {
        let members = (0..10_000).map(|n| format!("m{n}")).collect::<Vec<_>>().join(" ");
        let mut client = Client::new();
        client.configure("lazyfree-lazy-user-flush", lazyfree_lazy_user_flush);
        client.is(&format!("SADD {{b}}large {members}"), ":10000").is("SET {b}small x", "+OK");
        client.engine().persistence_status().set_clustered(true);
        client.session().caller = Caller::Replay;
        // 3300 is the slot of `b`.
        let line = format!("CLUSTER FLUSHSLOT 3300 {how}");
        let mut begun = client.begin(&line.split_whitespace().collect::<Vec<_>>());
        let pieces = (0..).take_while(|_| !begun.step()).count();
        client.is("EXISTS {b}large {b}small", ":0");
        pieces
    }

    /// Counts the keys of the slots of `a` and `b`.
    fn counts(client: &mut Client) -> [String; 2] {
        [15495, 3300].map(|slot| client.run(&format!("CLUSTER COUNTKEYSINSLOT {slot}")))
    }

    #[test]
    fn keys_of_a_slot_are_counted_whatever_becomes_of_them() {
        let mut client = Client::new();
        client.engine().persistence_status().set_clustered(true);
        let owners = vec![Some(0); SLOTS];
        client.engine().set_slot_map(SlotMap { is_up: true, serving: Some(0), owners, ..SlotMap::default() });
        client.is("SET a 1", "+OK").is("SET {a}b 1 PX 50", "+OK").is("SADD b 1 2", ":2").is("SET {b}2 1", "+OK");
        assert_eq!(counts(&mut client), [":2", ":2"]);
        client.is("RENAME a {a}c", "+OK").is("COPY {a}c a", ":1").is("SREM b 1 2", ":2").is("GETDEL {b}2", "1");
        assert_eq!(counts(&mut client), [":3", ":0"]);
        client.later(100);
        client.is("GET {a}b", "nil").is("CLUSTER GETKEYSINSLOT 15495 1000", "[{a}c a]").is("SET b 2", "+OK");
        client.is("CLUSTER GETKEYSINSLOT 15495 0", "[]").is("CLUSTER GETKEYSINSLOT 3300 1000", "[b]");
        client.is("MULTI", "+OK").is("DEL a {a}c", "+QUEUED").is("SET {a}d 1", "+QUEUED").is("EXEC", "[:2 +OK]");
        assert_eq!(counts(&mut client), [":1", ":1"]);
        client.is("FLUSHALL", "+OK");
        assert_eq!(counts(&mut client), [":0", ":0"]);
    }

    #[test]
    fn keys_of_slots_that_leave_are_not_seen_and_go() {
        let mut client = Client::new();
        client.engine().persistence_status().set_clustered(true);
        client.session().caller = Caller::Replay;
        (0..300).for_each(|number| _ = client.run(&format!("SET {{a}}{number} v")));
        client.is("SET b 1", "+OK");
        let slots = SlotSet::of([15495..=15495]);
        client.engine().importing_slots().hide_leaving(&slots);
        client.is("DBSIZE", ":1").is("KEYS *", "[b]").is("RANDOMKEY", "b").is("CLUSTER COUNTKEYSINSLOT 15495", ":300");
        assert!(client.run("INFO keyspace").contains("db0:keys=1,"));
        let (engine, now) = (client.engine(), client.now());
        assert_eq!(node_tasks::populated(engine, &SlotSet::all()), SlotSet::of([3300..=3300, 15495..=15495]));
        node_tasks::remove_keys(engine, &slots, "n", now);
        engine.importing_slots().end_leaving(&slots);
        client.is("DBSIZE", ":1").is("CLUSTER COUNTKEYSINSLOT 15495", ":0").is("GET b", "1");
    }

    fn map_without(lost: &[u16]) -> SlotMap {
        let owners = (0..SLOTS as u16).map(|slot| Some(u16::from(lost.contains(&slot)))).collect();
        SlotMap { is_up: true, serving: Some(0), owners, ..SlotMap::default() }
    }

    #[test]
    fn clients_of_a_node_hear_of_keys_that_are_flushed_and_not_of_keys_that_go_to_another_node() {
        let mut client = Client::with_events();
        client.engine().persistence_status().set_clustered(true);
        client.engine().set_slot_map(map_without(&[]));
        client.is("SET a 1", "+OK").is("SET b 1", "+OK");
        client.events();
        let log = client.log();
        node_tasks::remove_keys(client.engine(), &SlotSet::of([15495..=15495]), "n", client.now());
        assert!(client.events().is_empty());
        assert_eq!(log.take().iter().map(|(_, record)| record.concat()).collect::<Vec<_>>(), [b"UNLINKa"]);
        client.session().caller = Caller::Replay;
        client.is("CLUSTER FLUSHSLOT 3300 SYNC", "+OK");
        assert_eq!(client.events(), ["0 del b"]);
    }

    #[test]
    fn a_transaction_is_given_up_when_a_watched_key_has_gone_to_another_node() {
        for is_removed in [false, true] {
            for (queued, otherwise) in [("GET a", "-CLUSTERDOWN Hash slot not served"), ("GET b", "nil")] {
                let mut client = Client::new();
                client.engine().persistence_status().set_clustered(true);
                client.engine().set_slot_map(map_without(&[]));
                client.is("SET a 1", "+OK").is("WATCH a", "+OK").is("MULTI", "+OK").is(queued, "+QUEUED");
                client.engine().set_slot_map(map_without(&[15495]));
                if is_removed {
                    node_tasks::remove_keys(client.engine(), &SlotSet::of([15495..=15495]), "n", client.now());
                }
                client.is("EXEC", if is_removed { "nil" } else { otherwise });
            }
        }
    }

    /// The keys may be removed before all clients that wait for them have been looked through.
    #[test]
    fn a_client_that_waits_for_a_key_hears_of_its_slots_loss_and_not_of_the_keys_end() {
        let mut client = Client::new();
        client.engine().persistence_status().set_clustered(true);
        let mut owners = vec![Some(0); SLOTS];
        let map = |owners: &[Option<u16>]| SlotMap {
            is_up: true,
            serving: Some(0),
            owners: owners.to_vec(),
            ..SlotMap::default()
        };
        client.engine().set_slot_map(map(&owners));
        client.is("XGROUP CREATE a g $ MKSTREAM", "+OK");
        client.beside().begin_wait("XREADGROUP GROUP g c BLOCK 0 STREAMS a >");
        owners[15495] = None;
        client.engine().set_slot_map(map(&owners));
        node_tasks::remove_keys(client.engine(), &SlotSet::of([15495..=15495]), "n", client.now());
        assert_eq!(client.delivered(), ["-CLUSTERDOWN Hash slot not served\r\n"]);
    }

    #[test]
    fn flushed_keys_are_freed_before_the_reply_or_in_the_background() {
        let in_background = pieces("ASYNC", "no");
        assert_eq!(pieces("", "yes"), in_background);
        assert!(pieces("sync", "yes") >= in_background + 10);
        assert!(pieces("", "no") >= in_background + 10);
    }
}
