//! A node's tasks about keys and roles: a thread that may wait for locks runs them.

use super::keys_in_slot::{Removal, SlotRemoval};
use super::slots_word::SlotsWord;
use crate::core::args::Args;
use crate::core::cluster_routing::waits_in_vain;
use crate::core::context::Now;
use crate::core::dispatch;
use crate::core::session::Session;
use crate::replication::follow::{self, Waits};
use crate::replication::{demote, failover_command};
use cluster::slot_set::SlotSet;
use engine::Engine;
use engine::data::slot::SLOTS;
use engine::status::pause::Hold;
use engine::status::replication_status::PrimaryAddress;
use replication::failover_state::Target;
use resp::Reply;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Ends the waits of clients for keys that belong to another node now, or to none.
pub fn end_waits(engine: &Engine) {
    let map = engine.cluster().map();
    for client in engine.clients().all() {
        let Some(ticket) = client.ticket() else { continue };
        let Some(key) = ticket.keys().first() else { continue };
        let request = ticket.request();
        if let Some(error) = waits_in_vain(engine, &client, &map, key.hash.slot(), request.writes())
            && ticket.finish()
        {
            engine.host().deliver(&ticket, request.error_reply(&error));
        }
    }
}

/// Time between two looks at the condition that a task waits for.
const LOOK: Duration = Duration::from_millis(1);

/// Makes this server follow that one from now on. `anew`: it has nothing of that one's history.
pub fn follow(engine: &Engine, ip: &str, port: u16, anew: bool, now: Now) {
    let address = PrimaryAddress { host: ip.as_bytes().to_vec(), port };
    let status = engine.replication();
    if status.primary().as_ref() == Some(&address) {
        return;
    }
    if status.is_replica() {
        while !follow::follow(engine, Some(address.clone()), Waits::End) {
            std::thread::sleep(LOOK);
        }
    } else {
        let mut order = None;
        let target = Target { host: address.host, port };
        let stepped = dispatch::internal(engine, now, |cx| {
            order = Some(demote::begin(cx, target));
            Ok(())
        });
        debug_assert!(stepped.is_ok(), "nothing in it fails");
        while order.as_ref().is_some_and(|order| !order.is_done()) {
            std::thread::sleep(LOOK);
        }
    }
    if anew {
        status.update_link(|link| link.can_resume = false);
    }
}

/// Makes this server a primary from now on. `is_handed_over`: its primary has given up the lead for it, and is going to
/// follow it.
pub fn lead(engine: &Engine, is_handed_over: bool) {
    if is_handed_over {
        failover_command::await_predecessor(engine);
    }
    while engine.replication().is_replica() && !follow::follow(engine, None, Waits::Keep) {
        std::thread::sleep(LOOK);
    }
}

/// Returns the slots among these that have keys.
pub fn populated(engine: &Engine, slots: &SlotSet) -> SlotSet {
    let mut found = SlotSet::none();
    for (slot, _) in engine.slot_counts().in_all(0..SLOTS).iter().enumerate().filter(|(_, keys)| **keys > 0) {
        if slots.contains(slot as u16) {
            found.insert(slot as u16);
        }
    }
    found
}

/// Runs a command of the node itself, which needs no admission.
fn run(engine: &Engine, words: &[&[u8]], now: Now) {
    let (mut session, mut args, mut reply) =
        (Session::replay(), words.iter().copied().collect::<Args<'_>>(), Reply::default());
    dispatch::execute(engine, &mut session, &mut args, now, &mut reply);
    if reply.as_slice().starts_with(b"-") {
        let text = String::from_utf8_lossy(reply.as_slice()).trim().to_owned();
        engine.host().notice(&format!("{}: {text}", String::from_utf8_lossy(words[0])));
    }
}

/// Removes all keys.
pub fn flush_all(engine: &Engine, now: Now) {
    run(engine, &[b"FLUSHALL", b"ASYNC"], now);
}

/// Sends a word about slots to replicas, in order with the writes.
fn tell_replicas(engine: &Engine, word: &SlotsWord, now: Now) {
    let text = word.to_text();
    let told = dispatch::internal(engine, now, |cx| {
        cx.keys.tell_replicas_now([&b"PING"[..], text.as_bytes()].into_iter());
        Ok(())
    });
    debug_assert!(told.is_ok(), "nothing in it fails");
}

/// Lets replicas answer reads of these slots again.
pub fn tell_of_gain(engine: &Engine, slots: SlotSet, now: Now) {
    if !engine.replication().is_replica() {
        tell_replicas(engine, &SlotsWord::LinkEvent(slots), now);
    }
}

/// Removes the keys of these slots, once no command runs that was admitted while this node owned them. A replica
/// removes its keys when its primary does. `node`: name of this node in the log.
pub fn remove_keys(engine: &Engine, slots: &SlotSet, node: &str, now: Now) {
    let is_replica = || engine.replication().is_replica();
    if is_replica() {
        return;
    }
    while !engine.pass_locks(&mut 0, || false) {}
    if !slots.is_empty() {
        tell_replicas(engine, &SlotsWord::Left(slots.clone()), now);
    }
    let slots = populated(engine, slots);
    for slot in slots.iter() {
        engine.host().notice(&format!("Deleting keys in dirty slot {slot} on node {node}"));
    }
    let mut removal = SlotRemoval::of(engine, slots, Removal::Moved);
    let mut is_done = false;
    while !is_done && !is_replica() {
        let piece = dispatch::internal(engine, now, |cx| {
            is_done = removal.piece(cx)?;
            Ok(())
        });
        if piece.is_err() {
            std::thread::sleep(LOOK);
        }
    }
}

/// Holds writes until a replica has taken over, or has not. When this returns no command writes any more, and all
/// writes are part of the stream.
pub fn pause_writes(engine: &Engine) {
    engine.hold_writes(Hold::Failover);
    engine.host().pause_changed();
    while !engine.pass_locks(&mut 0, || false) {}
    let framed = Arc::<OnceLock<u64>>::default();
    engine.host().frame_changes(&framed);
    while framed.get().is_none() {
        std::thread::sleep(LOOK);
    }
}

/// Resumes writes.
pub fn resume_writes(engine: &Engine) {
    engine.release_writes(Hold::Failover);
    engine.host().pause_changed();
}
