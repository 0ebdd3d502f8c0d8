//! Effects of a command besides its reply: counts of INFO, lines of monitors, the append-only file, watched keys that
//! are spoiled, and invalidations for clients that track keys.
//!
//! Each is asked for on connections of its own after each group of commands, and compared as one map from names to
//! observations. Watched and tracked keys make servers leave their shortest ways, so only some rounds have such
//! clients; the others send their commands in groups, as pipelines do:
//!
//! ```text
//!   round        0 (seed & 2)                1
//!   commands     some at once                step by step
//!   seen by      INFO, MONITOR, the file     the same, WATCH and EXEC, CLIENT TRACKING of both kinds
//! ```

use crate::client::{Client, command};
use crate::compare::{Rule, rule_of};
use crate::grammar::Command;
use crate::value::Value;
use crate::words::KEYS;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, Read, Result, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Fields of INFO that count what commands did.
const COUNTED: &[&str] = &[
    "blocked_clients",
    "evicted_keys",
    "expired_keys",
    "keyspace_hits",
    "keyspace_misses",
    "rdb_changes_since_last_save",
    "total_blocking_keys",
    "total_commands_processed",
    "total_error_replies",
    "unexpected_error_replies",
];
/// Integers from here on are times in milliseconds; those of two executions may differ by so many.
const TIMES_FROM: i64 = 1_000_000_000_000;
const LAG_MS: i64 = 5000;
const DBS: usize = 3;

/// All observers of one server.
pub struct Observers {
    info: Client,
    counts: BTreeMap<String, i64>,
    monitor: Client,
    /// The address that monitors show of the client that is looked at.
    shown: String,
    log: Option<Log>,
    close: Option<Close>,
}

/// The observers that look closely.
struct Close {
    watcher: Client,
    broadcast: Client,
    tracker: Client,
}

/// The file of changes, read as it grows.
struct Log(File);

impl Observers {
    /// Connects the observers; `client` is the one whose commands are looked at.
    pub fn connect(addr: SocketAddr, client: &Client, closely: bool) -> Result<Observers> {
        let mut info = Client::connect(addr)?;
        call(&mut info, "DEBUG SET-ACTIVE-EXPIRE 0")?;
        let log = Log::of(&mut info)?;
        let close = if closely { Some(Close::connect(addr)?) } else { None };
        let mut monitor = Client::connect(addr)?;
        call(&mut monitor, "MONITOR")?;
        let shown = client.local_addr()?.to_string();
        let mut observers = Observers { info, counts: BTreeMap::new(), monitor, shown, log, close };
        observers.seen();
        Ok(observers)
    }

    /// Returns all observations since the last call.
    pub fn seen(&mut self) -> Value {
        let mut seen = Vec::new();
        let mut note = |name: &str, what: Result<Value>| {
            let what = what.unwrap_or_else(|error| Value::Lost(error.to_string()));
            seen.push((Value::Simple(name.into()), what));
        };
        note("counts", self.counts());
        note("monitor", self.monitored());
        if let Some(log) = &mut self.log {
            note("log", log.grown());
        }
        if let Some(close) = &mut self.close {
            note("watched", close.watched());
            note("broadcast", told(&mut close.broadcast, "PING"));
            let look = observe();
            note("tracked", told_by(&mut close.tracker, &look));
        }
        Value::Map(seen)
    }

    fn counts(&mut self) -> Result<Value> {
        let reply = self.info.call(&command("INFO clients persistence stats commandstats errorstats keyspace"))?;
        let text = reply.text().ok_or_else(|| Error::other(format!("INFO is answered {reply}")))?;
        let now = parse_info(&String::from_utf8_lossy(text));
        let changed = now.iter().filter_map(|(name, count)| {
            let grown = count - self.counts.get(name).unwrap_or(&0);
            (grown != 0).then(|| (Value::Simple(name.clone().into_bytes()), Value::Integer(grown)))
        });
        let changed = changed.collect();
        self.counts = now;
        Ok(Value::Map(changed))
    }

    /// The lines of the client and of its scripts, without the time.
    fn monitored(&mut self) -> Result<Value> {
        self.monitor.send([&command("PING")]);
        let mut lines = Vec::new();
        loop {
            let Value::Simple(line) = self.monitor.receive()? else {
                return Err(Error::other("a monitor gets what is no line"));
            };
            let line = String::from_utf8_lossy(&line).into_owned();
            if line == "PONG" {
                return Ok(Value::Array(lines));
            }
            let Some((_, said)) = line.split_once(" [") else { continue };
            let Some((who, what)) = said.split_once("] ") else { continue };
            let Some((db, who)) = who.split_once(' ') else { continue };
            if who == self.shown || who == "lua" {
                let is_script = if who == "lua" { "lua " } else { "" };
                // 8.1.1 forgets to escape quotes and backslashes.
                let what = what.replace('\\', "");
                // The subject hides passwords of requests that are refused, too.
                let what = if what.to_ascii_uppercase().starts_with("\"HELLO\"") { "HELLO".to_owned() } else { what };
                lines.push(Value::Bulk(format!("{is_script}{db} {what}").into_bytes()));
            }
        }
    }
}

impl Close {
    fn connect(addr: SocketAddr) -> Result<Close> {
        let mut watcher = Client::connect(addr)?;
        watch(&mut watcher)?;
        let mut broadcast = Client::connect(addr)?;
        call(&mut broadcast, "HELLO 3")?;
        call(&mut broadcast, "CLIENT TRACKING ON BCAST")?;
        let mut tracker = Client::connect(addr)?;
        call(&mut tracker, "HELLO 3")?;
        call(&mut tracker, "CLIENT TRACKING ON")?;
        Ok(Close { watcher, broadcast, tracker })
    }

    /// Whether a watched key was changed, of each database; all are watched again.
    fn watched(&mut self) -> Result<Value> {
        watch(&mut self.watcher)
    }
}

/// Ends the transaction of before and watches all keys of all databases again.
fn watch(watcher: &mut Client) -> Result<Value> {
    let ended = [command("MULTI"), command("EXEC")];
    let mut commands: Vec<Command> = ended.to_vec();
    for db in 0..DBS {
        commands.push(command(&format!("SELECT {db}")));
        commands.push(with_keys("WATCH"));
    }
    watcher.send(&commands);
    let mut replies = Vec::new();
    for _ in &commands {
        replies.push(watcher.receive()?);
    }
    Ok(replies.swap_remove(1))
}

/// Reads all keys, so that the server remembers that the client has them.
fn observe() -> Command {
    with_keys("EXISTS")
}

fn with_keys(name: &str) -> Command {
    let mut command = command(name);
    command.extend(KEYS.iter().map(|key| key.to_vec()));
    command
}

/// The messages before the reply to a command.
fn told(client: &mut Client, line: &str) -> Result<Value> {
    told_by(client, &command(line))
}

fn told_by(client: &mut Client, command: &Command) -> Result<Value> {
    client.send([command]);
    let mut keys = Vec::new();
    loop {
        match client.receive()? {
            Value::Push(message) => keys.extend(message.into_iter().skip(1).flat_map(|part| match part {
                Value::Array(keys) => keys,
                other => vec![other],
            })),
            _ => {
                keys.sort();
                keys.dedup();
                return Ok(Value::Array(keys));
            }
        }
    }
}

impl Log {
    /// None of a server without such a file.
    fn of(client: &mut Client) -> Result<Option<Log>> {
        let mut get = |name: &str| -> Result<String> {
            let reply = client.call(&command(&format!("CONFIG GET {name}")))?;
            let value = reply.elements().and_then(|pair| pair.get(1)).and_then(Value::text);
            Ok(String::from_utf8_lossy(value.unwrap_or_default()).into_owned())
        };
        if get("appendonly")? != "yes" {
            return Ok(None);
        }
        let folder = PathBuf::from(get("dir")?).join(get("appenddirname")?);
        let manifest = std::fs::read_to_string(folder.join(get("appendfilename")? + ".manifest"))?;
        let name = manifest.lines().rev().find(|line| line.ends_with("type i"));
        let name = name.and_then(|line| line.split_whitespace().nth(1));
        let mut file = File::open(folder.join(name.ok_or_else(|| Error::other("no file of changes"))?))?;
        file.seek(SeekFrom::End(0))?;
        Ok(Some(Log(file)))
    }

    /// The commands that were written since the last call.
    fn grown(&mut self) -> Result<Value> {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes)?;
        let mut from = bytes.as_slice();
        let mut commands = Vec::new();
        while !from.is_empty() {
            commands.push(Value::read(&mut from)?);
        }
        Ok(Value::Array(commands))
    }
}

fn call(client: &mut Client, line: &str) -> Result<()> {
    let reply = client.call(&command(line))?;
    if reply.is_error() { Err(Error::other(format!("{line} is answered {reply}"))) } else { Ok(()) }
}

/// The observer's own question for the log's file.
const OBSERVED_BY: &str = "cmdstat_config|get calls";

/// Returns counts by name; those of each command and each kind of error, too.
fn parse_info(text: &str) -> BTreeMap<String, i64> {
    let mut counts = all_counts(text);
    if let Some(own) = counts.remove(OBSERVED_BY)
        && let Some(all) = counts.get_mut("total_commands_processed")
    {
        *all -= own;
    }
    counts.retain(|name, _| !name.starts_with("cmdstat_config|get "));
    counts
}

fn all_counts(text: &str) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let is_observer = matches!(name, "cmdstat_info" | "cmdstat_exists" | "cmdstat_ping");
        if is_observer {
            continue;
        }
        if COUNTED.contains(&name) {
            counts.extend(value.parse().ok().map(|count| (name.to_owned(), count)));
        }
        // The peer counts a script as failed once for each error inside of its reply.
        let is_script = name.starts_with("cmdstat_eval") || name.starts_with("cmdstat_fcall");
        for field in value.split(',') {
            let Some((what, count)) = field.split_once('=') else { continue };
            if is_script && what == "failed_calls" {
                continue;
            }
            let is_counted = matches!(what, "calls" | "rejected_calls" | "failed_calls" | "count" | "keys" | "expires");
            if is_counted && let Ok(count) = count.parse() {
                counts.insert(format!("{name} {what}"), count);
            }
        }
    }
    counts
}

/// Differences that are allowed after some commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// An iteration takes as many calls as the server has pages, and meets keys that are over in an order of its own.
    scans: bool,
    /// A BITFIELD in which every write overflows makes a string longer, and the peer does not propagate that.
    grows: bool,
}

impl Allowed {
    pub fn after<'a>(mut commands: impl Iterator<Item = &'a Command> + Clone) -> Allowed {
        let fails_to_write = |command: &Command| {
            let has = |word: &[u8]| command.iter().any(|arg| arg.eq_ignore_ascii_case(word));
            has(b"BITFIELD") && has(b"FAIL")
        };
        Allowed {
            scans: commands.clone().any(|command| rule_of(command) == Rule::Scan),
            grows: commands.any(fails_to_write),
        }
    }
}

/// The first thing that was seen of one server only, or otherwise of the other: its name, and both.
pub fn first_difference(peer: &Value, subject: &Value, allowed: Allowed) -> Option<(String, Value, Value)> {
    let (Value::Map(peer), Value::Map(subject)) = (peer, subject) else { return None };
    let is_unlike = |name: &Value, a: &Value, b: &Value| match name.text() {
        _ if allowed.grows => false,
        Some(b"counts" | b"monitor") if allowed.scans => false,
        Some(b"log") if allowed.scans => !logs_agree(&with_removals_sorted(a), &with_removals_sorted(b)),
        Some(b"log") => !logs_agree(a, b),
        _ => !are_alike(a, b),
    };
    let differing = peer.iter().zip(subject).find(|((name, a), (_, b))| is_unlike(name, a, b));
    differing.map(|((name, a), (_, b))| {
        let name = String::from_utf8_lossy(name.text().unwrap_or_default()).into_owned();
        (name, a.clone(), b.clone())
    })
}

/// Whether both files say the same, as far as they must: in capitals, and without what either server may leave to the
/// other's reading. The peer forgets to write down the consumers that XCLAIM and XAUTOCLAIM make, and that XREADGROUP
/// gives entries once more.
fn logs_agree(peer: &Value, subject: &Value) -> bool {
    let (Value::Array(peer), Value::Array(subject)) = (peer, subject) else { return are_alike(peer, subject) };
    let is_forgotten = |words: &[Vec<u8>]| {
        words.starts_with(&[b"XGROUP".to_vec(), b"CREATECONSUMER".to_vec()])
            || (words[0] == b"XCLAIM" && words.get(9).is_some_and(|deliveries| deliveries != b"1"))
    };
    let mut peer = peer.iter().map(capitals).peekable();
    for words in subject.iter().map(capitals) {
        if peer.next_if(|by_peer| commands_agree(by_peer, &words)).is_none() && !is_forgotten(&words) {
            return false;
        }
    }
    peer.next().is_none()
}

/// The commands with the removals of keys last, in an order that says nothing.
fn with_removals_sorted(log: &Value) -> Value {
    let Value::Array(commands) = log else { return log.clone() };
    let is_removal =
        |command: &&Value| matches!(capitals(command).first().map(Vec::as_slice), Some(b"DEL" | b"UNLINK"));
    let (mut removals, others): (Vec<&Value>, Vec<&Value>) = commands.iter().partition(is_removal);
    removals.sort();
    Value::Array(others.into_iter().chain(removals).cloned().collect())
}

fn capitals(command: &Value) -> Vec<Vec<u8>> {
    let words = command.elements().unwrap_or_default();
    words.iter().map(|word| word.text().unwrap_or_default().to_ascii_uppercase()).collect()
}

/// The peer logs GEOADD as ZADD, SET with the condition that was met, and pops with the count that was asked for where
/// the subject has the count that there was; the subject names the end of a stream where `$` was given for a group. A
/// trimming command may have a `=`, and the peer names the highest ID where nothing is left.
fn commands_agree(peer: &[Vec<u8>], subject: &[Vec<u8>]) -> bool {
    let without = |words: &[Vec<u8>], from: usize, dropped: &[&[u8]]| -> Vec<Vec<u8>> {
        let (head, tail) = words.split_at(from.min(words.len()));
        let stays = |word: &&Vec<u8>| !dropped.contains(&word.as_slice());
        head.iter().chain(tail.iter().filter(stays)).cloned().collect()
    };
    let (name, sub) = (subject.first().map(Vec::as_slice), subject.get(1).map(Vec::as_slice));
    match name.unwrap_or_default() {
        b"GEOADD" => {
            let members = |words: &[Vec<u8>], each: usize| -> Vec<Vec<u8>> {
                let words = without(words, 2, &[b"NX", b"XX", b"CH"]);
                words.get(2..).unwrap_or_default().chunks(each).filter_map(|group| group.last().cloned()).collect()
            };
            let is_same_key = peer.first().is_some_and(|name| name == b"ZADD") && peer.get(1) == subject.get(1);
            is_same_key && members(peer, 2) == members(subject, 3)
        }
        b"ZPOPMIN" | b"ZPOPMAX" => {
            let count =
                |words: &[Vec<u8>]| words.get(2).map_or(Some(1), |word| std::str::from_utf8(word).ok()?.parse().ok());
            let (asked, taken): (Option<u64>, Option<u64>) = (count(peer), count(subject));
            peer.get(..2) == subject.get(..2) && taken.is_some() && asked >= taken
        }
        b"SET" => {
            let met: [&[u8]; 3] = [b"NX", b"XX", b"GET"];
            let (mut peer, subject) = (without(peer, 3, &met), without(subject, 3, &met));
            // The last one of several deadlines counts.
            let earlier = peer.len().saturating_sub(subject.len());
            if subject.len() == 5 && earlier.is_multiple_of(2) {
                peer.drain(3..3 + earlier);
            }
            words_are_alike(&peer, &subject)
        }
        b"XGROUP" if matches!(sub, Some(b"CREATE" | b"SETID")) => {
            let unnamed = |words: &[Vec<u8>]| {
                let mut words = without(words, 5, &[b"MKSTREAM"]);
                words.get_mut(4).into_iter().for_each(Vec::clear);
                words
            };
            unnamed(peer) == unnamed(subject)
        }
        b"XADD" | b"XTRIM" => {
            let (peer, subject) = (without(peer, 2, &[b"="]), without(subject, 2, &[b"="]));
            let is_emptied = peer.last().is_some_and(|id| id == b"18446744073709551615-18446744073709551615");
            let compared = peer.len() - usize::from(is_emptied && name == Some(b"XTRIM"));
            peer.len() == subject.len() && words_are_alike(&peer[..compared], &subject[..compared])
        }
        _ => words_are_alike(peer, subject),
    }
}

fn words_are_alike(peer: &[Vec<u8>], subject: &[Vec<u8>]) -> bool {
    peer.len() == subject.len() && peer.iter().zip(subject).all(|(a, b)| a == b || are_times(a, b))
}

/// Equal, but for times of the execution.
fn are_alike(peer: &Value, subject: &Value) -> bool {
    match (peer, subject) {
        (Value::Lost(_), _) | (_, Value::Lost(_)) => false,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_alike(a, b)),
        (Value::Bulk(a), Value::Bulk(b)) => a == b || are_times(a, b),
        _ => peer == subject,
    }
}

fn are_times(a: &[u8], b: &[u8]) -> bool {
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a >= TIMES_FROM && b >= TIMES_FROM && a.abs_diff(b) <= LAG_MS.unsigned_abs(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(commands: &[&str]) -> Value {
        let words = |line: &&str| Value::Array(line.split(' ').map(|word| Value::Bulk(word.into())).collect());
        Value::Map(vec![(Value::Simple(b"log".to_vec()), Value::Array(commands.iter().map(words).collect()))])
    }

    #[test]
    fn times_of_the_execution_may_lie_near() {
        let differs = |a: &[&str], b: &[&str]| first_difference(&log(a), &log(b), Allowed::default()).is_some();
        assert!(!differs(&["PEXPIREAT k 1795324286994"], &["PEXPIREAT k 1795324287000"]));
        assert!(differs(&["PEXPIREAT k 1795324286994"], &["PEXPIREAT k 1795324386994"]));
        assert!(differs(&["SET k 1"], &["SET k 2"]) && differs(&["SET k 1"], &["SET k 1", "DEL k"]));
        assert!(!differs(&["SET k 1"], &["SET k 1"]));
    }

    #[test]
    fn one_change_may_be_said_in_two_ways() {
        let differs = |a: &[&str], b: &[&str]| first_difference(&log(a), &log(b), Allowed::default()).is_some();
        assert!(!differs(&["zadd k nx 5 m 6 n"], &["GEOADD k NX 1 2 m 3 4 n"]));
        assert!(differs(&["zadd k 5 m"], &["GEOADD k 1 2 n"]) && differs(&["zadd j 5 m"], &["GEOADD k 1 2 m"]));
        assert!(!differs(&["zpopmin k 8"], &["ZPOPMIN k 4"]) && differs(&["ZPOPMIN k 4"], &["ZPOPMIN k 8"]));
        assert!(!differs(&["set k 1 nx"], &["SET k 1"]) && differs(&["set k 1 ex 5"], &["SET k 1"]));
        assert!(
            !differs(&["set k 1 pxat 5 pxat 6"], &["SET k 1 PXAT 6"])
                && differs(&["SET k 1 PXAT 5 PXAT 6"], &["SET k 1 PXAT 5"])
        );
        assert!(!differs(&["XGROUP CREATE k g $"], &["XGROUP CREATE k g 7-1 MKSTREAM"]));
        assert!(differs(&["XGROUP CREATE k g $"], &["XGROUP CREATE k h 7-1 MKSTREAM"]));
        assert!(!differs(&["xadd k MAXLEN 9 7-0 a b"], &["XADD k MAXLEN = 9 7-0 a b"]));
        let emptied = "XTRIM k MINID = 18446744073709551615-18446744073709551615";
        assert!(
            !differs(&[emptied], &["XTRIM k MINID = 7-1"])
                && differs(&["XTRIM k MINID = 6-1"], &["XTRIM k MINID = 7-1"])
        );
        assert!(!differs(&["SET k 1"], &["XGROUP CREATECONSUMER k g c", "SET k 1"]));
        assert!(differs(&["XGROUP CREATECONSUMER k g c", "SET k 1"], &["SET k 1"]));
        let once_more = "XCLAIM k g c 0 7-1 TIME 5 RETRYCOUNT 2 FORCE JUSTID LASTID 7-1";
        assert!(!differs(&[], &[once_more]) && differs(&[], &[&once_more.replace("COUNT 2", "COUNT 1")]));
        assert!(differs(&[once_more], &[]));
        let scanned = Allowed { scans: true, ..Allowed::default() };
        assert!(differs(&["DEL a", "DEL b"], &["DEL b", "DEL a"]));
        assert!(first_difference(&log(&["DEL a", "DEL b"]), &log(&["DEL b", "DEL a"]), scanned).is_none());
    }

    #[test]
    fn counts_are_read_by_command_and_error() {
        let counts = parse_info(
            "# Stats\r\nkeyspace_hits:3\r\nuptime:9\r\ncmdstat_get:calls=2,usec=7,rejected_calls=0,failed_calls=1\r\n\
             errorstat_ERR:count=4\r\ncmdstat_info:calls=9\r\ndb0:keys=1,expires=0,avg_ttl=0\r\n",
        );
        let expected = [
            ("cmdstat_get calls", 2),
            ("cmdstat_get failed_calls", 1),
            ("cmdstat_get rejected_calls", 0),
            ("db0 expires", 0),
            ("db0 keys", 1),
            ("errorstat_ERR count", 4),
            ("keyspace_hits", 3),
        ];
        assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)).into());
    }
}
