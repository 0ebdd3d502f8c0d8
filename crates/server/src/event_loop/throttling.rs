//! Users' quotas of commands and bytes: a connection that has used up its share is not served for a while.

use crate::event_loop::worker::Worker;

impl Worker {
    /// Returns how many requests of the connection may run now. At zero the connection resumes when its user may use
    /// more.
    #[inline]
    pub fn allowance(&mut self, token: usize) -> usize {
        let connection = &mut self.connections[token];
        if !connection.meter.is_on() && !connection.session.may_be_throttled(&self.shared.engine) {
            return usize::MAX;
        }
        self.ask_for_more(token)
    }

    #[cold]
    fn ask_for_more(&mut self, token: usize) -> usize {
        let now = self.nanos().us();
        let connection = &mut self.connections[token];
        let Some((user, info)) = connection.session.throttled(&self.shared.engine) else {
            connection.meter.end();
            return usize::MAX;
        };
        match connection.meter.ask(user, info, now) {
            Ok(commands) => usize::try_from(commands).unwrap_or(usize::MAX),
            Err(until) => {
                connection.waiting.set_throttled(true);
                self.throttled.add(token, until);
                0
            }
        }
    }

    /// Resumes connections whose users may use more again.
    pub fn end_throttled(&mut self) {
        if self.throttled.next().is_none() {
            return;
        }
        let now = self.nanos().us();
        while let Some(token) = self.throttled.take_due(now) {
            // Another connection may have the token by now; it asks again.
            if self.connections.get_mut(token).is_some_and(|connection| connection.waiting.set_throttled(false)) {
                self.enqueue(token);
            }
        }
    }
}
