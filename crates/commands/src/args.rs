//! A command's arguments: borrowed from the read buffer, but for large ones, which own their bytes.

use engine::Error;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::ops::Index;

/// One argument.
pub type Arg<'a> = Cow<'a, [u8]>;

/// The arguments of one command; number 0 is its name.
#[derive(Debug, Default)]
pub struct Args<'a> {
    list: SmallVec<[Arg<'a>; 6]>,
}

impl<'a> Args<'a> {
    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn push(&mut self, arg: Arg<'a>) {
        self.list.push(arg);
    }

    /// Replaces argument `index`, which the parser left empty, by bytes of its own.
    pub fn own(&mut self, index: usize, bytes: Vec<u8>) {
        if let Some(arg) = self.list.get_mut(index) {
            *arg = Cow::Owned(bytes);
        }
    }

    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.list.get(index).map(Cow::as_ref)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        self.list.iter().map(Cow::as_ref)
    }

    /// The arguments from `index` on.
    pub fn from(&self, index: usize) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        self.list[index.min(self.list.len())..].iter().map(Cow::as_ref)
    }

    /// Takes the argument out, so that a large one becomes a value without a copy. Empty afterwards.
    pub fn take(&mut self, index: usize) -> Arg<'a> {
        std::mem::take(&mut self.list[index])
    }

    /// The same arguments, independent of the buffer that they were borrowed from.
    pub fn into_owned(self) -> Args<'static> {
        Args { list: self.list.into_iter().map(|arg| Cow::Owned(arg.into_owned())).collect() }
    }

    /// The same arguments where shorter-lived ones are wanted.
    pub fn shortened<'b>(self) -> Args<'b>
    where
        'a: 'b,
    {
        Args { list: self.list.into_iter().map(|arg| -> Arg<'b> { arg }).collect() }
    }

    /// True when the argument is this word, in whatever case.
    pub fn is(&self, index: usize, word: &str) -> bool {
        self[index].eq_ignore_ascii_case(word.as_bytes())
    }

    /// The argument as an integer, by Valkey's strict rules.
    pub fn int(&self, index: usize) -> Result<i64, Error> {
        resp::number::parse_i64(&self[index]).ok_or(Error::NOT_AN_INTEGER)
    }

    /// Bytes of all arguments together.
    pub fn total_len(&self) -> usize {
        self.iter().map(<[u8]>::len).sum()
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        &self.list[index]
    }
}

impl<'a> FromIterator<&'a [u8]> for Args<'a> {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(args: I) -> Self {
        Args { list: args.into_iter().map(Cow::Borrowed).collect() }
    }
}

impl<'a> From<&'a [&'a str]> for Args<'a> {
    fn from(words: &'a [&'a str]) -> Self {
        words.iter().map(|word| word.as_bytes()).collect()
    }
}
