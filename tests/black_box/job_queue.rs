//! A job system on a stream: producers add jobs, workers of one group read, do and acknowledge them, one of the workers
//! dies in the middle of its work. Whoever still works takes over what it has left, and in the end every job is done and
//! acknowledged exactly once: what a consumer group promises to those who acknowledge before they call a job done.
//!
//! ```text
//! producer 0..8 --XADD--> jobs --XREADGROUP--> worker 0..8 --XACK--> done
//!                           ^---- left by the dead one ----XAUTOCLAIM---^
//! ```

use crate::harness::{Server, on_each_thread_count};
use redis::streams::{StreamAutoClaimReply, StreamId, StreamPendingReply, StreamReadReply};
use redis::{Commands, Connection};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const PRODUCERS: u64 = 8;
const WORKERS: u64 = 8;
const JOBS: u64 = 400;
const ALL: u64 = PRODUCERS * JOBS;
/// A worker that has had a job for so many milliseconds is dead.
const DEAD_AFTER: u64 = 400;

/// What became of each job, as its workers know it.
#[derive(Default)]
struct Ledger {
    /// Job -> how often its acknowledgement counted.
    done: Mutex<HashMap<String, u64>>,
    finished: AtomicU64,
    claimed: AtomicU64,
}

impl Ledger {
    /// Does a job: it is this worker's work only if its acknowledgement is the one that counts.
    fn work(&self, client: &mut Connection, entry: &StreamId) {
        let job: String = entry.get("job").expect("every entry has a job");
        let acknowledged: u64 = client.xack("jobs", "workers", &[&entry.id]).expect("an acknowledgement");
        *self.done.lock().expect("no worker panics").entry(job).or_default() += acknowledged;
        self.finished.fetch_add(acknowledged, SeqCst);
    }

    fn is_over(&self) -> bool {
        self.finished.load(SeqCst) == ALL
    }
}

fn produce(mut client: Connection, producer: u64) {
    for n in 0..JOBS {
        let fields = [("job", format!("{producer}:{n}")), ("for", "anybody".to_owned()), ("cost", n.to_string())];
        client.xadd::<_, _, _, _, String>("jobs", "*", &fields).expect("an id");
    }
}

fn read(client: &mut Connection, worker: &str) -> Vec<StreamId> {
    let mut request = redis::cmd("XREADGROUP");
    request.arg("GROUP").arg("workers").arg(worker).arg("COUNT").arg(5).arg("BLOCK").arg(20).arg("STREAMS").arg("jobs");
    let found: Option<StreamReadReply> = request.arg(">").query(client).expect("jobs, or none");
    found.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids).collect()
}

/// Works until all jobs are done, also those that others have left.
fn labour(mut client: Connection, worker: &str, ledger: &Ledger) {
    while !ledger.is_over() {
        let mut entries = read(&mut client, worker);
        if entries.is_empty() {
            let mut request = redis::cmd("XAUTOCLAIM");
            request.arg("jobs").arg("workers").arg(worker).arg(DEAD_AFTER).arg("0-0");
            let left: StreamAutoClaimReply = request.query(&mut client).expect("what was left");
            ledger.claimed.fetch_add(left.claimed.len() as u64, SeqCst);
            entries = left.claimed;
        }
        entries.iter().for_each(|entry| ledger.work(&mut client, entry));
    }
}

/// Works for a while, at most until half of all is done, and dies with jobs that it has read; how many.
fn die(mut client: Connection, worker: &str, ledger: &Ledger, after: u64) -> u64 {
    let mut left_to_do = after;
    while !ledger.is_over() {
        let entries = read(&mut client, worker);
        for (at, entry) in entries.iter().enumerate() {
            if left_to_do == 0 || ledger.finished.load(SeqCst) > ALL / 2 {
                return (entries.len() - at) as u64;
            }
            ledger.work(&mut client, entry);
            left_to_do -= 1;
        }
    }
    0
}

fn run(server: &Server) {
    let mut client = server.client();
    client.xgroup_create_mkstream::<_, _, _, ()>("jobs", "workers", "0").expect("a new group");
    let ledger = Ledger::default();
    // Any of them, at any moment of its first jobs.
    let (victim, after) = (fastrand::u64(..WORKERS), fastrand::u64(..JOBS / 4));
    println!("worker {victim} dies after {after} jobs");
    let left = std::thread::scope(|scope| {
        (0..PRODUCERS).for_each(|producer| _ = scope.spawn(move || produce(server.client(), producer)));
        let (ledger, mut death) = (&ledger, None);
        for worker in 0..WORKERS {
            let (client, name) = (server.client(), format!("worker-{worker}"));
            if worker == victim {
                death = Some(scope.spawn(move || die(client, &name, ledger, after)));
            } else {
                scope.spawn(move || labour(client, &name, ledger));
            }
        }
        death.expect("one of them dies").join().expect("it dies by itself")
    });
    let done = ledger.done.into_inner().expect("no worker panicked");
    assert_eq!(done.len() as u64, ALL, "jobs that were done");
    assert!(done.values().all(|times| *times == 1), "a job was done twice");
    assert!(left > 0 && ledger.claimed.into_inner() >= left, "what the dead one left was not taken over");
    let pending: StreamPendingReply = client.xpending("jobs", "workers").expect("what is pending");
    assert!(matches!(pending, StreamPendingReply::Empty), "a job is pending still");
    let info: redis::streams::StreamInfoGroupsReply = client.xinfo_groups("jobs").expect("its group");
    let group = &info.groups[0];
    assert_eq!((group.consumers as u64, group.pending), (WORKERS, 0));
    assert_eq!((group.entries_read, group.lag), (Some(ALL as usize), Some(0)));
}

#[test]
fn every_job_is_done_once_though_a_worker_dies() {
    on_each_thread_count(&[], run);
}
