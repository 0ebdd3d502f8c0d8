//! The one way in which a client's connection is ended by others: CLIENT KILL, eviction, a user that is gone.

use crate::clients::registry::ClientInfo;
use crate::engine::Engine;

/// Replies that a client still gets whose connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing.
    AtOnce,
    /// The replies to commands that it has sent, if it reads them soon.
    AfterReplies,
}

impl Engine {
    /// Ends a client's connection, whichever thread serves it: the client is off the list at once, and the thread
    /// closes the connection when it comes to it. False if the client had ended before.
    pub fn end_client(&self, client: &ClientInfo, ending: Ending) -> bool {
        let Some(worker) = self.clients().end(client.id) else { return false };
        // A client that waits is not served any more.
        if let Some(ticket) = client.ticket() {
            ticket.finish();
        }
        match ending {
            Ending::AtOnce => self.host().kill(worker, client.id),
            Ending::AfterReplies => self.host().close(worker, client.id),
        }
        true
    }
}
