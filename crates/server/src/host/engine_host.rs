//! The server's services to the engine and to the loading of a configuration.

use crate::cluster::node_handle::NodeHandle;
use crate::event_loop::script_reentry;
use crate::host::apply::DirectiveChange;
use crate::host::blocking_pool::{self, BlockingPool};
use crate::host::lazy_free::LazyFree;
use crate::host::measured_memory::MeasuredMemory;
use crate::host::sentinel_follower::SentinelFollower;
use crate::host::tls_peer::TlsPeer;
use crate::listener::acceptor::Acceptor;
use crate::system::files::{self, Nameless, Temporary, path};
use crate::system::{affinity, allocator, clock, log, oom, proc};
use crate::workers::mailbox::WorkerMessage;
use crate::workers::migration_messages::MigrationMessage;
use crate::workers::replication_messages::ReplicationMessage;
use crate::workers::shared::{DEBUG_WORKER, LINK_WORKER, MIGRATION_WORKER, Shared, this_worker};
use crate::workers::snapshot_offsets::StreamStop;
use cluster::migration::{JobName, SlotRanges};
use cluster::slot_set::SlotSet;
use commands::transactions::cluster_handle::ClusterHandle;
use engine::Engine;
use engine::acl::users::UserChange;
use engine::clients::waiters::{Delivery, Ticket};
use engine::config::{Config, Directive, ServerHook};
use engine::host::clock::Clock;
use engine::host::connections::{Certificates, ConnectionStats, Connections, StepDown, StreamMark};
use engine::host::files::{Files, NewFile, Scratch};
use engine::host::log::Log;
use engine::host::memory::{Memory, MemoryStats};
use engine::host::peers::{OwnNode, Peer, Peers};
use engine::host::process::{CpuTimes, Process, ProcessInfo};
use engine::host::threads::{Task, Threads, WorkerTask};
use engine::per_worker::WORKERS_MAX;
use engine::propagation::effects::{EffectSink, Event, Garbage};
use engine::time::{Nanos, SteadyMs, UnixMs, UnixUs};
use replication::replid::ReplicationId;
use socket2::Protocol;
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, OnceLock, Weak};
use std::time::Duration;

/// The engine's host: frees in the background, knows the process and the other threads.
pub struct EngineHost {
    lazy_free: LazyFree,
    config_file: Vec<u8>,
    executable: String,
    supervisor: &'static str,
    started_at: UnixMs,
    began: SteadyMs,
    run_id: String,
    /// Bytes allocated when the server had no data yet, and at most.
    startup: AtomicU64,
    peak: AtomicU64,
    measured_memory: MeasuredMemory,
    shared: OnceLock<Weak<Shared>>,
    acceptor: OnceLock<Weak<Acceptor>>,
    node: OnceLock<Arc<NodeHandle>>,
    within: OnceLock<SentinelFollower>,
    blocking_pool: Arc<BlockingPool>,
}

impl EngineHost {
    /// `config_file`: absolute path, or empty. `executable`: absolute path of the program.
    pub fn new(lazy_free: LazyFree, config_file: Vec<u8>, executable: String, supervisor: &'static str) -> EngineHost {
        EngineHost {
            lazy_free,
            config_file,
            executable,
            supervisor,
            started_at: clock::now().unix_ms(),
            began: clock::nanos().ms(),
            run_id: random_hex(),
            startup: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            measured_memory: MeasuredMemory::default(),
            shared: OnceLock::new(),
            acceptor: OnceLock::new(),
            node: OnceLock::new(),
            within: OnceLock::new(),
            blocking_pool: Arc::default(),
        }
    }

    /// Sets the node of a cluster that this server is.
    pub fn set_node(&self, node: &Arc<NodeHandle>) {
        assert!(self.node.set(Arc::clone(node)).is_ok(), "the host's node is set once");
    }

    /// Makes the Sentinel within this server follow the server's users and configuration from now on.
    pub fn set_sentinel_within(&self, follower: SentinelFollower, server: &Engine) {
        let follower = self.within.get_or_init(|| follower);
        follower.follow_users(server);
        follower.follow_config(server);
    }

    /// Sets the other threads, once, when they are there and before there is data.
    pub fn set_server(&self, shared: &Arc<Shared>, acceptor: &Arc<Acceptor>) {
        assert!(self.shared.set(Arc::downgrade(shared)).is_ok(), "the host's server is set once");
        assert!(self.acceptor.set(Arc::downgrade(acceptor)).is_ok(), "the host's server is set once");
        self.startup.store(allocator::stats().allocated, Relaxed);
    }

    fn acceptor(&self) -> Option<Arc<Acceptor>> {
        self.acceptor.get().and_then(Weak::upgrade)
    }

    fn shared(&self) -> Option<Arc<Shared>> {
        self.shared.get().and_then(Weak::upgrade)
    }
}

/// Returns the program's arguments. The process's title takes the place of the words themselves, so this has to be
/// called before there is one.
pub fn arguments() -> &'static [OsString] {
    static ARGUMENTS: LazyLock<Vec<OsString>> = LazyLock::new(|| std::env::args_os().skip(1).collect());
    &ARGUMENTS
}

/// Returns the program as it was called, found from any directory.
pub fn executable() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    let found = if called.as_bytes().contains(&b'/') { std::path::absolute(&called) } else { std::env::current_exe() };
    found.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Facts that do not change while the process runs.
struct Machine {
    os: String,
    memory: u64,
}

static MACHINE: LazyLock<Machine> = LazyLock::new(|| Machine { os: proc::os(), memory: proc::total_memory() });

/// Returns 40 hexadecimal digits from the system's randomness.
fn random_hex() -> String {
    (0..3).map(|n: u8| format!("{:016x}", RandomState::new().hash_one(n))).collect::<String>()[..40].to_owned()
}

impl Clock for EngineHost {
    fn unix_us(&self, _: UnixUs) -> UnixUs {
        clock::now().unix_us
    }

    fn nanos(&self) -> Nanos {
        clock::nanos()
    }

    fn steady_ms(&self, _: UnixUs) -> SteadyMs {
        clock::nanos().ms()
    }

    fn thread_nanos(&self) -> Nanos {
        clock::thread_nanos()
    }

    fn sleep(&self, time: Duration) {
        let alarm = self.shared().map(|shared| shared.put_to_sleep());
        std::thread::sleep(time);
        drop(alarm);
    }

    fn rest(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

impl Memory for EngineHost {
    fn memory(&self) -> MemoryStats {
        let stats = self.measured_memory.stats(self.shared().as_deref(), &self.lazy_free);
        let peak = self.peak.fetch_max(stats.allocated, Relaxed).max(stats.allocated);
        MemoryStats {
            peak,
            startup: self.startup.load(Relaxed),
            total_system: MACHINE.memory,
            lazy_pending: self.lazy_free.pending() as u64,
            lazy_freed: self.lazy_free.freed() as u64,
            ..stats
        }
    }

    fn allocated(&self) -> u64 {
        allocator::allocated()
    }

    fn own_allocated(&self) -> u64 {
        allocator::own_allocated()
    }

    fn freeing(&self) -> (usize, usize) {
        (self.lazy_free.pending(), self.lazy_free.freed())
    }

    fn purge_memory(&self) {
        allocator::purge();
        self.measured_memory.forget();
    }

    fn allocator_report(&self) -> Option<String> {
        allocator::report()
    }

    fn allocator_number(&self, name: &str, new: Option<u64>) -> io::Result<u64> {
        allocator::number(name, new)
    }

    fn allocator_text(&self, name: &str) -> io::Result<String> {
        allocator::text(name)
    }
}

impl Files for EngineHost {
    fn change_dir(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        files::change_dir(name)
    }

    fn create_file(&self, name: &[u8], in_steps: bool) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(Temporary::create(path(name), in_steps)?))
    }

    fn scratch_file(&self) -> io::Result<Box<dyn Scratch>> {
        Ok(Box::new(Nameless::create()?))
    }

    fn open_file(&self, name: &[u8]) -> io::Result<(Box<dyn Read + Send>, u64)> {
        let file = std::fs::File::open(path(name))?;
        let size = file.metadata()?.len();
        Ok((Box::new(file), size))
    }

    fn read_file(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        std::fs::read(path(name))
    }

    fn replace_file(&self, name: &[u8], content: &[u8]) -> io::Result<()> {
        files::replace(path(name), content)
    }
}

impl Threads<Engine> for EngineHost {
    fn after_all_workers(&self, left: &Arc<AtomicUsize>) {
        if let Some(shared) = self.shared() {
            // A worker that ends meanwhile starts again for it.
            let all: Vec<usize> = shared.running().collect();
            left.fetch_add(all.len(), Relaxed);
            all.into_iter().for_each(|worker| shared.post(worker, WorkerMessage::Settle { left: Arc::clone(left) }));
        }
    }

    fn in_background(&self, cpus: Directive, work: Task<Engine>) -> io::Result<()> {
        let Some(shared) = self.shared() else { return Err(io::ErrorKind::NotConnected.into()) };
        let save = move || {
            affinity::pin(&shared.engine.config().snapshot(), cpus);
            work(&shared.engine);
        };
        std::thread::Builder::new().name("saver".to_owned()).spawn(save).map(drop)
    }

    fn abroad(&self, work: Task<Engine>) -> io::Result<()> {
        let Some(shared) = self.shared() else { return Err(io::ErrorKind::NotConnected.into()) };
        BlockingPool::send(&self.blocking_pool, shared, work)
    }

    fn on_worker(&self, worker: usize, work: WorkerTask<Engine>) {
        if let Some(shared) = self.shared() {
            shared.post(worker, WorkerMessage::Task(work));
        }
    }

    fn alongside(&self, help: &(dyn Fn() + Sync), work: &mut dyn FnMut()) {
        let spare = std::thread::available_parallelism().map_or(0, |all| all.get() - 1).min(HELPERS_MAX);
        std::thread::scope(|scope| {
            for _ in 0..spare {
                // Without a helper the work is done all the same.
                let _ = std::thread::Builder::new().name("helper".to_owned()).spawn_scoped(scope, help);
            }
            work();
        });
    }
}

impl Peers for EngineHost {
    fn connect(&self, host: &[u8], port: &[u8], patience: Duration) -> io::Result<Box<dyn Peer>> {
        let Some(config) = self.shared().map(|shared| shared.engine.config().snapshot()) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let encrypts = config.flag(Directive::TLS_CLUSTER);
        open_peer(
            self.acceptor().as_deref(),
            &config,
            host,
            port,
            patience,
            LinkKind { encrypts, protocol: Protocol::TCP },
        )
    }

    fn own_node(&self) -> Option<OwnNode> {
        self.node.get().map(|node| node.own_node())
    }

    fn knows_node(&self, name: &[u8]) -> bool {
        self.node.get().is_some_and(|node| node.view().nodes().named(name).is_some())
    }

    fn open_slots(&self) -> String {
        self.node.get().map(|node| node.bus().open_slots()).unwrap_or_default()
    }

    fn take_open_slots(&self, text: &[u8]) -> bool {
        self.node.get().is_none_or(|node| node.input(|bus, now| bus.take_open_slots(text, now).is_ok()))
    }

    fn save_node(&self) {
        if let Some(node) = self.node.get() {
            node.input(|bus, _| bus.save_config());
        }
    }
}

/// Kind of a connection to another server.
pub struct LinkKind {
    /// Whether the connection uses TLS.
    pub encrypts: bool,
    /// TCP, or Multipath TCP.
    pub protocol: Protocol,
}

/// Opens a connection to another server.
pub fn open_peer(
    acceptor: Option<&Acceptor>,
    config: &Config,
    host: &[u8],
    port: &[u8],
    patience: Duration,
    link: LinkKind,
) -> io::Result<Box<dyn Peer>> {
    let LinkKind { encrypts, protocol } = link;
    let settings = acceptor.filter(|_| encrypts).and_then(|acceptor| acceptor.tls.settings());
    let peer = blocking_pool::connect(host, port, config.text(Directive::BIND_SOURCE_ADDR), patience, protocol)?;
    match settings {
        Some(settings) => Ok(Box::new(TlsPeer::new(peer, Arc::clone(&settings.client))?)),
        None if encrypts => Err(io::ErrorKind::Unsupported.into()),
        None => Ok(Box::new(peer)),
    }
}

impl Process for EngineHost {
    fn process(&self) -> ProcessInfo {
        ProcessInfo {
            id: std::process::id(),
            started_at: self.started_at,
            began: self.began,
            os: MACHINE.os.clone(),
            executable: self.executable.clone(),
            supervisor: self.supervisor,
            config_file: self.config_file.clone(),
            run_id: self.run_id.clone(),
        }
    }

    fn cpu_times(&self) -> CpuTimes {
        let (user, system) = proc::cpu_times();
        let (main_user, main_system) = proc::main_thread_cpu_times();
        CpuTimes { user, system, main_user, main_system }
    }

    fn crash(&self) {
        // The reporter of the signal ends the process.
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGSEGV);
        loop {
            std::thread::park();
        }
    }

    fn stop(&self) {
        if let Some(shared) = self.shared() {
            shared.request_stop();
        }
    }

    fn restart(&self) -> io::Error {
        // Files and sockets close themselves.
        let mut arguments = arguments().to_vec();
        // The program's name may be relative to another directory than the present one.
        if let Some(first) = arguments.first_mut().filter(|_| !self.config_file.is_empty()) {
            *first = OsString::from_vec(self.config_file.clone());
        }
        Command::new(&self.executable).args(arguments).exec()
    }

    fn apply(&self, hook: ServerHook, config: &Config) -> Result<(), String> {
        hook(&DirectiveChange { acceptor: self.acceptor().as_deref(), shared: self.shared().as_deref(), config })
    }
}

impl Log for EngineHost {
    fn log(&self, line: &str) {
        log::warning(line);
    }

    fn notice(&self, line: &str) {
        log::notice(line);
    }

    fn warn(&self, line: &str) {
        log::warning(line);
    }

    fn detail(&self, line: &str) {
        log::verbose(line);
    }
}

impl Connections for EngineHost {
    fn publish_to_nodes(&self, channel: &[u8], message: &[u8], is_sharded: bool) {
        if let Some(node) = self.node.get() {
            node.publish(channel, message, is_sharded);
        }
    }

    fn send_to_nodes(&self) {
        if let Some(node) = self.node.get() {
            node.wake();
        }
    }

    fn keys_flushed(&self) {
        if let (Some(shared), Some(node)) = (self.shared(), self.node.get()) {
            // Imports that begin later are not included.
            let begun = node.asks(|bus| bus.migrations().begun());
            shared.migrations.post(MigrationMessage::Flushed { begun });
        }
    }

    fn track_import(&self, name: &[u8; 40], slots: &SlotSet) {
        if let Some(node) = self.node.get() {
            let ranges = SlotRanges(slots.ranges().iter().map(|range| (*range.start(), *range.end())).collect());
            node.input(|bus, now| bus.track_import(JobName(*name), ranges, now));
        }
    }

    fn data_is_replaced(&self, reason: &str) {
        if let Some(node) = self.node.get() {
            node.input(|bus, now| bus.forget_imports(reason, now));
        }
    }

    fn data_loaded(&self) {
        if let Some(node) = self.node.get() {
            node.data_loaded();
        }
    }

    fn kill(&self, worker: usize, client: u64) {
        let Some(shared) = self.shared() else { return };
        if worker == LINK_WORKER {
            // The thread looks at the client's record, and may wait for bytes.
            shared.link_lines.hang_up();
        } else if worker == MIGRATION_WORKER {
            shared.migrations.post(MigrationMessage::Kill(client));
        } else if worker == DEBUG_WORKER {
            // The thread looks at the client's record now and then.
        } else if worker >= WORKERS_MAX {
            shared.replication.post(ReplicationMessage::Kill(client));
        } else {
            shared.post(worker, WorkerMessage::Kill { client });
        }
    }

    fn mark_stream(&self) -> Option<Box<dyn StreamMark>> {
        let shared = self.shared()?;
        shared
            .snapshot_offsets
            .mark(&shared.engine)
            .map(|stop| Box::new(MarkedStop { shared, stop }) as Box<dyn StreamMark>)
    }

    fn ask_replicas(&self) {
        if let Some(shared) = self.shared() {
            shared.replication.post(ReplicationMessage::AskReplicas);
        }
    }

    fn converse(&self, bytes: Vec<u8>) -> Option<Vec<Vec<u8>>> {
        script_reentry::converse(&bytes)
    }

    fn serve_clients_busy(&self) {
        script_reentry::serve(false);
    }

    fn serve_clients(&self) {
        script_reentry::serve(true);
    }

    fn close(&self, worker: usize, client: u64) {
        match self.shared() {
            Some(shared) if worker < WORKERS_MAX => shared.post(worker, WorkerMessage::Close { client }),
            _ => self.kill(worker, client),
        }
    }

    fn frame_changes(&self, offset: &Arc<OnceLock<u64>>) {
        if let Some(shared) = self.shared() {
            shared.replication.post(ReplicationMessage::FrameChanges(Arc::clone(offset)));
        }
    }

    fn tell_replicas(&self, words: &[&str]) {
        if let Some(shared) = self.shared() {
            let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            shared.replication.post(ReplicationMessage::Tell(words));
        }
    }

    fn demote(&self, order: &Arc<StepDown>) -> bool {
        let shared = self.shared();
        if let Some(shared) = &shared {
            shared.replication.post(ReplicationMessage::StepDown(Arc::clone(order)));
        }
        shared.is_some()
    }

    fn failover_changed(&self) {
        if let Some(shared) = self.shared() {
            shared.replication.post(ReplicationMessage::FailoverChanged);
        }
    }

    fn rights_changed(&self, changes: &Arc<[UserChange]>) {
        if let Some(shared) = self.shared() {
            shared.post_all(|| WorkerMessage::RightsChanged { changes: Arc::clone(changes) });
            self.within.get().into_iter().for_each(|follower| follower.follow_users(&shared.engine));
        }
    }

    fn config_changed(&self) {
        if let (Some(follower), Some(shared)) = (self.within.get(), self.shared()) {
            follower.follow_config(&shared.engine);
        }
        if let Some(node) = self.node.get() {
            // The server's name or address may have changed.
            node.visit(&mut |_, _| ());
        }
    }

    fn primary_changed(&self) {
        let Some(shared) = self.shared() else { return };
        log::set_follows(shared.engine.replication().is_replica());
        if !shared.engine.replication().is_replica() {
            // The stream begins before clients may write.
            shared.replication.lead(&shared.engine);
        }
        // An error has been logged already.
        let _ = oom::apply(&shared.engine.config().snapshot());
        shared.wake_link_thread();
    }

    fn pause_changed(&self) {
        if let Some(shared) = self.shared() {
            shared.post_all(|| WorkerMessage::PauseChanged);
        }
    }

    fn log_changed(&self) {
        if let Some(shared) = self.shared() {
            shared.notifier.ring();
        }
    }

    fn connections(&self) -> ConnectionStats {
        let Some(shared) = self.shared() else { return ConnectionStats::default() };
        ConnectionStats {
            received: shared.connections_received.load(Relaxed),
            rejected: shared.connections_rejected.load(Relaxed),
        }
    }

    fn certificates(&self) -> Certificates {
        let settings = self.acceptor().and_then(|acceptor| acceptor.tls.settings());
        settings.map(|settings| settings.certificates.clone()).unwrap_or_default()
    }

    fn reset_stats(&self) {
        if let Some(shared) = self.shared() {
            shared.connections_received.store(0, Relaxed);
            shared.connections_rejected.store(0, Relaxed);
        }
        self.lazy_free.reset_freed();
    }
}

/// A place in the stream, as known to the thread that frames the log.
struct MarkedStop {
    shared: Arc<Shared>,
    stop: Arc<StreamStop>,
}

impl StreamMark for MarkedStop {
    fn position(&self) -> Option<(ReplicationId, u64)> {
        self.shared.replication.position_of(&self.stop)
    }
}

impl Delivery for EngineHost {
    fn deliver(&self, ticket: &Arc<Ticket>, bytes: Vec<u8>) {
        if let Some(shared) = self.shared() {
            shared.post(ticket.client.worker.load(Relaxed), WorkerMessage::Reply { ticket: Arc::clone(ticket), bytes });
        }
    }
}

impl EffectSink for EngineHost {
    fn free(&self, garbage: Vec<Garbage>) {
        self.lazy_free.take(garbage);
    }

    fn events(&self, events: Vec<Event>) {
        if let Some(shared) = self.shared() {
            commands::pubsub::channels::notify(&shared.engine, this_worker(), &events);
        }
    }
}

/// Threads that help with one work; more would wait for the thread that gives it to them.
const HELPERS_MAX: usize = 3;
