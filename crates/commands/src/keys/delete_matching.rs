//! DELPREFIX and DELPATTERN: remove all keys of a database whose names have a prefix, or match a pattern.
//!
//! ```text
//!   walk over some entries -> names -> removed by groups, each under the lock of its shard and logged as one UNLINK
//!                                      |
//!        others are served <-----------+-----> INFO tells how far it is
//! ```
//!
//! Each key that is there from the beginning to the end of the walk is removed. A key that is made meanwhile is removed
//! or stays, as its place has been visited or not; no client sees one half removed. The log gets the removed keys, name
//! by name: so it means the same to every server that reads it, whatever is written meanwhile, and a snapshot may begin
//! at any moment.

use crate::core::admission::{Verdict, admit_piece};
use crate::core::args::Args;
use crate::core::cluster_proxy::routing_policy::{Merge, Routing};
use crate::core::command::{Command, Group, NO_MULTI, NO_SCRIPT, WRITE};
use crate::core::context::{Context, Flow, Resumable};
use crate::keys::key_walk::{Filter, KeyWalk, PIECE};
use engine::Error;
use engine::data::event_class::EventClass;
use engine::data::key_hash::KeyHash;
use engine::data::slot::slot_of;
use engine::stats::mass_deletions::DeletionProgress;
use smallvec::SmallVec;
use std::sync::Arc;

/// Keys that are removed under one hold of their shard's lock, at most.
const GROUP: usize = 64;

const DELETION: Command = Command {
    group: Group::Generic,
    since: "9.1.0",
    arity: 2,
    // A transaction is one moment, and this command is not.
    flags: WRITE.and(NO_MULTI).and(NO_SCRIPT),
    categories: &["keyspace", "dangerous"],
    complexity: "O(N) with N being the number of keys in the database. Other clients are served meanwhile.",
    tips: &["request_policy:all_shards", "response_policy:agg_sum"],
    routing: Routing::Primaries(Merge::Sum),
    // The memory is freed in the background.
    lazy_free: None,
    ..Command::DEFAULT
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "delpattern",
        syntax: "pattern:pattern",
        summary: "Deletes all keys of the database whose names match a pattern, in pieces.",
        beginning_of_keys: Some(|args| literal_beginning(&args[1])),
        run: delpattern,
        ..DELETION
    },
    Command {
        name: "delprefix",
        syntax: "prefix",
        summary: "Deletes all keys of the database whose names begin with a prefix, in pieces.",
        beginning_of_keys: Some(|args| &args[1]),
        run: delprefix,
        ..DELETION
    },
];

fn delprefix(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    Deletion::begin(cx, Filter { beginning: args[1].to_vec(), ..Filter::default() })
}

fn delpattern(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let beginning = literal_beginning(&args[1]).to_vec();
    Deletion::begin(cx, Filter { beginning, pattern: Some(args[1].to_vec()), ..Filter::default() })
}

/// Returns the literal beginning of a pattern, which all matching names have.
fn literal_beginning(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    &pattern[..end]
}

/// A deletion that is under way.
struct Deletion {
    walk: KeyWalk,
    filter: Filter,
    /// Found keys that are still to be removed, those of a shard side by side.
    names: Vec<Vec<u8>>,
    is_walked: bool,
    progress: Arc<DeletionProgress>,
    /// Writes are held back: no key can be removed.
    rests: bool,
}

impl Deletion {
    fn begin(cx: &mut Context<'_>, filter: Filter) -> Result<(), Error> {
        cx.must_be_alone(cx.command.name)?;
        let (walk, progress) = (KeyWalk::all(&cx.keys).expiring(), cx.engine.mass_deletions().begin());
        let (names, is_walked, rests) = Default::default();
        cx.flow = Flow::more(Deletion { walk, filter, names, is_walked, progress, rests });
        Ok(())
    }

    /// Runs one piece; true when all are gone.
    fn piece(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        self.rests = false;
        match admit_piece(cx) {
            Verdict::Refuse(error) => return Err(error),
            Verdict::Run => {}
            Verdict::Wait | Verdict::Forward(_) | Verdict::End => {
                self.rests = true;
                return Ok(false);
            }
        }
        if self.names.is_empty() {
            let Deletion { walk, filter, names, .. } = self;
            let next = walk.piece(&mut cx.keys, PIECE, filter, |entry| names.push(entry.key().to_vec()))?;
            if cx.engine.is_clustered() {
                names.sort_by_cached_key(|name| slot_of(name));
            }
            self.progress.set_done(walk.shard, cx.engine.locks().len());
            self.is_walked = next.is_none();
        }
        self.remove(cx)?;
        if self.is_walked {
            cx.reply.int(self.progress.keys() as i64);
        }
        Ok(self.is_walked)
    }

    /// Removes the found keys.
    fn remove(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        let hasher = cx.engine.hasher();
        while let Some(last) = self.names.last() {
            let (shard, slot) = (hasher.hash(last).shard(), cx.engine.is_clustered().then(|| slot_of(last)));
            // A command of a cluster's node has keys of one slot: that may be on its way to another node.
            let is_near = |name: &&Vec<u8>| match slot {
                Some(slot) => slot_of(name) == slot,
                None => hasher.hash(name).shard() == shard,
            };
            let count = self.names.iter().rev().take(GROUP).take_while(is_near).count();
            let names = &self.names[self.names.len() - count..];
            self.progress.count(unlink(cx, names)?);
            self.names.truncate(self.names.len() - count);
        }
        Ok(())
    }
}

impl Resumable for Deletion {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let done = self.piece(cx);
        cx.ends(done)
    }

    fn rests(&self) -> bool {
        self.rests
    }
}

/// Removes keys of one shard, and logs that as one command. Returns how many were there.
fn unlink(cx: &mut Context<'_>, names: &[Vec<u8>]) -> Result<u64, Error> {
    let db = cx.keys.db_index();
    let hashes: SmallVec<[KeyHash; 1]> = names.iter().take(1).map(|name| cx.engine.hasher().hash(name)).collect();
    cx.keys.hold(hashes.into_iter())?;
    let earlier = std::mem::take(&mut cx.keys.effects);
    let mut removed = 0;
    for name in names {
        let key = cx.keys.key(name);
        let mut edit = cx.keys.edit(key);
        if edit.remove() {
            edit.commit(EventClass::GENERIC, "del");
            removed += 1;
        }
    }
    let words: Args<'_> = std::iter::once(&b"UNLINK"[..]).chain(names.iter().map(Vec::as_slice)).collect();
    cx.keys.record(db, || words.text());
    let effects = std::mem::replace(&mut cx.keys.effects, earlier);
    cx.keys.effects.absorb(effects);
    cx.keys.unlock();
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;
    use engine::status::deny_reasons::Paused;
    use engine::time::SteadyMs;

    /// Returns a client with keys of two prefixes.
    fn filled(count: usize) -> Client {
        let mut client = Client::with_events();
        for n in 0..count {
            client.is(&format!("SET cache:{n} v"), "+OK").is(&format!("RPUSH other:{n} v"), ":1");
        }
        client.events();
        client
    }

    #[test]
    fn keys_with_the_prefix_go_and_no_others() {
        let mut client = filled(3000);
        client.is("SET cach v", "+OK").is("SET caches v PX 5", "+OK").select(1).is("SET cache:1 v", "+OK").select(0);
        let log = client.log();
        client.is("DELPREFIX cache:", ":3000").is("DELPREFIX cache:", ":0").is("DBSIZE", ":3002");
        let records = log.take();
        assert!(records.iter().all(|(db, record)| *db == 0 && record[0] == b"UNLINK"), "nothing else is logged");
        assert_eq!(records.iter().map(|(_, record)| record.len() - 1).sum::<usize>(), 3000);
        client.later(10).is("DELPREFIX \"\"", ":3001").is("DBSIZE", ":0").select(1).is("DBSIZE", ":1");
    }

    #[test]
    fn patterns_are_those_of_keys() {
        let mut client = filled(50);
        client.is("SET a*b v", "+OK").is("SET axb v", "+OK").is("SET \"\" v", "+OK");
        client.is("DELPATTERN a\\*b", ":1").is("EXISTS axb", ":1").is("DELPATTERN ?ther:[1-4]?", ":40");
        client.is("DELPATTERN cache:1", ":1").is("DELPATTERN c", ":0").is("DELPATTERN *", ":60").is("DBSIZE", ":1");
    }

    #[test]
    fn a_removal_is_one_like_others() {
        let mut client = filled(1);
        let mut other = client.beside();
        other.is("WATCH cache:0", "+OK").is("MULTI", "+OK").is("PING", "+QUEUED");
        client.is("DELPREFIX cache", ":1");
        assert_eq!(client.events(), ["0 del cache:0"]);
        other.is("EXEC", "nil");
    }

    #[test]
    fn others_are_served_between_pieces_and_what_they_make_is_logged_in_its_order() {
        let mut client = filled(5000);
        let (mut other, log) = (client.beside(), client.log());
        let engine = client.shared_engine().clone();
        let mut running = client.begin(&["DELPREFIX", "cache:"]);
        let mut pieces = 0;
        while !running.step() {
            let told = engine.mass_deletions().running();
            assert!(told.count == 1 && (0.0..=100.0).contains(&told.percent), "{told:?}");
            other.is(&format!("SET cache:new{pieces} v"), "+OK").run(&format!("SET cache:{pieces} v"));
            pieces += 1;
        }
        drop(running);
        assert!(pieces >= 5, "{pieces}");
        assert_eq!(engine.mass_deletions().running().count, 0);
        let mut again = Client::new();
        for n in 0..5000 {
            again.is(&format!("SET cache:{n} v"), "+OK").is(&format!("RPUSH other:{n} v"), ":1");
        }
        again.replay(&log);
        let mut sorted = |line: &str| {
            [&mut other, &mut again].map(|client| {
                let keys = client.run(line);
                let mut keys: Vec<String> = keys.trim_matches(['[', ']']).split(' ').map(str::to_owned).collect();
                keys.sort_unstable();
                keys
            })
        };
        let [here, there] = sorted("KEYS *");
        assert_eq!(here, there);
    }

    #[test]
    fn a_deletion_rests_in_a_pause_and_ends_where_it_may_not_write_any_more() {
        let mut client = filled(3000);
        let engine = client.shared_engine().clone();
        let mut running = client.begin(&["DELPREFIX", "cache:"]);
        assert!(!running.step());
        let left = engine.len(0);
        engine.begin_pause(Paused::Writes, SteadyMs(i64::MAX), SteadyMs(0));
        assert!(!running.step() && !running.step());
        assert_eq!(engine.len(0), left, "nothing goes in a pause");
        engine.persistence_status().set_read_only_replica(true);
        assert!(!running.step());
        engine.end_pause();
        assert_eq!(running.end(), "-READONLY You can't write against a read only replica.");
        assert_eq!(engine.len(0), left);
    }

    #[test]
    fn a_deletion_is_no_part_of_a_transaction_or_a_script() {
        let mut client = filled(1);
        client.is("MULTI", "+OK").is("DELPREFIX c", "-ERR Command 'delprefix' not allowed inside a transaction");
        client.is("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
        let reply = client.run_words(&["EVAL", "return redis.call('delprefix', 'c')", "0"]);
        assert!(reply.starts_with("-ERR This Valkey command is not allowed from script"), "{reply}");
    }

    #[test]
    fn a_user_needs_the_right_to_write_every_key_that_could_match() {
        let mut client = filled(1);
        let denied = "-NOPERM No permissions to access a key";
        for (rules, line, reply) in [
            ("~cache:*", "DELPREFIX cache:", ":1"),
            ("~cache:*", "DELPREFIX cache:0", ":1"),
            ("~cache:*", "DELPREFIX cache", denied),
            ("~cache:*", "DELPREFIX \"\"", denied),
            ("%W~c*", "DELPATTERN c?che:*", ":1"),
            ("%W~ca*", "DELPATTERN c?che:*", denied),
            ("%W~c*", "DELPATTERN ca?he:*", ":1"),
            ("%R~*", "DELPREFIX c", denied),
            ("~c?*", "DELPREFIX cache", denied),
            ("~other:* (~cache:* +@write)", "DELPREFIX cache:", ":1"),
        ] {
            client.is("SET cache:0 v", "+OK").is(&format!("ACL SETUSER u reset on nopass +@all {rules}"), "+OK");
            let mut user = client.beside();
            user.is("AUTH u x", "+OK").is(line, reply);
        }
    }
}
