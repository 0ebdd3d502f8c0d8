//! Execution of effects: threads with an order and a speed of their own carry them out, as a server's do.
//!
//! ```text
//!   input -> losses of slots in force -> file: none, or slow -> the rest, in order -> lanes: roles | keys of slots
//!   stopped nodes do nothing; bytes, requests and time wait for them
//! ```
//!
//! While the file is written the bus's thread waits; other threads pass further input, whose effects are carried out
//! behind it. The slot map in force serves clients, as long as it is valid.

use crate::cluster_world::{Event, Flaw, World};
use crate::data::DataEvent;
use cluster::bus::Effect;
use cluster::slot_map::SlotMap;
use std::collections::VecDeque;

/// Longest time until a change of role is carried out, and until clients that wait for a lost slot are sent on.
const LONGEST_WAIT: i64 = 200;

/// Work of one kind, which is done in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Changes of role, and pauses.
    Roles,
    /// Searches for keys of slots, and removals.
    Slots,
}

/// Effects to carry out behind the file.
struct Batch {
    effects: VecDeque<Effect>,
    text: Vec<u8>,
    map: SlotMap,
    /// Number of standstills of the node when the batch was made.
    stops: u64,
}

/// The state of a node's threads.
#[derive(Default)]
pub struct Threads {
    /// Batch for which the file is being written.
    batch: Option<Batch>,
    /// Events of a stopped node, or of its bus while that waits for the file.
    waiting: VecDeque<Event>,
    pub is_stopped: bool,
    /// Slot map that serves clients.
    pub map: SlotMap,
    /// Time until which the map is valid.
    until: Option<i64>,
    pub is_late: bool,
    knows_of_stop: bool,
    stops: u64,
    /// Time from which the map's validity counts once the tick's effects have been carried out.
    ticked: Option<i64>,
    lane_ends: [i64; 2],
    /// Greatest duration of a write to the disk.
    pub disk_delay: i64,
    /// Whether the log of the data cannot be written.
    pub does_log_fail: bool,
    /// Greatest duration of a removal of keys.
    pub removal_delay: i64,
    /// Whether the node was replaced, after it was stopped for longer than its map was valid.
    pub must_not_serve: bool,
}

impl Threads {
    pub fn limit_disk_delay(&mut self, most: i64) {
        self.disk_delay = self.disk_delay.min(most);
    }

    /// Makes the disk and removals fast again.
    pub fn heal(&mut self) {
        (self.disk_delay, self.removal_delay, self.does_log_fail) = (0, 0, false);
    }
}

impl World {
    pub fn is_stopped(&self, node: usize) -> bool {
        self.members[node].threads.is_stopped
    }

    /// Returns whether the node's bus waits for its file.
    pub fn writes_file(&self, node: usize) -> bool {
        self.members[node].threads.batch.is_some()
    }

    /// Retains an event if the node cannot take it now.
    pub fn has_to_wait(&mut self, node: usize, event: &Event, by_bus: bool) -> bool {
        let threads = &mut self.members[node].threads;
        let waits = threads.is_stopped || by_bus && threads.batch.is_some();
        if waits {
            threads.waiting.push_back(event.clone());
        }
        waits
    }

    /// Replays the events that have waited.
    fn catch_up(&mut self, node: usize) {
        for event in std::mem::take(&mut self.members[node].threads.waiting) {
            self.happen(event);
        }
    }

    /// Stops the process.
    pub fn stop(&mut self, node: usize) {
        if self.is_up(node) && !self.is_stopped(node) {
            self.note(format!("{node} is stopped"));
            self.members[node].threads.is_stopped = true;
        }
    }

    /// Resumes the process, its threads in any order.
    pub fn go_on(&mut self, node: usize) {
        if !self.is_stopped(node) {
            return;
        }
        self.note(format!("{node} goes on"));
        let is_late = self.is_past(node);
        let threads = &mut self.members[node].threads;
        threads.is_stopped = false;
        threads.must_not_serve |= is_late && self.data.replaced.contains(&node);
        // Events of one connection stay in order.
        let (requests, others): (Vec<Event>, Vec<Event>) =
            std::mem::take(&mut threads.waiting).into_iter().partition(|event| matches!(event, Event::Data(_)));
        let requests_first = self.random.bool();
        let (first, second) = if requests_first { (requests, others) } else { (others, requests) };
        self.members[node].threads.waiting = first.into_iter().chain(second).collect();
        self.catch_up(node);
    }

    fn is_past(&self, node: usize) -> bool {
        self.members[node].threads.until.is_some_and(|until| self.now > until)
    }

    /// Returns whether the map that serves clients is no longer valid: a worker checks that before each batch.
    pub fn expires(&mut self, node: usize) -> bool {
        self.members[node].threads.is_late |= self.is_expired(node);
        self.is_expired(node)
    }

    pub fn is_expired(&self, node: usize) -> bool {
        self.flaw() != Flaw::ServesWhenStoodStill && (self.is_past(node) || self.members[node].threads.is_late)
    }

    /// Informs a node that stood still, before any other input.
    pub fn inform(&mut self, node: usize) {
        let is_late = self.is_past(node) || self.members[node].threads.is_late;
        if !is_late || self.flaw() == Flaw::ServesWhenStoodStill {
            return;
        }
        let member = &mut self.members[node];
        if !std::mem::replace(&mut member.threads.knows_of_stop, true)
            && let Some(bus) = member.bus.as_mut()
        {
            member.threads.stops += 1;
            bus.stood_still(self.now + member.clock);
        }
    }

    /// Extends the map's validity: the node's tick has been carried out.
    fn extend(&mut self, node: usize) {
        let (is_past, now) = (self.is_past(node), self.now);
        let member = &mut self.members[node];
        let (Some(began), Some(bus)) = (member.threads.ticked.take(), member.bus.as_ref()) else { return };
        let threads = &mut member.threads;
        if threads.knows_of_stop || !is_past && !threads.is_late {
            threads.until = bus.map_lease().map(|lease| began + lease);
            (threads.is_late, threads.knows_of_stop) = (false, false);
        }
        debug_assert!(began <= now);
    }

    pub fn ticks(&mut self, node: usize) {
        self.members[node].threads.ticked = Some(self.now);
        self.tell(node, |bus, now| bus.tick(now));
    }

    /// Puts the node's losses into force at once.
    fn take_away(&mut self, node: usize) {
        let member = &mut self.members[node];
        if let Some(bus) = member.bus.as_ref()
            && bus.changes_slot_map()
            && let Some(losses) = bus.slot_map().losses_from(&member.threads.map)
        {
            member.threads.map = losses;
            self.send_waiters_on(node);
        }
    }

    /// Carries out the node's effects; while its file is being written, they follow it.
    pub fn execute(&mut self, node: usize) {
        let files_first = matches!(self.flaw(), Flaw::SavesBeforeLosses | Flaw::RemovesBeforeMap);
        if self.data.is_on && !files_first {
            self.take_away(node);
        }
        while self.members[node].threads.batch.is_none() {
            let stops = self.members[node].threads.stops;
            let Some(bus) = self.members[node].bus.as_mut() else { return };
            let mut effects: VecDeque<Effect> = bus.take_effects().into();
            if effects.is_empty() {
                return self.extend(node);
            }
            let saves = matches!(effects.front(), Some(Effect::Save { .. })) && self.saves();
            let text = if saves { self.conf(node) } else { Vec::new() };
            let map = if self.data.is_on && effects.contains(&Effect::SlotMapChanged) {
                self.members[node].bus().slot_map()
            } else {
                SlotMap::default()
            };
            if self.flaw() == Flaw::RemovesBeforeMap {
                effects.make_contiguous().sort_by_key(|effect| !matches!(effect, Effect::LoseSlots(_)));
            }
            let most = self.members[node].threads.disk_delay;
            let delay = if saves && most > 0 { self.random.i64(0..most) } else { 0 };
            let batch = Batch { effects, text, map, stops };
            if delay == 0 {
                self.execute_batch(node, batch);
                continue;
            }
            self.members[node].threads.batch = Some(batch);
            let life = self.life(node);
            self.later(delay, DataEvent::Saved { node, life });
        }
    }

    /// Carries out the effects behind the file, which is written.
    pub fn saved(&mut self, node: usize) {
        self.inform(node);
        if let Some(batch) = self.members[node].threads.batch.take() {
            self.execute_batch(node, batch);
            self.execute(node);
            self.catch_up(node);
        }
    }

    fn execute_batch(&mut self, node: usize, batch: Batch) {
        let Batch { effects, text, map, stops } = batch;
        let last = if self.dies_in_between && self.random.u32(0..4000) == 0 {
            self.random.usize(0..=effects.len())
        } else {
            usize::MAX
        };
        let mut map = Some(map);
        for (number, effect) in effects.into_iter().enumerate() {
            if number == last {
                self.note(format!("{node} dies in between"));
                return self.crash(node);
            }
            match effect {
                Effect::Save { .. } if !text.is_empty() => self.members[node].disk.clone_from(&text),
                Effect::Save { .. } => {}
                Effect::SlotMapChanged if self.data.is_on => {
                    map.take().into_iter().for_each(|map| self.set_map(node, map));
                }
                // The packet was made before the node stood still.
                Effect::Send { .. } if stops != self.members[node].threads.stops => {}
                effect => self.perform(node, effect),
            }
        }
    }

    /// Puts a map into force, without the slots that the node has lost since.
    fn set_map(&mut self, node: usize, map: SlotMap) {
        if self.flaw() == Flaw::RemovesBeforeMap {
            let life = self.life(node);
            return self.later(3, DataEvent::MapSet { node, life, map: Box::new(map) });
        }
        self.inform(node);
        let now = self.now;
        let member = &mut self.members[node];
        let Some(bus) = member.bus.as_mut() else { return };
        let map = bus.slot_map().losses_from(&map).unwrap_or(map);
        bus.map_in_force(&map, now + member.clock);
        self.data.stores[node].hidden.retain(|_, slots| !map.serves_all(slots));
        member.threads.map = map;
        self.send_waiters_on(node);
    }

    /// Sends clients on that wait for keys of slots which the node has lost.
    fn send_waiters_on(&mut self, node: usize) {
        let map = &self.members[node].threads.map;
        if self.data.stores[node].waiters.iter().any(|slot| map.is_replica || !map.is_own(*slot)) {
            let life = self.life(node);
            self.duty(node, Lane::Roles, DataEvent::EndWaits { node, life });
        }
    }

    pub fn end_waits(&mut self, node: usize) {
        let map = &self.members[node].threads.map;
        self.data.stores[node].waiters.retain(|slot| !map.is_replica && map.is_own(*slot));
    }

    /// Schedules an event behind all others of its lane.
    pub fn duty(&mut self, node: usize, lane: Lane, event: DataEvent) {
        let is_of_roles = lane == Lane::Roles;
        let most = if lane == Lane::Slots { self.members[node].threads.removal_delay.max(100) } else { 20 };
        let delay = if self.flaw() == Flaw::RemovesBeforeMap { 0 } else { self.random.i64(1..most) };
        let lane = if self.flaw() == Flaw::HasOneLane { Lane::Slots } else { lane };
        let end = &mut self.members[node].threads.lane_ends[lane as usize];
        let at = (self.now + delay).max(*end + 1);
        *end = at;
        let delay = at - self.now;
        if is_of_roles && delay > LONGEST_WAIT {
            self.violate(format!("a change of role, or a client, waits for {delay} ms at {node}"));
        }
        self.later(delay, event);
    }
}
