//! Start and end: from a configuration to running threads, and back.

use crate::admin::plane;
use crate::aof::disk::Disk;
use crate::aof::writer;
use crate::cluster::node_handle::NodeHandle;
use crate::event_loop::worker_threads::start_workers;
use crate::host::engine_host::EngineHost;
use crate::host::lazy_free::LazyFree;
use crate::listener::acceptor::Acceptor;
use crate::listener::new_client;
use crate::listener::sockets;
use crate::listener::tls_state::TlsState;
use crate::migration::migration_thread;
use crate::process::banner;
use crate::process::crash;
use crate::process::daemon::Daemon;
use crate::process::signals::SignalLoop;
use crate::replication::{link_thread, member_file, primary_thread};
use crate::sentinel::sentinel_console::SentinelConsole;
use crate::sentinel_within::SentinelWithin;
use crate::system::affinity;
use crate::system::allocator;
use crate::system::clock;
use crate::system::log;
use crate::system::oom;
use crate::system::prefault;
use crate::system::rlimit;
use crate::workers::notifier::Notifier;
use crate::workers::replication_messages::ReplicationMessage;
use crate::workers::shared::{Shared, worker_count};
use cinnabar_admin::http_server::AdminThread;
use commands::core::mode;
use commands::replication::{acknowledge, follow};
use engine::config::{Config, Directive};
use engine::keyspace::record::LogUser;
use engine::propagation::log_reader::Overflow;
use engine::{Engine, Options};
use mio::Poll;
use persistence::aof::Aof;
use replication::link_event::Position;
use replication::member_record::{Loaded, LoggedPlace};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::thread;

/// Threads that free memory in the background: they run only when no other thread wants to. More of them have a larger
/// share of busy cores, so that memory is free sooner; with four others wait longer.
const LAZY_FREE_THREADS: usize = 3;

/// Serves until it is asked to stop; an error is a line for the log. `users`: `user` lines. `config_file`: the file of
/// the configuration, empty when there is none.
pub fn serve(
    config: Config,
    users: &[Vec<Vec<u8>>],
    config_file: Vec<u8>,
    executable: String,
    daemon: &Daemon,
    sentinel: Option<Arc<SentinelConsole>>,
) -> Result<(), String> {
    let workers = if mode::is_sentinel() { 1 } else { worker_count(&config) };
    let clients = rlimit::admit(config.int(Directive::MAXCLIENTS).max(0) as u64, plane::connections(&config))?;
    oom::apply(&config)?;
    affinity::choose_pages(&config);
    allocator::give_back_in_background(config.flag(Directive::JEMALLOC_BG_THREAD));
    let lazy_free = LazyFree::start(LAZY_FREE_THREADS, &Arc::new(config.clone()))
        .map_err(|error| format!("Can't start a background thread: {error}"))?;
    let node = if mode::is_sentinel() { None } else { NodeHandle::begin(&config)? };
    let options = options(&config, node.is_some(), workers);
    banner::show(&config);
    prefault::code();
    let tls = Arc::<TlsState>::default();
    tls.configure(&config).map_err(|error| {
        log::warning(error);
        "Failed to configure TLS. Check logs for more info.".to_owned()
    })?;
    let listeners = sockets::open(&config)?;
    let kinds: Vec<&'static str> = listeners.iter().map(|listener| listener.kind()).collect();
    let host = Arc::new(EngineHost::new(lazy_free, config_file, executable, daemon.supervisor()));
    let engine = Arc::new(Engine::with_config(&options, config, Arc::clone(&host) as Arc<dyn engine::Host>));
    engine.config().update(|config| config.set_int(Directive::MAXCLIENTS, clients as i64));
    let names = engine.config().snapshot();
    let (dir, file) = (names.text(Directive::APPENDDIRNAME), names.text(Directive::APPENDFILENAME));
    Aof::install(&engine, Arc::new(Disk), dir, file);
    commands::server::config::apply_all(&engine);
    commands::server::acl::acl_file::begin(&engine, users)?;
    let (notifier, rung) = Notifier::new();
    let failed = |error: io::Error| format!("Can't start: {error}");
    let polls = (0..workers).map(|_| Poll::new()).collect::<io::Result<Vec<Poll>>>().map_err(failed)?;
    let acceptor = Arc::new(Acceptor::new(polls[0].registry(), tls).map_err(failed)?);
    let shared = Arc::new(Shared::new(engine, notifier));
    let signals = SignalLoop::new(Arc::clone(&shared), Arc::clone(&acceptor)).map_err(failed)?;
    let threads = start_workers(&shared, &acceptor, polls).map_err(|error| format!("Can't start a worker: {error}"))?;
    host.set_server(&shared, &acceptor);
    crash::watch(&shared).map_err(|error| format!("Can't wait for signals: {error}"))?;
    log::notice("Server initialized");
    let logger = writer::start(&shared, rung).map_err(|error| format!("Can't start a background thread: {error}"))?;
    let replicator =
        primary_thread::start(&shared).map_err(|error| format!("Can't start a background thread: {error}"))?;
    let (alone, within) = if mode::is_sentinel() { (sentinel, None) } else { (None, sentinel) };
    let within = within.map(|handle| SentinelWithin::start(&handle, &shared.engine, &host)).transpose()?;
    if let Some(node) = &node {
        host.set_node(node);
        start_node(node, &shared, &acceptor)?;
    }
    // The plane starts before the data set is read: it shows that, too.
    let admin = plane::start(&shared, &acceptor)?;
    begin(&shared, &acceptor, kinds, alone).map_err(|error| format!("Can't start a thread: {error}"))?;
    acceptor.open(listeners).map_err(failed)?;
    daemon.ready();
    affinity::pin(&shared.engine.config().snapshot(), Directive::SERVER_CPULIST);
    let result = signals.run().map_err(|error| format!("Can't wait for signals: {error}"));
    shared.notifier.ring();
    threads.join();
    shared.replication.post(ReplicationMessage::End);
    within.into_iter().for_each(SentinelWithin::stop);
    admin.into_iter().for_each(AdminThread::stop);
    [logger, replicator].into_iter().for_each(|thread| _ = thread.join());
    daemon.stop();
    end_process(&shared);
    result
}

/// Ends the process, as its last step.
fn end_process(shared: &Shared) {
    member_file::complete(&shared.engine);
    log::warning("Cinnabar is now ready to exit, bye bye...");
}

/// Makes the server a node of a cluster from now on.
fn start_node(node: &Arc<NodeHandle>, shared: &Arc<Shared>, acceptor: &Arc<Acceptor>) -> Result<(), String> {
    shared.engine.persistence_status().set_clustered(true);
    node.start(shared, acceptor)?;
    migration_thread::start(shared, node, acceptor)
        .map_err(|error| format!("Can't start the thread of migrations: {error}"))
}

fn options(config: &Config, is_clustered: bool, workers: usize) -> Options {
    let databases = if is_clustered { Directive::CLUSTER_DATABASES } else { Directive::DATABASES };
    let databases = config.int(databases).max(1) as usize;
    Options { databases, hash_seed: hash_seed(config), workers, counts_slots: is_clustered, ..Options::default() }
}

/// Begins to watch, or to read the data set. A Sentinel has one worker, which sends its messages to subscribers.
fn begin(
    shared: &Arc<Shared>,
    acceptor: &Arc<Acceptor>,
    kinds: Vec<&'static str>,
    sentinel: Option<Arc<SentinelConsole>>,
) -> io::Result<()> {
    if let Some(handle) = sentinel {
        return handle.start(shared, acceptor).map(drop);
    }
    log::set_follows(follow::begin(&shared.engine));
    acknowledge::begin(&shared.engine);
    load(shared, kinds)?;
    link_thread::start(shared, acceptor)
}

/// Reads the data set; clients get -LOADING meanwhile. Data that cannot be read ends the process.
fn load(shared: &Arc<Shared>, kinds: Vec<&'static str>) -> io::Result<()> {
    let shared = Arc::clone(shared);
    let saves = shared.engine.persistence_status();
    // The empty data set counts as saved when the server started.
    saves.note_saved(clock::now().unix_ms(), clock::nanos().ms());
    saves.set_loading(true);
    let config = shared.engine.config().snapshot();
    let logs = config.flag(Directive::APPENDONLY);
    let exists = |name: &[u8]| std::path::Path::new(std::ffi::OsStr::from_bytes(name)).exists();
    let is_there = match logs {
        true => exists(config.text(Directive::APPENDDIRNAME)) || exists(config.text(Directive::APPENDFILENAME)),
        false => exists(config.text(Directive::DBFILENAME)),
    };
    let work = move || {
        if logs {
            load_log(&shared);
        } else {
            load_snapshot(&shared);
        }
        crate::replication::isr::begin_logging(&shared);
        shared.engine.persistence_status().set_loading(false);
        shared.engine.host().data_loaded();
        for kind in ["tcp", "unix", "tls", "book"].iter().filter(|kind| kinds.contains(*kind)) {
            log::notice(format_args!("Ready to accept connections {kind}"));
        }
        match new_client::open_door(&shared.engine).filter(|_| kinds.iter().any(|kind| *kind != "unix")) {
            Some((true, text)) => log::warning(text),
            Some((false, text)) => log::notice(text),
            None => {}
        }
    };
    if !is_there {
        // Without data the first clients do not wait.
        work();
        return Ok(());
    }
    thread::Builder::new().name("loader".to_owned()).spawn(work).map(drop)
}

/// Reads the log. A member continues its history if the log is that of its last shutdown.
fn load_log(shared: &Shared) {
    let engine = &*shared.engine;
    if commands::persistence::aof::load_and_begin(engine).is_err() {
        std::process::exit(1);
    }
    let files = persistence::aof::of(engine).and_then(member_file::sum_of_files);
    let Some(LoggedPlace { position, db, .. }) = member_file::restore(engine, Loaded::Log(files)) else { return };
    // Nothing has changed since the log was read: no key expires and no client writes while the server loads.
    let reader = (!engine.replication().is_replica()).then(|| engine.begin_logging(LogUser::Replicas));
    follow::adopt(engine, (position.id, position.offset, db));
    if let Some(reader) = reader {
        shared.replication.post(ReplicationMessage::Resume { reader, offset: position.offset });
    }
}

/// Reads the snapshot, and continues its history.
fn load_snapshot(shared: &Shared) {
    let engine = &*shared.engine;
    // A primary records the keys that have expired meanwhile for replicas that come back.
    let reader = (!engine.replication().is_replica()).then(|| {
        engine.set_logging(LogUser::Replicas, true);
        engine.change_log().open(Overflow::Keep)
    });
    match commands::persistence::load::load_file(engine, false) {
        Ok(loaded) => match (loaded.and_then(|loaded| loaded.history), reader) {
            (Some(history), reader) => {
                let position = Position { id: history.0, offset: history.1 };
                member_file::restore(engine, Loaded::Snapshot(Some(position)));
                follow::adopt(engine, history);
                if let Some(reader) = reader {
                    shared.replication.post(ReplicationMessage::Resume { reader, offset: history.1 });
                }
            }
            (None, reader) => {
                member_file::restore(engine, Loaded::Snapshot(None));
                if reader.is_some() {
                    engine.set_logging(LogUser::Replicas, false);
                }
            }
        },
        Err(failure) => {
            log::warning(failure.text);
            if failure.is_corrupt {
                commands::persistence::load::report(engine);
                log::warning("Terminating server after rdb file reading failure.");
            } else {
                log::warning("Fatal error loading the DB, check server logs. Exiting.");
            }
            std::process::exit(1);
        }
    }
}

/// Returns the secret of the key hash: from the configuration, or from the system's randomness.
fn hash_seed(config: &Config) -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    let given = config.text(Directive::HASH_SEED);
    if given.is_empty() {
        return hasher.finish();
    }
    hasher = std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default().build_hasher();
    hasher.write(given);
    hasher.finish()
}
