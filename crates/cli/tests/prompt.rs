//! The prompt on a terminal, with lines that arrive together: each runs by itself, whether it was typed ahead, sent by
//! a script or pasted.

mod on_terminal;
mod terminal;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server that answers each command with its words between bars.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    port
}

fn serve(mut stream: TcpStream) {
    let (mut pending, mut buffer) = (String::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        pending.push_str(&String::from_utf8_lossy(&buffer[..count]));
        while let Some((words, used)) = request(&pending) {
            pending.drain(..used);
            let reply = match words[0].as_str() {
                "COMMAND" => "-ERR unknown\r\n".to_owned(),
                _ => format!("+|{}|\r\n", words.join(",")),
            };
            if stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// The first request of the text and its length, if it is whole.
fn request(text: &str) -> Option<(Vec<String>, usize)> {
    let mut lines = text.split_inclusive("\r\n").take_while(|line| line.ends_with("\r\n"));
    let count: usize = lines.next()?[1..].trim_end().parse().unwrap();
    let lines: Vec<_> = lines.take(count * 2).collect();
    let used = format!("*{count}\r\n").len() + lines.iter().map(|line| line.len()).sum::<usize>();
    let words = lines.iter().skip(1).step_by(2).map(|line| line.trim_end().to_owned()).collect();
    (lines.len() == count * 2).then_some((words, used))
}

/// The program on a terminal of its own; it is at its first prompt.
struct Prompt {
    master: File,
    program: Child,
    output: Receiver<Vec<u8>>,
    shown: String,
}

impl Prompt {
    fn start() -> Prompt {
        let (master, slave) = terminal::open();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cinnabar-cli"));
        command.args(["-p", &server().to_string()]).envs([
            ("TERM", "xterm"),
            ("VALKEYCLI_HISTFILE", "/dev/null"),
            ("HOME", "/nonexistent"),
        ]);
        let (program, output) = on_terminal::start(&mut command, (&master, &slave));
        let mut prompt = Prompt { master, program, output, shown: String::new() };
        prompt.expect("> ");
        prompt
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until `text` is shown behind the text of the wait before.
    fn expect(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.shown.contains(text) {
            match self.output.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("no {text:?} in {:?}", self.shown),
            }
        }
        let end = self.shown.find(text).unwrap() + text.len();
        self.shown.drain(..end);
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn lines_that_arrive_together_run_one_by_one() {
    let mut prompt = Prompt::start();
    prompt.press("sadd tags one\rsadd tags two\nget k\r\nget");
    for reply in ["|sadd,tags,one|", "|sadd,tags,two|", "|get,k|"] {
        prompt.expect(reply);
    }
    // The last of them is no whole line yet.
    prompt.press(" l\r");
    prompt.expect("|get,l|");
}

#[test]
fn pasted_lines_run_one_by_one() {
    let mut prompt = Prompt::start();
    prompt.press("\x1b[200~sadd tags one\rsadd tags two\r\tdel\ta\rget\x1b[201~");
    for reply in ["|sadd,tags,one|", "|sadd,tags,two|", "|del,a|"] {
        prompt.expect(reply);
    }
    prompt.press(" l\r");
    prompt.expect("|get,l|");
}

#[test]
fn many_lines_run_in_their_order() {
    let mut prompt = Prompt::start();
    let lines: String = (0..300).map(|number| format!("set k{number} v\n")).collect();
    prompt.press(&format!("\x1b[200~{}\x1b[201~", &lines));
    for number in 0..300 {
        prompt.expect(&format!("|set,k{number},v|"));
    }
}
