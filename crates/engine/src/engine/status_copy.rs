//! The status of an engine that runs commands in place of another one.

use crate::config::Directive;
use crate::engine::Engine;
use cluster::slot_map::SlotMap;

/// Has `copy`, an engine with the configuration of `other`, refuse and route commands from now on as `other` does at
/// this moment. Pauses are left out: nothing would end them there.
pub fn take_status(copy: &Engine, other: &Engine) {
    let config = copy.config().snapshot();
    copy.set_access_by(&config);
    copy.limit_memory(config.bytes(Directive::MAXMEMORY));
    copy.scripts().set_insecure_api(config.flag(Directive::LUA_ENABLE_INSECURE_API));
    copy.set_importing(other.is_importing());
    copy.set_following(other.is_following());
    copy.persistence_status().take_reasons(other.persistence_status().deny_reasons());
    if other.is_clustered() {
        copy.set_slot_map(SlotMap::clone(&other.cluster().map()));
        let left = other.cluster().left();
        copy.change_left_slots(|slots| *slots = left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::host::NullHost;
    use crate::keyspace::Options;
    use crate::status::deny_reasons::Paused;
    use crate::time::SteadyMs;
    use std::sync::Arc;

    #[test]
    fn a_copy_refuses_commands_for_the_same_reasons_and_never_pauses() {
        let options = Options { shards: 1, databases: 1, hash_seed: 1, workers: 1, counts_slots: false };
        let engine = || Engine::new(&options, Arc::new(NullHost));
        let (first, second) = (engine(), engine());
        let status = first.persistence_status();
        status.set_read_only_replica(true);
        status.refuse_writes(true);
        status.set_clustered(true);
        first.set_following(true);
        first.begin_pause(Paused::All, SteadyMs(1000), SteadyMs(0));
        let own = vec![Some(0); crate::data::slot::SLOTS];
        first.set_slot_map(SlotMap { is_up: true, serving: Some(0), owners: own, ..SlotMap::default() });
        take_status(&second, &first);
        let reasons = second.persistence_status().deny_reasons();
        assert!(reasons.is_read_only_replica() && reasons.is_failed() && second.is_clustered());
        assert!(second.is_following() && second.cluster().serves(7) && reasons.paused() == Paused::Nothing);
        assert!(status.deny_reasons().paused() == Paused::All);
    }
}
