//! MEET, FORGET, REPLICATE: members of the cluster, and their primaries. `by` is the client, for the log.

use crate::Millis;
use crate::bus::cluster_bus::Bus;
use crate::bus::membership::NoHandshake;
use crate::bus::model::bus_effect::{Effect, Level};
use crate::bus::model::order_error::OrderError;
use crate::node_id::NodeId;

impl Bus {
    /// Introduces this node to the node at an address, and to all that it knows.
    ///
    /// # Errors
    /// Returns [`OrderError::InvalidAddress`].
    pub fn meet(&mut self, ip: &[u8], port: u16, bus_port: u16, by: &str, now: Millis) -> Result<(), OrderError> {
        self.now = now;
        let text = String::from_utf8_lossy(ip);
        if self.start_handshake(&text, port, bus_port) == Err(NoHandshake::Invalid) {
            return Err(OrderError::InvalidAddress(ip.to_vec(), port));
        }
        self.log(Level::Notice, format!("Cluster meet {text}:{port} (user request from '{by}')."));
        self.settle();
        Ok(())
    }

    /// Removes a node, makes the others remove it, and does not accept it again for a while. A node that is unknown by
    /// now was removed by another node's order.
    ///
    /// # Errors
    /// Returns an [`OrderError`] if the node is unknown, or is this node or its primary.
    pub fn forget(&mut self, name: &[u8], by: &str, now: Millis) -> Result<(), OrderError> {
        self.now = now;
        let Some(node) = self.nodes.named(name) else {
            let is_forgotten = NodeId::parse(name).is_some_and(|id| self.is_forgotten(&id));
            return if is_forgotten { Ok(()) } else { Err(OrderError::UnknownNode(name.to_vec())) };
        };
        let (id, myself) = (node.id, self.nodes.myself());
        if id == myself.id {
            return Err(OrderError::CannotForgetMyself);
        }
        if myself.is_replica() && myself.primary == Some(id) {
            return Err(OrderError::CannotForgetMyPrimary);
        }
        self.log(Level::Notice, format!("Cluster forget {id} (user request from '{by}')."));
        self.forget_for_a_while(id, self.settings.blacklist_ttl);
        self.remove_node(id);
        self.todo.save(false);
        self.todo.update_state();
        self.settle();
        Ok(())
    }

    /// Makes this node a replica of another one.
    ///
    /// # Errors
    /// Returns an [`OrderError`] if the other node is unknown, this node or a replica; or if this node is a primary
    /// with keys or slots.
    pub fn replicate(&mut self, name: &[u8], has_keys: bool, now: Millis) -> Result<(), OrderError> {
        let node = self.nodes.named(name).ok_or_else(|| OrderError::UnknownNode(name.to_vec()))?;
        let (id, myself) = (node.id, self.nodes.myself());
        if id == myself.id {
            return Err(OrderError::CannotReplicateMyself);
        }
        if node.is_replica() {
            return Err(OrderError::OnlyReplicatePrimaries);
        }
        if myself.is_primary() && (!myself.slots.is_empty() || has_keys) {
            return Err(OrderError::NotEmpty);
        }
        if myself.primary == Some(id) {
            return Ok(());
        }
        self.now = now;
        self.become_replica_of(id, true, true);
        self.todo.save(false);
        self.todo.update_state();
        self.todo.broadcast();
        self.settle();
        Ok(())
    }

    /// Makes this node, if it is a replica, an empty primary of its own shard.
    pub fn replicate_no_one(&mut self, by: &str, now: Millis) {
        if self.nodes.myself().is_primary() {
            return;
        }
        self.now = now;
        let text = format!("Stop replication and turning myself into empty primary (request from '{by}').");
        self.log(Level::Notice, text);
        self.set_as_primary(self.nodes.my_id());
        self.removals += 1;
        self.effects.push(Effect::FlushAll);
        self.close_all_slots();
        self.reset_manual_failover();
        self.move_to_new_shard();
        self.todo.save(false);
        self.todo.update_state();
        self.todo.broadcast();
        self.settle();
    }

    pub(super) fn move_to_new_shard(&mut self) {
        let shard_id = NodeId::random(&mut self.random);
        self.nodes.myself_mut().shard_id = shard_id;
        self.log(Level::Notice, format!("Moving myself to a new shard {shard_id}."));
    }
}

#[cfg(test)]
mod tests {
    use crate::bus::test_bus::{add_primary, bus};
    use crate::bus::{Effect, OrderError};

    #[test]
    fn a_node_that_is_met_is_in_a_handshake() {
        let mut bus = bus();
        assert_eq!(bus.meet(b"somewhere", 1, 2, "me", 1), Err(OrderError::InvalidAddress(b"somewhere".to_vec(), 1)));
        bus.meet(b"10.0.0.1", 6379, 16379, "me", 1).expect("an address");
        bus.meet(b"10.0.0.1", 6379, 16379, "me", 1).expect("goes on");
        bus.meet(b"0:0:0:0:0:0:0:1", 6379, 16379, "me", 1).expect("an address");
        let met = bus.nodes().iter().filter(|node| node.is_in_handshake()).map(|node| node.address.ip.as_str());
        let mut met: Vec<&str> = met.collect();
        met.sort_unstable();
        assert_eq!(met, ["10.0.0.1", "::1"]);
        assert!(!String::from_utf8_lossy(&bus.conf()).contains("10.0.0.1"), "a handshake is not saved");
    }

    #[test]
    fn a_forgotten_node_stays_so_for_a_while() {
        let mut bus = bus();
        let other = add_primary(&mut bus);
        assert_eq!(bus.forget(&bus.nodes().my_id().0.clone(), "me", 1), Err(OrderError::CannotForgetMyself));
        bus.forget(&other.0, "me", 5000).expect("known");
        bus.forget(&other.0, "me", 65_999).expect("it is forgotten");
        assert_eq!(bus.forget(&other.0, "me", 66_000), Err(OrderError::UnknownNode(other.0.to_vec())));
    }

    #[test]
    fn a_replica_follows_a_primary_and_then_nobody() {
        let mut bus = bus();
        let other = add_primary(&mut bus);
        assert_eq!(bus.replicate(&other.0, true, 1), Err(OrderError::NotEmpty));
        bus.replicate(&other.0, false, 1).expect("empty");
        assert_eq!(bus.forget(&other.0, "me", 1), Err(OrderError::CannotForgetMyPrimary));
        let shard = bus.nodes().myself().shard_id;
        bus.take_effects();
        bus.replicate_no_one("me", 1);
        assert!(bus.nodes().myself().is_primary() && bus.nodes().myself().shard_id != shard);
        let effects = bus.take_effects();
        assert!(effects.contains(&Effect::Lead { is_handed_over: false }) && effects.contains(&Effect::FlushAll));
    }
}
