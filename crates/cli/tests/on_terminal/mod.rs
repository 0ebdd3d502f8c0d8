//! A program under test that runs on a terminal.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// Starts the program on the terminal whose sides these are. Returns it and its output, as it comes.
pub fn start(command: &mut Command, (master, slave): (&File, &File)) -> (Child, Receiver<Vec<u8>>) {
    let side = || Stdio::from(OwnedFd::from(slave.try_clone().unwrap()));
    let program = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
    let (sender, output) = channel();
    let mut reader = master.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = reader.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    (program, output)
}
