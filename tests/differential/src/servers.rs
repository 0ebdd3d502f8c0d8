//! The two servers: started here in folders of their own and ended by process id, or already running elsewhere.

use crate::client::{Client, command};
use crate::value::Value;
use std::fs::{self, File};
use std::io::{Error, Result};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const START_MAX: Duration = Duration::from_secs(20);

/// A server under test, and how to get it back when it has died.
pub struct Server {
    pub addr: SocketAddr,
    process: Option<Process>,
}

struct Process {
    command_line: String,
    folder: PathBuf,
    child: Child,
}

impl Server {
    /// A server that was started elsewhere. Its keys will be flushed.
    pub fn running(addr: SocketAddr) -> Server {
        Server { addr, process: None }
    }

    /// Starts a command line in which `{port}` stands for the port, and waits until the server answers.
    pub fn start(command_line: &str) -> Result<Server> {
        Server::start_in(command_line, |_| Ok(()))
    }

    /// Starts one in a folder that has the files of another's, which was started here and writes nothing.
    pub fn start_from_files(command_line: &str, other: &Server) -> Result<Server> {
        let Some(process) = &other.process else { return Err(Error::other("its files are not known")) };
        Server::start_in(command_line, |folder| copy_files(&process.folder, folder))
    }

    fn start_in(command_line: &str, prepare: impl FnOnce(&Path) -> Result<()>) -> Result<Server> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let name = format!("cinnabar-differential-{}-{port}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder)?;
        prepare(&folder)?;
        let command_line = from_any_folder(command_line).replace("{port}", &port.to_string());
        let child = spawn(&command_line, &folder)?;
        let mut server =
            Server { addr: (Ipv4Addr::LOCALHOST, port).into(), process: Some(Process { command_line, folder, child }) };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    /// Starts the server again if it was started here and has ended, or is hung.
    pub fn revive(&mut self) -> Result<()> {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        let hung = || Client::connect(self.addr).and_then(|mut c| c.call(&command("PING"))).is_err();
        if process.child.try_wait()?.is_none() && !hung() {
            return Ok(());
        }
        process.end();
        process.child = spawn(&process.command_line, &process.folder)?;
        self.wait_until_it_answers()
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_MAX;
        loop {
            let pong = Client::connect(self.addr).and_then(|mut client| client.call(&command("PING")));
            if pong.as_ref().is_ok_and(|pong| *pong == Value::Simple(b"PONG".to_vec())) {
                return Ok(());
            }
            let ended = match &mut self.process {
                Some(process) => process.child.try_wait()?,
                None => None,
            };
            if ended.is_some() || Instant::now() > deadline {
                return Err(Error::other(self.why_it_did_not_start()));
            }
            sleep(Duration::from_millis(10));
        }
    }

    fn why_it_did_not_start(&self) -> String {
        let Some(process) = &self.process else {
            return format!("no server answers at {}", self.addr);
        };
        let log = fs::read(process.folder.join("log")).unwrap_or_default();
        let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(2000)..]).into_owned();
        format!("`{}` did not start; the end of what it wrote:\n{tail}", process.command_line)
    }
}

impl Process {
    fn end(&mut self) {
        // Both fail only if the process has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let (entry, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        if entry.is_dir() {
            fs::create_dir_all(&to)?;
            copy_files(&entry, &to)?;
        } else {
            fs::copy(&entry, &to)?;
        }
    }
    Ok(())
}

/// The shell splits the line and then becomes the server, so the child's process id is the server's.
fn spawn(command_line: &str, folder: &Path) -> Result<Child> {
    let log = File::options().create(true).append(true).open(folder.join("log"))?;
    Command::new("sh")
        .args(["-c", &format!("exec {command_line}")])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

/// The server runs in another folder, so a relative path to its binary must become absolute. Links stay: servers look
/// at the name by which they are called.
fn from_any_folder(command_line: &str) -> String {
    let (program, args) = command_line.split_once(' ').unwrap_or((command_line, ""));
    match std::path::absolute(program) {
        Ok(path) if program.contains('/') && path.exists() => format!("'{}' {args}", path.display()),
        _ => command_line.to_owned(),
    }
}
