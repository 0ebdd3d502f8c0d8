//! The process title: what `ps` shows, which `proc-title-template` describes.
//!
//! The kernel takes it from the former place of the arguments, and continues into the environment when the title no
//! longer ends where the arguments did:
//!
//! ```text
//! arg_start                    arg_end = env_start                                        env_end
//! | cinnabar-server \0 x.conf \0 | PATH=... \0 NOTIFY_SOCKET=... \0 ...                  \0 |
//! | cinnabar-server 127.0.0.1:6379 [cluster] \0 \0 \0 ...                                \0 |
//! ```
//!
//! Arguments and environment that the server needs are read before, and the environment is empty from then on. If the
//! kernel does not show the places, the title stays as it is.
//!
//! **Unsafe**, for writing where the arguments were.
#![allow(unsafe_code)]

use engine::config::{Config, Directive};
use engine::locks::sync::Mutex;
use std::fs::read_to_string;
use std::ptr;

/// Bytes that the kernel shows at most.
const LENGTH_MAX: usize = 4095;

/// The places, as fields of `/proc/self/stat`, counted from 1 (`man 5 proc`).
const ARG_START: usize = 48;
const ARG_END: usize = 49;
const ENV_START: usize = 50;
const ENV_END: usize = 51;

/// The title's place, once this process has taken it.
#[derive(Debug)]
struct Place {
    start: usize,
    length: usize,
}

impl Place {
    /// Writes the title, which fills the place.
    fn write(&self, title: &[u8]) {
        assert_eq!(title.len(), self.length, "a title fills its place");
        let start = ptr::with_exposed_provenance_mut::<u8>(self.start);
        // SAFETY: the place is memory that the kernel filled with arguments and environment before the program began,
        // and that may be written (`find` looks at both); nothing unmaps it. No other code reads or writes it: the
        // program has copies of its arguments, no variable of the environment is left that points there, and the lock
        // of `PLACE` is held. It was never part of an object of the program, so that no reference can be to it.
        unsafe { ptr::copy_nonoverlapping(title.as_ptr(), start, title.len()) };
    }
}

/// Names that do not come from the configuration.
#[derive(Debug)]
struct Names {
    /// Program as it was called.
    program: String,
    config_file: String,
}

static PLACE: Mutex<Option<(Place, Names)>> = Mutex::new(None);

/// Takes the title over, and shows it as configured. To be called before there are other threads, and after [the
/// arguments](std::env::args_os) and the environment have been read for the last time.
pub fn take(config: &Config, program: &str, config_file: &[u8]) {
    if !config.flag(Directive::SET_PROC_TITLE) {
        return;
    }
    let names = Names { program: program.to_owned(), config_file: String::from_utf8_lossy(config_file).into_owned() };
    *PLACE.lock() = find().map(|place| (place, names));
    if PLACE.lock().is_some() {
        // SAFETY: there is no other thread that could read the environment.
        let cleared = unsafe { nix::env::clearenv() };
        if cleared.is_err() {
            *PLACE.lock() = None;
        }
    }
    show(config);
}

/// Shows the title as configured.
pub fn show(config: &Config) {
    if let Some((place, names)) = &*PLACE.lock() {
        let mut title = expand(config, names).into_bytes();
        title.retain(|byte| *byte != 0);
        title.truncate(place.length.saturating_sub(1).min(LENGTH_MAX));
        title.resize(place.length, 0);
        place.write(&title);
    }
}

fn find() -> Option<Place> {
    let stat = read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses and may have anything in it.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<usize> = rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    let field = |number: usize| fields.get(number - 3).copied().filter(|place| *place > 0);
    let (start, middle) = (field(ARG_START)?, field(ARG_END)?);
    let end = match (field(ENV_START), field(ENV_END)) {
        (Some(from), Some(to)) if from == middle => to,
        _ => middle,
    };
    let length = end.checked_sub(start)?;
    let maps = read_to_string("/proc/self/maps").ok()?;
    let is_ours = maps.lines().filter_map(writable_range).any(|(from, to)| from <= start && end <= to);
    is_ours.then_some(Place { start, length })
}

/// Returns the range of the mapping that a line of `/proc/self/maps` describes, if it may be written.
fn writable_range(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    words.next()?.starts_with("rw").then_some((address(start)?, address(end)?))
}

/// Returns the template with its variables replaced. The template was checked when it was set.
fn expand(config: &Config, names: &Names) -> String {
    let template = String::from_utf8_lossy(config.text(Directive::PROC_TITLE_TEMPLATE)).into_owned();
    let mut title = String::new();
    let mut rest = template.as_str();
    while let Some(at) = rest.find('{') {
        title.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('{') {
            title.push('{');
            rest = after;
        } else if let Some(close) = rest.find('}') {
            title.push_str(&variable(config, names, &rest[..close]));
            rest = &rest[close + 1..];
        }
    }
    title.push_str(rest);
    title.trim_matches(' ').to_owned()
}

fn variable(config: &Config, names: &Names, name: &str) -> String {
    let port = config.int(Directive::PORT);
    let any_port = if port == 0 { config.int(Directive::TLS_PORT) } else { port };
    match name {
        "title" => names.program.clone(),
        "listen-addr" => {
            let address = config.bind_addresses().first().map_or("*".into(), |first| String::from_utf8_lossy(first));
            format!("{address}:{any_port}")
        }
        "port" => port.to_string(),
        "tls-port" => config.int(Directive::TLS_PORT).to_string(),
        "unixsocket" => String::from_utf8_lossy(config.text(Directive::UNIXSOCKET)).into_owned(),
        "config-file" if names.config_file.is_empty() => "-".to_owned(),
        "config-file" => names.config_file.clone(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::config::{ConfigStore, TITLE_VARIABLES};

    fn with(template: &str) -> String {
        let store = ConfigStore::new(Config::default());
        store.update(|config| {
            config.set_text(Directive::PROC_TITLE_TEMPLATE, template.as_bytes());
            config.set_text(Directive::UNIXSOCKET, b"/s");
        });
        expand(&store.snapshot(), &Names { program: "p".to_owned(), config_file: "/c".to_owned() })
    }

    #[test]
    fn variables_are_replaced() {
        assert_eq!(with("{title} {listen-addr} {server-mode}"), "p *:6379");
        assert_eq!(with(" {{x {port}/{tls-port} {unixsocket} {config-file} "), "{x 6379/0 /s /c");
        for name in TITLE_VARIABLES {
            // The mode is empty for a server alone.
            assert_eq!(with(&format!("{{{name}}}")).is_empty(), *name == "server-mode", "{name}");
        }
    }

    #[test]
    fn the_place_of_the_arguments_is_found() {
        let place = find().expect("Linux tells it");
        let arguments: usize = std::env::args_os().map(|argument| argument.len() + 1).sum();
        assert!(place.length >= arguments, "{place:?} for {arguments} bytes of arguments");
    }
}
