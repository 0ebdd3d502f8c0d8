//! A client, as commands see it.

use crate::core::command::Flags;
use crate::core::context::Now;
use crate::core::instrument::{Kept, Unfinished};
use crate::pubsub::channels::Subscriptions;
use crate::transactions::multi::{Multi, Watching};
use engine::Engine;
use engine::clients::registry::ClientInfo;
use engine::clients::tracking::Tracker;
use engine::keyspace::held_locks::LockTimeout;
use engine::keyspace::origin::{Asker, Origin};
use engine::status::deny_reasons::DenyReasons;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Which replies the client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    #[default]
    On,
    Off,
    /// Not that of the command after this one.
    SkipNext,
    /// Not that of this command.
    Skip,
}

/// The state of one client between its commands.
#[derive(Debug)]
pub struct Session {
    /// The worker that serves it.
    pub worker: usize,
    /// What the worker knows the connection by.
    pub token: usize,
    pub db: u32,
    pub authenticated: bool,
    /// It was authenticated at some time: whoever it is knows the password.
    pub was_authenticated: bool,
    /// SCRIPT DEBUG SYNC: its next script runs under its eyes.
    pub(crate) debugs_scripts: bool,
    /// What monitors see of it is a script's.
    pub(crate) in_script: bool,
    /// CLIENT REPLY.
    pub replies: Replies,
    /// CLIENT NO-TOUCH: its reads leave the access clock alone.
    pub no_touch: bool,
    /// CLIENT IMPORT-SOURCE.
    pub import_source: bool,
    /// Between MULTI and EXEC.
    pub multi: Option<Box<Multi>>,
    pub watching: Option<Box<Watching>>,
    /// The state of the server by which its present command was admitted.
    pub(crate) admitted: DenyReasons,
    /// What its commands do about locks that are not free.
    pub patience: LockTimeout,
    /// The log's length after its last write that was logged: what its client is told since may not be durable before.
    pub logged_at: u64,
    /// What it subscribes to, if anything.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// CLIENT TRACKING, and whether CLIENT CACHING was called for the next command.
    pub tracker: Option<Arc<Tracker>>,
    pub(crate) caching: bool,
    /// What was replied last goes out, whatever CLIENT REPLY says.
    pub(crate) keeps_reply: bool,
    /// How large arguments of its running command will be shown.
    pub(crate) kept: Option<Box<Kept>>,
    /// Its command that goes on in pieces or waits.
    pub(crate) unfinished: Option<Box<Unfinished>>,
    /// What others may know of it.
    pub info: Arc<ClientInfo>,
}

impl Session {
    /// The flags of the commands that are queued for EXEC and will run, together, and those that one of them has not;
    /// None outside of a transaction.
    pub(crate) fn queued_flags(&self) -> Option<(Flags, Flags)> {
        let is_broken = self.watching.as_ref().is_some_and(|watching| watching.is_broken());
        self.multi.as_ref().map(|multi| if is_broken { (Flags::NONE, Flags::NONE) } else { multi.flags() })
    }

    /// Whether it is authenticated, in no transaction, and gets its replies and nothing else: its commands can [run
    /// together](crate::batch::run).
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.authenticated
            && self.multi.is_none()
            && self.subscriptions.is_none()
            && self.tracker.is_none()
            && !self.caching
            && !self.import_source
            && self.replies == Replies::On
            && !self.info.monitor.load(Relaxed)
    }

    /// Who asks when one of its commands runs. Who brings the data of another server is the source of it as long as the
    /// server imports.
    #[inline(always)]
    pub(crate) fn origin(&self, engine: &Engine, now: Now) -> Origin {
        let asker = if self.import_source && engine.is_importing() { Asker::Import } else { Asker::Client };
        Origin { asker, now: now.unix_ms() }
    }

    /// Whether it gets messages, invalidations or monitors' lines.
    pub fn is_told(&self) -> bool {
        self.subscriptions.is_some() || self.tracker.is_some() || self.info.monitor.load(Relaxed)
    }

    pub fn new(info: Arc<ClientInfo>) -> Self {
        Session {
            worker: info.worker,
            token: 0,
            db: 0,
            authenticated: true,
            was_authenticated: true,
            debugs_scripts: false,
            in_script: false,
            replies: Replies::On,
            no_touch: false,
            import_source: false,
            multi: None,
            watching: None,
            admitted: DenyReasons::default(),
            patience: LockTimeout::Long,
            logged_at: 0,
            subscriptions: None,
            tracker: None,
            caching: false,
            keeps_reply: false,
            kept: None,
            unfinished: None,
            info,
        }
    }

    /// One that runs a command for a client whose own session is elsewhere.
    pub fn in_the_name_of(client: &Arc<ClientInfo>, worker: usize, db: u32) -> Self {
        Session { worker, db, ..Session::new(Arc::clone(client)) }
    }

    /// A client without a connection, for whoever uses the engine as a library.
    pub fn local() -> Self {
        Session::new(Arc::new(ClientInfo::new(0, "", "", -1, 0, 0)))
    }
}
