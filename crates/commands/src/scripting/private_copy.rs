//! SCRIPT DEBUG YES: the script of a debugged EVAL runs on a copy of all data, which is dropped in the end.
//!
//! ```text
//!   worker   EVAL - all locks - copy of each key -> a second engine; locks released
//!            - the connection, with the session that is to be held, is given to a thread of its own
//!   thread   the same EVAL on the copy, stepped through by its client
//!            - its reply; the connection ends, and the copy is dropped: no change was seen by anybody, logged or sent on
//! ```
//!
//! Other servers fork for this. A copy within the process costs memory and a moment in which all wait, so it is made of
//! small data sets only; of a larger one the synchronous mode remains.
//!
//! The copy refuses and routes commands as the server did at that moment, and the client has the rights that it had
//! then: neither changes during the session. The copy's host is the process's as far as clocks, memory and the client
//! go; it has no log, no replicas and no other clients, so a message reaches nobody.

use crate::core::args::Args;
use crate::core::context::{Blocking, Context, Flow};
use crate::core::dispatch;
use crate::core::session::{DebugSession, Session};
use engine::config::Directive;
use engine::host::clock::Clock;
use engine::host::connections::Connections;
use engine::host::log::Log;
use engine::host::memory::{Memory, MemoryStats};
use engine::keyspace::caller::{Caller, ExecContext};
use engine::keyspace::edit::copied;
use engine::keyspace::held_locks::HeldLocks;
use engine::keyspace::keys::{Key, Keys};
use engine::time::{Nanos, SteadyMs, UnixUs};
use engine::{Engine, Error, Host, Options, status_copy};
use resp::Reply;
use std::sync::Arc;

/// Bytes in use by the process above which nothing is copied.
const COPIED_MAX: u64 = 256 << 20;

/// Checks that the data set is small enough for a copy.
///
/// # Errors
/// [`Error::ScriptDebugTooLarge`]
pub(super) fn check_size(engine: &Engine) -> Result<(), Error> {
    let (used, limit) = (engine.host().allocated(), engine.config().snapshot().bytes(Directive::MAXMEMORY));
    // The copy must not cost any key of the data set.
    if used > COPIED_MAX || limit > 0 && used.saturating_mul(2) > limit {
        return Err(Error::ScriptDebugTooLarge);
    }
    Ok(())
}

/// Prepares the session in which an EVAL runs on a copy of all data, under the eyes of its client.
///
/// # Errors
/// [`Error::ScriptDebugInTransaction`], [`Error::ScriptDebugTooLarge`], [`Error::WouldBlock`]
pub(super) fn begin(cx: &mut Context<'_>, args: &Args<'_>) -> Result<(), Error> {
    if cx.blocking != Blocking::Allowed {
        return Err(Error::ScriptDebugInTransaction);
    }
    check_size(cx.engine)?;
    let copy = copy_of(cx)?;
    let mut session = session_on(&copy, cx.session);
    let words: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
    let (now, protocol) = (cx.now, cx.reply.protocol());
    cx.session.debug_session = Some(Box::new(DebugSession::new(move || {
        let mut reply = Reply::new(Vec::new(), protocol);
        let mut args: Args<'_> = words.iter().map(Vec::as_slice).collect();
        dispatch::execute(&copy, &mut session, &mut args, now, &mut reply);
        reply.take()
    })));
    cx.flow = Flow::Replicate;
    Ok(())
}

/// Returns the client's session on the copy.
fn session_on(copy: &Engine, client: &mut Session) -> Session {
    let mut session = Session::in_the_name_of(&client.info, client.identity.clone());
    (session.authenticated, session.was_authenticated) = (true, true);
    (session.worker, session.db) = (0, client.db);
    (session.rights_at, session.seat) = (copy.users().generation(), client.seat.take());
    (session.asking, session.no_touch, session.import_source) = (client.asking, client.no_touch, client.import_source);
    session.debugs_scripts = true;
    session
}

/// Returns an engine with a copy of every key, of one moment.
fn copy_of(cx: &mut Context<'_>) -> Result<Engine, Error> {
    let shards = cx.engine.locks().len();
    cx.keys.escalate_anew()?;
    if !(0..shards).all(|shard| cx.keys.take(shard)) {
        return Err(Error::WouldBlock);
    }
    let copy = empty_copy(cx.engine, shards);
    let (hidden, origin) = (cx.engine.importing_slots(), ExecContext { caller: Caller::Replay, now: cx.now.unix_ms() });
    cx.keys.each_shard(|_, shard, _| {
        for (number, db) in shard.dbs.iter() {
            for entry in db.table.iter() {
                let name = entry.key();
                let key = Key { name, hash: copy.hasher().hash(name) };
                if hidden.hides(key.hash.slot()) {
                    continue;
                }
                let held = HeldLocks::keys(&copy, std::iter::once(key.hash));
                let mut keys = Keys::new(&copy, held, number, origin);
                let mut edit = keys.edit(key);
                edit.put(copied(&entry, name, entry.meta(), &|| {}));
                edit.commit_silently(0);
                drop(keys.release());
            }
        }
    })?;
    Ok(copy)
}

fn empty_copy(engine: &Engine, shards: usize) -> Engine {
    let databases = engine.databases();
    let options = Options { shards, databases, hash_seed: fastrand::u64(..), workers: 1, counts_slots: false };
    let config = (*engine.config().snapshot()).clone();
    let copy = Engine::with_config(&options, config, Arc::new(CopyHost(engine.host_handle())));
    status_copy::take_status(&copy, engine);
    copy
}

/// The process's host, as far as a copy of its data may use it.
struct CopyHost(Arc<dyn Host>);

impl Clock for CopyHost {
    fn nanos(&self) -> Nanos {
        self.0.nanos()
    }

    fn thread_nanos(&self) -> Nanos {
        self.0.thread_nanos()
    }

    fn unix_us(&self, known: UnixUs) -> UnixUs {
        self.0.unix_us(known)
    }

    fn steady_ms(&self, known: UnixUs) -> SteadyMs {
        self.0.steady_ms(known)
    }
}

impl Memory for CopyHost {
    fn memory(&self) -> MemoryStats {
        self.0.memory()
    }

    fn allocated(&self) -> u64 {
        self.0.allocated()
    }

    fn own_allocated(&self) -> u64 {
        self.0.own_allocated()
    }
}

impl Log for CopyHost {
    fn log(&self, text: &str) {
        self.0.log(text);
    }
}

impl Connections for CopyHost {
    fn converse(&self, bytes: Vec<u8>) -> Option<Vec<Vec<u8>>> {
        self.0.converse(bytes)
    }
}

engine::host_defaults!(CopyHost: Files, Threads, Peers, Process, Delivery, EffectSink);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::context::Now;
    use crate::testing::configure;
    use engine::status::deny_reasons::Paused;
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    const NOW: Now = Now { unix_us: UnixUs(1_700_000_000_000_000) };

    /// A process with so many bytes in use, whose client sends these requests to the debugger.
    #[derive(Default)]
    struct Process {
        allocated: AtomicU64,
        requests: Mutex<VecDeque<&'static str>>,
        said: Mutex<Vec<u8>>,
    }

    impl Memory for Process {
        fn allocated(&self) -> u64 {
            self.allocated.load(Relaxed)
        }
    }

    impl Connections for Process {
        fn converse(&self, bytes: Vec<u8>) -> Option<Vec<Vec<u8>>> {
            self.said.lock().unwrap().extend(bytes);
            let request = self.requests.lock().unwrap().pop_front()?;
            Some(request.split(' ').map(|word| word.as_bytes().to_vec()).collect())
        }
    }

    engine::host_defaults!(Process: Clock, Files, Threads, Peers, Process, Log, Delivery, EffectSink);

    struct Debugged {
        engine: Engine,
        process: Arc<Process>,
        session: Session,
    }

    impl Debugged {
        fn new() -> Debugged {
            crate::install(&[]);
            let options = Options { shards: 4, databases: 4, hash_seed: 3, workers: 1, counts_slots: false };
            let process = Arc::<Process>::default();
            let engine = Engine::new(&options, Arc::clone(&process) as Arc<dyn Host>);
            configure(&engine, "save", "");
            Debugged { engine, process, session: Session::local() }
        }

        /// Returns the reply of a command of words without blanks.
        fn run(&mut self, line: &str) -> String {
            self.run_words(&line.split(' ').collect::<Vec<_>>())
        }

        fn run_words(&mut self, words: &[&str]) -> String {
            let mut reply = Reply::default();
            let mut args: Args<'_> = words.iter().map(|word| word.as_bytes()).collect();
            let flow = dispatch::execute(&self.engine, &mut self.session, &mut args, NOW, &mut reply);
            assert_eq!(matches!(flow, Flow::Replicate), self.session.debug_session.is_some());
            String::from_utf8(reply.take()).unwrap()
        }

        /// Returns the last output of a debugged script.
        fn debug(&mut self, script: &str, requests: &[&'static str]) -> String {
            assert_eq!(self.run("SCRIPT DEBUG YES"), "+OK\r\n");
            *self.process.requests.lock().unwrap() = requests.iter().copied().collect();
            assert_eq!(self.run_words(&["EVAL", script, "0"]), "");
            let session = self.session.debug_session.take().expect("a session");
            (self.session.debugs_scripts, self.session.debugs_copy) = (false, false);
            String::from_utf8(run_on_thread(session)).unwrap()
        }
    }

    /// An interpreter belongs to its thread.
    fn run_on_thread(session: Box<DebugSession>) -> Vec<u8> {
        std::thread::spawn(move || session.run()).join().unwrap()
    }

    const END: &str = "*1\r\n+<endsession>\r\n";

    #[test]
    fn a_script_sees_all_data_and_its_changes_stay_in_the_copy() {
        let mut client = Debugged::new();
        client.run("SET text x EX 100");
        client.run("RPUSH list a b");
        client.run("HSET hash f v");
        client.run("XADD stream 1-1 f v");
        client.run("ZADD set 1 m");
        client.run("SELECT 2");
        client.run("SET other 5");
        client.run("SELECT 0");
        let script = "redis.call('FLUSHDB') redis.call('SELECT', 2) return redis.call('INCR', 'other')";
        let requests = ["redis ttl text", "redis lrange list 0 -1", "redis hgetall hash", "redis xlen stream", "c"];
        assert_eq!(client.debug(script, &requests), format!("{END}:6\r\n"));
        let said = String::from_utf8(std::mem::take(&mut *client.process.said.lock().unwrap())).unwrap();
        for shown in ["<reply> 100", "[\"a\",\"b\"]", "[\"f\",\"v\"]", "<reply> 1"] {
            assert!(said.contains(shown), "{shown}: {said}");
        }
        assert_eq!((client.run("DBSIZE"), client.run("TTL text")), (":5\r\n".into(), ":100\r\n".into()));
        client.run("SELECT 2");
        assert_eq!(client.run("GET other"), "$1\r\n5\r\n");
    }

    #[test]
    fn the_server_goes_on_while_a_session_is_held() {
        let mut client = Debugged::new();
        client.run("SET k 1");
        assert_eq!(client.run("SCRIPT DEBUG YES"), "+OK\r\n");
        client.run_words(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "k"]);
        let session = client.session.debug_session.take().expect("a session");
        client.session = Session::local();
        assert_eq!(client.run("SET k 2"), "+OK\r\n");
        assert_eq!(client.run_words(&["EVAL", "return redis.call('GET', 'k')", "0"]), "$1\r\n2\r\n");
        assert_eq!(run_on_thread(session), b"*0\r\n$1\r\n1\r\n", "no client converses");
        assert_eq!(client.run("GET k"), "$1\r\n2\r\n");
    }

    #[test]
    fn the_client_has_its_rights_and_no_more() {
        let mut client = Debugged::new();
        client.run("ACL SETUSER u on nopass +@all -set ~a*");
        client.run("MSET a 1 b 2");
        client.run("AUTH u x");
        let script = "local function try(...) local it = redis.pcall(...) return type(it) == 'table' and it.err or 'ran' end \
                      return {try('INCR', 'a'), try('INCR', 'b'), try('SET', 'a', 1)}";
        let reply = client.debug(script, &["redis get b", "c"]);
        let denied = reply.matches("ACL failure in script").count();
        assert!(reply.starts_with(&format!("{END}*3\r\n$3\r\nran\r\n")) && denied == 2, "{reply}");
        let said = String::from_utf8(std::mem::take(&mut *client.process.said.lock().unwrap())).unwrap();
        assert!(said.contains("NOPERM"), "{said}");
    }

    #[test]
    fn a_copy_refuses_writes_where_the_server_does() {
        let mut client = Debugged::new();
        client.engine.persistence_status().set_read_only_replica(true);
        client.engine.set_following(true);
        let script = "return {redis.pcall('SET', 'a', 1).err, redis.call('EXISTS', 'a')}";
        let reply = client.debug(script, &["c"]);
        assert!(reply.contains("READONLY") && reply.ends_with(":0\r\n"), "{reply}");
        // A pause would never end there.
        client.engine.persistence_status().set_read_only_replica(false);
        assert_eq!(client.run("SCRIPT DEBUG YES"), "+OK\r\n");
        client.run_words(&["EVAL", "return redis.call('DEL', 'a')", "0"]);
        client.engine.begin_pause(Paused::All, SteadyMs(i64::MAX), SteadyMs(0));
        let session = client.session.debug_session.take().expect("a session");
        assert_eq!(run_on_thread(session), b"*0\r\n:0\r\n");
    }

    #[test]
    fn too_much_data_is_not_copied_and_neither_is_a_transactions() {
        let mut client = Debugged::new();
        let too_large = format!("-{}\r\n", Error::ScriptDebugTooLarge);
        assert_eq!(client.run("SCRIPT DEBUG YES"), "+OK\r\n");
        client.process.allocated.store(COPIED_MAX + 1, Relaxed);
        assert_eq!(client.run("EVAL return(1) 0"), too_large);
        assert_eq!(client.run("SCRIPT DEBUG YES"), too_large);
        assert_eq!(client.run("SCRIPT DEBUG NO"), "+OK\r\n");
        client.process.allocated.store(60 << 20, Relaxed);
        assert_eq!(client.run("SCRIPT DEBUG YES"), "+OK\r\n");
        configure(&client.engine, "maxmemory", "100mb");
        assert_eq!(client.run("EVAL return(1) 0"), too_large);
        configure(&client.engine, "maxmemory", "120mb");
        client.run("MULTI");
        client.run("EVAL return(1) 0");
        assert_eq!(client.run("EXEC"), format!("*1\r\n-{}\r\n", Error::ScriptDebugInTransaction));
        assert_eq!(client.run("EVAL return(1) 0"), "");
    }
}
