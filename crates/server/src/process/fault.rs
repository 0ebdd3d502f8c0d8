//! A fatal signal as the failed thread met it: how it travels through a pipe, and how a report shows it.

use crash_handler::CrashContext;
use std::fmt::Write;

/// Registers in the order in which the system saves them.
#[cfg(target_arch = "x86_64")]
const REGISTERS: [&str; 19] = [
    "R8 ", "R9 ", "R10", "R11", "R12", "R13", "R14", "R15", "RDI", "RSI", "RBP", "RBX", "RDX", "RAX", "RCX", "RSP",
    "RIP", "EFL", "CSGSFS",
];
#[cfg(not(target_arch = "x86_64"))]
const REGISTERS: [&str; 0] = [];

/// Registers in a line of the report.
const IN_A_LINE: usize = 2;
const SIGBUS: i64 = 7;
const SIGSEGV: i64 = 11;
/// Numbers that describe a fault: the signal, its code, the thread, the address or the sender, and the registers.
const NUMBERS: usize = 4 + REGISTERS.len();
/// Bytes of a fault on its way.
pub const LEN: usize = NUMBERS * 8;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    numbers: [i64; NUMBERS],
}

impl Fault {
    /// Reads what the system says of a fault. A signal's handler may call it: it takes no lock and no memory.
    pub fn of(context: &CrashContext) -> Fault {
        let info = &context.siginfo;
        // The bytes are those of a `siginfo_t`, in which these two fields are the address, or the sender and its user.
        let place = i64::from(info.ssi_uid) | i64::from(info.ssi_fd) << 32;
        let mut numbers = [0; NUMBERS];
        numbers[..4].copy_from_slice(&[i64::from(info.ssi_signo), info.ssi_code.into(), context.tid.into(), place]);
        #[cfg(target_arch = "x86_64")]
        for (number, register) in numbers[4..].iter_mut().zip(context.context.uc_mcontext.gregs) {
            *number = register;
        }
        Fault { numbers }
    }

    /// Returns the fault as bytes.
    pub fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        for (place, number) in bytes.chunks_exact_mut(8).zip(self.numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    /// Reads the bytes of a fault.
    pub fn from_bytes(bytes: &[u8; LEN]) -> Fault {
        let (whole, _) = bytes.as_chunks::<8>();
        let mut numbers = [0; NUMBERS];
        for (number, bytes) in numbers.iter_mut().zip(whole) {
            *number = i64::from_ne_bytes(*bytes);
        }
        Fault { numbers }
    }

    /// Returns the number of the signal.
    pub fn signal(&self) -> i32 {
        self.numbers[0] as i32
    }

    /// Returns the number of the failed thread.
    pub fn thread(&self) -> i64 {
        self.numbers[2]
    }

    /// Returns whether a process sent the signal, rather than the system because of an instruction.
    fn is_sent(&self) -> bool {
        self.numbers[1] <= 0
    }

    /// Returns the lines that say how it came to the signal, without an end of the last line.
    pub fn cause(&self) -> String {
        let [signal, code, _, place] = self.numbers[..4] else { unreachable!("a fault has more numbers") };
        let mut text = format!("crashed by signal: {signal}, si_code: {code}");
        if self.is_sent() {
            let (pid, uid) = (place as u32, (place >> 32) as u32);
            write!(text, "\nKilled by PID: {pid}, UID: {uid}").expect("a String takes everything");
        } else if [SIGBUS, SIGSEGV].contains(&signal) {
            write!(text, "\nAccessing address: 0x{place:x}").expect("a String takes everything");
        }
        text
    }

    /// Returns the registers, some in a line.
    pub fn registers(&self) -> String {
        let shown: Vec<String> =
            REGISTERS.iter().zip(&self.numbers[4..]).map(|(n, r)| format!("{n}:{r:016x}")).collect();
        shown.chunks(IN_A_LINE).map(|line| line.join(" ") + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_the_same_behind_the_pipe_and_says_who_or_where() {
        let mut numbers = [0; NUMBERS];
        numbers[..4].copy_from_slice(&[11, 1, 77, 0xdead_0000]);
        let fault = Fault { numbers };
        assert_eq!(Fault::from_bytes(&fault.to_bytes()), fault);
        assert_eq!((fault.signal(), fault.thread()), (11, 77));
        assert_eq!(fault.cause(), "crashed by signal: 11, si_code: 1\nAccessing address: 0xdead0000");
        numbers[..4].copy_from_slice(&[6, -6, 77, 42 | 1000 << 32]);
        assert_eq!(Fault { numbers }.cause(), "crashed by signal: 6, si_code: -6\nKilled by PID: 42, UID: 1000");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn registers_stand_in_lines_with_all_their_digits() {
        let mut numbers = [0; NUMBERS];
        numbers[4] = -1;
        let shown = Fault { numbers }.registers();
        assert!(shown.starts_with("R8 :ffffffffffffffff R9 :0000000000000000\n"), "{shown}");
        assert_eq!(shown.matches(':').count(), REGISTERS.len());
    }
}
