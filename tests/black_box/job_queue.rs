//! A job system on a stream: producers add jobs, workers of one group read, do and acknowledge them, and one of the
//! workers, a process of its own, is killed in the middle of its work. The workers that are left take over its jobs,
//! and in the end every job is done and acknowledged exactly once: a consumer group promises this to clients that call
//! a job done when their acknowledgement was the one that counted.
//!
//! ```text
//! producer 0..8 --XADD--> jobs --XREADGROUP--> worker 0..7, and the process --XACK--> done
//!                           ^------------ left by the killed one ------XAUTOCLAIM---^
//! ```
//!
//! An acknowledgement and its count for the job are one script, so the killed process leaves no doubt about its jobs.
//! The process is this test, started once more and marked by its environment.

use crate::harness::{Server, connect, eventually, on_each_thread_count};
use redis::streams::{
    StreamAutoClaimReply, StreamId, StreamInfoConsumersReply, StreamInfoGroupsReply, StreamPendingCountReply,
    StreamPendingReply, StreamReadReply,
};
use redis::{Commands, Connection};
use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::sleep;
use std::time::Duration;

const PRODUCERS: u64 = 8;
/// Without the process.
const WORKERS: u64 = 7;
const JOBS: u64 = 250;
const ALL: u64 = PRODUCERS * JOBS;
/// A worker that has had a job for so many milliseconds is dead.
const DEAD_AFTER: u64 = 400;
/// Duration of a job.
const WORK: Duration = Duration::from_millis(1);
/// Tells the process its server's port.
const PORT: &str = "CINNABAR_JOB_QUEUE_PORT";
const VICTIM: &str = "process";

const ACKNOWLEDGE: &str = "local counts = redis.call('XACK', KEYS[1], 'workers', ARGV[1]) \
                           redis.call('HINCRBY', KEYS[2], ARGV[2], counts) return counts";

/// Does a job: it is this worker's work only if its acknowledgement is the one that counts.
fn work(client: &mut Connection, entry: &StreamId) {
    sleep(WORK);
    let job: String = entry.get("job").expect("every entry has a job");
    let mut request = redis::cmd("EVAL");
    request.arg(ACKNOWLEDGE).arg(2).arg("jobs").arg("done").arg(&entry.id).arg(job);
    request.query::<u64>(client).expect("an acknowledgement");
}

fn is_over(client: &mut Connection) -> bool {
    client.hlen::<_, u64>("done").expect("a number") == ALL
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
fn labour(mut client: Connection, worker: &str, claimed: &AtomicU64) {
    while !is_over(&mut client) {
        let mut entries = read(&mut client, worker);
        if entries.is_empty() {
            let mut request = redis::cmd("XAUTOCLAIM");
            request.arg("jobs").arg("workers").arg(worker).arg(DEAD_AFTER).arg("0-0");
            let left: StreamAutoClaimReply = request.query(&mut client).expect("what was left");
            claimed.fetch_add(left.claimed.len() as u64, SeqCst);
            entries = left.claimed;
        }
        entries.iter().for_each(|entry| work(&mut client, entry));
    }
}

/// Work of the process: it works until it is killed, and claims nothing.
fn work_as_process(port: &str) {
    let mut client = connect(&format!("redis://127.0.0.1:{port}/"));
    redis::cmd("CLIENT").arg(&["SETNAME", VICTIM]).exec(&mut client).expect("a name");
    loop {
        let entries = read(&mut client, VICTIM);
        entries.iter().for_each(|entry| work(&mut client, entry));
    }
}

fn start_process(server: &Server) -> Child {
    let test = std::env::current_exe().expect("this test's path");
    let mut command = Command::new(test);
    command.args(["--exact", "job_queue::every_job_is_done_once_though_a_worker_is_killed"]);
    command.env(PORT, server.port.to_string()).stdout(Stdio::null()).spawn().expect("this test once more")
}

/// Kills the process at any moment; how many jobs it had then.
fn kill(client: &mut Connection, mut process: Child) -> u64 {
    sleep(Duration::from_millis(fastrand::u64(5..100)));
    process.kill().expect("to kill it");
    process.wait().expect("its end");
    // Its last requests are done when its connection is gone.
    let mut clients = || redis::cmd("CLIENT").arg("LIST").query::<String>(client).expect("who is connected");
    assert!(eventually(|| !clients().contains(&format!("name={VICTIM} "))), "its connection stays");
    let pending: StreamPendingCountReply =
        client.xpending_consumer_count("jobs", "workers", "-", "+", 10, VICTIM).expect("what it had");
    pending.ids.len() as u64
}

/// Whether the process is among the clients that wait for jobs.
fn is_known(client: &mut Connection) -> bool {
    let consumers: StreamInfoConsumersReply = client.xinfo_consumers("jobs", "workers").expect("consumers");
    consumers.consumers.iter().any(|consumer| consumer.name == VICTIM)
}

fn run(server: &Server) {
    let mut client = server.client();
    client.xgroup_create_mkstream::<_, _, _, ()>("jobs", "workers", "0").expect("a new group");
    let mut process = start_process(server);
    assert!(eventually(|| is_known(&mut client)), "the process does not read");
    let claimed = AtomicU64::new(0);
    let left = std::thread::scope(|scope| {
        (0..PRODUCERS).for_each(|producer| _ = scope.spawn(move || produce(server.client(), producer)));
        for worker in 0..WORKERS {
            let claimed = &claimed;
            scope.spawn(move || labour(server.client(), &format!("worker-{worker}"), claimed));
        }
        loop {
            let left = kill(&mut client, process);
            // It may have died between its jobs. Once more, then.
            if left > 0 || is_over(&mut client) {
                return left;
            }
            process = start_process(server);
        }
    });
    assert!(left > 0 && claimed.into_inner() >= left, "what the killed one left was not taken over: {left}");
    let done: HashMap<String, u64> = client.hgetall("done").expect("jobs");
    assert_eq!(done.len() as u64, ALL, "jobs that were done");
    assert!(done.values().all(|times| *times == 1), "a job was not acknowledged once: {done:?}");
    let pending: StreamPendingReply = client.xpending("jobs", "workers").expect("what is pending");
    assert!(matches!(pending, StreamPendingReply::Empty), "a job is pending still");
    let info: StreamInfoGroupsReply = client.xinfo_groups("jobs").expect("its group");
    let group = &info.groups[0];
    assert_eq!((group.consumers as u64, group.pending), (WORKERS + 1, 0));
    assert_eq!((group.entries_read, group.lag), (Some(ALL as usize), Some(0)));
}

#[test]
fn every_job_is_done_once_though_a_worker_is_killed() {
    match std::env::var(PORT) {
        Ok(port) => work_as_process(&port),
        Err(_) => on_each_thread_count(&[], run),
    }
}
