//! Whether enough replicas follow for writes (`min-replicas-to-write`, `min-replicas-max-lag`).

use engine::Engine;
use engine::config::{Config, Directive};

/// Whether writes depend on replicas: on their number, and on how long they have been silent.
pub(crate) fn are_wanted(config: &Config) -> bool {
    config.int(Directive::MIN_REPLICAS_TO_WRITE) > 0 && config.int(Directive::MIN_REPLICAS_MAX_LAG) > 0
}

/// Returns the number of replicas that have sent something lately.
pub(crate) fn count(engine: &Engine, config: &Config) -> usize {
    engine.replication().min_replicas(config.int(Directive::MIN_REPLICAS_MAX_LAG), engine.host().nanos().ms())
}

/// Makes the server refuse writes from about now on while there are too few.
pub fn refresh(engine: &Engine, config: &Config) {
    let wanted = config.int(Directive::MIN_REPLICAS_TO_WRITE);
    let is_short = are_wanted(config) && (count(engine, config) as i64) < wanted;
    let is_replica = engine.replication().is_replica();
    engine.persistence_status().set_short_of_replicas(is_short && !is_replica);
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn a_new_primary_takes_no_write_without_replicas() {
        let mut client = Client::new();
        client.is("REPLICAOF 127.0.0.1 1", "+OK").is("CONFIG SET min-replicas-to-write 1", "+OK");
        client.is("REPLICAOF NO ONE", "+OK");
        client.is("SET k v", "-NOREPLICAS Not enough good replicas to write.");
        client.is("REPLICAOF 127.0.0.1 1", "+OK");
        client.is("SET k v", "-READONLY You can't write against a read only replica.");
    }
}
