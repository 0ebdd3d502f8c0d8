//! The thread that moves slots: it has the connections of all jobs, and carries out the node's effects for them.

use super::export_link::ExportLink;
use super::import_link::{ImportLink, Turn};
use super::slot_snapshot_thread;
use crate::cluster::node_handle::NodeHandle;
use crate::connection::peer_socket::Peer;
use crate::listener::acceptor::Acceptor;
use crate::system::{affinity, clock, log};
use crate::workers::migration_messages::{MigrationMessage, NewImport, SnapshotEvent};
use crate::workers::shared::{MIGRATION_WORKER, Shared, become_worker};
use cluster::migration::{JobName, MigrationEffect};
use cluster::slot_set::SlotSet;
use commands::server::acl::lasting_rights::may_be_taken_in;
use engine::clients::registry::ClientInfo;
use engine::config::{ClientClass, Config, Directive, os_message};
use engine::keyspace::record::LogUser;
use engine::per_worker::MIGRATION_PLACE;
use engine::snapshot::open_snapshots::Purpose;
use engine::status::pause::Hold;
use mio::event::Event;
use mio::{Events, Poll, Token, Waker};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

/// The token of the waker.
const WAKE: Token = Token(usize::MAX);
/// The longest sleep.
const TICK: Duration = Duration::from_millis(100);
/// Sleep when a command cannot run, or a lock is not free.
const SOON: Duration = Duration::from_micros(200);
/// Interval of checks whether the disk and replicas have the applied commands.
const KEPT_LOOK: Duration = Duration::from_millis(1);
/// The stack of a thread that runs commands.
const STACK: usize = 64 << 20;

enum JobLink {
    Export(Box<ExportLink>),
    Import(Box<ImportLink>),
}

impl JobLink {
    fn job(&self) -> JobName {
        match self {
            JobLink::Export(link) => link.job,
            JobLink::Import(link) => link.job,
        }
    }

    fn info(&self) -> &Arc<ClientInfo> {
        match self {
            JobLink::Export(link) => &link.info,
            JobLink::Import(link) => &link.info,
        }
    }
}

struct MigrationThread {
    shared: Arc<Shared>,
    handle: Arc<NodeHandle>,
    acceptor: Arc<Acceptor>,
    poll: Poll,
    /// Links of jobs, by their tokens.
    links: slab::Slab<JobLink>,
    /// Jobs whose snapshots could not begin, as there were too many. They wait in line for others to end.
    refused: VecDeque<(JobName, SlotSet)>,
    /// Whether writes are paused.
    holds: bool,
    /// Longest sleep before the next look.
    patience: Duration,
}

/// Starts the thread.
pub fn start(shared: &Arc<Shared>, handle: &Arc<NodeHandle>, acceptor: &Arc<Acceptor>) -> io::Result<()> {
    let poll = Poll::new()?;
    shared.migrations.set_waker(Waker::new(poll.registry(), WAKE)?);
    let mut thread = MigrationThread {
        shared: Arc::clone(shared),
        handle: Arc::clone(handle),
        acceptor: Arc::clone(acceptor),
        poll,
        links: slab::Slab::new(),
        refused: VecDeque::new(),
        holds: false,
        patience: TICK,
    };
    let builder = thread::Builder::new().name("slot-migration".to_owned()).stack_size(STACK);
    let run = move || {
        affinity::pin(&thread.shared.engine.config().snapshot(), Directive::SERVER_CPULIST);
        become_worker(MIGRATION_PLACE);
        thread.run();
    };
    builder.spawn(run).map(drop)
}

impl MigrationThread {
    fn run(&mut self) {
        let mut events = Events::with_capacity(64);
        while !self.shared.stopping.load(Relaxed) {
            self.wait(&mut events);
            for event in events.iter().filter(|event| event.token() != WAKE) {
                self.note(event);
            }
            self.take_messages();
            self.begin_refused();
            self.patience = TICK;
            for token in self.tokens() {
                self.go_on(token);
            }
        }
    }

    fn wait(&mut self, events: &mut Events) {
        let handle = &self.shared.migrations;
        handle.begin_sleep();
        let time = if handle.has_messages() || self.has_unread() { Duration::ZERO } else { self.patience };
        if self.poll.poll(events, Some(time)).is_err() {
            events.clear();
        }
        self.shared.migrations.end_sleep();
    }

    fn has_unread(&self) -> bool {
        self.links.iter().any(|(_, link)| match link {
            JobLink::Export(link) => link.has_unread(&self.shared.engine),
            JobLink::Import(_) => false,
        })
    }

    fn tokens(&self) -> Vec<usize> {
        self.links.iter().map(|(token, _)| token).collect()
    }

    fn token_of(&self, job: &JobName) -> Option<usize> {
        self.links.iter().find(|(_, link)| link.job() == *job).map(|(token, _)| token)
    }

    fn note(&mut self, event: &Event) {
        let token = event.token().0;
        match self.links.get_mut(token) {
            Some(JobLink::Import(link)) => link.note(),
            Some(JobLink::Export(link)) => {
                let job = link.job;
                match link.has_opened() {
                    Ok(true) => self.opened(&job),
                    Ok(false) => {}
                    Err(error) => return self.lose(token, Some(&os_message(&error))),
                }
                let Some(JobLink::Export(link)) = self.links.get_mut(token) else { return };
                if event.is_readable() && !link.listen(&self.handle) {
                    self.lose(token, None);
                }
            }
            None => {}
        }
    }

    /// Handles a connection to a target that has opened.
    fn opened(&self, job: &JobName) {
        let auth = auth(&self.shared.engine.config().snapshot());
        self.handle.input(|bus, now| bus.migration_connected(job, auth, now));
    }

    fn take_messages(&mut self) {
        while let Some(message) = self.shared.migrations.take() {
            self.take(message);
        }
    }

    fn take(&mut self, message: MigrationMessage) {
        match message {
            MigrationMessage::Effect(effect) => self.perform(effect),
            MigrationMessage::Import(new) => self.attach(*new),
            MigrationMessage::ImportLost(job) => self.handle.input(|bus, now| bus.migration_lost(&job, None, now)),
            MigrationMessage::Snapshot(job, event) => self.take_snapshot(&job, event),
            MigrationMessage::Flushed { begun } => self.handle.input(|bus, now| bus.data_flushed(begun, now)),
            MigrationMessage::Kill(client) => {
                let killed = self.links.iter().find(|(_, link)| link.info().id == client);
                if let Some(token) = killed.map(|(token, _)| token) {
                    self.lose(token, None);
                }
            }
        }
    }

    fn perform(&mut self, effect: MigrationEffect) {
        match effect {
            MigrationEffect::Connect { job, ip, port } => {
                if let Err(error) = self.connect(job, &ip, port) {
                    self.handle.input(|bus, now| bus.migration_lost(&job, Some(&os_message(&error)), now));
                }
            }
            MigrationEffect::Send { job, bytes } => match self.link(&job) {
                Some(JobLink::Export(link)) => link.send(bytes),
                Some(JobLink::Import(link)) => link.send(&bytes),
                None => {}
            },
            MigrationEffect::Close { job } => {
                self.refused.retain(|(refused, _)| *refused != job);
                if let Some(token) = self.token_of(&job) {
                    self.close(token);
                }
            }
            MigrationEffect::BeginSnapshot { job, slots } => self.begin_snapshot(job, slots),
            MigrationEffect::Pause { job, .. } => {
                if !std::mem::replace(&mut self.holds, true) {
                    self.shared.engine.hold_writes(Hold::SlotMigration);
                    self.shared.engine.host().pause_changed();
                }
                if let Some(JobLink::Export(link)) = self.link(&job) {
                    link.pause();
                }
            }
            MigrationEffect::Resume => {
                if std::mem::take(&mut self.holds) {
                    self.shared.engine.release_writes(Hold::SlotMigration);
                    self.shared.engine.host().pause_changed();
                }
            }
            MigrationEffect::RemoveKeys { job, slots } => self.handle.remove_imported(job, slots),
            // Effects of the moment were carried out when the node wanted them.
            MigrationEffect::Hide { .. } | MigrationEffect::Show { .. } | MigrationEffect::Record(_) => {}
        }
    }

    fn link(&mut self, job: &JobName) -> Option<&mut JobLink> {
        let token = self.token_of(job)?;
        self.links.get_mut(token)
    }

    fn connect(&mut self, job: JobName, ip: &str, port: u16) -> io::Result<()> {
        let config = self.shared.engine.config().snapshot();
        let source = String::from_utf8_lossy(config.text(Directive::BIND_SOURCE_ADDR)).into_owned();
        let encrypts = config.flag(Directive::TLS_REPLICATION);
        let settings = self.acceptor.tls.settings().filter(|_| encrypts);
        if encrypts && settings.is_none() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let peer = Peer::open(ip, port, &source, settings.map(|settings| Arc::clone(&settings.client)))?;
        let clients = self.shared.engine.clients();
        let now = clock::now().unix_ms();
        let info = ClientInfo::new(clients.next_id(), &format!("{ip}:{port}"), "", -1, MIGRATION_WORKER, now);
        info.migration.is_target.store(true, Relaxed);
        let info = Arc::new(info);
        let mut link = ExportLink::new(job, peer, Arc::clone(&info));
        link.register(self.poll.registry(), Token(self.links.vacant_key()))?;
        clients.add(&info);
        self.links.insert(JobLink::Export(Box::new(link)));
        Ok(())
    }

    fn attach(&mut self, new: NewImport) {
        let job = new.job;
        let mut link = ImportLink::new(new);
        let token = Token(self.links.vacant_key());
        if !may_be_taken_in(&self.shared.engine, &link.info) || link.register(self.poll.registry(), token).is_err() {
            self.shared.engine.clients().end(link.info.id);
            return self.handle.input(|bus, now| bus.migration_lost(&job, None, now));
        }
        self.links.insert(JobLink::Import(Box::new(link)));
        // The job may have ended while the connection was on its way. Its first commands are carried out before any key
        // comes.
        let is_wanted =
            |bus: &mut cluster::bus::Bus, _| bus.migrations().job(&job).is_some_and(|job| job.state.is_in_progress());
        if !self.handle.input(is_wanted) {
            self.close(token.0);
        }
    }

    fn begin_snapshot(&mut self, job: JobName, slots: SlotSet) {
        let begun = slot_snapshot_thread::begin(&self.shared, job, slots.clone());
        match (begun, self.link(&job)) {
            (Ok(blocks), Some(JobLink::Export(link))) => link.begin_snapshot(slots, blocks),
            (Err(error), _) => {
                log::warning(format_args!("Can't start a thread for a migration of slots: {error}"));
                self.handle.input(|bus, now| bus.migration_failed(&job, "Failed to start snapshot", now));
            }
            _ => {}
        }
    }

    /// Begins the snapshot of the job that has waited longest, once there is room for it.
    fn begin_refused(&mut self) {
        if self.shared.engine.open_snapshots().has_room(Purpose::Slots)
            && let Some((job, slots)) = self.refused.pop_front()
        {
            self.begin_snapshot(job, slots);
        }
    }

    fn take_snapshot(&mut self, job: &JobName, event: SnapshotEvent) {
        let handle = Arc::clone(&self.handle);
        let Some(JobLink::Export(link)) = self.link(job) else { return self.stop_logging() };
        if let (SnapshotEvent::Refused, Some(slots)) = (&event, link.slots().cloned()) {
            self.refused.push_back((*job, slots));
        }
        let Some(JobLink::Export(link)) = self.link(job) else { return };
        if !link.take_snapshot(event, &handle) {
            handle.input(|bus, now| bus.migration_failed(job, "Failed to perform snapshot", now));
        }
    }

    fn go_on(&mut self, token: usize) {
        let limit = self.shared.engine.config().snapshot().output_buffer_limit(ClientClass::Replica);
        let lasts = match self.links.get_mut(token) {
            None => return,
            Some(link) if link.info().has_ended() => false,
            Some(JobLink::Export(link)) => {
                let lasts = link.go_on(&self.shared, &self.handle);
                let is_over = limit.hard_bytes > 0 && link.unsent() > limit.hard_bytes;
                if is_over {
                    log::warning(format_args!(
                        "Client of slot migration {} scheduled to be closed ASAP for overcoming of output buffer limits.",
                        link.job
                    ));
                    self.shared.engine.clients().slow_readers.fetch_add(1, Relaxed);
                }
                if link.is_eager() {
                    self.patience = self.patience.min(SOON);
                }
                lasts && !is_over
            }
            Some(JobLink::Import(link)) => match link.go_on(&self.shared, &self.handle) {
                Turn::Idle => true,
                Turn::More => {
                    self.patience = Duration::ZERO;
                    true
                }
                Turn::Stuck => {
                    self.patience = self.patience.min(SOON);
                    true
                }
                Turn::Unkept => {
                    self.patience = self.patience.min(KEPT_LOOK);
                    true
                }
                Turn::Ended => false,
            },
        };
        if !lasts {
            self.lose(token, None);
        }
    }

    /// Handles a connection that has ended by itself.
    fn lose(&mut self, token: usize, reason: Option<&str>) {
        let Some(job) = self.links.get(token).map(JobLink::job) else { return };
        self.close(token);
        self.handle.input(|bus, now| bus.migration_lost(&job, reason, now));
    }

    fn close(&mut self, token: usize) {
        let link = self.links.remove(token);
        self.shared.engine.clients().end(link.info().id);
        if let JobLink::Import(link) = link {
            link.end(&self.shared);
        }
        self.stop_logging();
    }

    /// Stops logging changes for slots that move when no slots do.
    fn stop_logging(&self) {
        if !self.links.iter().any(|(_, link)| matches!(link, JobLink::Export(_))) {
            self.shared.engine.set_logging(LogUser::Migrations, false);
        }
    }
}

/// Returns the command by which this server authenticates to a target, as to a primary.
fn auth(config: &Config) -> Option<Vec<u8>> {
    let (user, password) = (config.text(Directive::PRIMARYUSER), config.text(Directive::PRIMARYAUTH));
    if password.is_empty() {
        return None;
    }
    let words: &[&[u8]] = if user.is_empty() { &[b"AUTH", password] } else { &[b"AUTH", user, password] };
    let mut bytes = Vec::new();
    resp::encode_command(&mut bytes, words);
    Some(bytes)
}
