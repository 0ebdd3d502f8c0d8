//! A command's arguments: places in the buffer that the command was read into, but large ones own their bytes.

use engine::Error;
use engine::propagation::log_batch::{put_command, put_count, put_word};
use engine::stats::running_command::{LARGE_MAX, Place, RunningCommand};
use resp::{LARGE, Span};
use std::borrow::Cow;
use std::ops::Index;

/// One argument.
pub type Arg<'a> = Cow<'a, [u8]>;

/// The arguments of one command; number 0 is its name.
#[derive(Debug, Default)]
pub struct Args<'a> {
    /// The bytes that the spans refer to.
    bytes: &'a [u8],
    spans: &'a [Span],
    /// Arguments that are not borrowed; nearly always none.
    own: RetainedArgs,
    /// `bytes` begins with the request of these arguments.
    is_request: bool,
}

/// Arguments with bytes of their own, if there are any.
#[derive(Clone, Debug, Default)]
pub struct RetainedArgs(Option<Box<OwnedArgs>>);

#[derive(Clone, Debug, Default)]
struct OwnedArgs {
    /// Words by index.
    words: Vec<(usize, Vec<u8>)>,
    /// Bytes in the place of the borrowed ones, if none are borrowed.
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// Words remain when they are taken: the log needs them afterwards.
    lasting: bool,
}

impl From<Vec<(usize, Vec<u8>)>> for RetainedArgs {
    #[inline]
    fn from(words: Vec<(usize, Vec<u8>)>) -> Self {
        RetainedArgs((!words.is_empty()).then(|| Box::new(OwnedArgs { words, ..OwnedArgs::default() })))
    }
}

impl RetainedArgs {
    /// Returns whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl<'a> Args<'a> {
    /// Returns arguments where a parser found them.
    #[inline]
    pub fn parsed(bytes: &'a [u8], spans: &'a [Span], own: RetainedArgs) -> Self {
        Args { bytes, spans, own, is_request: false }
    }

    /// Returns arguments of the request that `bytes` begins with, where [`resp::RequestParser`] found them.
    #[inline]
    pub fn request(bytes: &'a [u8], spans: &'a [Span], own: RetainedArgs) -> Self {
        Args { bytes, spans, own, is_request: true }
    }

    /// Returns the arguments with bytes of their own.
    #[inline]
    pub fn into_own(self) -> RetainedArgs {
        self.own
    }

    /// Returns the arguments' places, and their buffer.
    #[inline]
    fn places(&self) -> (&[Span], &[u8]) {
        match &self.own.0 {
            Some(own) if self.spans.is_empty() => (&own.spans, &own.bytes),
            _ => (self.spans, self.bytes),
        }
    }

    #[inline]
    fn words(&self) -> &[(usize, Vec<u8>)] {
        self.own.0.as_ref().map_or(&[], |own| &own.words)
    }

    /// Shows a report of a crash where the arguments lie.
    #[inline(always)]
    pub fn publish(&self, running: &RunningCommand) {
        let (spans, bytes) = self.places();
        running.begin_command(Place::of(bytes), Place::of(spans));
        if self.has_own() {
            running.add_large(&self.large());
        }
    }

    /// Shows a report of a crash where the arguments of a command within another one lie.
    #[inline(always)]
    pub fn publish_inner(&self, running: &RunningCommand) {
        let (spans, bytes) = self.places();
        running.set_inner(Place::of(bytes), Place::of(spans));
        if self.has_own() {
            running.add_inner_large(&self.large());
        }
    }

    #[cold]
    fn large(&self) -> Vec<(usize, Place)> {
        self.words().iter().take(LARGE_MAX).map(|(index, word)| (*index, Place::of(word))).collect()
    }

    /// Returns the number of arguments, with the command's name.
    #[inline]
    pub fn len(&self) -> usize {
        self.places().0.len()
    }

    /// Returns whether there is not even a name.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes that the request had, as far as the arguments show.
    #[inline]
    pub fn wire_len(&self) -> usize {
        match &self.own.0 {
            // A line end follows the last argument.
            None => {
                if let [.., last] = self.spans {
                    last.start + last.len + 2
                } else {
                    0
                }
            }
            Some(_) => self.wire_len_own(),
        }
    }

    #[cold]
    fn wire_len_own(&self) -> usize {
        let parsed = self.places().0.last().map_or(0, |last| last.start + last.len + 2);
        parsed + self.words().iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
    }

    /// Returns the command as clients send it: mostly the bytes that it came in.
    #[inline]
    pub fn text(&self) -> Cow<'_, [u8]> {
        self.as_sent().map_or_else(|| Cow::Owned(self.rendered()), Cow::Borrowed)
    }

    /// Returns the command as clients send it. The bytes of an own argument that are most of it become the command
    /// without a copy, and the argument is empty afterwards, if it `may_go`.
    #[inline]
    pub fn take_text(&mut self, may_go: impl Fn(usize) -> bool) -> Cow<'_, [u8]> {
        if self.own.0.is_some()
            && let Some(place) = self.words().iter().position(|(index, word)| word.len() >= LARGE && may_go(*index))
        {
            return Cow::Owned(self.rendered_around(place));
        }
        self.text()
    }

    /// Renders the command in the bytes of one of the own words.
    #[inline(never)]
    fn rendered_around(&mut self, place: usize) -> Vec<u8> {
        let Some((index, word)) = self.own.0.as_mut().and_then(|own| own.words.get_mut(place)) else {
            return self.rendered();
        };
        let (index, mut text) = (*index, std::mem::take(word));
        let (mut head, mut tail) = (Vec::new(), b"\r\n".to_vec());
        put_count(&mut head, b'*', self.len());
        self.iter().take(index).for_each(|word| put_word(&mut head, word));
        put_count(&mut head, b'$', text.len());
        self.from(index + 1).for_each(|word| put_word(&mut tail, word));
        text.reserve_exact(head.len() + tail.len());
        text.splice(..0, head);
        text.extend_from_slice(&tail);
        text
    }

    #[inline(never)]
    fn rendered(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.iter().map(|word| word.len() + 16).sum());
        put_command(&mut text, self.iter());
        text
    }

    /// Returns the request, if it is just as [`put_command`] would write it. The parser ignores only the byte behind a
    /// `\r`.
    #[inline]
    fn as_sent(&self) -> Option<&[u8]> {
        let (true, None, count, Some(last)) = (self.is_request, &self.own.0, self.spans.len(), self.spans.last())
        else {
            return None;
        };
        let is_plain = count < 10
            && self.bytes.starts_with(&[b'*', b'0' + count as u8, b'\r', b'\n'])
            && self.spans.iter().all(|span| self.bytes.get(span.start.wrapping_sub(1)) == Some(&b'\n'));
        if is_plain { self.bytes.get(..last.start + last.len + 2) } else { None }
    }

    /// Returns whether an argument has bytes of its own, which the handler may take.
    #[inline]
    pub fn has_own(&self) -> bool {
        !self.words().is_empty()
    }

    /// Returns the arguments that have bytes of their own, in order.
    pub fn own_indices(&self) -> impl Iterator<Item = usize> {
        self.words().iter().map(|(index, _)| *index)
    }

    /// Replaces argument `index` by bytes of its own.
    pub fn own(&mut self, index: usize, bytes: Vec<u8>) {
        let words = &mut self.own.0.get_or_insert_default().words;
        words.retain(|(owned, _)| *owned != index);
        words.push((index, bytes));
    }

    /// Returns the argument, if there are so many.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        match &self.own.0 {
            None => self.spans.get(index).map(|span| span.of(self.bytes)),
            Some(_) => self.get_own(index),
        }
    }

    /// Indexes arguments, for callers on the hot path.
    #[inline(always)]
    pub fn word(&self, index: usize) -> &[u8] {
        match &self.own.0 {
            None => self.spans[index].of(self.bytes),
            Some(_) => &self[index],
        }
    }

    fn get_own(&self, index: usize) -> Option<&[u8]> {
        if let Some((_, bytes)) = self.words().iter().find(|(owned, _)| *owned == index) {
            return Some(bytes);
        }
        let (spans, bytes) = self.places();
        spans.get(index).map(|span| span.of(bytes))
    }

    /// Returns all arguments, the name first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator + Clone {
        self.from(0)
    }

    /// Returns the arguments from `index` on.
    pub fn from(&self, index: usize) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator + Clone {
        (index.min(self.len())..self.len()).map(|index| &self[index])
    }

    /// Returns the bytes of memory beside the value itself.
    pub fn memory(&self) -> usize {
        let of_own = |own: &OwnedArgs| {
            let words = own.words.iter().map(|(_, word)| word.capacity()).sum::<usize>();
            let lists = own.words.capacity() * size_of::<(usize, Vec<u8>)>() + own.spans.capacity() * size_of::<Span>();
            size_of::<OwnedArgs>() + words + lists + own.bytes.capacity()
        };
        self.own.0.as_ref().map_or(0, |own| of_own(own))
    }

    /// Makes arguments that are taken from now on copies.
    #[inline]
    pub fn make_lasting(&mut self) {
        if let Some(own) = &mut self.own.0 {
            own.lasting = true;
        }
    }

    /// Takes the argument out, so that a large one becomes a value without a copy. Empty afterwards if it was one,
    /// unless the arguments are to last.
    #[inline]
    pub fn take(&mut self, index: usize) -> Arg<'a> {
        match &mut self.own.0 {
            None => Cow::Borrowed(self.spans[index].of(self.bytes)),
            Some(own) => match own.words.iter_mut().find(|(owned, _)| *owned == index) {
                Some((_, bytes)) if own.lasting => Cow::Owned(bytes.clone()),
                Some((_, bytes)) => Cow::Owned(std::mem::take(bytes)),
                None if self.spans.is_empty() => Cow::Owned(own.spans[index].of(&own.bytes).to_vec()),
                None => Cow::Borrowed(self.spans[index].of(self.bytes)),
            },
        }
    }

    /// Returns these arguments, independent of the buffer that they were borrowed from.
    pub fn into_owned(mut self) -> Args<'static> {
        let words = self.own.0.as_mut().map(|own| std::mem::take(&mut own.words)).unwrap_or_default();
        let mut args: Args<'static> = self.iter().collect();
        for (index, word) in words {
            args.own(index, word);
        }
        args
    }

    /// Returns whether the argument is this word, in whatever case.
    #[inline]
    pub fn is(&self, index: usize, word: &str) -> bool {
        self[index].eq_ignore_ascii_case(word.as_bytes())
    }

    /// Returns whether any argument is this word, in whatever case.
    pub fn has(&self, word: &str) -> bool {
        (0..self.len()).any(|index| self.is(index, word))
    }

    /// Returns the argument as an integer, by Valkey's strict rules.
    ///
    /// # Errors
    /// [`Error::NotAnInteger`].
    pub fn int(&self, index: usize) -> Result<i64, Error> {
        resp::number::parse_i64(&self[index]).ok_or(Error::NotAnInteger)
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        match self.get(index) {
            Some(bytes) => bytes,
            None => panic!("argument {index} of {}", self.len()),
        }
    }
}

/// Arguments from anywhere are copied into a buffer of their own.
impl<'b> FromIterator<&'b [u8]> for Args<'_> {
    fn from_iter<I: IntoIterator<Item = &'b [u8]>>(words: I) -> Self {
        let words = words.into_iter();
        let (mut bytes, mut spans) = (Vec::new(), Vec::with_capacity(words.size_hint().0));
        for word in words {
            spans.push(Span { start: bytes.len(), len: word.len() });
            bytes.extend_from_slice(word);
        }
        let own = OwnedArgs { words: Vec::new(), bytes, spans, lasting: false };
        Args { bytes: &[], spans: &[], own: RetainedArgs(Some(Box::new(own))), is_request: false }
    }
}

impl From<&[&str]> for Args<'_> {
    fn from(words: &[&str]) -> Self {
        words.iter().map(|word| word.as_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::{Progress, RequestLimits, RequestParser};

    #[test]
    fn an_argument_is_found_wherever_it_lies() {
        let buffer = b"SET key  ";
        let spans = [Span { start: 0, len: 3 }, Span { start: 4, len: 3 }, Span { start: 0, len: 0 }];
        let mut args = Args::parsed(buffer, &spans, vec![(2, b"large".to_vec())].into());
        assert_eq!((&args[0], &args[1], &args[2]), (&b"SET"[..], &b"key"[..], &b"large"[..]));
        assert_eq!(args.from(1).collect::<Vec<_>>(), [&b"key"[..], b"large"]);
        assert!(args.is(0, "set") && args.get(3).is_none());
        assert!(matches!(args.take(1), Cow::Borrowed(b"key")));
        assert!(matches!(args.take(2), Cow::Owned(bytes) if bytes == b"large"));
        assert_eq!(&args[2], b"");
        let mut args = Args::parsed(buffer, &spans, vec![(2, b"large".to_vec())].into());
        assert!(
            args.memory() >= 5 + size_of::<OwnedArgs>()
                && Args::parsed(buffer, &spans, RetainedArgs::default()).memory() == 0
        );
        args.make_lasting();
        assert!(matches!(args.take(2), Cow::Owned(bytes) if bytes == b"large"));
        assert_eq!(&args[2], b"large");
    }

    #[test]
    fn a_large_argument_becomes_the_command_that_is_logged() {
        let (buffer, none) = (b"SETXxk", Span::default());
        let spans = [Span { start: 0, len: 3 }, Span { start: 5, len: 1 }, none, Span { start: 3, len: 1 }];
        let large = || {
            let mut large = Vec::with_capacity(LARGE + 100);
            large.resize(LARGE, b'v');
            large
        };
        let args = |words: Vec<(usize, Vec<u8>)>| Args::parsed(buffer, &spans, words.into());
        let value = large();
        let (place, mut whole) = (value.as_ptr(), args(vec![(2, value)]));
        let text = whole.text().into_owned();
        assert_ne!(text.as_ptr(), place);
        let Cow::Owned(taken) = whole.take_text(|index| index != 1) else { panic!("it has its own bytes") };
        assert!(taken == text && taken.as_ptr() == place && whole[2].is_empty());
        let mut key = args(vec![(1, large()), (2, b"small".to_vec())]);
        let text = key.text().into_owned();
        assert_eq!(key.take_text(|index| index != 1), text);
        assert_eq!((key[1].len(), &key[2]), (LARGE, &b"small"[..]));
    }

    #[test]
    fn a_command_is_rendered_from_the_request_or_anew() {
        let set = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\nvvvvvvvvvvvv\r\n";
        let long = [&b"*10\r\n"[..], &b"$1\r\nx\r\n".repeat(10)].concat();
        for (request, is_sent, rendered) in [
            (&set[..], true, &set[..]),
            (b"SET k vvvvvvvvvvvv\r\n", false, set),
            (b"SET \"k\" vvvvvvvvvvvv\n", false, set),
            (&long, false, &long),
        ] {
            let (mut spans, buffer) = (Vec::new(), [request, b"*1\r\n$4\r\nPING\r\n"].concat());
            let parsed = RequestParser::new().parse(&buffer, &RequestLimits::default(), &mut spans);
            let Ok(Progress::Command { owned, .. }) = parsed else { panic!("{parsed:?}") };
            let args = Args::request(&buffer, &spans, owned.into());
            let out = args.text();
            assert_eq!((args.as_sent().is_some(), &out[..]), (is_sent, rendered), "{}", request.escape_ascii());
        }
        // Bytes that look like a request need not be one.
        let spans = [Span { start: 0, len: 4 }, Span { start: 4, len: 3 }];
        let args = Args::parsed(b"*2\r\nabc", &spans, RetainedArgs::default());
        assert_eq!(*args.text(), *b"*2\r\n$4\r\n*2\r\n\r\n$3\r\nabc\r\n");
    }

    #[test]
    fn owned_arguments_outlive_their_buffer() {
        let owned = {
            let buffer = b"GETkey".to_vec();
            let spans = vec![Span { start: 0, len: 3 }, Span { start: 3, len: 3 }];
            let mut args = Args::parsed(&buffer, &spans, RetainedArgs::default());
            args.own(1, b"other".to_vec());
            args.into_owned()
        };
        assert_eq!(owned.iter().collect::<Vec<_>>(), [&b"GET"[..], b"other"]);
    }
}
