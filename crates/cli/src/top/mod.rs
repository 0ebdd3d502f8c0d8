//! `--top`: the server on the full screen, anew each second: operations, latencies by command, clients, hot keys.
//!
//! ```text
//!   sampler        a thread that asks the server                  bytes   -> replies
//!   server_sample  what it says of itself at one moment           replies -> fields
//!   top_reading    what happened between two moments              fields  -> rates and percentiles
//!   top_layout     the screen, a pure function of these and of    rates   -> lines
//!   top_view       what the user chose by keys
//!   full_screen    the terminal, which gets back what it had      lines   -> bytes
//! ```
//!
//! The loop here waits for keys, replies, signals and the next moment. As JSON the readings are printed, one a line.

mod full_screen;
mod sampler;
mod server_sample;
mod top_json;
mod top_layout;
mod top_reading;
mod top_view;

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGSTOP, SIGTERM, SIGTSTP, SIGWINCH};

use self::full_screen::FullScreen;
use self::sampler::{Order, Outcome, Sampler};
use self::top_layout::screen;
use self::top_reading::TopModel;
use self::top_view::{Action, TopView, keys};
use crate::options::Options;
use crate::protocol_client::ClientFailure;
use crate::reply_format;
use crate::resp_session::RespSession;
use crate::transport::{print, reason};

/// Time that the server has to end the tracking that this program began.
const TIME_TO_LEAVE: Duration = Duration::from_secs(1);

/// Shortest time that an error is shown.
const TIME_TO_READ: Duration = Duration::from_secs(3);

pub fn run(mut options: Options) -> Result<ExitCode, ClientFailure> {
    // Messages that the server sends on its own are not part of the screen.
    options.show_pushes = false;
    if options.output.is_json() {
        return print_readings(options);
    }
    if !FullScreen::is_possible() {
        let text = "--top needs a terminal; with --json it prints a line each second.";
        return Err(ClientFailure::Unsendable(text.to_owned()));
    }
    let lost = |error: io::Error| ClientFailure::Lost(reason(&error));
    let session = RespSession::open(options.clone())?;
    let signals = Signals::catch().map_err(lost)?;
    let sampler = Sampler::start(session).map_err(lost)?;
    let screen = FullScreen::enter().map_err(lost)?;
    let mut top = Top {
        address: options.target.to_string(),
        view: TopView::new(options.interval),
        model: TopModel::default(),
        screen,
        sampler,
        signals,
        is_asked: false,
        asked: None,
        tracks_hot_keys: false,
        problem: None,
    };
    let ended = top.watch();
    top.stop_tracking();
    let signal = top.signals.ending();
    drop(top);
    if let Some(signal) = signal {
        // The signal has its default effect, as if it had not been caught.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    ended.map(|()| ExitCode::SUCCESS).map_err(lost)
}

/// The readings as JSON, one a line, from the second sample on.
fn print_readings(options: Options) -> Result<ExitCode, ClientFailure> {
    let view = TopView::new(options.interval);
    let mut sampler =
        Sampler::start(RespSession::open(options.clone())?).map_err(|error| ClientFailure::Lost(reason(&error)))?;
    let mut model = TopModel::default();
    let mut left = options.readings.and_then(|count| u64::try_from(count).ok());
    while left != Some(0) {
        sampler.order(Order::Sample);
        match sampler.wait(Duration::MAX) {
            Some(Outcome::Sampled(sample)) => model.take(*sample),
            Some(Outcome::Failed(text)) => return Err(ClientFailure::ErrorReply(text)),
            Some(Outcome::Tracking(_)) | None => {}
        }
        sampler.outcomes();
        if let Some(reading) = model.reading.as_ref().filter(|reading| reading.rates.is_some()) {
            print(&reply_format::reply(&top_json::as_value(reading), &options));
            left = left.map(|left| left - 1);
        }
        if left != Some(0) {
            std::thread::sleep(view.interval);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Signals that end or suspend the program, and those that report a new size of the terminal, or that the program has
/// it back.
struct Signals {
    pipe: UnixStream,
    ending: [(i32, Arc<AtomicBool>); 3],
    suspending: Arc<AtomicBool>,
    continued: Arc<AtomicBool>,
}

impl Signals {
    fn catch() -> io::Result<Signals> {
        let (pipe, write_end) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let ending = [SIGINT, SIGTERM, SIGHUP].map(|signal| (signal, Arc::new(AtomicBool::new(false))));
        for (signal, is_here) in &ending {
            signal_hook::flag::register(*signal, Arc::clone(is_here))?;
            signal_hook::low_level::pipe::register(*signal, write_end.try_clone()?)?;
        }
        let [suspending, continued] = [SIGTSTP, SIGCONT].map(|signal| (signal, Arc::new(AtomicBool::new(false))));
        for (signal, is_here) in [&suspending, &continued] {
            signal_hook::flag::register(*signal, Arc::clone(is_here))?;
            signal_hook::low_level::pipe::register(*signal, write_end.try_clone()?)?;
        }
        signal_hook::low_level::pipe::register(SIGWINCH, write_end)?;
        Ok(Signals { pipe, ending, suspending: suspending.1, continued: continued.1 })
    }

    fn clear(&mut self) {
        let mut bytes = [0; 64];
        while matches!(self.pipe.read(&mut bytes), Ok(count) if count > 0) {}
    }

    /// Returns the signal that is to end the program, if one arrived.
    fn ending(&self) -> Option<i32> {
        self.ending.iter().find(|(_, is_here)| is_here.load(Ordering::Relaxed)).map(|(signal, _)| *signal)
    }
}

/// State of the loop.
struct Top {
    address: String,
    view: TopView,
    model: TopModel,
    screen: FullScreen,
    sampler: Sampler,
    signals: Signals,
    /// Whether a sample was asked for and has not been answered.
    is_asked: bool,
    asked: Option<Instant>,
    /// Whether this program had the server begin to track hot keys.
    tracks_hot_keys: bool,
    /// Last error, and its time.
    problem: Option<(String, Instant)>,
}

impl Top {
    /// Runs until the user quits.
    fn watch(&mut self) -> io::Result<()> {
        loop {
            let wait = self.ask_if_due();
            self.draw()?;
            let is_typed = self.wait(wait)?;
            self.signals.clear();
            if self.signals.ending().is_some() {
                return Ok(());
            }
            if self.signals.suspending.swap(false, Ordering::Relaxed) {
                self.suspend()?;
            }
            if self.signals.continued.swap(false, Ordering::Relaxed) {
                // Another program may have left the terminal in any state.
                self.screen.take()?;
            }
            for outcome in self.sampler.outcomes() {
                self.take(outcome);
            }
            if is_typed && !self.read_keys()? {
                return Ok(());
            }
        }
    }

    /// Asks the server when it is time; returns how long nothing else has to be done.
    fn ask_if_due(&mut self) -> Duration {
        let elapsed = self.asked.map_or(Duration::MAX, |asked| asked.elapsed());
        if self.is_asked || self.view.is_paused {
            return self.view.interval;
        }
        if elapsed >= self.view.interval {
            self.sampler.order(Order::Sample);
            (self.is_asked, self.asked) = (true, Some(Instant::now()));
            return self.view.interval;
        }
        self.view.interval - elapsed
    }

    fn draw(&self) -> io::Result<()> {
        let lines = screen(
            &self.model,
            &self.view,
            &self.address,
            self.problem.as_ref().map(|(text, _)| text.as_str()),
            self.screen.size(),
        );
        self.screen.draw(&lines)
    }

    /// Returns whether keys can be read.
    fn wait(&self, time: Duration) -> io::Result<bool> {
        let stdin = io::stdin();
        let mut descriptors = [
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.sampler.descriptor(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.pipe.as_fd(), PollFlags::IN),
        ];
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        match poll(&mut descriptors, Some(&time)) {
            Ok(_) => Ok(!descriptors[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn take(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Sampled(sample) => {
                self.is_asked = false;
                self.problem = self.problem.take().filter(|(_, since)| since.elapsed() < TIME_TO_READ);
                if !self.view.is_paused {
                    self.model.take(*sample);
                }
            }
            Outcome::Tracking(is_on) => self.tracks_hot_keys = is_on,
            Outcome::Failed(text) => {
                self.is_asked = false;
                self.problem = Some((text, Instant::now()));
            }
        }
    }

    /// Executes the keys that were pressed; false when one of them quits.
    fn read_keys(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 64];
        let count = rustix::io::read(io::stdin(), &mut bytes)?;
        if count == 0 {
            return Ok(false);
        }
        for key in keys(&bytes[..count]) {
            match self.view.press(key) {
                Action::Quit => return Ok(false),
                Action::Suspend => self.suspend()?,
                Action::TrackHotKeys => {
                    let order = if self.tracks_hot_keys { Order::StopHotKeys } else { Order::StartHotKeys };
                    self.sampler.order(order);
                }
                Action::Redraw | Action::Nothing => {}
            }
        }
        Ok(true)
    }

    /// Leaves the terminal to the shell until the program is continued.
    fn suspend(&mut self) -> io::Result<()> {
        self.screen.give_back();
        signal_hook::low_level::raise(SIGSTOP)?;
        self.screen.take()
    }

    /// Ends the tracking of hot keys that this program began.
    fn stop_tracking(&mut self) {
        if !self.tracks_hot_keys {
            return;
        }
        self.sampler.order(Order::StopHotKeys);
        let until = Instant::now() + TIME_TO_LEAVE;
        while let Some(outcome) = self.sampler.wait(until.saturating_duration_since(Instant::now())) {
            if matches!(outcome, Outcome::Tracking(false)) {
                return;
            }
        }
    }
}
