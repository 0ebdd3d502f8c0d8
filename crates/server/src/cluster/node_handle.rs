//! The node behind its lock, and how its effects are carried out.
//!
//! ```text
//!   a worker: order, wake ---------+
//!                                  +-> lock of the node: input -> effects
//!   other threads: input ----------+
//!                                       losses, then lock of the file: effects in their order, the file first
//!   by the thread of the bus, or by another one that waits for its own:   workers never do it
//! ```

use super::deliveries::Deliveries;
use super::message_lane::MessageLane;
use super::node_file::NodeFile;
use super::node_settings::{address, bus_port, settings};
use super::pending_orders::PendingOrders;
use super::task_lanes::{NodeTask, TaskLanes};
use super::{bus_thread, task_lanes};
use crate::listener::acceptor::Acceptor;
use crate::listener::sockets;
use crate::system::{clock, log};
use crate::workers::mailbox::WorkerMessage;
use crate::workers::migration_messages::MigrationMessage;
use crate::workers::shared::Shared;
use cluster::Millis;
use cluster::bus::{Bus, Effect, Facts, NodeView};
use cluster::link_id::LinkId;
use cluster::migration::{JobName, MigrationEffect};
use cluster::packet::Published;
use cluster::slot_map::SlotMap;
use cluster::slot_set::SlotSet;
use commands::transactions::cluster_handle::{self, CarriedOut, ClusterHandle};
use engine::Engine;
use engine::config::{Config, Directive, os_message};
use engine::data::slot::SLOTS;
use engine::host::peers::OwnNode;
use engine::host::threads::Task;
use engine::locks::sync::{Mutex, MutexGuard};
use engine::status::replication_status::LinkState;
use engine::status::saved_data_set::SavedIn;
use engine::time::Nanos;
use mio::{Poll, Token, Waker};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

/// The token under which the thread's waker reports; links count from 1.
pub(super) const WAKE: Token = Token(0);

/// An order about sockets, for the thread that has them.
pub(super) enum LinkOrder {
    Connect { link: LinkId, ip: String, port: u16 },
    Send { link: LinkId, bytes: Arc<[u8]> },
    SendMessages { link: LinkId, bytes: Arc<[u8]> },
    Close { link: LinkId },
}

/// The handle by which other threads query the node and give it inputs.
pub struct NodeHandle {
    bus: Mutex<Bus>,
    /// Node's recent state: frequent queries do not wait for the node.
    view: Mutex<Arc<NodeView>>,
    /// File of the node, locked by the thread that carries out effects: they are carried out in their order. No worker
    /// waits for it.
    file: Mutex<NodeFile>,
    visits: PendingOrders,
    /// Messages that were published here, for the thread that has the links.
    messages: MessageLane,
    links: Mutex<VecDeque<LinkOrder>>,
    waker: OnceLock<Waker>,
    shared: OnceLock<Arc<Shared>>,
    duties: OnceLock<TaskLanes>,
    /// Number of orders to flush all keys that the duties' thread has not carried out.
    flushes: AtomicUsize,
    /// Whether writes are paused for the node.
    is_paused: AtomicBool,
    /// Time of the last warning that the file is not up to date.
    warned_at: AtomicI64,
    /// Whether the node knows that it stood still; its slot map is not valid until its next tick then.
    knows_of_stop: AtomicBool,
    /// Number of times that it stood still.
    stops: AtomicUsize,
}

/// Effects of the node, of one moment.
struct Wanted {
    effects: Vec<Effect>,
    /// Text for the file, if it is to be written.
    text: Vec<u8>,
    /// Slot map by which commands are to be admitted, if it has changed.
    map: Option<SlotMap>,
    /// Last visit that is part of it.
    visits: u64,
    /// Number of times that the node had stood still.
    stops: usize,
}

/// Milliseconds between two warnings.
const WARNING_INTERVAL: Millis = 30_000;

/// Returns the wall clock, since times of nodes are sent to others.
pub(super) fn now() -> Millis {
    clock::now().unix_ms().0
}

impl NodeHandle {
    /// Returns the node of the configuration, in the state of its file, if there is one.
    ///
    /// # Errors
    /// A line for the log: the server must not start.
    pub fn begin(config: &Config) -> Result<Option<Arc<NodeHandle>>, String> {
        if !config.flag(Directive::CLUSTER_ENABLED) {
            return Ok(None);
        }
        if bus_port(config) == 0 {
            return Err("Server port number too high. Cluster communication port is 10,000 port numbers higher than your Server port. Your Server port number must be 55535 or less.".to_owned());
        }
        let name = config.text(Directive::CLUSTER_CONFIG_FILE);
        let (file, text) = NodeFile::open(name)?;
        let (address, settings) = (address(config), settings(config));
        let random = fastrand::Rng::new();
        let mut bus = match text.is_empty() {
            true => Bus::new(address, settings, random, now()),
            false => Bus::load(&text, address, settings, random, now())
                .map_err(|error| format!("Unrecoverable error: corrupted cluster config file: {error}"))?,
        };
        if config.flag(Directive::CLUSTER_SINGLE) {
            own_all(&mut bus)?;
        }
        let (visits, messages, links, waker, shared, duties, flushes, is_paused, warned_at) = Default::default();
        let (knows_of_stop, stops) = Default::default();
        Ok(Some(Arc::new(NodeHandle {
            view: Mutex::new(Arc::new(bus.view())),
            bus: Mutex::new(bus),
            file: Mutex::new(file),
            visits,
            messages,
            links,
            waker,
            shared,
            duties,
            flushes,
            is_paused,
            warned_at,
            knows_of_stop,
            stops,
        })))
    }

    /// Locks the node. Nothing that may wait is done while the lock is held.
    pub(crate) fn bus(&self) -> MutexGuard<'_, Bus> {
        self.bus.lock()
    }

    /// Returns this server's identity among the others.
    pub fn own_node(&self) -> OwnNode {
        let view = self.view();
        let myself = view.nodes().myself();
        OwnNode { name: myself.id.to_string(), is_primary: myself.is_primary(), has_vote: myself.has_vote() }
    }

    /// Begins to talk to others, on a thread of its own.
    ///
    /// # Errors
    /// A text for the log: the system has no thread, poll or port for it.
    pub fn start(self: &Arc<Self>, shared: &Arc<Shared>, acceptor: &Arc<Acceptor>) -> Result<(), String> {
        let failed = |error: io::Error| format!("Can't start the cluster bus: {error}");
        let poll = Poll::new().map_err(failed)?;
        let config = shared.engine.config().snapshot();
        let listeners = sockets::open_bus(&config, bus_port(&config))?;
        // These are set once: no other call starts it.
        let _ = self.waker.set(Waker::new(poll.registry(), WAKE).map_err(failed)?);
        let _ = self.shared.set(Arc::clone(shared));
        let _ = self.duties.set(task_lanes::start(self, shared).map_err(failed)?);
        cluster_handle::install(Arc::clone(self) as Arc<dyn ClusterHandle>);
        self.perform();
        let parts = (Arc::clone(shared), Arc::clone(acceptor));
        bus_thread::start(Arc::clone(self), parts, poll, listeners).map_err(failed)
    }

    /// Gives the node the facts that it may need for the next input.
    fn inform(&self, bus: &mut Bus) {
        let Some(shared) = self.shared.get() else { return };
        let (config, now) = (shared.engine.config().snapshot(), now());
        if shared.engine.cluster().is_late(clock::nanos()) && !self.knows_of_stop.swap(true, SeqCst) {
            // The orders were made before, and others may get other packets since.
            self.stops.fetch_add(1, SeqCst);
            self.links.lock().retain(|order| !matches!(order, LinkOrder::Send { .. }));
            bus.stood_still(now);
        }
        bus.set_settings(settings(&config), now);
        bus.set_address(address(&config), now);
        bus.set_facts(facts(shared, self.is_paused.load(Relaxed)), now);
    }

    /// Gives the node an input, whose effects are carried out when this returns. It may wait for the disk: not for
    /// workers.
    pub(crate) fn input<R>(&self, input: impl FnOnce(&mut Bus, Millis) -> R) -> R {
        let result = {
            let mut bus = self.bus();
            self.inform(&mut bus);
            input(&mut bus, now())
        };
        self.perform();
        result
    }

    /// Lets the node do due work. Commands are admitted by its slot map for a node timeout from then on: if the
    /// process, or this thread, stands still for longer, others may have replaced it.
    pub(super) fn tick(&self) {
        let began = clock::nanos();
        let lease = self.input(|bus, now| {
            bus.tick(now);
            bus.map_lease()
        });
        self.show(&self.bus());
        let Some(shared) = self.shared.get() else { return };
        let until = lease.map_or(Nanos(u64::MAX), |lease| began.after(lease.unsigned_abs() * 1_000_000));
        if shared.engine.extend_slot_map(clock::nanos(), until, self.knows_of_stop.load(SeqCst)) {
            self.knows_of_stop.store(false, SeqCst);
        }
    }

    /// Publishes the node's present state.
    fn show(&self, bus: &Bus) {
        *self.view.lock() = Arc::new(bus.view());
    }

    /// Sets whether writes are paused.
    pub(super) fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Relaxed);
        // The node may notify others at once.
        self.input(|_, _| ());
    }

    /// Sends a message that was published here to the others.
    pub fn publish(&self, channel: &[u8], message: &[u8], is_sharded: bool) {
        let Some(shared) = self.shared.get() else { return };
        if self.messages.push(shared.engine.pubsub(), channel, message, is_sharded) {
            self.wake();
        }
    }

    /// Gives messages that were published here to the links, if no node that works has too much waiting. Returns
    /// whether it has.
    pub(super) fn send_messages(&self) -> bool {
        let Some(shared) = self.shared.get() else { return false };
        let sends = self.messages.waiting() > 0 && self.bus().takes_messages();
        if sends {
            let batch = self.messages.take(shared.engine.pubsub());
            self.input(|bus, _| bus.publish(&batch));
        }
        sends
    }

    /// Returns whether the workers have too much to deliver already.
    pub(super) fn is_congested(&self) -> bool {
        let is_congested = |shared: &Arc<Shared>| shared.engine.persistence_status().deny_reasons().is_congested();
        self.shared.get().is_some_and(is_congested)
    }

    /// Takes the orders about sockets.
    pub(super) fn take_links(&self) -> VecDeque<LinkOrder> {
        let is_late = self.shared.get().is_some_and(|shared| shared.engine.cluster().is_late(clock::nanos()));
        if is_late && !self.knows_of_stop.load(SeqCst) {
            self.input(|_, _| ());
        }
        std::mem::take(&mut *self.links.lock())
    }

    /// Wakes the thread.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            // The thread looks at its next tick at the latest.
            let _ = waker.wake();
        }
    }

    fn wanted(&self) -> Wanted {
        let mut bus = self.bus();
        let effects = bus.take_effects();
        if effects.iter().any(changes_view) {
            self.show(&bus);
        }
        let has = |is_it: fn(&Effect) -> bool| effects.iter().any(is_it);
        let text = if has(|effect| matches!(effect, Effect::Save { .. })) { bus.conf() } else { Vec::new() };
        // The map must not be of a later moment: no command is admitted by a map that is not in the file yet.
        let map = has(|effect| matches!(effect, Effect::SlotMapChanged)).then(|| bus.slot_map());
        Wanted { effects, text, map, visits: self.visits.begun(), stops: self.stops.load(SeqCst) }
    }

    /// Carries out the node's effects, in their order, but for lost slots, which are in force at once. The file and the
    /// slot map are there when this returns. Clients that wait for visits that are done by that are notified.
    pub(super) fn perform(&self) {
        self.take_away();
        let mut file = self.file.lock();
        let (mut done, mut deliveries) = (Vec::new(), Deliveries::default());
        loop {
            let Wanted { effects, text, mut map, visits, stops } = self.wanted();
            let (is_last, mut saved) = (effects.is_empty(), None);
            for effect in effects {
                match effect {
                    Effect::Save { is_durable, is_asked_for } => {
                        saved = Some(self.save(&mut file, &text, is_durable, is_asked_for));
                    }
                    Effect::SlotMapChanged => map.take().into_iter().for_each(|map| self.set_slot_map(map)),
                    Effect::Send { .. } if stops != self.stops.load(SeqCst) => {}
                    Effect::Deliver { channel, message, is_sharded } => {
                        if let Some(shared) = self.shared.get() {
                            deliveries.add(shared.engine.pubsub(), &channel, &message, is_sharded);
                        }
                    }
                    effect => self.perform_one(effect),
                }
            }
            self.shared.get().into_iter().for_each(|shared| deliveries.go(shared));
            let failure = saved.as_ref().and_then(|saved| saved.clone().err());
            done.extend(self.visits.end(visits, saved).into_iter().map(|then| (then, failure.clone())));
            if is_last {
                break;
            }
        }
        drop(file);
        if !self.links.lock().is_empty() {
            self.wake();
        }
        done.into_iter().for_each(|(then, failure)| self.tell(then, failure));
    }

    /// Records that a flush of all keys that the node wanted has been carried out.
    pub(super) fn flushed(&self) {
        self.flushes.fetch_sub(1, SeqCst);
        self.input(|bus, _| bus.lost_keys_removed());
    }

    fn tell(&self, then: CarriedOut, failure: Option<String>) {
        if let Some(shared) = self.shared.get() {
            then(&shared.engine, failure.as_deref());
        }
    }

    /// Stops admitting commands for slots that the node has lost, however long the file takes.
    fn take_away(&self) {
        let Some(shared) = self.shared.get() else { return };
        let bus = self.bus();
        if bus.changes_slot_map()
            && let Some(losses) = bus.slot_map().losses_from(&shared.engine.cluster().map())
        {
            shared.engine.set_slot_map(losses);
            drop(bus);
            self.duty(NodeTask::EndWaits);
        }
    }

    /// Admits commands by a map whose file is written, but for slots that the node has lost since.
    fn set_slot_map(&self, map: SlotMap) {
        let Some(shared) = self.shared.get() else { return };
        let mut bus = self.bus();
        self.inform(&mut bus);
        let map = bus.slot_map().losses_from(&map).unwrap_or(map);
        let served: SlotSet = (0..SLOTS as u16).filter(|slot| !map.is_replica && map.is_own(*slot)).collect();
        let hidden = shared.engine.importing_slots();
        if hidden.is_any() {
            // A client that is sent here finds the keys.
            hidden.show_own(&served);
        }
        let before = shared.engine.cluster().map();
        let gained: SlotSet = served.iter().filter(|slot| !before.is_own(*slot)).collect();
        bus.map_in_force(&map, now());
        shared.engine.set_slot_map(map);
        drop(bus);
        if !gained.is_empty() {
            self.duty(NodeTask::TellOfGain(gained));
        }
        self.duty(NodeTask::EndWaits);
    }

    fn perform_one(&self, effect: Effect) {
        match effect {
            Effect::Save { .. } | Effect::SlotMapChanged | Effect::Deliver { .. } => {}
            Effect::Connect { link, ip, port } => self.links.lock().push_back(LinkOrder::Connect { link, ip, port }),
            Effect::Send { link, bytes } => self.links.lock().push_back(LinkOrder::Send { link, bytes }),
            Effect::SendMessages { link, bytes } => {
                self.links.lock().push_back(LinkOrder::SendMessages { link, bytes });
            }
            Effect::Close { link } => self.links.lock().push_back(LinkOrder::Close { link }),
            Effect::Follow { ip, port, needs_full_sync } => self.duty(NodeTask::Follow { ip, port, needs_full_sync }),
            Effect::Lead { is_handed_over } => self.duty(NodeTask::Lead { is_handed_over }),
            Effect::LookAtKeys => self.duty(NodeTask::LookAtKeys),
            Effect::FlushAll => {
                self.flushes.fetch_add(1, SeqCst);
                self.duty(NodeTask::FlushAll);
            }
            Effect::LoseSlots(slots) => {
                // A replica's keys are removed with its primary's.
                if let Some(shared) = self.shared.get().filter(|shared| !shared.engine.replication().is_replica()) {
                    shared.engine.importing_slots().hide_leaving(&slots);
                }
                self.duty(NodeTask::RemoveKeys(slots));
            }
            Effect::DropShardSubscribers(slots) => {
                if let Some(shared) = self.shared.get() {
                    shared.post_all(|| WorkerMessage::SlotsLost { slots: slots.clone() });
                }
            }
            Effect::PauseWrites { .. } => self.duty(NodeTask::Pause),
            Effect::Unpause => self.duty(NodeTask::Unpause),
            Effect::Migration(effect) => self.perform_migration(effect),
            Effect::Log { level, text } => log::log(level, text),
        }
    }

    /// Carries out an effect of the moment at once, and leaves the rest to the thread that has the connections.
    fn perform_migration(&self, effect: MigrationEffect) {
        let Some(shared) = self.shared.get() else { return };
        let hidden = shared.engine.importing_slots();
        match effect {
            MigrationEffect::Hide { job, slots } => hidden.hide(job.0, slots),
            MigrationEffect::Show { job } => hidden.show(&job.0),
            // A server that is about to lead adds nothing to its stream before it does.
            MigrationEffect::Record(words) if shared.engine.replication().is_replica() => {
                self.duty(NodeTask::Record(words));
            }
            MigrationEffect::Record(words) => shared.engine.record_apart(words.iter().map(Vec::as_slice)),
            effect => shared.migrations.post(MigrationMessage::Effect(effect)),
        }
    }

    /// Removes keys that came with slots in vain.
    pub fn remove_imported(&self, job: JobName, slots: SlotSet) {
        self.duty(NodeTask::RemoveImported(job, slots));
    }

    /// Handles the end of loading at the start: imports that were under way are ended, and keys are looked for of slots
    /// that are not this node's.
    pub fn data_loaded(&self) {
        self.input(|bus, now| bus.data_loaded(now));
        self.duty(NodeTask::LookAtKeys);
    }

    /// Queries the node.
    pub fn asks<R>(&self, question: impl FnOnce(&Bus) -> R) -> R {
        question(&self.bus())
    }

    pub(super) fn duty(&self, duty: NodeTask) {
        if let Some(duties) = self.duties.get() {
            duties.add(duty);
        }
    }

    /// Writes the file. A node that forgets its promises harms others: it ends when it cannot save them, unless it is
    /// configured to continue. If an operator asked for the file, and for nothing else, the operator gets the error.
    fn save(&self, file: &mut NodeFile, text: &[u8], is_durable: bool, is_asked_for: bool) -> Result<(), String> {
        let Err(error) = file.save(text, is_durable) else { return Ok(()) };
        let goes_on = self.shared.get().is_some_and(|shared| {
            shared.engine.config().snapshot().choice(Directive::CLUSTER_CONFIG_SAVE_BEHAVIOR) == "best-effort"
        });
        log::warning(&error);
        if !goes_on && !is_asked_for {
            log::warning(format_args!("Fatal: can't update cluster config file '{}'.", file.name()));
            std::process::exit(1);
        }
        if !is_asked_for && now() - self.warned_at.load(Relaxed) > WARNING_INTERVAL {
            self.warned_at.store(now(), Relaxed);
            log::warning("Cluster config updated even though writing the cluster config file to disk failed.");
        }
        Err(os_message(&error.cause))
    }
}

impl ClusterHandle for NodeHandle {
    fn visit(&self, visit: &mut dyn FnMut(&mut Bus, Millis)) -> u64 {
        let (number, has_effects) = {
            let mut bus = self.bus();
            self.inform(&mut bus);
            visit(&mut bus, now());
            self.show(&bus);
            (self.visits.begin(), bus.has_effects())
        };
        if has_effects {
            self.wake();
        }
        number
    }

    fn when_done(&self, visit: u64, then: CarriedOut) {
        match self.visits.when_done(visit, then) {
            Some((then, failure)) => self.tell(then, failure),
            // The visit may have no effects, in which case no thread has been woken.
            None => self.wake(),
        }
    }

    fn when_emptied(&self, then: Task<Engine>) {
        match (self.flushes.load(SeqCst), self.shared.get()) {
            // The duties are carried out in their order.
            (1.., _) => self.duty(NodeTask::Tell(then)),
            (0, Some(shared)) => then(&shared.engine),
            (0, None) => {}
        }
    }

    fn view(&self) -> Arc<NodeView> {
        Arc::clone(&self.view.lock())
    }

    fn published(&self) -> Published {
        self.messages.published()
    }

    fn messages_waiting(&self) -> u64 {
        self.messages.waiting() as u64
    }

    fn flush(&self) {
        self.perform();
    }
}

/// Returns whether others are to see the cause of this effect at once; all else they see at the next tick.
fn changes_view(effect: &Effect) -> bool {
    !matches!(effect, Effect::Send { .. } | Effect::SendMessages { .. } | Effect::Deliver { .. } | Effect::Log { .. })
}

/// Gives all slots to a node that is alone and owns none.
fn own_all(bus: &mut Bus) -> Result<(), String> {
    let others = "cluster-single is for a node that is alone, and the cluster configuration file knows others.";
    if bus.own_all(now()) { Ok(()) } else { Err(others.to_owned()) }
}

fn facts(shared: &Shared, are_writes_paused: bool) -> Facts {
    let status = shared.engine.replication();
    let link = status.link();
    let heard = if link.state == LinkState::Connected { link.last_io } else { link.down_since };
    let silence = clock::nanos().ms().since(heard);
    let config = shared.engine.config().snapshot();
    let accepts_loss = config.flag(Directive::REPLICA_MAY_LOSE_ACKNOWLEDGED);
    let files = if config.flag(Directive::APPENDONLY) { SavedIn::Log } else { SavedIn::Snapshot };
    let offset = status.data_offset();
    let claimed = status.acknowledgement.claim().map_or(offset, |claim| claim.offset.min(offset));
    Facts {
        replication_offset: i64::try_from(offset).unwrap_or(i64::MAX),
        claimed_offset: i64::try_from(claimed).unwrap_or(i64::MAX),
        are_writes_paused,
        is_following: status.is_replica(),
        is_linked: status.is_replica() && link.state == LinkState::Connected,
        synchronizations: link.synchronizations,
        is_unsaved: !status.data_sets.is_saved(files),
        heard_from_primary: if heard.0 == 0 { 0 } else { now().saturating_sub(silence) },
        is_unconfirmed: !status.is_replica() && status.acknowledgement.state() == "unconfirmed",
        has_history: status.has_history(),
        is_in_sync: status.is_replica() && status.acknowledgement.has_all_acknowledged(),
        may_lack_acknowledged: !status.acknowledgement.is_in_sync() && !accepts_loss,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::config::ConfigStore;

    #[test]
    fn questions_and_messages_do_not_wait_for_the_node() {
        let path =
            std::env::temp_dir().join(format!("cinnabar-node-view-{}-{}", std::process::id(), fastrand::u64(..)));
        let store = ConfigStore::new(Config::default());
        store.update(|edit| {
            edit.set_flag(Directive::CLUSTER_ENABLED, true);
            edit.set_text(Directive::CLUSTER_CONFIG_FILE, path.as_os_str().as_encoded_bytes());
        });
        let handle = NodeHandle::begin(&store.snapshot()).expect("a file").expect("a node");
        let held = handle.bus();
        assert_eq!((handle.view().nodes().len(), handle.own_node().is_primary), (1, true));
        handle.publish(b"news", b"1", false);
        drop(held);
        let number = handle.visit(&mut |bus, now| assert!(bus.add_slots(&[(7, 7)], now).is_ok()));
        let held = handle.bus();
        assert_eq!((number, handle.view().nodes().myself().slots.len()), (1, 1), "an order is seen at once");
        drop(held);
        std::fs::remove_file(path).expect("a file");
    }
}
