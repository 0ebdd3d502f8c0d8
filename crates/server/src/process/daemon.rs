//! The process among others: in the background, under a supervisor, with a file that names it.

use crate::system::log;
use engine::config::{Config, Directive, os_message};
use nix::unistd::daemon;
use rustix::process::{Signal, getpid, kill_process};
use std::ffi::OsStr;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;

/// Pid file of a daemon without `pidfile`.
const PID_FILE: &str = "/var/run/valkey.pid";

/// The process's surroundings, from the start to the end.
#[derive(Debug, Default)]
pub struct Daemon {
    /// `systemd` or `upstart`; None without one.
    supervisor: Option<&'static str>,
    /// Address at which systemd wants to be notified; None without systemd.
    systemd: Option<SocketAddr>,
    pid_file: Option<PathBuf>,
}

impl Daemon {
    /// Goes into the background if the configuration asks for it and no supervisor wants the process to stay. Must run
    /// before there are other threads.
    pub fn start(config: &Config) -> Result<Daemon, String> {
        let mut this = Daemon::default();
        this.find_supervisor(config.choice(Directive::SUPERVISED));
        let background = config.flag(Directive::DAEMONIZE);
        if background && this.supervisor.is_none() {
            daemon(true, false).map_err(|error| format!("Can't go into the background: {}", error.desc()))?;
        }
        let name = match config.text(Directive::PIDFILE) {
            b"" if background => PathBuf::from(PID_FILE),
            b"" => return Ok(this),
            name => PathBuf::from(OsStr::from_bytes(name)),
        };
        if let Err(error) = fs::write(&name, format!("{}\n", std::process::id())) {
            log::warning(format_args!("Failed to write PID file: {}", os_message(&error)));
        }
        this.pid_file = Some(name);
        Ok(this)
    }

    fn find_supervisor(&mut self, mode: &str) {
        let upstart = std::env::var_os("UPSTART_JOB").is_some();
        let socket = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty());
        let mode = match mode {
            "auto" if upstart => "upstart",
            "auto" if socket.is_some() => "systemd",
            mode => mode,
        };
        match (mode, socket) {
            ("upstart", _) if !upstart => {
                log::warning("upstart supervision requested, but UPSTART_JOB not found!");
            }
            ("upstart", _) => {
                log::notice("supervised by upstart, will stop to signal readiness.");
                // Upstart continues the process once it has seen it stop.
                let _ = kill_process(getpid(), Signal::STOP);
                self.supervisor = Some("upstart");
            }
            ("systemd", None) => log::warning("systemd supervision error: NOTIFY_SOCKET not found!"),
            ("systemd", Some(name)) => {
                self.systemd = address(name.as_bytes());
                if self.tell("STATUS=Cinnabar is loading...\n") {
                    log::notice(
                        "Supervised by systemd. Please make sure you set appropriate values for TimeoutStartSec and TimeoutStopSec in your service unit.",
                    );
                    self.supervisor = Some("systemd");
                }
            }
            _ => {}
        }
    }

    /// Returns the supervisor's name in INFO.
    pub fn supervisor(&self) -> &'static str {
        self.supervisor.unwrap_or("no")
    }

    /// Notifies systemd that connections are accepted from now on.
    pub fn ready(&self) {
        self.tell("STATUS=Ready to accept connections\n");
        self.tell("READY=1\n");
    }

    /// Notifies systemd of the end of the process, and removes the pid file.
    pub fn stop(&self) {
        self.tell("STOPPING=1\n");
        if let Some(name) = &self.pid_file {
            log::notice("Removing the pid file.");
            // The file may never have been there.
            let _ = fs::remove_file(name);
        }
    }

    /// Sends assignments to systemd in one datagram (`man 3 sd_notify`). Returns whether they were sent.
    fn tell(&self, text: &str) -> bool {
        let Some(address) = &self.systemd else { return false };
        let sent = UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(text.as_bytes(), address));
        if let Err(error) = &sent {
            let number = error.raw_os_error().unwrap_or_default();
            log::warning(format_args!("systemd supervision error: sd_notify: -{number}"));
        }
        sent.is_ok()
    }
}

/// Parses a path, or with a leading `@` a name without a file.
fn address(name: &[u8]) -> Option<SocketAddr> {
    match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name).ok(),
        None => SocketAddr::from_pathname(OsStr::from_bytes(name)).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_hears_of_the_beginning_and_the_end() {
        let name = format!("cinnabar-test-{}", std::process::id());
        let listener = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).expect("a name")).expect("bound");
        let daemon = Daemon { systemd: address(format!("@{name}").as_bytes()), ..Daemon::default() };
        daemon.ready();
        daemon.stop();
        let mut heard = [0; 100];
        let mut next = || {
            let length = listener.recv(&mut heard).expect("a datagram");
            String::from_utf8_lossy(&heard[..length]).into_owned()
        };
        assert_eq!(next(), "STATUS=Ready to accept connections\n");
        assert_eq!(next(), "READY=1\n");
        assert_eq!(next(), "STOPPING=1\n");
    }
}
