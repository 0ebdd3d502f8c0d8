//! Duties that the node gives and that may have to wait for others: changes of role, keys that are to go. One thread
//! carries them out, in order, but for keys of slots: another one looks for them and removes them, as long as that
//! takes. The bus continues meanwhile.

use super::node_desk::NodeDesk;
use crate::system::clock;
use crate::workers::shared::Shared;
use cluster::migration::JobName;
use cluster::slot_set::SlotSet;
use commands::cluster::node_duties;
use commands::core::context::Now;
use crossbeam_channel::{Receiver, Sender, unbounded};
use engine::Engine;
use engine::host::threads::Task;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// One duty.
pub(super) enum Duty {
    /// Clients that wait for keys that are elsewhere now are sent there.
    EndWaits,
    Follow {
        ip: String,
        port: u16,
        needs_full_sync: bool,
    },
    Lead,
    /// Keys may be there that are not this node's.
    LookAtKeys,
    FlushAll,
    /// A client waits for the end of all duties before this one.
    Tell(Task<Engine>),
    RemoveKeys(SlotSet),
    /// Slots are this node's from now on.
    TellOfGain(SlotSet),
    /// Keys came with slots of a job in vain, and are to go.
    RemoveImported(JobName, SlotSet),
    /// Words of the stream are to be recorded, for replicas and the log.
    Record(Vec<Vec<u8>>),
    Pause,
    Unpause,
}

impl Duty {
    /// Returns whether keys of slots are to go, or to be looked for, or have come.
    fn concerns_slots(&self) -> bool {
        matches!(self, Duty::LookAtKeys | Duty::RemoveKeys(_) | Duty::RemoveImported(..) | Duty::TellOfGain(_))
    }
}

/// Time between two checks whether the data is there.
const LOOK: Duration = Duration::from_millis(1);

/// Queues of the duties.
pub(super) struct Duties {
    others: Sender<Duty>,
    of_slots: Sender<Duty>,
}

impl Duties {
    pub fn add(&self, duty: Duty) {
        let queue = if duty.concerns_slots() { &self.of_slots } else { &self.others };
        // The threads end with the process only.
        let _ = queue.send(duty);
    }
}

/// Starts the threads.
pub(super) fn start(desk: &Arc<NodeDesk>, shared: &Arc<Shared>) -> io::Result<Duties> {
    let begin = |name: &str| {
        let (sender, receiver) = unbounded();
        let (desk, shared) = (Arc::clone(desk), Arc::clone(shared));
        let run = move || work(&desk, &shared, &receiver);
        thread::Builder::new().name(name.to_owned()).spawn(run).map(|_| sender)
    };
    Ok(Duties { others: begin("cluster-duties")?, of_slots: begin("cluster-slots")? })
}

/// Waits for the end of loading, since keys that are being read may be concerned, too.
fn await_load(engine: &Engine) {
    while engine.persistence_status().deny_reasons().is_loading() {
        thread::sleep(LOOK);
    }
}

fn look_at_keys(desk: &NodeDesk, engine: &Engine) {
    let found = node_duties::populated(engine, &SlotSet::all());
    desk.input(|bus, now| bus.keys_found(&found, now));
}

/// Removes keys of these slots, but for slots that have come to this node meanwhile.
fn remove_keys(desk: &NodeDesk, engine: &Engine, slots: &SlotSet, now: Now) {
    let (node, own) = {
        let bus = desk.bus();
        (bus.own_name_in_shard(), bus.nodes().myself().slots.clone())
    };
    node_duties::remove_keys(engine, &slots.without(&own), &node, now);
}

fn work(desk: &NodeDesk, shared: &Shared, duties_due: &Receiver<Duty>) {
    let engine = &*shared.engine;
    // Slots whose loss was recorded for replicas.
    let mut left = SlotSet::none();
    for duty in duties_due {
        if duty.concerns_slots() || matches!(duty, Duty::FlushAll) {
            await_load(engine);
        }
        let now = clock::now();
        match duty {
            Duty::EndWaits => node_duties::end_waits(engine),
            Duty::Follow { ip, port, needs_full_sync } => {
                node_duties::follow(engine, &ip, port, needs_full_sync, now);
                desk.input(|bus, _| bus.followed());
            }
            Duty::LookAtKeys => look_at_keys(desk, engine),
            Duty::Lead => {
                node_duties::lead(engine);
                desk.input(|bus, now| bus.led(now));
                desk.duty(Duty::LookAtKeys);
            }
            Duty::FlushAll => {
                node_duties::flush_all(engine, now);
                desk.flushed();
            }
            Duty::Tell(then) => then(engine),
            Duty::TellOfGain(slots) => {
                let back: SlotSet = slots.iter().filter(|slot| left.remove(*slot)).collect();
                if !back.is_empty() {
                    node_duties::tell_of_gain(engine, back, now);
                }
            }
            Duty::RemoveKeys(slots) => {
                left = left.union(&slots);
                remove_keys(desk, engine, &slots, now);
                engine.hidden_slots().end_leaving(&slots);
                desk.input(|bus, _| bus.lost_keys_removed());
            }
            Duty::RemoveImported(job, slots) => {
                remove_keys(desk, engine, &slots, now);
                desk.input(|bus, now| bus.imported_keys_removed(&job, now));
            }
            Duty::Record(words) => engine.record_apart(words.iter().map(Vec::as_slice)),
            Duty::Pause => {
                node_duties::pause_writes(engine);
                desk.set_paused(true);
            }
            Duty::Unpause => {
                desk.set_paused(false);
                node_duties::resume_writes(engine);
            }
        }
    }
}
