//! Threads that may wait for other servers, and their connections.
//!
//! There are a few threads, made when there is something to do; one that has nothing to do for a while ends. Tasks
//! beyond that wait in a queue, in the order in which they came.

use crate::workers::shared::Shared;
use engine::Engine;
use engine::host::peers::{Line, Peer};
use engine::host::threads::Task;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Threads at most.
const THREADS_MAX: usize = 8;

/// Time that a thread without a task waits for one.
const REST: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Tasks {
    queue: VecDeque<Task<Engine>>,
    threads: usize,
    /// Number of threads that have nothing to do.
    resting: usize,
}

/// Tasks, and the threads that run them.
#[derive(Default)]
pub struct BlockingPool {
    tasks: Mutex<Tasks>,
    /// Signals that there is something to do.
    news: Condvar,
}

impl BlockingPool {
    /// Has a thread run `task`, sooner or later.
    pub fn send(this: &Arc<BlockingPool>, shared: Arc<Shared>, task: Task<Engine>) -> io::Result<()> {
        let mut pool = this.tasks();
        pool.queue.push_back(task);
        if pool.resting >= pool.queue.len() || pool.threads >= THREADS_MAX {
            this.news.notify_one();
            return Ok(());
        }
        let blocking_pool = Arc::clone(this);
        let spawned =
            std::thread::Builder::new().name("blocking".to_owned()).spawn(move || blocking_pool.work(&shared));
        match spawned {
            Ok(_) => pool.threads += 1,
            // An existing thread will run the task.
            Err(_) if pool.threads > 0 => {}
            Err(error) => {
                pool.queue.pop_back();
                return Err(error);
            }
        }
        Ok(())
    }

    fn work(&self, shared: &Shared) {
        let mut pool = self.tasks();
        loop {
            if let Some(task) = pool.queue.pop_front() {
                drop(pool);
                task(&shared.engine);
                pool = self.tasks();
                continue;
            }
            pool.resting += 1;
            let (woken, rest) = self.news.wait_timeout(pool, REST).unwrap_or_else(PoisonError::into_inner);
            pool = woken;
            pool.resting -= 1;
            if rest.timed_out() && pool.queue.is_empty() {
                pool.threads -= 1;
                return;
            }
        }
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that waits for its peer.
#[derive(Debug)]
pub struct Tcp(Arc<TcpLine>);

/// A stream that another thread may end.
#[derive(Debug)]
struct TcpLine(TcpStream);

/// Connects to the first address of that name which answers in time, from the address `source` if it is not empty and
/// the system allows it.
pub fn connect(host: &[u8], port: &[u8], source: &[u8], patience: Duration, protocol: Protocol) -> io::Result<Tcp> {
    let unknown = || io::Error::from(ErrorKind::InvalidInput);
    let host = std::str::from_utf8(host).map_err(|_| unknown())?;
    let source = std::str::from_utf8(source).map_err(|_| unknown())?;
    // Characters after the digits are skipped, as C does, and no server listens on port 0.
    let digits = port.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let port: u16 = std::str::from_utf8(&port[..digits]).ok().and_then(|port| port.parse().ok()).unwrap_or(0);
    let mut failure = unknown();
    for address in (host, port).to_socket_addrs().map_err(|_| unknown())? {
        match open_from(&address, source, patience, protocol) {
            Ok(peer) => return Ok(peer),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Connects without a source address that cannot be had. A server that does not answer is not tried twice.
fn open_from(address: &SocketAddr, source: &str, patience: Duration, protocol: Protocol) -> io::Result<Tcp> {
    match open(address, source, patience, protocol) {
        Err(error)
            if !source.is_empty() && !matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::ConnectionRefused) =>
        {
            open(address, "", patience, protocol)
        }
        opened => opened,
    }
}

fn open(address: &SocketAddr, source: &str, patience: Duration, protocol: Protocol) -> io::Result<Tcp> {
    let socket = Socket::new(Domain::for_address(*address), Type::STREAM, Some(protocol))?;
    if !source.is_empty() {
        let unknown = || io::Error::from(ErrorKind::AddrNotAvailable);
        let own = (source, 0).to_socket_addrs()?.find(|own| own.is_ipv4() == address.is_ipv4()).ok_or_else(unknown)?;
        socket.bind(&own.into())?;
    }
    socket.connect_timeout(&(*address).into(), patience)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    let mut peer = Tcp(Arc::new(TcpLine(stream)));
    peer.set_patience(patience)?;
    Ok(peer)
}

impl Peer for Tcp {
    fn set_patience(&mut self, patience: Duration) -> io::Result<()> {
        self.0.0.set_read_timeout(Some(patience))?;
        self.0.0.set_write_timeout(Some(patience))
    }

    fn local_end(&self) -> (String, i32) {
        let stream = &self.0.0;
        (stream.local_addr().map(|address| address.to_string()).unwrap_or_default(), stream.as_raw_fd())
    }

    fn line(&self) -> Option<Weak<dyn Line>> {
        let line: Weak<TcpLine> = Arc::downgrade(&self.0);
        Some(line)
    }
}

impl Line for TcpLine {
    fn hang_up(&self) {
        // The peer may have ended it.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Read for Tcp {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (&self.0.0).read(bytes)
    }
}

impl Write for Tcp {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.0.0).flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_peer_that_says_nothing_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let mut peer = connect(b"127.0.0.1", port.as_bytes(), b"", Duration::from_millis(20), Protocol::TCP).unwrap();
        let error = peer.read(&mut [0; 8]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
        drop((peer, listener));
        let refused = connect(b"127.0.0.1", port.as_bytes(), b"", Duration::from_secs(1), Protocol::TCP)
            .err()
            .map(|error| error.kind());
        assert_eq!(refused, Some(ErrorKind::ConnectionRefused));
        for (host, port) in [(&b"\xff"[..], &b"1"[..]), (b"a b", b"1")] {
            let kind = connect(host, port, b"", Duration::from_secs(1), Protocol::TCP).err().map(|error| error.kind());
            assert_eq!(kind, Some(ErrorKind::InvalidInput));
            assert!(connect(b"127.0.0.1", b"x", b"", Duration::from_secs(1), Protocol::TCP).is_err());
        }
    }

    #[test]
    fn a_connection_comes_from_the_address_that_it_is_told_if_there_is_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        for (source, seen) in [
            (&b"127.0.0.2"[..], "127.0.0.2"),
            (b"", "127.0.0.1"),
            (b"::1", "127.0.0.1"),
            (b"192.0.2.1", "127.0.0.1"),
            (b"no address", "127.0.0.1"),
        ] {
            let _peer = connect(b"127.0.0.1", port.as_bytes(), source, Duration::from_secs(1), Protocol::TCP).unwrap();
            assert_eq!(listener.accept().unwrap().1.ip().to_string(), seen);
        }
    }
}
