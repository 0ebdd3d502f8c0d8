//! Sessions that clients may resume.

use engine::locks::sync::Mutex;
use rustls::server::StoresServerSessions;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Sessions up to a number, each retained for a while.
#[derive(Debug)]
pub struct SessionCache {
    /// Limit of sessions; 0: none.
    size: usize,
    time: Duration,
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    /// Each session's serial number and content.
    by_key: HashMap<Vec<u8>, (u64, Vec<u8>)>,
    /// Ends of sessions, the oldest first; a session that was taken since has another number, or is not there.
    by_age: VecDeque<(Instant, u64, Vec<u8>)>,
    next: u64,
}

impl SessionCache {
    /// Creates a cache that retains `size` sessions (0: any number), each for `time`.
    pub fn new(size: usize, time: Duration) -> SessionCache {
        SessionCache { size, time, sessions: Mutex::default() }
    }

    fn put_at(&self, key: Vec<u8>, value: Vec<u8>, now: Instant) {
        let sessions = &mut *self.sessions.lock();
        sessions.forget(self.size.saturating_sub(1), self.size > 0, now);
        sessions.next += 1;
        sessions.by_age.push_back((now + self.time, sessions.next, key.clone()));
        sessions.by_key.insert(key, (sessions.next, value));
    }

    fn find_at(&self, key: &[u8], now: Instant) -> Option<Vec<u8>> {
        let sessions = &mut *self.sessions.lock();
        sessions.forget(0, false, now);
        sessions.by_key.get(key).map(|(_, value)| value.clone())
    }
}

impl Sessions {
    /// Removes expired sessions, and the oldest beyond `size` if that `is_limit`.
    fn forget(&mut self, size: usize, is_limit: bool, now: Instant) {
        while let Some((end, serial, key)) = self.by_age.front()
            && (*end <= now || is_limit && self.by_age.len() > size)
        {
            if self.by_key.get(key).is_some_and(|(known, _)| known == serial) {
                self.by_key.remove(key);
            }
            self.by_age.pop_front();
        }
    }
}

impl StoresServerSessions for SessionCache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.put_at(key, value, Instant::now());
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.find_at(key, Instant::now())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let found = self.find_at(key, Instant::now());
        self.sessions.lock().by_key.remove(key);
        found
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_kept_for_a_while_and_not_too_many() {
        let cache = SessionCache::new(2, Duration::from_secs(10));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for (key, seconds) in [(b"a", 0), (b"b", 1), (b"a", 2), (b"c", 3)] {
            cache.put_at(key.to_vec(), vec![seconds as u8], at(seconds));
        }
        assert_eq!(cache.find_at(b"a", at(3)), Some(vec![2]), "the newer one stays");
        assert_eq!((cache.find_at(b"b", at(3)), cache.find_at(b"c", at(12))), (None, Some(vec![3])));
        assert_eq!((cache.find_at(b"a", at(12)), cache.find_at(b"c", at(13))), (None, None));
        let unlimited = SessionCache::new(0, Duration::from_secs(10));
        (0..100u8).for_each(|n| unlimited.put_at(vec![n], vec![n], start));
        assert_eq!(
            (unlimited.take(&[7]), unlimited.take(&[7]), unlimited.get(&[8])),
            (Some(vec![7]), None, Some(vec![8]))
        );
    }
}
