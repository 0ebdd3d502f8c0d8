//! A client, as commands see it.

use crate::core::args::Args;
use crate::core::command::{CommandEntry, Flags};
use crate::core::context::{KeyArgs, Now};
use cluster::migration::JobName;
use engine::acl::quota_usage::QuotaSeat;
use engine::acl::user::User;
use engine::clients::pubsub::{ChannelKind, Name};
use engine::clients::registry::ClientInfo;
use engine::clients::tracking::Tracker;
use engine::clients::waiters::AwaitedKey;
use engine::clients::watch::WatchFlag;
use engine::keyspace::caller::{Caller, ExecContext};
use engine::keyspace::held_locks::LockTimeout;
use engine::propagation::log_batch::LogBatch;
use engine::status::acknowledgement::{AckNeed, AskingClient};
use engine::status::deny_reasons::DenyReasons;
use engine::time::{Nanos, UnixMs};
use engine::{Engine, Error};
use replication::replica_handshake::{Handshake, SyncRequest};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// No number of changes of users.
pub const NEVER: u64 = u64::MAX;

/// The replies that the client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    #[default]
    /// All replies.
    On,
    /// No replies.
    Off,
    /// All replies but that of the command after this one.
    SkipNext,
    /// All replies but that of this command.
    Skip,
}

/// The lending of a thread to others by the client's long commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LendingMode {
    /// Never: no other client has a use for the thread.
    #[default]
    Never,
    /// On request: commands ask for it, and are run again apart from their connection.
    OnRequest,
    /// The last command has asked for it, and had no effect.
    Requested,
    /// The present command runs apart.
    Apart,
}

/// A slot that is on its way from one node to another: whether a command about it runs here depends on its keys.
#[derive(Debug, PartialEq)]
pub enum OpenSlot {
    /// The slot goes from here, to the node that clients are sent to for missing keys.
    Leaves(Error),
    /// The slot comes here, and the client knows it.
    Arrives,
}

/// The identity under which commands run.
#[derive(Clone, Debug, Default)]
pub enum Identity {
    /// No user: only commands that need no right may run. Clients of a user that is removed are left with this.
    #[default]
    Nobody,
    /// The default user, which the next command looks up.
    Unnamed,
    /// A user as of the session's `rights_at`.
    User(Arc<User>),
}

impl Identity {
    /// Returns the user whose rights commands have; None: they have none.
    #[inline]
    pub fn user(&self) -> Option<&Arc<User>> {
        match self {
            Identity::User(user) => Some(user),
            Identity::Nobody | Identity::Unnamed => None,
        }
    }

    /// Whether no user has authenticated.
    pub fn is_nobody(&self) -> bool {
        matches!(self, Identity::Nobody)
    }
}

/// The state of one client between its commands.
#[derive(Debug)]
pub struct Session {
    /// The worker that serves it.
    pub worker: usize,
    /// The worker's number of the connection.
    pub token: usize,
    /// The database that it has selected.
    pub db: u32,
    /// The client may run commands without AUTH.
    pub authenticated: bool,
    /// The user whose rights its commands have.
    pub identity: Identity,
    /// The number of changes of users that it has seen.
    pub rights_at: u64,
    /// The number of changes of users at which the user may do everything.
    pub open_at: u64,
    /// The client's user has a quota of commands or bytes.
    pub is_throttled: bool,
    /// The client's seat among its user's connections, where these are limited.
    pub seat: Option<QuotaSeat>,
    /// A command of it was ended, as its user has lost rights: its reply is incomplete.
    pub is_cut_off: bool,
    /// The client's own command has removed its user: its connection ends with the reply to that.
    pub ends_with_reply: bool,
    /// The client was authenticated at some time: its user knows the password.
    pub was_authenticated: bool,
    /// SCRIPT DEBUG: its next script runs under its eyes.
    pub debugs_scripts: bool,
    /// SCRIPT DEBUG YES: that script runs on a copy of the data.
    pub debugs_copy: bool,
    /// Monitors see its commands as a script's.
    pub in_script: bool,
    /// CLIENT REPLY.
    pub replies: Replies,
    /// ASKING: its next command may be about a slot that is on its way here.
    pub asking: bool,
    /// The present command's slot, if that is on its way.
    pub open_slot: Option<Box<OpenSlot>>,
    /// CLIENT NO-TOUCH: its reads leave the access clock alone.
    pub no_touch: bool,
    /// CLIENT IMPORT-SOURCE.
    pub import_source: bool,
    /// The client can wait for the answers of [other nodes](crate::core::cluster_proxy).
    pub is_proxied: bool,
    /// The origin of its commands: a client, but for the link to a primary and the replay of the log.
    pub caller: Caller,
    /// Between MULTI and EXEC.
    pub multi: Option<Box<Multi>>,
    /// WATCH: the keys, and the flag that a change of one raises.
    pub watching: Option<Box<Watching>>,
    /// The state of the server by which its present command was admitted.
    pub admitted: DenyReasons,
    /// The wait of its commands for locks that are not free.
    pub patience: LockTimeout,
    /// The lending of the thread to others by its long commands.
    pub yielding: LendingMode,
    /// The log's length after its last logged write: later replies may depend on writes that are not durable before.
    pub logged_at: u64,
    /// The log's length after the last record of its commands that is no write of theirs: keys that expired or made
    /// room, and records for replicas only. Its client waits for no disk because of that.
    pub told_at: u64,
    /// The log's length after the last change that its commands can have seen, its own included.
    pub seen_to: u64,
    /// The client's commands have looked at the data since this was taken back.
    pub has_looked: bool,
    /// CLIENT ACKNOWLEDGE; None: the configuration decides.
    pub acknowledge: Option<AckNeed>,
    /// The client wants acknowledged writes for as long as this is there.
    asks_for_acks: Option<AskingClient>,
    /// Needs of replies whose commands ran before the client asked for something else.
    pub former_acks: FormerAcks,
    /// Its subscriptions, if any.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// CLIENT TRACKING, and whether CLIENT CACHING was called for the next command.
    pub tracker: Option<Arc<Tracker>>,
    /// Whether CLIENT CACHING was called for the next command.
    pub caching: bool,
    /// The last reply goes out, whatever CLIENT REPLY demands.
    pub keeps_reply: bool,
    /// The slot of the commands within its running command, while CLUSTER SLOT-STATS wants it.
    pub inner_slot: Option<Box<InnerSlot>>,
    /// The form in which large arguments of its running command will be shown.
    pub kept: Option<Box<LoggedArgs>>,
    /// Its transaction's records for the log before the script that it runs now.
    pub group: Option<Box<LogBatch>>,
    /// Its command that is chunked or waits.
    pub unfinished: Option<Box<Unfinished>>,
    /// Its announcements as a replica.
    pub handshake: Option<Box<Handshake>>,
    /// Its request to become a replica.
    pub sync: Option<Box<SyncRequest>>,
    /// The client is the source of slots that come to this node, by that name.
    pub import: Option<Box<JobName>>,
    /// Session of the debugger that its script is to run in, on a thread of its own.
    pub debug_session: Option<Box<DebugSession>>,
    /// The last visit to the node of the cluster that no reply has been held for yet; 0: none.
    pub cluster_handle: u64,
    /// The part of it that others may see.
    pub info: Arc<ClientInfo>,
}

/// Acknowledgements that replies wait for whose commands ran before their client asked for something else, while the
/// replies have not gone.
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
        let former = std::mem::replace(&mut self.acknowledge, need);
        let asked = std::mem::replace(&mut self.asks_for_acks, asks);
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

    /// Returns the database that the next command finds selected: in a transaction, when it will run.
    pub fn next_db(&self) -> u32 {
        self.multi.as_ref().map_or(self.db, |multi| multi.db)
    }

    /// Returns the flags of the commands that are queued for EXEC and will run, together, and those that at least one
    /// of them lacks; None outside of a transaction.
    pub fn queued_flags(&self) -> Option<(Flags, Flags)> {
        let is_broken = self.watching.as_ref().is_some_and(|watching| watching.is_broken());
        self.multi.as_ref().map(|multi| if is_broken { (Flags::NONE, Flags::NONE) } else { multi.flags() })
    }

    /// Returns whether its user may do everything, and it is in no transaction, and gets its replies and nothing else:
    /// its commands can [run together](crate::batch::execute).
    #[inline]
    pub fn is_plain(&self, engine: &Engine) -> bool {
        self.is_unrestricted(engine)
            && self.multi.is_none()
            && self.subscriptions.is_none()
            && self.tracker.is_none()
            && !self.caching
            && !self.asking
            && !self.import_source
            && self.replies == Replies::On
            && !self.info.monitor.load(Relaxed)
    }

    /// Returns the origin of its commands. A client that brings the data of another server is the source of it as long
    /// as the server imports.
    #[inline(always)]
    pub fn origin(&self, engine: &Engine, now: Now) -> ExecContext {
        let caller = match self {
            Session { caller: Caller::Client, import_source: true, .. } if engine.is_importing() => Caller::Import,
            session => session.caller,
        };
        ExecContext { caller, now: now.unix_ms() }
    }

    /// Returns whether it gets messages, invalidations or monitors' lines.
    pub fn is_told(&self) -> bool {
        self.subscriptions.is_some() || self.tracker.is_some() || self.info.monitor.load(Relaxed)
    }

    /// Returns a client that may do nothing, until it has a user.
    pub fn new(info: Arc<ClientInfo>) -> Self {
        Session {
            worker: info.worker.load(Relaxed),
            token: 0,
            db: 0,
            authenticated: false,
            identity: Identity::Nobody,
            rights_at: NEVER,
            open_at: NEVER,
            is_throttled: false,
            seat: None,
            is_cut_off: false,
            ends_with_reply: false,
            was_authenticated: false,
            debugs_scripts: false,
            debugs_copy: false,
            in_script: false,
            replies: Replies::On,
            asking: false,
            open_slot: None,
            no_touch: false,
            import_source: false,
            is_proxied: false,
            caller: Caller::Client,
            multi: None,
            watching: None,
            admitted: DenyReasons::default(),
            patience: LockTimeout::Long,
            yielding: LendingMode::Never,
            logged_at: 0,
            told_at: 0,
            seen_to: 0,
            has_looked: false,
            acknowledge: None,
            asks_for_acks: None,
            former_acks: FormerAcks::default(),
            subscriptions: None,
            tracker: None,
            caching: false,
            keeps_reply: false,
            inner_slot: None,
            kept: None,
            group: None,
            unfinished: None,
            handshake: None,
            sync: None,
            import: None,
            debug_session: None,
            cluster_handle: 0,
            info,
        }
    }

    /// Returns the client of a new connection, which has the default user's rights once it is authenticated, or no
    /// password is required.
    pub fn connected(info: Arc<ClientInfo>, authenticated: bool) -> Self {
        let (identity, was_authenticated) = (Identity::Unnamed, authenticated);
        Session { identity, authenticated, was_authenticated, ..Session::new(info) }
    }

    /// Returns the log's length after its last record there: WAIT and WAITAOF wait for that.
    pub fn appended_to(&self) -> u64 {
        self.logged_at.max(self.told_at)
    }

    /// Returns a session that runs a command for a client whose own session is elsewhere.
    pub fn in_the_name_of(client: &Arc<ClientInfo>, identity: Identity) -> Self {
        Session { identity, ..Session::new(Arc::clone(client)) }
    }

    /// Returns a session that takes the place of this one while that runs a command.
    pub fn stand_in(&self) -> Self {
        let (authenticated, was_authenticated) = (self.authenticated, self.was_authenticated);
        let stand_in = Session::in_the_name_of(&self.info, self.identity.clone());
        Session { authenticated, was_authenticated, ..stand_in }
    }

    /// Returns a client without a connection, for programs that use the engine as a library: it has the default user's
    /// rights.
    pub fn local() -> Self {
        Session::connected(Arc::new(ClientInfo::new(0, "", "", -1, 0, UnixMs(0))), true)
    }

    /// Returns the session of the server itself, which reads its own log's data: no user's rights matter.
    pub fn of_server() -> Self {
        Session::replay()
    }

    /// Returns whether a command that wants a lock which a script has is refused by now. A command that another server
    /// has run already waits for as long as the script runs.
    pub fn is_refused_as_busy(&self, engine: &Engine) -> bool {
        engine.scripts().is_busy() && !self.caller.is_obeyed()
    }

    /// Returns a session that repeats commands that another server, or this one in the past, has admitted.
    pub fn obeyed(info: Arc<ClientInfo>, caller: Caller) -> Self {
        Session { caller, authenticated: true, was_authenticated: true, ..Session::new(info) }
    }

    /// Returns such a session without a connection.
    pub fn replay() -> Self {
        Session::obeyed(Arc::new(ClientInfo::new(0, "", "", -1, 0, UnixMs(0))), Caller::Replay)
    }
}

/// A session of the debugger of scripts before it has begun. It runs on a copy of the data, so it gets a thread of its
/// own.
pub struct DebugSession(Box<dyn FnOnce() -> Vec<u8> + Send>);

impl DebugSession {
    /// Makes the session of this work, which returns the last bytes for its client. The work converses with the client
    /// by way of the host.
    pub fn new(work: impl FnOnce() -> Vec<u8> + Send + 'static) -> DebugSession {
        DebugSession(Box::new(work))
    }

    /// Runs the session to its end, and returns the last bytes for its client. The thread must have run no script of
    /// other data: its interpreter would know those.
    pub fn run(self) -> Vec<u8> {
        (self.0)()
    }
}

impl fmt::Debug for DebugSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DebugSession")
    }
}

/// A transaction that is being put together.
#[derive(Debug)]
pub struct Multi {
    /// Queued commands, in their order.
    pub commands: Vec<Queued>,
    /// One of the commands was refused.
    pub aborted: bool,
    /// Flags of all queued commands together.
    pub flags: Flags,
    /// Flags that at least one of them lacks.
    pub lacking: Flags,
    /// The database that the next command will find selected.
    pub db: u32,
}

/// A command of a transaction.
#[derive(Debug)]
pub struct Queued {
    /// The command's entry.
    pub entry: &'static CommandEntry,
    /// Arguments, the name included.
    pub args: Args<'static>,
    /// Arguments that are keys, with their hashes.
    pub keys: KeyArgs,
}

impl Queued {
    /// Returns the bytes of memory beside the value itself.
    pub fn outside(&self) -> usize {
        let keys = if self.keys.spilled() { self.keys.capacity() * size_of_val(&self.keys[0]) } else { 0 };
        self.args.memory() + keys
    }
}

/// The watched keys of a client.
#[derive(Debug)]
pub struct Watching {
    /// Flag that a change of a watched key raises.
    pub flag: Arc<WatchFlag>,
    /// Watched keys.
    pub keys: Vec<AwaitedKey>,
}

impl Watching {
    /// Returns whether a watched key has changed: the next EXEC does nothing.
    pub fn is_broken(&self) -> bool {
        self.flag.is_raised()
    }
}

impl Multi {
    /// Begins a transaction on this database.
    pub fn new(aborted: bool, db: u32) -> Multi {
        Multi { commands: Vec::new(), aborted, flags: Flags::NONE, lacking: Flags::NONE, db }
    }

    /// Returns the flags of all queued commands, and the flags that at least one of them lacks.
    pub fn flags(&self) -> (Flags, Flags) {
        (self.flags, self.lacking)
    }
}

/// The names that a client listens to, by kind.
#[derive(Debug, Default)]
pub struct Subscriptions(pub [BTreeSet<Name>; 3]);

impl Subscriptions {
    /// Returns the names of a kind.
    pub fn names(&mut self, kind: ChannelKind) -> &mut BTreeSet<Name> {
        &mut self.0[kind as usize]
    }

    /// Returns each name with its kind.
    pub fn each(&self) -> impl Iterator<Item = (ChannelKind, &[u8])> {
        let kinds = [ChannelKind::Channel, ChannelKind::Pattern, ChannelKind::Shard];
        kinds.into_iter().flat_map(|kind| self.0[kind as usize].iter().map(move |name| (kind, &**name)))
    }

    /// Whether the client listens to nothing.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(BTreeSet::is_empty)
    }

    /// Returns the count of a confirmation: channels with patterns, or shard channels.
    pub fn count(&self, kind: ChannelKind) -> usize {
        let len = |kind: ChannelKind| self.0[kind as usize].len();
        match kind {
            ChannelKind::Shard => len(ChannelKind::Shard),
            _ => len(ChannelKind::Channel) + len(ChannelKind::Pattern),
        }
    }
}

/// The shown form of arguments that the handler may make a value of.
#[derive(Debug)]
pub struct LoggedArgs {
    /// Places and texts of arguments that are shown.
    pub shown: Vec<(usize, Vec<u8>)>,
    /// The line for monitors.
    pub line: Option<Vec<u8>>,
}

/// A command that has begun and not ended.
#[derive(Debug)]
pub struct Unfinished {
    /// The command's entry.
    pub entry: &'static CommandEntry,
    /// Reading of the clock when it began.
    pub clock: Nanos,
    /// Arguments as logs show them.
    pub args: Vec<Vec<u8>>,
    /// The cost until now.
    pub took: Took,
    /// The line for monitors.
    pub line: Option<Vec<u8>>,
    /// Its keys, while HOTKEYS wants them.
    pub hot_keys: Vec<Vec<u8>>,
    /// Its slot, while CLUSTER SLOT-STATS wants it.
    pub slot: Option<SlotOfCall>,
    /// The identity under which it began.
    pub identity: Identity,
}

/// The slot of the commands that have run within a command.
#[derive(Debug, Default)]
pub struct InnerSlot {
    /// The slot, if there was one.
    pub slot: Option<u16>,
    /// There were several slots.
    pub is_across: bool,
    /// Bytes of the requests that were queued.
    pub request: usize,
}

/// The slot of a command, and the other figures of it.
#[derive(Clone, Copy, Debug)]
pub struct SlotOfCall {
    /// The slot.
    pub slot: u16,
    /// Bytes of requests that it has run.
    pub queued: usize,
    /// A client gets its reply.
    pub is_answered: bool,
}

/// The cost of a command.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Nanoseconds that it ran.
    pub nanos: u64,
    /// Bytes of its request.
    pub request: usize,
    /// Bytes of its reply.
    pub answer: usize,
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
