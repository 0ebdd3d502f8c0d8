//! A node's description of itself besides the header.

use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::Level;
use crate::node_id::NodeId;
use crate::packet::Extension;

impl Bus {
    /// Takes a known node's extensions. An absent extension clears its value.
    pub(in crate::bus) fn take_extensions(&mut self, extensions: &[Extension], sender: NodeId) {
        let Some(node) = self.nodes.get(&sender) else {
            return;
        };
        let mut address = node.address.clone();
        for text in [
            &mut address.hostname,
            &mut address.human_name,
            &mut address.client_ipv4,
            &mut address.client_ipv6,
            &mut address.availability_zone,
        ] {
            text.clear();
        }
        (address.client_port, address.client_tls_port) = (0, 0);
        let mut shard_id = None;
        for extension in extensions {
            match extension {
                Extension::Hostname(name) => address.hostname.clone_from(name),
                Extension::HumanName(name) => address.human_name.clone_from(name),
                Extension::ClientIpv4(ip) => address.client_ipv4.clone_from(ip),
                Extension::ClientIpv6(ip) => address.client_ipv6.clone_from(ip),
                Extension::ClientPort(port) => address.client_port = *port,
                Extension::ClientTlsPort(port) => address.client_tls_port = *port,
                Extension::AvailabilityZone(zone) => address.availability_zone.clone_from(zone),
                Extension::Shard(id) => shard_id = Some(*id),
                Extension::Forgotten(id, ttl) => self.forget_as_told(*id, *ttl),
                Extension::RedisSecret => {}
                Extension::Unknown(kind) => {
                    self.log(Level::Warning, format!("Received unknown extension type {kind}"));
                }
            }
        }
        // The sender may have asked this node to forget the sender itself.
        let Some(node) = self.nodes.get_mut(&sender) else {
            return;
        };
        if node.address != address && !node.is_myself() {
            node.address = address;
            self.todo.save(false);
        }
        if let Some(node) = self.nodes.get(&sender) {
            let shard_id = shard_id.unwrap_or_else(|| self.nodes.root_primary(node).shard_id);
            self.update_shard_id(sender, shard_id);
        }
    }

    /// Forgets a node that another node has forgotten, if this one knows it.
    fn forget_as_told(&mut self, id: NodeId, ttl: u64) {
        let myself = self.nodes.myself();
        let is_my_primary = myself.is_replica() && myself.primary == Some(id);
        if self.nodes.get(&id).is_none_or(|node| node.is_myself()) || is_my_primary {
            return;
        }
        self.forget_for_a_while(id, i64::try_from(ttl).unwrap_or(i64::MAX));
        self.remove_node(id);
        self.todo.save(false);
        self.todo.update_state();
    }
}
