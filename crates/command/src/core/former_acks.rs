//! Acknowledgements that replies wait for whose commands ran before their client asked for something else, while the
//! replies have not gone.

use crate::core::session::Session;
use engine::status::acknowledgement::{AckNeed, AskingClient};
use std::mem;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct FormerAcks {
    need: AckNeed,
    /// Whether the configuration decided for some of them.
    is_configured: bool,
    /// The client wants acknowledged writes until these replies have gone.
    asks: Option<AskingClient>,
}

impl FormerAcks {
    /// Returns the need of replies that are to go now. `configured`: the configuration's.
    pub fn need(&self, configured: AckNeed) -> AckNeed {
        if self.is_configured { self.need.and(configured) } else { self.need }
    }

    /// Records that the replies were sent or are held with their needs.
    pub fn settle(&mut self, is_held: bool) {
        (self.need, self.is_configured) = (AckNeed::default(), false);
        if !is_held {
            self.cease();
        }
    }

    /// Records that no reply is held any more.
    pub fn cease(&mut self) {
        self.asks = None;
    }
}

impl Session {
    /// Sets the acknowledgement that replies wait for; None: the configuration decides. Replies of commands that have
    /// looked at the data, and have not gone, wait for what was asked for until now.
    pub fn ask_acks(&mut self, need: Option<AckNeed>, asks: Option<AskingClient>) {
        let former = mem::replace(&mut self.acknowledge, need);
        let asked = mem::replace(&mut self.asks_for_acks, asks);
        if !self.has_looked {
            return;
        }
        match former {
            Some(need) => self.former_acks.need = self.former_acks.need.and(need),
            None => self.former_acks.is_configured = true,
        }
        if asked.is_some() {
            self.former_acks.asks = asked;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_add_up_until_the_replies_have_gone() {
        let [one, two] = [1, 2].map(|replicas| AckNeed { replicas, durable: replicas == 1 });
        let mut former = FormerAcks { need: one, ..FormerAcks::default() };
        assert_eq!(former.need(two), one);
        former.is_configured = true;
        assert_eq!(former.need(two), AckNeed { replicas: 2, durable: true });
        former.settle(true);
        assert_eq!(former.need(two), AckNeed::default());
    }
}
