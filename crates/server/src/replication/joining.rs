//! The admission of a replica, which continues where it was or waits for a snapshot.

use crate::replication::isr::FollowerChange;
use crate::replication::primary_thread::PrimaryThread;
use crate::replication::replica::{Phase, Replica};
use crate::system::log;
use crate::workers::replication_messages::NewReplica;
use commands::server::acl::lasting_rights::may_be_taken_in;
use engine::config::Directive;
use engine::time::SteadyMs;
use replication::replica_handshake::Handshake;
use replication::replid::ReplicationId;
use std::sync::atomic::Ordering::Relaxed;

impl PrimaryThread {
    pub(super) fn attach(&mut self, new: NewReplica, now: SteadyMs) {
        let asked = new.request.asked.clone();
        if self.shared.engine.config().snapshot().flag(Directive::REPL_DISABLE_TCP_NODELAY) {
            // A socket that does not take the option sends as before.
            let _ = new.stream.set_nodelay(false);
        }
        let mut replica = Replica::new(new, now);
        self.tell(&replica.name(), format_args!("Replica {} asks for synchronization", replica.name()));
        let token = self.replicas.vacant_key();
        if !may_be_taken_in(&self.shared.engine, &replica.info) || replica.register(self.registry(), token).is_err() {
            self.shared.engine.clients().end(replica.info.id);
            return;
        }
        self.replicas.insert(replica);
        if let Err(reason) = self.admit_follower(token, asked.as_ref().map(|(id, _)| &id[..])) {
            return self.refuse(token, reason, now);
        }
        self.shared.engine.replication().acknowledgement.await_predecessor(SteadyMs(0));
        match asked {
            Some((id, next)) => self.answer(token, &id, next, now),
            None => self.queue(token),
        }
        self.listen(token, now);
    }

    /// Answers a replica that asks for the bytes after `next` - 1 of a history.
    pub(super) fn answer(&mut self, token: usize, id: &[u8], next: i64, now: SteadyMs) {
        if self.go_on(token, id, next, now) {
            self.shared.engine.replication().counts.partial_ok.fetch_add(1, Relaxed);
            return;
        }
        let Some(replica) = self.replicas.get_mut(token) else { return };
        let Handshake { dual_channel, rdb_channel_repl, .. } = replica.handshake;
        if !dual_channel && !rdb_channel_repl {
            return self.queue(token);
        }
        // Nothing is known of the replica until its other connection comes.
        replica.phase = Phase::Offered;
        if dual_channel {
            replica.say(b"+DUALCHANNELSYNC\r\n");
        } else {
            replica.say(format!("+RDBCHANNELSYNC {}\r\n", replica.info.id).as_bytes());
        }
        log::notice(format_args!(
            "Dual channel replication: Replica {} is capable of dual channel synchronization, and partial sync isn't \
             possible. Full sync will continue with dedicated RDB channel.",
            replica.name()
        ));
    }

    /// Queues a replica for a snapshot.
    fn queue(&mut self, token: usize) {
        let status = self.shared.engine.replication();
        status.counts.full.fetch_add(1, Relaxed);
        if self.sends_to_sockets() {
            let text = format_args!("Current BGSAVE has socket target. Waiting for next BGSAVE for SYNC");
            self.tell(&self.replicas[token].name(), text);
        }
        if let Some(replica) = self.replicas.get_mut(token) {
            replica.phase = Phase::Waiting;
            status.add_replica(&replica.shown);
        }
        if self.backlog.is_none() {
            self.begin_backlog();
        }
    }

    /// Sends a replica the reason why it cannot follow now; it comes again.
    fn refuse(&mut self, token: usize, reason: &str, now: SteadyMs) {
        let replica = &mut self.replicas[token];
        log::warning(format_args!("Replica {} is refused: {reason}", replica.name()));
        replica.say(format!("-NOMASTERLINK {reason}\r\n").as_bytes());
        // The replica need not know more than its socket takes at once.
        let _ = replica.send(None);
        self.close(token, now);
    }

    /// Sends a replica only the bytes that it lacks, if the backlog has them.
    fn go_on(&mut self, token: usize, id: &[u8], next: i64, now: SteadyMs) -> bool {
        let (history, word) = (self.history(), self.term_word(&self.replicas[token]));
        let replica = &mut self.replicas[token];
        if id.first() == Some(&b'?') {
            let name = replica.name();
            self.tell(&name, format_args!("Full resync requested by replica {name}"));
            return false;
        }
        self.keep_as_asked();
        let replica = &mut self.replicas[token];
        let counts = &self.shared.engine.replication().counts;
        let asked = String::from_utf8_lossy(id);
        if !ReplicationId::parse(id).is_some_and(|id| history.has(id, next)) {
            counts.partial_err.fetch_add(1, Relaxed);
            log::notice(format_args!(
                "Partial resynchronization not accepted: Replication ID mismatch (Replica asked for '{asked}' from \
                 {next}, my replication IDs are '{}' and, up to {}, '{}')",
                history.id, history.second_offset, history.second
            ));
            return false;
        }
        let offset = u64::try_from(next - 1).unwrap_or(u64::MAX);
        let Some(backlog) = self.backlog.as_ref().filter(|backlog| backlog.has(offset)) else {
            counts.partial_err.fetch_add(1, Relaxed);
            log::notice(format_args!(
                "Unable to partial resync with replica {} for lack of backlog (Replica request was: {asked}:{next}).",
                replica.name()
            ));
            return false;
        };
        log::notice(format_args!(
            "Partial resynchronization request from {} accepted. Sending {} bytes of backlog starting from offset \
             {next}.",
            replica.name(),
            backlog.end() - offset
        ));
        match replica.handshake.psync2 {
            true => replica.say(format!("+CONTINUE {}{word}\r\n", history.id).as_bytes()),
            false => replica.say(b"+CONTINUE\r\n"),
        }
        replica.position = offset;
        self.shared.engine.replication().add_replica(&replica.shown);
        match replica.rdb_client.take().and_then(|client| self.token_of(client)) {
            Some(snapshots) => self.associate(token, snapshots, now),
            None => self.replicas[token].go_online(now),
        }
        self.note_follower(token, FollowerChange::Joined);
        self.count_good();
        true
    }

    /// Begins the stream on the connection for which this one gets a snapshot. False: that connection is gone.
    pub(super) fn begin_main(&mut self, client: u64, offset: u64, now: SteadyMs) -> bool {
        let main = self.token_of(client).filter(|token| self.replicas[*token].phase == Phase::Offered);
        let Some(replica) = main.and_then(|token| self.replicas.get_mut(token)) else { return false };
        replica.position = offset;
        self.shared.engine.replication().add_replica(&replica.shown);
        replica.load_beside(now);
        true
    }

    /// Sends the stream over this connection from now on, while the snapshot goes over another.
    fn associate(&mut self, token: usize, snapshots: usize, now: SteadyMs) {
        self.replicas[token].load_beside(now);
        let other = &mut self.replicas[snapshots];
        other.shown.awaits_psync.store(false, Relaxed);
        if other.phase == Phase::Transmitted {
            self.let_leave(snapshots, now);
        }
    }
}
