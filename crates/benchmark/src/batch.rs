//! What a connection sends at once: commands as bytes, with places for numbers that change.
//!
//! Commands are encoded once. Every `__rand_int__` is twelve bytes in them, and stays twelve bytes when digits take its
//! place, so a batch is sent again by writing digits over the old ones:
//!
//! ```text
//! *2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n
//!                          ^ slot
//! ```
//!
//! `__rand_1st__` to `__rand_9th__` are places of the same length that share one number each within a sequence.

use fastrand::Rng;

/// Digits of a number in a command.
const DIGITS: usize = 12;
const FRESH: &[u8; DIGITS] = b"__rand_int__";
const SHARED: [&[u8; DIGITS]; 9] = [
    b"__rand_1st__",
    b"__rand_2nd__",
    b"__rand_3rd__",
    b"__rand_4th__",
    b"__rand_5th__",
    b"__rand_6th__",
    b"__rand_7th__",
    b"__rand_8th__",
    b"__rand_9th__",
];
const DATA: &[u8] = b"__data__";

/// Which number a place takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Fresh,
    Shared(u8),
}

/// Commands that are sent one after the other, encoded.
#[derive(Clone, Debug, Default)]
pub struct CommandSequence {
    bytes: Vec<u8>,
    slots: Vec<(usize, Number)>,
    commands: usize,
}

impl CommandSequence {
    /// Adds a command, `times` in a row. `__data__` becomes `data`; numbers are places only where there is a range to
    /// take them from.
    pub fn push(&mut self, args: &[Vec<u8>], times: usize, data: &[u8], ranged: bool) {
        let args: Vec<Vec<u8>> = args.iter().map(|arg| replace(arg, DATA, data)).collect();
        let mut encoded = Vec::new();
        resp::reply_value::encode_command(&mut encoded, &args);
        for _ in 0..times {
            self.push_bytes(&encoded, ranged);
        }
    }

    /// Adds a command as it goes over the wire.
    pub fn push_bytes(&mut self, encoded: &[u8], ranged: bool) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(encoded);
        self.commands += 1;
        if ranged {
            let places = encoded.windows(DIGITS).enumerate();
            self.slots.extend(places.filter_map(|(at, word)| number(word).map(|number| (start + at, number))));
        }
    }

    /// Bytes that it takes to send.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Commands in it.
    pub fn commands(&self) -> usize {
        self.commands
    }
}

fn number(word: &[u8]) -> Option<Number> {
    if word == FRESH {
        return Some(Number::Fresh);
    }
    SHARED.iter().position(|name| word == *name).map(|at| Number::Shared(at as u8))
}

fn replace(text: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    let (mut result, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(at) = memchr::memmem::find(rest, what) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(with);
        rest = &rest[at + what.len()..];
    }
    result.extend_from_slice(rest);
    result
}

/// Where numbers come from.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// Numbers are below this; at least 1.
    range: u64,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Random(Rng),
    /// The next number of fresh places, and of each shared one.
    Sequential([u64; SHARED.len() + 1]),
}

impl Numbers {
    pub fn random(range: u64, seed: u64) -> Self {
        Numbers { range: range.max(1), source: Source::Random(Rng::with_seed(seed)) }
    }

    /// Counts up from `start`.
    pub fn sequential(range: u64, start: u64) -> Self {
        Numbers { range: range.max(1), source: Source::Sequential([start; SHARED.len() + 1]) }
    }

    fn next(&mut self, number: Number) -> u64 {
        match &mut self.source {
            Source::Random(rng) => rng.u64(..self.range),
            Source::Sequential(next) => {
                let counter = match number {
                    Number::Fresh => &mut next[0],
                    Number::Shared(at) => &mut next[1 + usize::from(at)],
                };
                let value = *counter % self.range;
                *counter = counter.wrapping_add(1);
                value
            }
        }
    }
}

/// A sequence, several times in a row.
#[derive(Clone, Debug)]
pub struct RequestBatch {
    bytes: Vec<u8>,
    sequence: CommandSequence,
}

impl RequestBatch {
    pub fn new(sequence: &CommandSequence, repetitions: usize) -> Self {
        RequestBatch { bytes: sequence.bytes.repeat(repetitions), sequence: sequence.clone() }
    }

    /// The first `repetitions` of the batch with new numbers.
    pub fn renew(&mut self, repetitions: usize, numbers: &mut Numbers) -> &[u8] {
        let len = self.sequence.bytes.len();
        let bytes = &mut self.bytes[..len * repetitions];
        if !self.sequence.slots.is_empty() {
            for once in bytes.chunks_exact_mut(len) {
                let mut shared = [None; SHARED.len()];
                for (at, number) in &self.sequence.slots {
                    let value = match number {
                        Number::Fresh => numbers.next(*number),
                        Number::Shared(which) => {
                            *shared[usize::from(*which)].get_or_insert_with(|| numbers.next(*number))
                        }
                    };
                    write_digits(&mut once[*at..*at + DIGITS], value);
                }
            }
        }
        bytes
    }
}

fn write_digits(place: &mut [u8], mut value: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<u8>> {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn places_take_numbers() {
        let mut sequence = CommandSequence::default();
        sequence.push(&words("ZADD z:__rand_1st__ __rand_int__ m:__rand_1st__ __data__"), 2, b"xy", true);
        assert_eq!(sequence.commands(), 2);
        let mut batch = RequestBatch::new(&sequence, 3);
        let mut numbers = Numbers::sequential(1000, 5);
        let text = String::from_utf8(batch.renew(2, &mut numbers).to_vec()).unwrap();
        let once = |shared: u64, fresh: u64| {
            let mut expected = Vec::new();
            let line = format!("ZADD z:{shared:012} {fresh:012} m:{shared:012} xy");
            resp::reply_value::encode_command(&mut expected, &words(&line));
            String::from_utf8(expected).unwrap()
        };
        assert_eq!(text, [once(5, 5), once(5, 6), once(6, 7), once(6, 8)].concat());
    }

    #[test]
    fn random_numbers_stay_in_range() {
        let mut sequence = CommandSequence::default();
        sequence.push(&words("GET __rand_int__"), 1, b"", true);
        let mut batch = RequestBatch::new(&sequence, 1);
        let mut numbers = Numbers::random(10, 1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let text = String::from_utf8(batch.renew(1, &mut numbers).to_vec()).unwrap();
            seen.insert(text.lines().nth(4).unwrap().parse::<u64>().unwrap());
        }
        assert_eq!(seen, (0..10).collect());
    }

    #[test]
    fn without_a_range_places_stay_as_they_are() {
        let mut sequence = CommandSequence::default();
        sequence.push(&words("GET key:__rand_int__"), 1, b"", false);
        let mut batch = RequestBatch::new(&sequence, 1);
        let sent = batch.renew(1, &mut Numbers::random(1, 1)).to_vec();
        assert!(String::from_utf8(sent).unwrap().contains("key:__rand_int__"));
    }
}
