//! Starts servers for the tests, and ends them by their process id.

use socket2::{Domain, Socket, Type};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine: reaching it is a failure.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// With one worker and with several the answers are the same.
const THREADS: [usize; 2] = [1, 4];

pub fn on_each_thread_count(options: &[&str], test: impl Fn(&Server)) {
    for threads in THREADS {
        let server = Server::start_with_threads(threads, options);
        test(&server);
        assert!(server.stop().success());
    }
}

/// Whether another server than Cinnabar is under test.
pub fn is_peer() -> bool {
    std::env::var_os("CINNABAR_TEST_SERVER").is_some()
}

pub fn binary() -> PathBuf {
    std::env::var_os("CINNABAR_TEST_SERVER").map_or_else(|| PathBuf::from(crate::PROGRAM), PathBuf::from)
}

/// A folder that goes when this value does.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Relaxed);
        let path = std::env::temp_dir().join(format!("cinnabar-black-box-{}-{count}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file in the temporary folder");
        path
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub struct Server {
    child: Child,
    arguments: Vec<String>,
    /// Variables that its process has besides those of the tests.
    environment: Vec<(String, String)>,
    pub folder: Folder,
    pub port: u16,
}

impl Server {
    pub fn start(options: &[&str]) -> Server {
        Server::start_with_threads(2, options)
    }

    pub fn start_with_threads(threads: usize, options: &[&str]) -> Server {
        Server::start_in(&[], threads, options)
    }

    /// Starts a server in an environment that has these variables besides.
    pub fn start_in(environment: &[(String, String)], threads: usize, options: &[&str]) -> Server {
        let threads_option = if is_peer() { "--io-threads" } else { "--threads" };
        let threads = threads.to_string();
        Server::start_with_all(environment, |_, port| {
            let mut arguments = owned(&["--port", &port.to_string(), "--save", "", threads_option, &threads]);
            arguments.extend(owned(options));
            arguments
        })
    }

    /// Starts a server with the arguments that `arguments` makes of its folder and a port. The port was free a moment
    /// ago; when another process was quicker to take it, another is tried.
    pub fn start_with(arguments: impl Fn(&Folder, u16) -> Vec<String>) -> Server {
        Server::start_with_all(&[], arguments)
    }

    fn start_with_all(environment: &[(String, String)], arguments: impl Fn(&Folder, u16) -> Vec<String>) -> Server {
        let mut log = String::new();
        for _ in 0..5 {
            let folder = Folder::new();
            let port = free_port();
            let arguments = arguments(&folder, port);
            let child = spawn(&folder, &arguments, environment);
            let mut server = Server { child, arguments, environment: environment.to_vec(), folder, port };
            if server.wait_until_it_answers() {
                return server;
            }
            log = server.folder.read("stdout") + &server.folder.read("stderr");
        }
        panic!("the server did not start; its log:\n{log}");
    }

    fn wait_until_it_answers(&mut self) -> bool {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if self.child.try_wait().expect("the state of the server").is_some() {
                return false;
            }
            if let Ok(mut socket) = TcpStream::connect(("127.0.0.1", self.port)) {
                // The server closes the connection: it no longer counts as a client when the test begins.
                send(&mut socket, b"QUIT\r\n");
                assert_eq!(read_to_close(&mut socket), "+OK\r\n");
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    pub fn client(&self) -> redis::Connection {
        self.client_of("")
    }

    /// One that has the password that the server was started with, if it was.
    pub fn client_with_password(&self, options: &[&str]) -> redis::Connection {
        match options {
            ["--requirepass", password, ..] => connect(&format!("redis://:{password}@127.0.0.1:{}/", self.port)),
            _ => self.client(),
        }
    }

    /// `protocol`: "resp2" or "resp3".
    pub fn client_speaking(&self, protocol: &str) -> redis::Connection {
        self.client_of(&format!("?protocol={protocol}"))
    }

    fn client_of(&self, parameters: &str) -> redis::Connection {
        connect(&format!("redis://127.0.0.1:{}/{parameters}", self.port))
    }

    /// A bare connection.
    pub fn socket(&self) -> TcpStream {
        socket_to(SocketAddr::from(([127, 0, 0, 1], self.port)))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: &str) {
        let command = format!("kill -{signal} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &command]).status().expect("sh").success());
        if signal == "STOP" {
            assert!(eventually(|| self.stands_still()), "it goes on");
        }
    }

    /// Whether none of its threads runs: one that got the signal to stop may still be running.
    fn stands_still(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("its threads");
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok()).all(|line| {
            let state = line.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
            state == Some("T")
        })
    }

    /// Kills it without a warning, and starts it once more in its folder, where it may have much to load.
    pub fn restart(&mut self) {
        self.restart_after(|_| ());
    }

    /// Restarts it; `meanwhile` sees the folder while no process does.
    pub fn restart_after(&mut self, meanwhile: impl FnOnce(&Folder)) {
        self.child.kill().expect("to kill the server");
        self.child.wait().expect("its end");
        meanwhile(&self.folder);
        self.child = spawn(&self.folder, &self.arguments, &self.environment);
        let answers = self.wait_until_it_answers();
        let read = |name| self.folder.read(name);
        assert!(answers, "it does not start again:\n{}{}", read("stdout"), read("stderr"));
    }

    /// Restarts it; returns when it has loaded its data.
    pub fn crash(&mut self) {
        self.restart();
        let mut client = self.client();
        assert!(eventually(|| redis::cmd("DBSIZE").query::<u64>(&mut client).is_ok()), "it goes on loading");
    }

    /// Waits for its end, which something else has brought about.
    pub fn wait(mut self) -> ExitStatus {
        wait_for_exit(&mut self.child).unwrap_or_else(|| panic!("the server goes on:\n{}", self.folder.read("stdout")))
    }

    pub fn stop(self) -> ExitStatus {
        self.signal("TERM");
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Neither has an effect on a server that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|a| (*a).to_owned()).collect()
}

/// Starts the binary in the folder; its output goes to the files `stdout` and `stderr` there.
fn spawn(folder: &Folder, arguments: &[String], environment: &[(String, String)]) -> Child {
    let output = |name: &str| Stdio::from(fs::File::create(folder.path().join(name)).expect("a log file"));
    Command::new(binary())
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(output("stdout"))
        .stderr(output("stderr"))
        .spawn()
        .expect("the server's binary")
}

/// Runs the binary until it ends by itself: (status, what it wrote to stderr).
pub fn run_to_end(folder: &Folder, arguments: &[&str]) -> (ExitStatus, String) {
    let mut child = spawn(folder, &owned(arguments), &[]);
    let status = wait_for_exit(&mut child);
    if status.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    (status.expect("the server to end by itself"), folder.read("stderr"))
}

fn wait_for_exit(child: &mut Child) -> Option<ExitStatus> {
    let mut status = None;
    eventually(|| {
        status = child.try_wait().expect("the state of the server");
        status.is_some()
    });
    status
}

/// Asks again and again until it is true; false when patience ran out.
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// The state letter that the kernel has for the process.
pub fn process_state(server: &Server) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).expect("the process");
    let behind_name = stat.rsplit_once(") ").expect("a name in parentheses").1;
    behind_name.chars().next().expect("a state")
}

/// Returns a port that nothing listens to. Each is returned once, and is none of those (above 32767) that the system
/// gives to clients: a client would take two servers with the same port for each other. The port is tried without
/// listening: a process that another test is just starting has all sockets of this one for a moment, and clients would
/// reach that.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    loop {
        let next = std::process::id().wrapping_mul(193).wrapping_add(GIVEN.fetch_add(1, Relaxed));
        let port = 12_000 + (next % 20_000) as u16;
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_reuse_address(true).expect("an option");
        if socket.bind(&SocketAddr::from(([127, 0, 0, 1], port)).into()).is_ok() {
            return port;
        }
    }
}

pub fn connect(url: &str) -> redis::Connection {
    let client = redis::Client::open(url).expect("a valid address");
    let connection = client.get_connection().expect("a connection");
    connection.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    connection
}

pub fn socket_to(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket.set_nodelay(true).expect("no delay");
    socket
}

/// An address of this machine that the server takes for another machine's. Connecting a UDP socket sends nothing.
pub fn address_that_is_not_loopback() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

pub fn send(socket: &mut TcpStream, bytes: &[u8]) {
    socket.write_all(bytes).expect("to send");
}

/// Reads as many bytes as `expected` has, and compares.
#[track_caller]
pub fn expect_bytes(socket: &mut impl Read, expected: &[u8]) {
    let found = bytes_of(socket, expected.len());
    let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(found == *expected, "found {:?}, expected {:?}", show(&found), show(expected));
}

/// Returns the next bytes; fewer when no more arrive.
pub fn bytes_of(socket: &mut impl Read, count: usize) -> Vec<u8> {
    let mut found = vec![0; count];
    let mut filled = 0;
    while filled < found.len() {
        match socket.read(&mut found[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            // The process was stopped for a moment.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&found[..filled])),
        }
    }
    found.truncate(filled);
    found
}

/// Reads until the server closes the connection. A reset counts as closing: it means only that the server had not
/// read all that was sent.
#[track_caller]
pub fn read_to_close(socket: &mut TcpStream) -> String {
    let mut found = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => found.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&found)),
        }
    }
    String::from_utf8_lossy(&found).into_owned()
}
