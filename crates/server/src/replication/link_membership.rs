//! A replica's part in the in-sync set: it introduces itself, follows no primary that was replaced, and remembers the
//! sets that it gets.

use crate::replication::link_thread::{End, LOOK, LinkThread, Progress, Wanted, timeout};
use crate::replication::member_file;
use crate::system::log;
use commands::persistence::aof as log_file;
use commands::replication::failover_command;
use engine::config::{Config, Directive};
use engine::status::replication_status::new_id;
use persistence::aof::State;
use persistence::aof::journal::Policy;
use replication::in_sync_member::{EarlierTerm, Introduction, Membership};
use replication::in_sync_set::{InSyncSet, Term};
use replication::link_event::{Arrived, LinkError, Position};
use replication::primary_link::{LinkSettings, PrimaryLink};

/// Milliseconds of silence after which writers do not wait any more for a replica that was asked to take over.
const ANSWER: u64 = 2000;

impl LinkThread {
    /// Returns the replica's settings for its primary.
    pub(super) fn settings(&self, config: &Config) -> LinkSettings {
        let announced = config.int(Directive::REPLICA_ANNOUNCE_PORT);
        let own = if config.flag(Directive::TLS_REPLICATION) { Directive::TLS_PORT } else { Directive::PORT };
        let port = if announced > 0 { announced } else { config.int(own) };
        LinkSettings {
            user: config.text(Directive::PRIMARYUSER).to_vec(),
            password: config.text(Directive::PRIMARYAUTH).to_vec(),
            port: u16::try_from(port).unwrap_or(0),
            announce_ip: config.text(Directive::REPLICA_ANNOUNCE_IP).to_vec(),
            introduction: self.introduction(),
            node: self.engine().host().own_node().map(|node| node.name),
            version: "9.0.0",
            timeout: timeout(config),
            // The origin of a snapshot has to be known before the snapshot comes.
            dual_channel: config.flag(Directive::DUAL_CHANNEL_REPLICATION_ENABLED)
                && self.status().acknowledgement.membership().term == Term::NONE,
        }
    }

    /// Returns this server's introduction to its primary.
    pub(super) fn introduction(&self) -> String {
        let (status, known) = (self.status(), self.status().acknowledgement.membership());
        if self.engine().config().snapshot().flag(Directive::REPLICA_MAY_LOSE_ACKNOWLEDGED) {
            return Introduction::of(&Membership::new(known.id), None).to_word();
        }
        let is_there = status.link().can_resume;
        let own = is_there.then(|| Position { id: status.history().id, offset: status.offset() });
        let said = Introduction::of(&known, own);
        format!("{} {}", said.to_word(), said.past.to_word())
    }

    /// Takes input. A primary that answers is met, and one that was asked to take over has done so.
    pub(super) fn take<'b>(
        &self,
        link: &mut PrimaryLink,
        input: &'b [u8],
        now: u64,
        wanted: Wanted<'_>,
    ) -> Result<(usize, Arrived<'b>), End> {
        let was_asked = link.awaits_failover();
        let (taken, arrived) = link.take(input, now)?;
        if was_asked && !link.awaits_failover() {
            failover_command::answered(self.engine(), None);
        }
        if matches!(arrived, Arrived::FullSync(_) | Arrived::Unnamed | Arrived::Continue(_)) {
            self.meet(link, wanted)?;
        }
        Ok((taken, arrived))
    }

    /// A replica that was asked to take over may stand still: its link stays for `repl-timeout`, but writers do not.
    pub(super) fn mind_silence(&self, link: &PrimaryLink, now: u64) {
        if link.is_in_handshake() && now.saturating_sub(link.last_input()) > ANSWER {
            failover_command::missed_answer(self.engine());
        }
    }

    /// Returns whether the server may follow the primary that has just answered: it was not replaced.
    fn meet(&self, link: &PrimaryLink, wanted: Wanted<'_>) -> Result<(), End> {
        let applying = self.status().applying.lock();
        if !wanted.is_wanted() {
            return Err(End::Unwanted);
        }
        let may_lose = self.engine().config().snapshot().flag(Directive::REPLICA_MAY_LOSE_ACKNOWLEDGED);
        let met = self.status().acknowledgement.update_membership(|known| {
            known.meet(link.term).or_else(|error| {
                if may_lose {
                    *known = Membership::new(new_id());
                    known.meet(link.term)
                } else {
                    Err(error)
                }
            })
        });
        drop(applying);
        met.map_err(|EarlierTerm| End::Link(replaced()))?;
        self.persist()
    }

    /// Saves the membership, before anything that follows from it is acknowledged.
    fn persist(&self) -> Result<(), End> {
        Ok(member_file::persist(self.engine())?)
    }

    /// Takes a set from the stream.
    pub(super) fn take_set(
        &self,
        progress: Option<&mut Progress>,
        bytes: &[u8],
        wanted: Wanted<'_>,
    ) -> Result<(), End> {
        let Some(progress) = progress else { return Ok(()) };
        if let Some(set) = InSyncSet::of_command(bytes) {
            let applying = self.status().applying.lock();
            if !wanted.is_wanted() {
                return Err(End::Unwanted);
            }
            let taken = self.status().acknowledgement.update_membership(|known| known.take(set));
            drop(applying);
            taken.map_err(|EarlierTerm| End::Link(replaced()))?;
            self.persist()?;
        }
        self.count(progress, bytes, wanted)
    }

    /// Syncs the log with `appendfsync always`, so that a primary waits for no longer than a sync takes.
    pub(super) fn sync_log(&self, progress: &Progress) {
        let aof = persistence::aof::of(self.engine()).filter(|aof| aof.state() == State::On && !aof.has_failed());
        let Some(aof) = aof.filter(|aof| aof.journal.policy() == Policy::Always) else { return };
        let (attempt, length) = (aof.attempt(), self.engine().change_log().appended());
        if progress.marks.lock().lacks(aof.journal.synced())
            && let Some(result) = aof.journal.commit(length, LOOK)
        {
            log_file::wrote(self.engine(), aof, attempt, &result);
        }
    }

    /// Forgets the part in acknowledged writes, since the data is lost.
    pub(super) fn lose(&self) {
        self.status().acknowledgement.update_membership(|known| known.forget(new_id()));
        if let Err(error) = member_file::persist(self.engine()) {
            log::warning(format_args!("The record of the in-sync set cannot be written: {error}"));
        }
    }
}

/// Returns the reason why a primary is not followed that was replaced by another one.
fn replaced() -> LinkError {
    let text = "it was replaced, or has forgotten what was acknowledged (replica-may-lose-acknowledged is 'no')";
    LinkError::Later(text.to_owned())
}
