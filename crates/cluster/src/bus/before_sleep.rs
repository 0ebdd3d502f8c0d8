//! Work at the end of each input, done once however often it was requested.

use super::cluster_bus::Bus;
use super::model::bus_effect::Effect;
use super::model::todo::Todo;

impl Bus {
    /// Ends an input. This work may request more, which is done, too.
    pub(super) fn settle(&mut self) {
        for _ in 0..3 {
            let todo = std::mem::take(&mut self.todo);
            if todo.leads {
                self.fail_imports_of_former_primary();
            }
            if todo.slot_map_changed {
                self.tell_migrations_of_owners();
            }
            if todo.update_state {
                self.update_state();
            }
            if todo.handle_manual_failover {
                self.go_on_with_manual_failover();
            } else if todo.handle_failover {
                self.handle_failover();
            }
            if todo.broadcast {
                self.broadcast_pong();
            }
            self.put_out(todo);
        }
        self.put_out_migrations();
    }

    fn put_out(&mut self, todo: Todo) {
        if !todo.dropped_channels.is_empty() {
            self.effects.push(Effect::DropShardSubscribers(todo.dropped_channels));
        }
        if todo.slot_map_changed {
            self.publish_slot_map();
        }
        if !todo.lost_slots.is_empty() {
            self.removals += 1;
            // Clients are sent to the new owner before a key is removed.
            self.effects.push(Effect::LoseSlots(todo.lost_slots));
        }
        if todo.save {
            self.save(todo.is_durable, false);
        }
    }

    /// Publishes the slot map behind the file and changes of the role, before all other effects: slots are served here
    /// when others learn of that, and a node that follows another primary does not pass its data for that one's.
    fn publish_slot_map(&mut self) {
        self.effects.retain(|effect| *effect != Effect::SlotMapChanged);
        let is_first =
            |effect: &Effect| matches!(effect, Effect::Save { .. } | Effect::Follow { .. } | Effect::Lead { .. });
        let place = self.effects.iter().rposition(is_first).map_or(0, |last| last + 1);
        self.effects.insert(place, Effect::SlotMapChanged);
    }

    /// Saves the file before all effects that wait: it then has everything that was known before them.
    pub(super) fn save(&mut self, durable: bool, asked_for: bool) {
        match self.effects.first_mut() {
            Some(Effect::Save { is_durable, is_asked_for }) => {
                *is_durable |= durable;
                *is_asked_for &= asked_for;
            }
            _ => self.effects.insert(0, Effect::Save { is_durable: durable, is_asked_for: asked_for }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::test_bus::{add_primary, bus};
    use crate::packet::MessageType;
    use crate::slot_set::SlotSet;

    #[test]
    fn keys_of_lost_slots_go_behind_the_map() {
        let mut bus = bus();
        let lost = SlotSet::of([9..=9]);
        bus.todo.lose_slots(&lost);
        bus.todo.save(false);
        bus.settle();
        let effects = bus.take_effects();
        let effects: Vec<_> = effects.into_iter().filter(|effect| !matches!(effect, Effect::Log { .. })).collect();
        let saved = Effect::Save { is_durable: false, is_asked_for: false };
        assert_eq!(effects, [saved, Effect::SlotMapChanged, Effect::LoseSlots(lost)]);
    }

    #[test]
    fn the_map_follows_a_change_of_the_role_and_precedes_packets() {
        let mut bus = bus();
        let primary = add_primary(&mut bus);
        bus.connect(primary);
        let link = bus.nodes.get(&primary).and_then(|node| node.link).expect("a link");
        bus.todo.slot_map_changed();
        bus.settle();
        bus.send_ping(link, MessageType::Ping);
        bus.become_replica_of(primary, true, true);
        bus.settle();
        let effects = bus.take_effects();
        let place = |is_it: fn(&Effect) -> bool| effects.iter().position(is_it).expect("it is there");
        let map = place(|effect| *effect == Effect::SlotMapChanged);
        assert_eq!(map, place(|effect| matches!(effect, Effect::Follow { .. })) + 1);
        bus.todo.slot_map_changed();
        bus.send_ping(link, MessageType::Ping);
        bus.settle();
        assert_eq!(bus.take_effects()[0], Effect::SlotMapChanged);
    }
}
