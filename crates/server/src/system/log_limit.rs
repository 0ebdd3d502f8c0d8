//! Lines of the log that any client can cause at any rate: one of a kind in a while, and how many were left out.

use std::time::{Duration, Instant};

/// Time between two lines of a kind.
const APART: Duration = Duration::from_secs(1);

/// Lines of one kind so far.
#[derive(Debug, Default)]
pub struct LogLimit {
    last: Option<Instant>,
    left_out: u64,
}

impl LogLimit {
    /// Returns the text that is to stand behind the line, if the line may be written now.
    pub fn admit(&mut self, now: Instant) -> Option<String> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < APART) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        match std::mem::take(&mut self.left_out) {
            0 => Some(String::new()),
            left_out => Some(format!(" and {left_out} more")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_says_how_many_it_stands_for() {
        let (mut limit, start) = (LogLimit::default(), Instant::now());
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        assert_eq!(limit.admit(start).as_deref(), Some(""));
        assert_eq!([limit.admit(after(1)), limit.admit(after(999))], [None, None]);
        assert_eq!(limit.admit(after(1000)).as_deref(), Some(" and 2 more"));
        assert_eq!(limit.admit(after(1001)), None);
        assert_eq!(limit.admit(after(9000)).as_deref(), Some(" and 1 more"));
        assert_eq!(limit.admit(after(10000)).as_deref(), Some(""));
    }
}
