//! Bytes that a connection sends at once: encoded commands, with places for numbers that change.
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

use crate::cluster_slots::Tag;
use crate::key_numbers::{Number, Numbers, SHARED_PLACES};
use fastrand::Rng;

/// Digits of a number in a command.
const DIGITS: usize = 12;
const FRESH: &[u8; DIGITS] = b"__rand_int__";
const SHARED: [&[u8; DIGITS]; SHARED_PLACES] = [
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
/// Place for the tag that routes a command to a node of a cluster.
const TAG: &[u8; 5] = b"{tag}";
const DATA: &[u8] = b"__data__";

/// Commands that are sent one after the other, encoded.
#[derive(Clone, Debug, Default)]
pub struct CommandSequence {
    bytes: Vec<u8>,
    slots: Vec<(usize, Number)>,
    /// The places at which tags begin, behind their braces.
    tags: Vec<usize>,
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

    /// Adds a command that is encoded already.
    pub fn push_bytes(&mut self, encoded: &[u8], ranged: bool) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(encoded);
        self.commands += 1;
        self.tags.extend(memchr::memmem::find_iter(encoded, TAG).map(|at| start + at + 1));
        if ranged {
            let places = encoded.windows(DIGITS).enumerate();
            self.slots.extend(places.filter_map(|(at, word)| number(word).map(|number| (start + at, number))));
        }
    }

    /// Returns the number of bytes of one sequence.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether numbers are written into it.
    pub fn has_places(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Returns whether a tag routes it.
    pub fn has_tags(&self) -> bool {
        !self.tags.is_empty()
    }

    /// Returns the number of its commands.
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

/// One of the operations of a load, with its frequency relative to the others.
#[derive(Clone, Debug)]
pub struct Operation {
    pub name: String,
    pub weight: u64,
    pub sequence: CommandSequence,
}

/// Requests that are sent at once: a sequence several times in a row, or operations drawn at random.
#[derive(Clone, Debug)]
pub struct RequestBatch {
    bytes: Vec<u8>,
    /// Number of the bytes that are to be sent.
    len: usize,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Repeated(CommandSequence),
    Mixed(Mix),
}

#[derive(Clone, Debug)]
struct Mix {
    sequences: Vec<CommandSequence>,
    /// For each operation, the sum of the weights up to and including its own.
    weights: Vec<u64>,
    rng: Rng,
    /// The operations in the batch, by their numbers.
    chosen: Vec<usize>,
}

impl RequestBatch {
    /// Returns a batch with room for `repetitions`; the seed decides the order of several operations.
    pub fn new(operations: &[Operation], repetitions: usize, seed: u64) -> Self {
        if let [only] = operations {
            let bytes = only.sequence.bytes.repeat(repetitions);
            return RequestBatch { bytes, len: 0, content: Content::Repeated(only.sequence.clone()) };
        }
        let sum = |sum: &mut u64, operation: &Operation| {
            *sum += operation.weight;
            Some(*sum)
        };
        let mix = Mix {
            sequences: operations.iter().map(|operation| operation.sequence.clone()).collect(),
            weights: operations.iter().scan(0, sum).collect(),
            rng: Rng::with_seed(seed),
            chosen: Vec::new(),
        };
        RequestBatch { bytes: Vec::new(), len: 0, content: Content::Mixed(mix) }
    }

    /// Makes the next batch: the first `repetitions` with new numbers, or so many operations drawn anew; all of them
    /// with the tag, if there is one.
    pub fn renew(&mut self, repetitions: usize, numbers: &mut Numbers, tag: Option<Tag>) {
        match &mut self.content {
            Content::Repeated(sequence) => {
                let once = sequence.bytes.len();
                self.len = once * repetitions;
                if !sequence.slots.is_empty() {
                    let bytes = &mut self.bytes[..self.len];
                    bytes.chunks_exact_mut(once).for_each(|once| sequence.fill(once, numbers));
                }
                if let Some(tag) = tag.filter(|_| sequence.has_tags()) {
                    self.bytes[..self.len].chunks_exact_mut(once).for_each(|once| sequence.route(once, tag));
                }
            }
            Content::Mixed(mix) => {
                self.bytes.clear();
                mix.chosen.clear();
                for _ in 0..repetitions {
                    let operation = mix.choose();
                    let start = self.bytes.len();
                    let sequence = &mix.sequences[operation];
                    self.bytes.extend_from_slice(&sequence.bytes);
                    sequence.fill(&mut self.bytes[start..], numbers);
                    if let Some(tag) = tag {
                        sequence.route(&mut self.bytes[start..], tag);
                    }
                    mix.chosen.push(operation);
                }
                self.len = self.bytes.len();
            }
        }
    }

    /// Returns the batch as it is sent.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns the operations of a mixed batch, in their order.
    pub fn chosen(&self) -> Option<&[usize]> {
        match &self.content {
            Content::Repeated(_) => None,
            Content::Mixed(mix) => Some(&mix.chosen),
        }
    }
}

impl Mix {
    fn choose(&mut self) -> usize {
        let all = self.weights.last().copied().unwrap_or(0).max(1);
        let point = self.rng.u64(..all);
        self.weights.partition_point(|upto| *upto <= point).min(self.sequences.len().saturating_sub(1))
    }
}

impl CommandSequence {
    /// Writes new numbers into the places of `once`, the bytes of one sequence.
    fn fill(&self, once: &mut [u8], numbers: &mut Numbers) {
        let mut shared = [None; SHARED.len()];
        for (at, number) in &self.slots {
            let value = match number {
                Number::Fresh => numbers.next(*number),
                Number::Shared(which) => *shared[usize::from(*which)].get_or_insert_with(|| numbers.next(*number)),
            };
            write_digits(&mut once[*at..*at + DIGITS], value);
        }
    }
}

impl CommandSequence {
    /// Writes the tag into the places of `once`, the bytes of one sequence.
    fn route(&self, once: &mut [u8], tag: Tag) {
        for at in &self.tags {
            once[*at..*at + tag.len()].copy_from_slice(&tag);
        }
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

    fn only(sequence: CommandSequence) -> [Operation; 1] {
        [Operation { name: String::new(), weight: 1, sequence }]
    }

    fn operation(command: &str, weight: u64) -> Operation {
        let mut sequence = CommandSequence::default();
        sequence.push(&words(command), 1, b"", true);
        Operation { name: command.to_owned(), weight, sequence }
    }

    #[test]
    fn operations_are_mixed_by_their_weights() {
        let operations = [operation("GET k:__rand_int__", 8), operation("DEL k", 1), operation("PING", 1)];
        let mut batch = RequestBatch::new(&operations, 1000, 3);
        let mut numbers = Numbers::sequential(u64::MAX, 0);
        batch.renew(1000, &mut numbers, None);
        let chosen = batch.chosen().unwrap();
        let count = |which: usize| chosen.iter().filter(|chosen| **chosen == which).count();
        assert!((750..850).contains(&count(0)) && (60..140).contains(&count(1)), "{chosen:?}");
        // The bytes are those operations, in that order; each has its own numbers.
        let (mut gets, mut expected) = (0, Vec::new());
        for which in chosen {
            let command = match which {
                0 => format!("GET k:{gets:012}"),
                1 => "DEL k".to_owned(),
                _ => "PING".to_owned(),
            };
            gets += u64::from(*which == 0);
            resp::reply_value::encode_command(&mut expected, &words(&command));
        }
        assert_eq!(batch.bytes(), expected);
        batch.renew(0, &mut numbers, None);
        assert_eq!(batch.bytes(), b"");
    }

    #[test]
    fn places_take_numbers() {
        let mut sequence = CommandSequence::default();
        sequence.push(&words("ZADD z:__rand_1st__ __rand_int__ m:__rand_1st__ __data__"), 2, b"xy", true);
        assert_eq!(sequence.commands(), 2);
        let mut batch = RequestBatch::new(&only(sequence), 3, 0);
        let mut numbers = Numbers::sequential(1000, 5);
        batch.renew(2, &mut numbers, None);
        let text = String::from_utf8(batch.bytes().to_vec()).unwrap();
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
        let mut batch = RequestBatch::new(&only(sequence), 1, 0);
        let mut numbers = Numbers::random(10, 1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            batch.renew(1, &mut numbers, None);
            let text = String::from_utf8(batch.bytes().to_vec()).unwrap();
            seen.insert(text.lines().nth(4).unwrap().parse::<u64>().unwrap());
        }
        assert_eq!(seen, (0..10).collect());
    }

    #[test]
    fn all_keys_of_a_batch_take_the_tag() {
        let mut sequence = CommandSequence::default();
        sequence.push(&words("SET a:{tag} b"), 1, b"", false);
        sequence.push(&words("MGET {tag} x{tag}"), 1, b"", false);
        let mut batch = RequestBatch::new(&only(sequence), 2, 0);
        for tag in [*b"abc", *b"xyz"] {
            batch.renew(2, &mut Numbers::random(1, 1), Some(tag));
            let sent = String::from_utf8(batch.bytes().to_vec()).unwrap();
            let tag = format!("{{{}}}", std::str::from_utf8(&tag).unwrap());
            assert_eq!((sent.matches(&tag).count(), sent.matches("{tag}").count()), (6, 0), "{sent}");
        }
    }

    #[test]
    fn without_a_range_places_stay_as_they_are() {
        let mut sequence = CommandSequence::default();
        sequence.push(&words("GET key:__rand_int__"), 1, b"", false);
        let mut batch = RequestBatch::new(&only(sequence), 1, 0);
        batch.renew(1, &mut Numbers::random(1, 1), None);
        let sent = batch.bytes().to_vec();
        assert!(String::from_utf8(sent).unwrap().contains("key:__rand_int__"));
    }
}
