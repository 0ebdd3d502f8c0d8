//! Options of a replica's snapshot.

use crate::persistence::write_options;
use engine::Engine;
use engine::config::Directive;
use engine::snapshot::open_snapshots::Purpose;
use persistence::format::Family;
use persistence::save::SaveOptions;
use replication::replica_handshake::{Handshake, SnapshotVersion};

/// Returns the options for a replica that has declared these properties.
pub fn options(engine: &Engine, handshake: &Handshake) -> SaveOptions {
    let config = engine.config().snapshot();
    let mut options = write_options::options(engine, &config, false);
    options.purpose = Purpose::Transfer;
    let is_redis = config.choice(Directive::RDB_VERSION_COMPAT) == "redis";
    options.style.family = match handshake.snapshot_version() {
        // The snapshot is a backup: it must be complete.
        SnapshotVersion::Oldest if handshake.is_backup() => options.style.family,
        SnapshotVersion::Oldest if is_redis => Family::Redis,
        SnapshotVersion::Oldest => Family::Common,
        SnapshotVersion::Common | SnapshotVersion::Valkey => Family::Valkey,
    };
    options.sum &= !handshake.skips_checksum;
    options.data = !handshake.without_data;
    options.functions = !handshake.without_functions;
    options
}

/// Whether a replica that has declared these properties reads collections whose elements have expiries, in the form of
/// `options`.
pub fn reads_element_expiries(handshake: &Handshake, options: &SaveOptions) -> bool {
    handshake.is_backup()
        || handshake.snapshot_version() == SnapshotVersion::Valkey
        || options.style.family == Family::Redis
}
