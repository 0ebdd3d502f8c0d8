//! The link by which the Sentinel within the server gets the server's present users and configuration.

use crate::listener::acceptor::Acceptor;
use crate::system::log;
use engine::Engine;
use engine::locks::sync::Mutex;
use std::sync::Arc;

/// The parts of the Sentinel that follow the server.
pub struct SentinelFollower {
    engine: Arc<Engine>,
    acceptor: Arc<Acceptor>,
    /// Lock for one change at a time: the last one sees the effect of all before it on the server.
    turn: Mutex<()>,
}

impl SentinelFollower {
    /// Creates a follower of a server for the Sentinel with this engine and these listeners.
    pub fn new(engine: &Arc<Engine>, acceptor: &Arc<Acceptor>) -> SentinelFollower {
        SentinelFollower { engine: Arc::clone(engine), acceptor: Arc::clone(acceptor), turn: Mutex::new(()) }
    }

    /// Gives the Sentinel the server's users. Its clients have their rights when this returns.
    pub fn follow_users(&self, server: &Engine) {
        let _turn = self.turn.lock();
        commands::sentinel::follow_users(server, &self.engine);
    }

    /// Gives the Sentinel the server's configuration, but for the addresses and ports.
    pub fn follow_config(&self, server: &Engine) {
        let _turn = self.turn.lock();
        let before = self.engine.config().snapshot();
        self.engine.config().replace_all(|own| server.config().snapshot().of_running_sentinel(own));
        let now = self.engine.config().snapshot();
        if !now.has_same_tls(&before)
            && let Err(why) = self.acceptor.tls.configure(&now)
        {
            log::warning(why);
        }
    }
}
