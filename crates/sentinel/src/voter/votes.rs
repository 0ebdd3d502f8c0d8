//! The election of a failover's leader: each Sentinel votes once an epoch, and the one with most of the votes of all
//! leads.

use super::Voter;
use crate::model::effect::Level;
use crate::model::instance::InstanceId;
use crate::watch::Watch;
use std::collections::BTreeMap;

impl Voter {
    /// Votes for a candidate, if this Sentinel believes the epoch and has not voted in it. Returns its last vote, and
    /// the epoch of it. The vote is on the disk before it is sent.
    pub(crate) fn vote(
        &mut self,
        watch: &mut Watch,
        primary: InstanceId,
        epoch: u64,
        candidate: &str,
    ) -> (Option<String>, u64) {
        if self.believes(epoch, candidate, watch) {
            self.adopt_epoch(epoch, primary, watch);
        }
        if watch[primary].leader_epoch < epoch && self.epochs.current() == epoch {
            let instance = &mut watch[primary];
            instance.leader = Some(candidate.to_string());
            instance.leader_epoch = epoch;
            self.save(watch);
            watch.event_text(Level::Warning, "+vote-for-leader", Some(primary), &format!("{candidate} {epoch}"));
            // A Sentinel that votes for another leaves it time before it tries itself.
            if !candidate.eq_ignore_ascii_case(&self.my_id) {
                let started = watch.now() + self.desynchronization();
                watch.group_mut(primary).failover.started = started;
            }
        }
        let instance = &watch[primary];
        (instance.leader.clone(), instance.leader_epoch)
    }

    /// Returns the Sentinel elected in that epoch: by more than half of all known Sentinels, and by the quorum. Votes
    /// of a later epoch do not count: two that began failovers in one epoch could both be elected by them.
    pub(crate) fn elected(&mut self, watch: &mut Watch, primary: InstanceId, epoch: u64) -> Option<String> {
        let group = watch.group(primary);
        let (voters, quorum) = (group.sentinels.len() + 1, group.quorum);
        let mut votes: BTreeMap<String, usize> = BTreeMap::new();
        for &id in &group.sentinels {
            let sentinel = &watch[id];
            if let Some(leader) = sentinel.leader.as_ref().filter(|_| sentinel.leader_epoch == epoch) {
                *votes.entry(leader.clone()).or_default() += 1;
            }
        }
        let most = votes.iter().max_by_key(|(_, votes)| **votes).map(|(leader, _)| leader.clone());
        let candidate = most.unwrap_or_else(|| self.my_id.clone());
        if let (Some(mine), voted) = self.vote(watch, primary, epoch, &candidate)
            && voted == epoch
        {
            *votes.entry(mine).or_default() += 1;
        }
        let (leader, votes) = votes.into_iter().max_by_key(|(_, votes)| *votes)?;
        (votes > voters / 2 && votes as i64 >= quorum).then_some(leader)
    }
}
