//! A primary of a cluster that ends asks a replica to take over before others find it missing.

use engine::Engine;
use engine::status::replication_status::ReplicaInfo;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The first version that knows the request.
const FIRST: [u32; 3] = [9, 0, 0];

/// Asks a replica that has all of the stream. `end`: the length of that, if there is one and it grows no more. All
/// replicas get the order; the name in it selects one of them.
pub(super) fn hand_over(engine: &Engine, end: Option<u64>) {
    if !engine.host().own_node().is_some_and(|node| node.is_primary) {
        return;
    }
    match successor(&engine.replication().replicas(), end) {
        Ok(node) => {
            engine.host().tell_replicas(&["CLUSTER", "FAILOVER", "FORCE", "REPLICAID", &node]);
            engine.host().notice(&format!("Perform auto failover to replica {node} on shutdown."));
        }
        Err(reason) => engine.host().notice(reason),
    }
}

/// Returns the name of the node that can take over, or the reason that there is none.
fn successor(replicas: &[Arc<ReplicaInfo>], end: Option<u64>) -> Result<String, &'static str> {
    if replicas.iter().any(|replica| replica.version.is_none_or(|version| version < FIRST)) {
        return Err("Unable to perform auto failover on shutdown since there are legacy replicas.");
    }
    let has_all =
        |replica: &&Arc<ReplicaInfo>| replica.is_online() && end.is_some_and(|end| replica.acked.load(Relaxed) >= end);
    let node = replicas.iter().filter(has_all).filter_map(|replica| replica.node.clone()).next_back();
    node.ok_or("Unable to find a replica to perform the auto failover on shutdown.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::status::replication_status::ReplicaState;
    use engine::time::SteadyMs;
    use replication::replica_handshake::Handshake;

    fn replica(node: Option<&str>, version: Option<[u32; 3]>, acked: u64) -> Arc<ReplicaInfo> {
        let said = Handshake { node: node.map(str::to_owned), version, ..Handshake::default() };
        let replica = ReplicaInfo::new(1, "127.0.0.1".to_owned(), &said, SteadyMs(0));
        replica.set_state(ReplicaState::Online);
        replica.acked.store(acked, Relaxed);
        Arc::new(replica)
    }

    #[test]
    fn the_last_replica_that_has_all_takes_over() {
        let late = replica(Some("late"), Some(FIRST), 9);
        let nameless = replica(None, Some(FIRST), 10);
        assert!(successor(&[], Some(10)).is_err());
        assert!(
            successor(&[late.clone(), nameless.clone()], Some(10)).is_err_and(|why| why.starts_with("Unable to find"))
        );
        let all = [replica(Some("a"), Some(FIRST), 10), replica(Some("b"), Some([9, 1, 2]), 12), late, nameless];
        assert_eq!(successor(&all, Some(10)), Ok("b".to_owned()));
        let waits = replica(Some("c"), Some(FIRST), 10);
        waits.set_state(ReplicaState::SendBulk);
        assert!(successor(&[waits], Some(10)).is_err());
    }

    #[test]
    fn no_replica_takes_over_where_one_does_not_know_the_order() {
        for version in [None, Some([8, 1, 1])] {
            let replicas = [replica(Some("a"), Some(FIRST), 10), replica(Some("b"), version, 10)];
            assert!(successor(&replicas, Some(10)).is_err_and(|why| why.contains("legacy")));
        }
    }
}
