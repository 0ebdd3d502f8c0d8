//! A terminal for programs under test.

use std::fs::{File, OpenOptions};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The side of the test and that of the program, 24 rows of 100 columns.
pub fn open() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave = OpenOptions::new().read(true).write(true).open(name).unwrap();
    tcsetwinsize(&slave, Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (File::from(master), slave)
}
