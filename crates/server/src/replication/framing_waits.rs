//! Requests that wait until the stream has all changes that were in the log when they came. The thread frames a piece
//! at a time and sends it before the next one, so a replica's lag is due only to itself.

use std::sync::{Arc, OnceLock};

/// See the module's documentation.
#[derive(Default)]
pub(super) struct FramingWaits {
    /// The log's lengths at the first and at the last request for acknowledgements that is still to be served.
    asks: Option<(u64, u64)>,
    /// Wanted lengths of the stream, each with the log's length that it is of.
    lengths: Vec<(u64, Arc<OnceLock<u64>>)>,
}

impl FramingWaits {
    /// Requests acknowledgements of replicas once the stream has so much of the log.
    pub fn ask(&mut self, log: u64) {
        let (first, last) = self.asks.unwrap_or((log, log));
        self.asks = Some((first, last.max(log)));
    }

    /// Requests the stream's length once it has so much of the log.
    pub fn want_length(&mut self, log: u64, length: Arc<OnceLock<u64>>) {
        self.lengths.push((log, length));
    }

    /// Returns whether replicas are to be asked now that the stream has so much of the log. Later requests are served
    /// later.
    pub fn take_ask(&mut self, framed: u64) -> bool {
        let Some((_, last)) = self.asks.take_if(|(first, _)| *first <= framed) else { return false };
        self.asks = (last > framed).then_some((last, last));
        true
    }

    /// Takes the wanted lengths that are known now that the stream has so much of the log.
    pub fn take_lengths(&mut self, framed: u64) -> impl Iterator<Item = Arc<OnceLock<u64>>> + '_ {
        self.lengths.extract_if(.., move |(log, _)| *log <= framed).map(|(_, length)| length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_waits_for_what_was_written_before_it_and_for_nothing_later() {
        let mut waits = FramingWaits::default();
        assert!(!waits.take_ask(u64::MAX));
        [100, 300, 200].into_iter().for_each(|log| waits.ask(log));
        let asked = [99, 150, 199, 250, 299, 300, u64::MAX].map(|framed| waits.take_ask(framed));
        assert_eq!(asked, [false, true, false, false, false, true, false]);
        waits.ask(400);
        assert!(waits.take_ask(500) && !waits.take_ask(500), "one question is for all that came before");
    }

    #[test]
    fn the_streams_length_is_told_when_it_has_the_log_as_long_as_it_was() {
        let mut waits = FramingWaits::default();
        let (early, late) = (Arc::default(), Arc::default());
        waits.want_length(200, Arc::clone(&late));
        waits.want_length(100, Arc::clone(&early));
        assert_eq!(waits.take_lengths(99).count(), 0);
        assert!(waits.take_lengths(100).all(|length| Arc::ptr_eq(&length, &early)));
        assert_eq!((waits.take_lengths(200).count(), waits.lengths.len()), (1, 0));
    }
}
