//! The open connections to the primary, so that one that is not wanted any more ends at once: its thread may wait for
//! bytes on it, and the primary is to notice.

use engine::host::peers::Line;
use engine::locks::sync::Mutex;
use std::sync::Weak;

/// Connections, each with the generation of the primary that it was opened for.
#[derive(Default)]
pub struct LinkLines(Mutex<Vec<(u64, Weak<dyn Line>)>>);

impl LinkLines {
    /// Adds a connection. The thread that opened it checks afterwards whether it is still wanted.
    pub fn add(&self, generation: u64, line: Weak<dyn Line>) {
        let mut lines = self.0.lock();
        lines.retain(|(_, line)| line.strong_count() > 0);
        lines.push((generation, line));
    }

    /// Ends connections of other generations.
    pub fn hang_up_but(&self, generation: u64) {
        self.hang_up_where(|its| its != generation);
    }

    /// Ends all connections: clients may kill the link, which is made again.
    pub fn hang_up(&self) {
        self.hang_up_where(|_| true);
    }

    fn hang_up_where(&self, is_meant: impl Fn(u64) -> bool) {
        let mut lines = self.0.lock();
        lines.retain(|(its, line)| {
            let goes = is_meant(*its);
            if let Some(line) = line.upgrade().filter(|_| goes) {
                line.hang_up();
            }
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[derive(Default)]
    struct Counted(AtomicU32);

    impl Line for Counted {
        fn hang_up(&self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn lines_of_another_primary_end_once() {
        let (old, new, closed) =
            (Arc::new(Counted::default()), Arc::new(Counted::default()), Arc::new(Counted::default()));
        let lines = LinkLines::default();
        for (generation, line) in [(1, &old), (2, &new), (1, &closed)] {
            let line: Weak<Counted> = Arc::downgrade(line);
            lines.add(generation, line);
        }
        drop(closed);
        lines.hang_up_but(2);
        lines.hang_up_but(2);
        assert_eq!((old.0.load(Relaxed), new.0.load(Relaxed)), (1, 0));
        lines.hang_up_but(3);
        assert_eq!((old.0.load(Relaxed), new.0.load(Relaxed)), (1, 1));
        let killed: Arc<Counted> = Arc::default();
        let line: Weak<Counted> = Arc::downgrade(&killed);
        lines.add(3, line);
        lines.hang_up();
        assert_eq!((killed.0.load(Relaxed), new.0.load(Relaxed)), (1, 1));
    }
}
