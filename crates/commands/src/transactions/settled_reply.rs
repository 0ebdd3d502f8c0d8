//! Replies of transactions that have changed users, which wait as the reply to one such change does.

use crate::core::admission::asks_by_rights_before;
use crate::core::context::{Context, Flow, Resumable};
use crate::transactions::cluster_handle::{handle, when_kept};
use engine::client_endings::Ending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// A reply that goes out when no command admitted before is under way any more: the transaction held all locks, so only
/// other nodes may still act on questions under the former rights. If the transaction has changed the cluster's node,
/// the change is in the file by then, and no command is running that was admitted by the former state.
pub(crate) struct SettledReply {
    /// The number of changes of users.
    rights: u64,
    /// Whether the node's changes are in its file.
    is_kept: Arc<AtomicBool>,
    next_lock: usize,
    reply: Vec<u8>,
    ends_client: bool,
}

impl SettledReply {
    /// Holds the reply that begins at `start`, if it has to wait. The connection ends after it, if a command of the
    /// transaction has demanded it.
    pub fn hold(cx: &mut Context<'_>, start: usize) {
        let (engine, visit) = (cx.engine, std::mem::take(&mut cx.session.cluster_handle));
        let (rights, mut ends_client) = (engine.users().generation(), cx.session.ends_with_reply);
        let may_wait = matches!(cx.flow, Flow::Next | Flow::Close) && !cx.session.debugs_scripts;
        let handle = handle().ok().filter(|_| visit > 0);
        if let Some(handle) = handle.filter(|_| !may_wait) {
            handle.flush();
        }
        if !may_wait || handle.is_none() && !asks_by_rights_before(engine, rights) {
            if ends_client {
                engine.end_client(&cx.session.info, Ending::AfterReplies);
            }
            return;
        }
        ends_client |= matches!(cx.flow, Flow::Close);
        let is_kept = Arc::new(AtomicBool::new(handle.is_none()));
        if let Some(handle) = handle {
            let is_kept = Arc::clone(&is_kept);
            when_kept(handle, visit, Box::new(move |_| is_kept.store(true, SeqCst)));
        }
        let reply = cx.reply.as_slice()[start..].to_vec();
        cx.reply.truncate(start);
        cx.flow = Flow::more(SettledReply { rights, is_kept, next_lock: 0, reply, ends_client });
    }
}

impl Resumable for SettledReply {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let (engine, patience) = (cx.engine, cx.session.patience);
        let done = self.is_kept.load(SeqCst)
            && engine.pass_locks(&mut self.next_lock, patience.from_now(engine))
            && !asks_by_rights_before(engine, self.rights);
        if done {
            cx.reply.raw(&self.reply);
            if self.ends_client {
                engine.end_client(&cx.session.info, Ending::AfterReplies);
            }
        }
        done
    }

    fn rests(&self) -> bool {
        true
    }

    fn outlasts_rights(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn a_transaction_that_changes_users_is_acknowledged_when_no_node_is_asked_by_rights_of_before() {
        let mut client = Client::new();
        let engine = client.shared_engine().clone();
        let asks = |changes: Option<u64>| engine.metrics()[0].set_asks_by(changes);
        engine.clients().add(&client.session().info);
        for (change, last, reply) in [
            ("ACL SETUSER u on nopass +@all ~*", "PING", "[+OK +PONG]"),
            ("ACL SETUSER u off", "CLIENT KILL SKIPME no", "[+OK :1]"),
        ] {
            client.is("MULTI", "+OK").is(change, "+QUEUED").is(last, "+QUEUED");
            asks(Some(engine.users().generation()));
            let mut running = client.begin(&["EXEC"]);
            assert!(!running.step() && !running.step(), "{change}");
            asks(None);
            assert_eq!(running.end(), reply);
        }
        // A transaction that changes no user waits for none.
        let mut client = client.beside();
        client.is("MULTI", "+OK").is("PING", "+QUEUED");
        asks(Some(1));
        client.is("EXEC", "[+PONG]");
    }

    #[test]
    fn a_client_that_removes_its_user_in_a_transaction_is_ended_with_the_reply() {
        let mut client = Client::new();
        let engine = client.shared_engine().clone();
        let is_listed = || !engine.clients().all().is_empty();
        engine.clients().add(&client.session().info);
        client.is("ACL SETUSER u on nopass +@all ~*", "+OK").is("AUTH u x", "+OK");
        client.is("MULTI", "+OK").is("ACL DELUSER u", "+QUEUED");
        engine.metrics()[0].set_asks_by(Some(engine.users().generation()));
        let mut running = client.begin(&["EXEC"]);
        assert!(!running.step() && is_listed(), "its connection is there for the reply");
        engine.metrics()[0].set_asks_by(None);
        assert_eq!(running.end(), "[:1]");
        assert!(!is_listed());
    }
}
