//! `--top` on a terminal, against a server of a few lines: the screen, the effect of keys, and that the terminal's
//! state is restored however the program ends.

mod on_terminal;
mod terminal;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

const PATIENCE: Duration = Duration::from_secs(20);
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Starts a server that answers the program's commands; each INFO counts ten commands more than the one before.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    port
}

fn serve(mut stream: TcpStream) {
    let (mut pending, mut buffer, mut commands) = (String::new(), [0; 4096], 0);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        pending.push_str(&String::from_utf8_lossy(&buffer[..count]));
        // GET ends a round of commands; all are answered then.
        while let Some(end) = pending.find("GET\r\n") {
            pending.drain(..end + 5);
            commands += 10;
            let info = format!("valkey_version:1.2.3\r\nrole:master\r\ntotal_commands_processed:{commands}\r\n");
            let clients = "id=77 addr=10.9.8.7:6 cmd=get\n";
            let round = format!(
                "${}\r\n{info}\r\n-ERR unknown\r\n${}\r\n{clients}\r\n-ERR unknown\r\n",
                info.len(),
                clients.len()
            );
            if stream.write_all(round.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// The program on a terminal of its own.
struct Terminal {
    master: File,
    /// The program's side, which stays open so that its modes can be read.
    slave: File,
    program: Child,
    output: Receiver<Vec<u8>>,
    shown: String,
    /// The modes that the terminal had.
    before: LocalModes,
}

impl Terminal {
    fn start(port: u16) -> Terminal {
        let (master, slave) = terminal::open();
        let before = tcgetattr(&slave).unwrap().local_modes;
        let mut command = Command::new(env!("CARGO_BIN_EXE_cinnabar-cli"));
        command.args(["-p", &port.to_string(), "--top", "-i", "0.05"]);
        let (program, output) = on_terminal::start(&mut command, (&master, &slave));
        Terminal { master, slave, program, output, shown: String::new(), before }
    }

    /// Waits until the terminal was sent `text`, from now on.
    fn expect(&mut self, text: &str) {
        self.shown.clear();
        let until = Instant::now() + PATIENCE;
        while !self.shown.contains(text) {
            let rest = until.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(rest) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("no {text:?} in {:?}", self.shown),
            }
        }
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.program), signal).unwrap();
    }

    /// Waits until the program is stopped.
    fn expect_stopped(&self) {
        let (until, path) = (Instant::now() + PATIENCE, format!("/proc/{}/stat", self.program.id()));
        while !std::fs::read_to_string(&path).unwrap().contains(") T ") {
            assert!(Instant::now() < until, "it goes on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn modes(&self) -> LocalModes {
        tcgetattr(&self.slave).unwrap().local_modes
    }

    /// Waits for the end of the program, and checks the state in which it left the terminal.
    fn ended(mut self) -> ExitStatus {
        self.expect(LEAVE);
        let status = self.program.wait().unwrap();
        assert_eq!(self.modes(), self.before);
        status
    }
}

#[test]
fn keys_work_and_the_terminal_is_given_back() {
    let mut terminal = Terminal::start(server());
    terminal.expect(ENTER);
    terminal.expect("valkey 1.2.3 at 127.0.0.1:");
    terminal.expect("10.9.8.7:6");
    assert_eq!(terminal.modes() & (LocalModes::ICANON | LocalModes::ECHO), LocalModes::empty());
    terminal.press("p");
    terminal.expect("paused");
    terminal.press("p+");
    terminal.expect("every 0.25s");
    terminal.press("\t");
    terminal.expect("\x1b[7mclient id");
    terminal.press("q");
    assert!(terminal.ended().success());
}

#[test]
fn the_size_of_the_terminal_may_change() {
    let mut terminal = Terminal::start(server());
    terminal.expect("hot keys  ");
    tcsetwinsize(&terminal.slave, Winsize { ws_row: 10, ws_col: 30, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    // The terminal is not the program's own, so only this test sends the signal.
    terminal.signal(Signal::WINCH);
    terminal.expect("q quit  p pause  Tab table  s \x1b[0m");
    terminal.press("\x03");
    assert!(terminal.ended().success());
}

#[test]
fn a_signal_ends_the_program_after_the_terminal_was_given_back() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut terminal = Terminal::start(server());
        terminal.expect("ops/s");
        terminal.signal(signal);
        assert_eq!(terminal.ended().signal(), Some(signal.as_raw()));
    }
}

#[test]
fn a_suspended_program_lends_the_terminal() {
    let mut terminal = Terminal::start(server());
    for _ in 0..2 {
        terminal.expect("ops/s");
        terminal.signal(Signal::TSTP);
        terminal.expect(LEAVE);
        terminal.expect_stopped();
        terminal.signal(Signal::CONT);
        terminal.expect(ENTER);
    }
    terminal.press("q");
    assert!(terminal.ended().success());
}

#[test]
fn a_server_that_is_gone_is_told_of() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut terminal = Terminal::start(port);
    let (stream, _) = listener.accept().unwrap();
    terminal.expect(ENTER);
    drop((stream, listener));
    terminal.expect("Connection refused");
    terminal.press("q");
    assert!(terminal.ended().success());
}
