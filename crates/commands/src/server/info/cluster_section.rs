//! The sections Cluster, Cluster Info and Modules of INFO.

use crate::cluster::{self, NodeNumber};
use crate::server::info::field::{Field, Kind, Metric, Put, Value, absent, field, many};
use crate::server::info::info_source::Source;
use crate::server::module;

pub(super) const CLUSTER: &[Field] = &[field("cluster_enabled", |s| s.engine.is_clustered().into())
    .gauge("cluster_enabled", "Whether the server is a node of a cluster.")];

pub(super) const CLUSTER_INFO: &[Field] = &[many("cluster_", cluster_info)];

pub(super) const MODULES: &[Field] = &[absent("module"), many("module", modules_of_types)];

/// Fields of CLUSTER INFO that are metrics.
const METRICS: &[(&str, Metric)] = &[
    ("cluster_state", gauge("cluster_state", "Whether the cluster serves.")),
    ("cluster_slots_assigned", gauge("cluster_slots_assigned", "Slots that nodes have.")),
    ("cluster_slots_ok", gauge("cluster_slots_ok", "Slots of nodes that are well.")),
    ("cluster_slots_pfail", gauge("cluster_slots_pfail", "Slots of nodes that may have failed.")),
    ("cluster_slots_fail", gauge("cluster_slots_fail", "Slots of nodes that have failed.")),
    ("cluster_known_nodes", gauge("cluster_known_nodes", "Nodes that are known.")),
    ("cluster_size", gauge("cluster_size", "Nodes that have slots.")),
    ("cluster_current_epoch", gauge("cluster_current_epoch", "The cluster's epoch.")),
    ("cluster_my_epoch", gauge("cluster_my_epoch", "The epoch of this node's slots.")),
    ("cluster_stats_messages_sent", counter("cluster_messages_sent_total", "Packets that were sent over the bus.")),
    ("cluster_stats_messages_received", counter("cluster_messages_received_total", "Packets that have come over it.")),
];

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, scale: 1.0, help }
}

const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, scale: 1.0, help }
}

/// Returns the metric of a field of CLUSTER INFO.
pub(super) fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|(known, _)| *known == name).map(|(_, metric)| metric)
}

/// Returns the fields of CLUSTER INFO that are metrics.
pub(super) fn metrics() -> impl Iterator<Item = (&'static str, &'static Metric)> {
    METRICS.iter().map(|(name, metric)| (*name, metric))
}

fn cluster_info(s: &Source<'_>, put: Put<'_>) {
    cluster::each_number(s.engine, &mut |name, number| {
        put(
            name,
            match number {
                NodeNumber::Count(count) => count.into(),
                NodeNumber::State(is_up) => Value::State(is_up, cluster::STATES),
            },
        );
    });
}

fn modules_of_types(_: &Source<'_>, put: Put<'_>) {
    module::fields_of_types().into_iter().for_each(|field| put("module", field.into()));
}
