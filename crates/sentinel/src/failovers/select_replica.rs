//! The choice of the replica to promote.

use crate::model::instance::{Acknowledging, Flags, InstanceId};
use crate::watch::Watch;
use std::cmp::{Ordering, Reverse};

/// Returns the best replica of a primary: among those that are up and were in touch with it, the one with the
/// smallest priority, then the most of its stream, then the smallest run id. A server that leads already comes
/// first: it may have data that no other server has. A server that has led in vain comes last, so that each one is
/// tried.
pub(crate) fn select_replica(watch: &Watch, primary: InstanceId) -> Option<InstanceId> {
    let instance = &watch[primary];
    let down = instance.flags.has(Flags::S_DOWN);
    let down_for = if down { watch.now() - instance.s_down_since } else { 0 };
    let link_down_max = down_for + instance.down_after * 10;
    let info_age_max = if down { watch.periods().ping * 5 } else { watch.periods().info * 3 };
    let fit = |id: &InstanceId| {
        let replica = &watch[*id];
        let link = watch.link(*id);
        !replica.flags.has(Flags::S_DOWN.and(Flags::O_DOWN))
            && !link.disconnected
            && watch.now() - link.last_available <= watch.periods().ping * 5
            && (replica.reported.priority != 0 || replica.reported.leads)
            && !replica.reported.may_lack_writes()
            && replica.reported.was_synchronized()
            && watch.now() - replica.info_refresh <= info_age_max
            // A member has all acknowledged writes, however long it has refused to follow a primary that may lack
            // them.
            && (replica.reported.acknowledges == Some(Acknowledging::Member)
                || replica.reported.leads
                || replica.reported.primary_link_down <= link_down_max)
    };
    let replicas = watch.group(primary).replicas.iter().copied().filter(fit);
    replicas.min_by(|&a, &b| compare(watch, primary, a, b))
}

fn compare(watch: &Watch, primary: InstanceId, a: InstanceId, b: InstanceId) -> Ordering {
    let in_vain = &watch.group(primary).led_in_vain;
    let rank = |id: InstanceId| {
        let replica = &watch[id];
        let reported = &replica.reported;
        let vain = in_vain.iter().position(|address| address.is_same(&replica.address)).map(|place| place + 1);
        let leads = reported.leads && (reported.is_confirmed() || vain.is_none());
        let run_id = replica.run_id.as_ref().map(|run_id| run_id.to_ascii_lowercase());
        let offset = reported.claimed_offset.unwrap_or(reported.offset);
        (!leads, vain, reported.priority, Reverse(offset), run_id.is_none(), run_id)
    };
    rank(a).cmp(&rank(b))
}
