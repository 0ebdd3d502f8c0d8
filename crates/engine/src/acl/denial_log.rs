//! ACL LOG: requests that were refused for want of rights, and how often.

use crate::locks::sync::Mutex;
use crate::time::UnixMs;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Kind of request that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// A login.
    Auth,
    /// A command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// A database.
    Database,
    /// A login as the user that a certificate names.
    Certificate,
}

impl Denied {
    /// Returns the name that ACL LOG shows.
    pub fn name(self) -> &'static str {
        match self {
            Denied::Auth => "auth",
            Denied::Command => "command",
            Denied::Key => "key",
            Denied::Channel => "channel",
            Denied::Database => "database",
            Denied::Certificate => "tls-cert",
        }
    }
}

/// One refusal, or several that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenialLogEntry {
    /// Kind of request that was refused.
    pub denied: Denied,
    /// `toplevel`, `multi` or `lua`.
    pub context: &'static str,
    /// The command, key, channel or database.
    pub object: Vec<u8>,
    /// Name of the user that was refused.
    pub username: Vec<u8>,
    /// The client as CLIENT INFO shows it, the last one if there were several.
    pub client: String,
    /// Number of refusals.
    pub count: u64,
    /// Number of the entry, which counts up.
    pub id: u64,
    /// Time of the first refusal.
    pub created_at: UnixMs,
    /// Time of the last refusal.
    pub updated_at: UnixMs,
}

/// Bytes that are retained of an object, of a user's name and of a client's description: clients choose their lengths.
const KEPT_BYTES: usize = 1 << 10;
const KEPT_CLIENT_BYTES: usize = 2 << 10;

impl DenialLogEntry {
    /// Makes an entry of one refusal at `now`. Long texts are cut.
    pub fn new(
        denied: Denied,
        context: &'static str,
        object: &[u8],
        username: &[u8],
        mut client: String,
        now: UnixMs,
    ) -> DenialLogEntry {
        client.truncate(client.floor_char_boundary(KEPT_CLIENT_BYTES));
        client.shrink_to_fit();
        DenialLogEntry {
            denied,
            context,
            object: cut(object),
            username: cut(username),
            client,
            count: 1,
            id: 0,
            created_at: now,
            updated_at: now,
        }
    }
}

fn cut(word: &[u8]) -> Vec<u8> {
    let mut kept = word[..word.len().min(KEPT_BYTES)].to_vec();
    if word.len() > KEPT_BYTES {
        kept.extend_from_slice(format!("... ({} more bytes)", word.len() - KEPT_BYTES).as_bytes());
    }
    kept
}

/// The last refusals, and the number of all.
#[derive(Default)]
pub struct DenialLog {
    entries: Mutex<Entries>,
    counts: [AtomicU64; 6],
}

#[derive(Default)]
struct Entries {
    /// The last one first.
    list: VecDeque<DenialLogEntry>,
    next_id: u64,
}

/// How far back an entry like the new one is looked for, in entries and in milliseconds.
const GROUPED: usize = 10;
const GROUPED_MS: i64 = 60_000;

impl DenialLog {
    /// Records a refusal; `max`: entries that are retained. Fills in `entry.id`, `count` and `created_at`.
    pub fn add(&self, entry: DenialLogEntry, max: usize) {
        self.counts[entry.denied as usize].fetch_add(1, Relaxed);
        let mut entries = self.entries.lock();
        if max > 0 {
            let alike = |known: &DenialLogEntry| {
                (known.denied, known.context, &known.object, &known.username)
                    == (entry.denied, entry.context, &entry.object, &entry.username)
                    && (entry.updated_at.0 - known.updated_at.0).abs() <= GROUPED_MS
            };
            let found = entries.list.iter().take(GROUPED).position(alike).and_then(|at| entries.list.remove(at));
            let entry = match found {
                Some(known) => DenialLogEntry {
                    client: entry.client,
                    updated_at: entry.updated_at,
                    count: known.count + 1,
                    ..known
                },
                None => {
                    entries.next_id += 1;
                    let (id, created_at) = (entries.next_id - 1, entry.updated_at);
                    DenialLogEntry { id, count: 1, created_at, ..entry }
                }
            };
            entries.list.push_front(entry);
        }
        entries.list.truncate(max);
    }

    /// Returns the last `count` entries, the last one first.
    pub fn last(&self, count: usize) -> Vec<DenialLogEntry> {
        self.entries.lock().list.iter().take(count).cloned().collect()
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        self.entries.lock().list.clear();
    }

    /// Returns the number of refusals of a kind since the start.
    pub fn count(&self, denied: Denied) -> u64 {
        self.counts[denied as usize].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_word_is_kept_in_part() {
        let log = DenialLog::default();
        let long = vec![b'k'; 1 << 20];
        let client = format!("name={}", "é".repeat(1 << 20));
        let entry =
            |object: &[u8]| DenialLogEntry::new(Denied::Key, "toplevel", object, &long, client.clone(), UnixMs(7));
        for object in [&long[..], &long, &long[1..], b"k"] {
            log.add(entry(object), 10);
        }
        let entries = log.last(10);
        let counts: Vec<u64> = entries.iter().map(|entry| entry.count).collect();
        assert_eq!(counts, [1, 1, 2], "words of another length are others");
        for entry in &entries {
            let bytes = [entry.object.capacity(), entry.username.capacity()];
            assert!(bytes.into_iter().all(|bytes| bytes < 2 << 10) && entry.client.capacity() <= 2 << 10);
        }
        assert!(entries[2].object.ends_with(b"kk... (1047552 more bytes)") && entries[0].object == b"k");
    }
}
