//! Requests of clients beside data: pauses, saves, and waits for the log; and their invariants.

use crate::checker::Call;
use crate::operation::{Operation, one};
use fastrand::Rng;

/// A command that changes no key. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Waits until the client's writes are durable, or for so long at most; 0: without a limit.
    WaitAof(i64),
    /// Stops writes for so long, or all commands.
    Pause(Paused, i64),
    Unpause,
    Save,
    SaveInBackground,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    Writes,
    All,
}

/// The reply of WAITAOF when all is durable.
pub const DURABLE: &[u8] = b"*2\r\n:1\r\n:0\r\n";

impl Beside {
    pub fn random(random: &mut Rng) -> Beside {
        match random.u8(0..12) {
            0..4 => Beside::WaitAof(one(random, &[0, 2, 20])),
            4..8 => Beside::Pause(one(random, &[Paused::Writes, Paused::All]), random.i64(1..8)),
            8 => Beside::Unpause,
            9 => Beside::Save,
            _ => Beside::SaveInBackground,
        }
    }

    pub fn words(&self) -> Vec<String> {
        let line = match self {
            Beside::WaitAof(time) => format!("WAITAOF 1 0 {time}"),
            Beside::Pause(Paused::Writes, time) => format!("CLIENT PAUSE {time} WRITE"),
            Beside::Pause(Paused::All, time) => format!("CLIENT PAUSE {time} ALL"),
            Beside::Unpause => "CLIENT UNPAUSE".to_owned(),
            Beside::Save => "SAVE".to_owned(),
            Beside::SaveInBackground => "BGSAVE SCHEDULE".to_owned(),
        };
        line.split(' ').map(str::to_owned).collect()
    }
}

/// Returns a violation by pauses and saves. `timeline`: the times that the clock was moved on to, each with a moment
/// right before.
pub fn broken(calls: &[Call], beside: &[Call], timeline: &[(u64, i64)]) -> Option<String> {
    beside.iter().find_map(|call| match call.operation {
        Operation::Beside(Beside::Pause(paused, time)) => {
            let end = pause_ends(call, time, beside, timeline);
            let broken = calls.iter().find(|other| breaks(call, paused, end, other))?;
            Some(format!("{:?} at {} ran at {}, in a pause until {end}", broken.operation, broken.called, broken.ran))
        }
        Operation::Beside(Beside::Save) if call.seen == b"+OK\r\n" => {
            let is_it = |cut: &&Call| {
                matches!(cut.operation, Operation::Cut(_)) && cut.called > call.called && cut.replied < Some(call.ran)
            };
            calls.iter().find(is_it).is_none().then(|| format!("the save at {} has saved nothing", call.called))
        }
        _ => None,
    })
}

/// Returns a moment at which the pause was still on for sure.
fn pause_ends(pause: &Call, time: i64, beside: &[Call], timeline: &[(u64, i64)]) -> u64 {
    let until = pause.times.last().map_or(0, |began| began + time);
    let over = timeline.iter().find(|(_, time)| *time >= until).map_or(u64::MAX, |(moment, _)| *moment);
    let lifts = |call: &&Call| matches!(call.operation, Operation::Beside(Beside::Unpause)) && call.ran > pause.called;
    let unpaused = beside.iter().filter(lifts).map(|call| call.called).min();
    over.min(unpaused.unwrap_or(u64::MAX))
}

/// Returns whether the call ran in the pause: it began within the pause, or its write did.
fn breaks(pause: &Call, paused: Paused, end: u64, call: &Call) -> bool {
    if call.ran >= end || matches!(call.operation, Operation::Cut(_)) {
        return false;
    }
    let is_held = paused == Paused::All || call.operation.may_write();
    let has_begun = is_held && call.called > pause.ran;
    has_begun && !call.is_given_up() || call.logged_at.is_some_and(|at| at > pause.log)
}
