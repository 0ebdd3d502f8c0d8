//! The command that a worker runs now, for the report of a crash: its client, and the addresses of its arguments.
//!
//! The worker that runs the command writes addresses and lengths. A report is written by another thread, or by the
//! worker itself when it cannot continue, and reads the bytes as the system shows them, so that an address that is
//! wrong by now does no harm. Bytes are never read through these numbers in any other way.
//!
//! ```text
//!   a visit of a client     its number
//!   a plain command         one store: the address of its request, which lies in the client's input
//!   any other command       its `ArgsPlace`
//!   one within it           another `ArgsPlace`: a command of a transaction or of a script
//! ```

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Arguments with bytes of their own that are described.
pub const LARGE_MAX: usize = 4;

/// An address and a length in bytes, or in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The address of the first byte.
    pub start: usize,
    /// The length.
    pub len: usize,
}

impl Place {
    /// Returns the place of a slice.
    #[inline(always)]
    pub fn of<T>(slice: &[T]) -> Place {
        Place { start: slice.as_ptr().addr(), len: slice.len() }
    }
}

/// Where the arguments of a command lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArgsPlace {
    /// The bytes that the spans refer to.
    pub bytes: Place,
    /// The spans, one an argument.
    pub spans: Place,
    /// Arguments with bytes of their own, by number; those beyond the first few are left out.
    pub large: [(usize, Place); LARGE_MAX],
}

#[derive(Debug, Default)]
struct AtomicPlace {
    start: AtomicUsize,
    len: AtomicUsize,
}

impl AtomicPlace {
    #[inline(always)]
    fn set(&self, place: Place) {
        self.start.store(place.start, Relaxed);
        self.len.store(place.len, Relaxed);
    }

    fn get(&self) -> Place {
        Place { start: self.start.load(Relaxed), len: self.len.load(Relaxed) }
    }
}

#[derive(Debug, Default)]
struct AtomicArgs {
    bytes: AtomicPlace,
    spans: AtomicPlace,
    /// Number of places in `large` that are of this command.
    large_count: AtomicUsize,
    large: [(AtomicUsize, AtomicPlace); LARGE_MAX],
}

impl AtomicArgs {
    #[inline(always)]
    fn set(&self, bytes: Place, spans: Place) {
        self.bytes.set(bytes);
        self.spans.set(spans);
        self.large_count.store(0, Relaxed);
    }

    #[cold]
    fn set_large(&self, large: &[(usize, Place)]) {
        for ((index, place), (number, bytes)) in self.large.iter().zip(large) {
            index.store(*number, Relaxed);
            place.set(*bytes);
        }
        self.large_count.store(large.len().min(LARGE_MAX), Relaxed);
    }

    fn get(&self) -> Option<ArgsPlace> {
        let mut args = ArgsPlace { bytes: self.bytes.get(), spans: self.spans.get(), ..ArgsPlace::default() };
        let count = self.large_count.load(Relaxed);
        for (large, (index, place)) in args.large.iter_mut().zip(&self.large).take(count) {
            *large = (index.load(Relaxed), place.get());
        }
        (args.spans.len > 0).then_some(args)
    }

    fn put(&self, args: Option<ArgsPlace>) {
        let args = args.unwrap_or_default();
        self.set(args.bytes, args.spans);
        self.set_large(&args.large);
    }
}

/// The arguments of the command that a worker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunningArgs {
    /// A request as it came, at the front of the client's input.
    Request(Place),
    /// Arguments that are known one by one.
    Args(ArgsPlace),
}

/// A worker's command, as a report reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunningVisit {
    /// The client's number.
    pub client: u64,
    /// The arguments of its command.
    pub args: Option<RunningArgs>,
    /// The arguments of the command within it.
    pub inner: Option<ArgsPlace>,
}

/// See the module's documentation. Only its worker writes it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct RunningCommand {
    /// The client's number; 0: none.
    client: AtomicU64,
    /// The address of the request; 0: the arguments are known one by one.
    request: AtomicUsize,
    /// The address of the end of the input that has the request.
    input_end: AtomicUsize,
    args: AtomicArgs,
    inner: AtomicArgs,
}

impl RunningCommand {
    /// Begins the visit of a client, of which no command runs yet.
    #[inline(always)]
    pub fn begin_visit(&self, client: u64) {
        self.client.store(client, Relaxed);
        self.request.store(0, Relaxed);
        self.args.spans.len.store(0, Relaxed);
        self.inner.spans.len.store(0, Relaxed);
    }

    /// Ends the visit.
    #[inline(always)]
    pub fn end_visit(&self) {
        self.client.store(0, Relaxed);
    }

    /// Begins a row of requests in this input.
    #[inline(always)]
    pub fn begin_requests(&self, input: &[u8]) {
        let Place { start, len } = Place::of(input);
        self.input_end.store(start + len, Relaxed);
    }

    /// Begins a request of the row, which this part of the input begins with.
    #[inline(always)]
    pub fn begin_request(&self, input: &[u8]) {
        self.request.store(input.as_ptr().addr(), Relaxed);
    }

    /// Begins a command whose arguments lie here.
    #[inline(always)]
    pub fn begin_command(&self, bytes: Place, spans: Place) {
        self.request.store(0, Relaxed);
        self.args.set(bytes, spans);
    }

    /// Adds the places of arguments that have bytes of their own.
    pub fn add_large(&self, large: &[(usize, Place)]) {
        self.args.set_large(large);
    }

    /// Begins a command within the other one, or ends it.
    #[inline(always)]
    pub fn set_inner(&self, bytes: Place, spans: Place) {
        self.inner.set(bytes, spans);
    }

    /// Adds the places of arguments of the command within that have bytes of their own.
    pub fn add_inner_large(&self, large: &[(usize, Place)]) {
        self.inner.set_large(large);
    }

    /// Returns the present visit, if there is one.
    pub fn visit(&self) -> Option<RunningVisit> {
        let (client, request) = (self.client.load(Relaxed), self.request.load(Relaxed));
        let len = self.input_end.load(Relaxed).saturating_sub(request);
        let args = match request {
            0 => self.args.get().map(RunningArgs::Args),
            start => Some(RunningArgs::Request(Place { start, len })),
        };
        (client != 0).then(|| RunningVisit { client, args, inner: self.inner.get() })
    }

    /// Continues a visit within which there were others.
    pub fn resume(&self, visit: Option<RunningVisit>) {
        let visit = visit.unwrap_or_default();
        self.begin_visit(visit.client);
        match visit.args {
            None => {}
            Some(RunningArgs::Request(Place { start, len })) => {
                self.input_end.store(start + len, Relaxed);
                self.request.store(start, Relaxed);
            }
            Some(RunningArgs::Args(args)) => self.args.put(Some(args)),
        }
        self.inner.put(visit.inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_is_found_again_after_others_within_it() {
        let running = RunningCommand::default();
        assert_eq!(running.visit(), None);
        let (input, spans, large) = ([0u8; 100], [(0usize, 0usize); 3], [1u8; 50]);
        running.begin_visit(7);
        assert_eq!(running.visit(), Some(RunningVisit { client: 7, args: None, inner: None }));
        running.begin_requests(&input);
        running.begin_request(&input[40..]);
        let request = RunningArgs::Request(Place { start: input.as_ptr().addr() + 40, len: 60 });
        assert_eq!(running.visit().unwrap().args, Some(request));
        running.begin_command(Place::of(&input), Place::of(&spans));
        running.add_large(&[(2, Place::of(&large))]);
        running.set_inner(Place::of(&input[1..]), Place::of(&spans[..2]));
        let visit = running.visit().unwrap();
        let Some(RunningArgs::Args(args)) = visit.args else { panic!("{visit:?}") };
        assert_eq!((args.bytes, args.spans.len), (Place::of(&input), 3));
        assert_eq!(args.large[..2], [(2, Place::of(&large)), (0, Place::default())]);
        assert_eq!(visit.inner.map(|inner| inner.spans.len), Some(2));
        running.begin_visit(8);
        running.begin_request(&input);
        running.end_visit();
        assert_eq!(running.visit(), None);
        running.resume(Some(visit));
        assert_eq!(running.visit(), Some(visit));
    }
}
