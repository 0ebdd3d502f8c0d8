//! Duties that the node gives and that may have to wait for others: changes of role, keys that are to go. One thread
//! carries them out, in order, but for keys of slots: another one looks for them and removes them, as long as that
//! takes. The bus continues meanwhile.

use super::node_handle::NodeHandle;
use crate::system::clock;
use crate::workers::shared::Shared;
use cluster::migration::JobName;
use cluster::slot_set::SlotSet;
use commands::cluster::node_tasks;
use commands::core::context::Now;
use crossbeam_channel::{Receiver, Sender, unbounded};
use engine::Engine;
use engine::host::threads::Task;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// One duty.
pub(super) enum NodeTask {
    /// Clients that wait for keys that are elsewhere now are sent there.
    EndWaits,
    Follow {
        ip: String,
        port: u16,
        needs_full_sync: bool,
    },
    Lead {
        is_handed_over: bool,
    },
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

impl NodeTask {
    /// Returns whether keys of slots are to go, or to be looked for, or have come.
    fn concerns_slots(&self) -> bool {
        matches!(
            self,
            NodeTask::LookAtKeys | NodeTask::RemoveKeys(_) | NodeTask::RemoveImported(..) | NodeTask::TellOfGain(_)
        )
    }
}

/// Time between two checks whether the data is there.
const LOOK: Duration = Duration::from_millis(1);

/// Queues of the duties.
pub(super) struct TaskLanes {
    others: Sender<NodeTask>,
    of_slots: Sender<NodeTask>,
}

impl TaskLanes {
    pub fn add(&self, duty: NodeTask) {
        let queue = if duty.concerns_slots() { &self.of_slots } else { &self.others };
        // The threads end with the process only.
        let _ = queue.send(duty);
    }
}

/// Starts the threads.
pub(super) fn start(handle: &Arc<NodeHandle>, shared: &Arc<Shared>) -> io::Result<TaskLanes> {
    let begin = |name: &str| {
        let (sender, receiver) = unbounded();
        let (handle, shared) = (Arc::clone(handle), Arc::clone(shared));
        let run = move || work(&handle, &shared, &receiver);
        thread::Builder::new().name(name.to_owned()).spawn(run).map(|_| sender)
    };
    Ok(TaskLanes { others: begin("cluster-duties")?, of_slots: begin("cluster-slots")? })
}

/// Waits for the end of loading, since keys that are being read may be concerned, too.
fn await_load(engine: &Engine) {
    while engine.persistence_status().deny_reasons().is_loading() {
        thread::sleep(LOOK);
    }
}

fn look_at_keys(handle: &NodeHandle, engine: &Engine) {
    let found = node_tasks::populated(engine, &SlotSet::all());
    handle.input(|bus, now| bus.keys_found(&found, now));
}

/// Removes keys of these slots, but for slots that have come to this node meanwhile.
fn remove_keys(handle: &NodeHandle, engine: &Engine, slots: &SlotSet, now: Now) {
    let (node, own) = {
        let bus = handle.bus();
        (bus.own_name_in_shard(), bus.nodes().myself().slots.clone())
    };
    node_tasks::remove_keys(engine, &slots.without(&own), &node, now);
}

fn work(handle: &NodeHandle, shared: &Shared, duties_due: &Receiver<NodeTask>) {
    let engine = &*shared.engine;
    // Slots whose loss was recorded for replicas.
    let mut left = SlotSet::none();
    for duty in duties_due {
        if duty.concerns_slots() || matches!(duty, NodeTask::FlushAll) {
            await_load(engine);
        }
        let now = clock::now();
        match duty {
            NodeTask::EndWaits => node_tasks::end_waits(engine),
            NodeTask::Follow { ip, port, needs_full_sync } => {
                node_tasks::follow(engine, &ip, port, needs_full_sync, now);
                handle.input(|bus, _| bus.followed());
            }
            NodeTask::LookAtKeys => look_at_keys(handle, engine),
            NodeTask::Lead { is_handed_over } => {
                node_tasks::lead(engine, is_handed_over);
                handle.input(|bus, now| bus.led(now));
                handle.duty(NodeTask::LookAtKeys);
            }
            NodeTask::FlushAll => {
                node_tasks::flush_all(engine, now);
                handle.flushed();
            }
            NodeTask::Tell(then) => then(engine),
            NodeTask::TellOfGain(slots) => {
                let back: SlotSet = slots.iter().filter(|slot| left.remove(*slot)).collect();
                if !back.is_empty() {
                    node_tasks::tell_of_gain(engine, back, now);
                }
            }
            NodeTask::RemoveKeys(slots) => {
                left = left.union(&slots);
                remove_keys(handle, engine, &slots, now);
                engine.importing_slots().end_leaving(&slots);
                handle.input(|bus, _| bus.lost_keys_removed());
            }
            NodeTask::RemoveImported(job, slots) => {
                remove_keys(handle, engine, &slots, now);
                handle.input(|bus, now| bus.imported_keys_removed(&job, now));
            }
            NodeTask::Record(words) => engine.record_apart(words.iter().map(Vec::as_slice)),
            NodeTask::Pause => {
                node_tasks::pause_writes(engine);
                handle.set_paused(true);
            }
            NodeTask::Unpause => {
                handle.set_paused(false);
                node_tasks::resume_writes(engine);
            }
        }
    }
}
