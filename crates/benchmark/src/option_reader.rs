//! The command line, as valkey-benchmark takes it, with options of our own.
//!
//! Options end at `--` or at the first word that is none; the words behind are the command to measure.

use crate::cluster_slots::ReadFrom;
use crate::fuzz::fuzz_options::{FuzzLevel, FuzzMode};
use crate::options::{Extent, Options};
use crate::{combinations, workload};
use resp::address::{Target, Uri, UriError};
use std::time::Duration;

/// Request of the command line.
#[derive(Debug)]
pub enum Request {
    Run(Box<Options>),
    Help,
    Version,
}

/// Error in the command line; the program ends with status 1.
#[derive(Debug, PartialEq, Eq)]
pub enum UsageError {
    /// Not an option, or one without its value.
    Invalid(String),
    /// A value that is not valid.
    Value(String),
}

/// Largest number of bytes of a value: the most that a server takes by default.
const DATA_MAX: usize = 512 << 20;
const THREADS_MAX: usize = 500;

/// Reads the words after the program's name.
pub fn parse(words: impl IntoIterator<Item = Vec<u8>>) -> Result<Request, UsageError> {
    let mut reader = Reader { words: words.into_iter(), options: Options::default(), requests: None, duration: None };
    while let Some(word) = reader.words.next() {
        let option = String::from_utf8_lossy(&word).into_owned();
        if option == "--" {
            reader.options.command = reader.words.by_ref().collect();
            break;
        }
        if !option.starts_with('-') {
            reader.options.command = std::iter::once(word).chain(reader.words.by_ref()).collect();
            break;
        }
        match option.as_str() {
            "--help" => return Ok(Request::Help),
            "--version" | "-v" => return Ok(Request::Version),
            _ => {}
        }
        if !(reader.connection(&option)?
            || reader.encryption(&option)?
            || reader.requests(&option)?
            || reader.run(&option)?
            || reader.fuzz(&option)?
            || reader.beyond(&option)?)
        {
            return Err(invalid(&option));
        }
    }
    reader.options.extent = match (reader.requests, reader.duration) {
        (Some(_), Some(_)) => {
            return Err(UsageError::Value("Options -n and --duration are mutually exclusive.".into()));
        }
        (_, Some(duration)) => Extent::Duration(duration),
        (requests, None) => Extent::Requests(requests.unwrap_or(100_000)),
    };
    combinations::check(&reader.options).map_err(UsageError::Value)?;
    Ok(Request::Run(Box::new(reader.options)))
}

/// The words that are still to be read, and the options read so far. Each method knows some of the options: it takes
/// such a one with its value and returns true.
struct Reader<I> {
    words: I,
    options: Options,
    requests: Option<u64>,
    duration: Option<Duration>,
}

impl<I: Iterator<Item = Vec<u8>>> Reader<I> {
    /// Returns the word after an option.
    fn value(&mut self, option: &str) -> Result<String, UsageError> {
        let word = self.words.next().ok_or_else(|| invalid(option))?;
        Ok(String::from_utf8_lossy(&word).into_owned())
    }

    fn number<N: std::str::FromStr>(&mut self, option: &str) -> Result<N, UsageError> {
        number(option, &self.value(option)?)
    }

    /// Returns a number, or None for zero.
    fn above_zero(&mut self, option: &str) -> Result<Option<u64>, UsageError> {
        Ok(Some(self.number::<u64>(option)?).filter(|number| *number > 0))
    }

    /// Reads options of the server, and of the greeting of each connection.
    fn connection(&mut self, option: &str) -> Result<bool, UsageError> {
        match option {
            "-h" => {
                let host = self.value(option)?;
                set_host(&mut self.options.target, Some(host), None);
            }
            "-p" => {
                let port = self.number(option)?;
                set_host(&mut self.options.target, None, Some(port));
            }
            "-s" => self.options.target = Target::Unix(self.value(option)?),
            "-a" => self.options.password = Some(self.value(option)?.into_bytes()),
            "--user" => self.options.user = Some(self.value(option)?.into_bytes()),
            "-u" => apply_uri(&self.value(option)?, &mut self.options)?,
            "--dbnum" => self.options.database = self.number(option)?,
            "-3" => self.options.resp3 = true,
            "--cluster" => self.options.cluster = true,
            "--rfr" => {
                let value = self.value(option)?;
                self.options.read_from = match value.as_str() {
                    "no" => ReadFrom::Primaries,
                    "yes" => ReadFrom::Replicas,
                    "all" => ReadFrom::All,
                    _ => return Err(invalid(&value)),
                };
            }
            "--mptcp" => self.options.multipath = true,
            "--enable-tracking" => self.options.tracking = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads options of encryption.
    fn encryption(&mut self, option: &str) -> Result<bool, UsageError> {
        match option {
            "--tls" => self.options.tls.enabled = true,
            "--insecure" => self.options.tls.insecure = true,
            "--sni" => self.options.tls.sni = Some(self.value(option)?),
            "--cacert" => self.options.tls.authorities = Some(self.value(option)?),
            "--cacertdir" => self.options.tls.authority_folder = Some(self.value(option)?),
            "--cert" => self.options.tls.certificate = Some(self.value(option)?),
            "--key" => self.options.tls.key = Some(self.value(option)?),
            "--tls-ciphers" => self.options.tls.ciphers = Some(self.value(option)?),
            "--tls-ciphersuites" => self.options.tls.ciphersuites = Some(self.value(option)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads options of the requests and of their number.
    fn requests(&mut self, option: &str) -> Result<bool, UsageError> {
        match option {
            "-n" => self.requests = Some(self.number(option)?),
            "--duration" => self.duration = self.above_zero(option)?.map(Duration::from_secs),
            "--warmup" => self.options.warmup = Duration::from_secs(self.number(option)?),
            "-d" => self.options.data_size = self.number::<usize>(option)?.clamp(1, DATA_MAX),
            "-r" => self.options.range = self.above_zero(option)?,
            "--sequential" => self.options.sequential = true,
            "-P" => self.options.pipeline = self.number::<usize>(option)?.max(1),
            "--rps" => self.options.rate = self.above_zero(option)?,
            "-t" => {
                self.options.tests = Some(self.value(option)?.split(',').map(str::to_ascii_lowercase).collect());
            }
            "-x" => self.options.last_from_stdin = true,
            "--seed" => self.options.seed = Some(self.number(option)?),
            "--num-functions" => self.options.functions = self.number::<usize>(option)?.max(1),
            "--num-keys-in-fcall" => self.options.function_keys = self.number(option)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads options of the run and of its report.
    fn run(&mut self, option: &str) -> Result<bool, UsageError> {
        match option {
            "-c" => self.options.clients = self.number::<usize>(option)?.max(1),
            "--threads" => {
                let threads = self.number::<usize>(option)?;
                if threads > THREADS_MAX {
                    eprintln!("WARNING: Too many threads, limiting threads to {THREADS_MAX}.");
                }
                self.options.threads = Some(threads.clamp(1, THREADS_MAX));
            }
            "-k" => self.options.keep_alive = self.number::<i64>(option)? != 0,
            "-q" => self.options.quiet = true,
            "--precision" => self.options.precision = self.number::<usize>(option)?.min(9),
            "--csv" => self.options.csv = true,
            "-l" => self.options.forever = true,
            "-I" => self.options.idle = true,
            // Older programs take these; newer ones ignore them.
            "-e" => {
                eprintln!("WARNING: -e option has no effect. We now immediately exit on error to avoid false results.")
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads options of random commands.
    fn fuzz(&mut self, option: &str) -> Result<bool, UsageError> {
        match option {
            "--fuzz" => self.options.fuzz.is_wanted = true,
            "--fuzz-mode" => {
                for word in self.value(option)?.split(',') {
                    let mode = FuzzMode::named(word);
                    let mode = mode.ok_or_else(|| UsageError::Value(format!("Invalid fuzz mode: {word}")))?;
                    self.options.fuzz.modes.push(mode);
                }
            }
            "--fuzz-loglevel" => {
                let word = self.value(option)?;
                let level = FuzzLevel::named(&word);
                self.options.fuzz.unknown_level = level.is_none().then_some(word);
                self.options.fuzz.level = level.unwrap_or_default();
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads options that only this program has.
    fn beyond(&mut self, option: &str) -> Result<bool, UsageError> {
        match option {
            "--workload" => {
                let parts = workload::parse(&self.value(option)?).map_err(UsageError::Value)?;
                self.options.workload = Some(parts);
            }
            "--zipf" => self.options.zipf = Some(self.positive(option)?),
            "--rate" => {
                let rate = self.above_zero(option)?;
                self.options.open_rate = Some(rate.ok_or_else(|| not_above_zero(option))?);
            }
            "--svg" => self.options.svg = Some(self.value(option)?),
            "--json" => self.options.json = true,
            "--compare" => self.options.compare = Some(compared(&self.value(option)?)?),
            "--rounds" => {
                let rounds = self.number::<usize>(option)?;
                self.options.rounds = Some(rounds).filter(|rounds| *rounds > 0);
                self.options.rounds.ok_or_else(|| not_above_zero(option))?;
            }
            "--min-ratio" => self.options.ratio_min = Some(self.positive(option)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn positive(&mut self, option: &str) -> Result<f64, UsageError> {
        let number = self.number::<f64>(option)?;
        if number.is_finite() && number > 0.0 { Ok(number) } else { Err(not_above_zero(option)) }
    }
}

fn not_above_zero(option: &str) -> UsageError {
    UsageError::Value(format!("Option {option} takes a number above zero."))
}

/// Returns the other server: `host:port`, or the path of a socket.
fn compared(text: &str) -> Result<Target, UsageError> {
    if text.contains('/') {
        return Ok(Target::Unix(text.to_owned()));
    }
    let address = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    match address.filter(|(host, port)| !host.is_empty() && *port > 0) {
        Some((host, port)) => Ok(Target::Tcp { host: host.trim_matches(['[', ']']).to_owned(), port }),
        None => Err(UsageError::Value(format!("Option --compare takes host:port or a socket's path, not \"{text}\"."))),
    }
}

fn invalid(option: &str) -> UsageError {
    UsageError::Invalid(format!("Invalid option \"{option}\" or option argument missing"))
}

fn number<N: std::str::FromStr>(option: &str, text: &str) -> Result<N, UsageError> {
    text.trim().parse().map_err(|_| UsageError::Value(format!("Option {option} takes a number, not \"{text}\".")))
}

fn set_host(target: &mut Target, host: Option<String>, port: Option<u16>) {
    if let Target::Tcp { host: old_host, port: old_port } = target {
        *old_host = host.unwrap_or_else(|| old_host.clone());
        *old_port = port.unwrap_or(*old_port);
    }
}

fn apply_uri(text: &str, options: &mut Options) -> Result<(), UsageError> {
    let uri = Uri::parse(text).map_err(|UriError(text)| UsageError::Value(text.into()))?;
    set_host(&mut options.target, uri.host, uri.port);
    options.tls.enabled |= uri.tls;
    options.user = uri.user.or(options.user.take());
    options.password = uri.password.or(options.password.take());
    options.database = uri.database.map_or(options.database, u64::from);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::HELP;

    fn run(line: &str) -> Result<Options, UsageError> {
        let words = line.split(' ').map(|word| word.as_bytes().to_vec());
        match parse(words)? {
            Request::Run(options) => Ok(*options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_and_command() {
        let options = run("-p 7000 -c 5 -n 10 -P 4 -r 100 --threads 2 -t SET,get -q").unwrap();
        assert_eq!(options.target, Target::Tcp { host: "127.0.0.1".into(), port: 7000 });
        assert_eq!((options.clients, options.extent, options.pipeline), (5, Extent::Requests(10), 4));
        assert_eq!((options.range, options.threads, options.quiet), (Some(100), Some(2), true));
        assert_eq!(options.tests, Some(vec!["set".into(), "get".into()]));
        let options = run("-c 5 INCRBYFLOAT k -c").unwrap();
        assert_eq!(options.command, [&b"INCRBYFLOAT"[..], b"k", b"-c"]);
        assert_eq!(run("-- -x").unwrap().command, [b"-x"]);
        assert_eq!(run("--duration 0 -n 7").unwrap().extent, Extent::Requests(7), "no seconds are none given");
    }

    #[test]
    fn uris() {
        let options = run("-u valkey://us%65r:p%40ss@[::1]:7001/3 -c 1").unwrap();
        assert_eq!(options.target, Target::Tcp { host: "::1".into(), port: 7001 });
        assert_eq!((options.user.as_deref(), options.password.as_deref()), (Some(&b"user"[..]), Some(&b"p@ss"[..])));
        assert_eq!(options.database, 3);
        assert_eq!(run("-u redis://h").unwrap().target, Target::Tcp { host: "h".into(), port: 6379 });
        assert!(run("-u http://h").is_err());
    }

    #[test]
    fn help_tells_of_options_that_there_are() {
        for name in HELP.lines().filter_map(|line| line.strip_prefix(" -")?.split(' ').next()) {
            let wrong = parse([format!("-{name}").into_bytes(), b"0".to_vec()]).err();
            let is_named = |text: &str| text.contains(&format!("\"-{name}\""));
            assert!(!matches!(wrong, Some(UsageError::Invalid(text)) if is_named(&text)), "-{name}");
        }
    }

    #[test]
    fn wrong_use_is_told() {
        let invalid = |text: &str| UsageError::Invalid(text.into());
        assert_eq!(run("--foo").unwrap_err(), invalid("Invalid option \"--foo\" or option argument missing"));
        assert_eq!(run("-c 5 -n").unwrap_err(), invalid("Invalid option \"-n\" or option argument missing"));
        assert_eq!(
            run("--cluster --rfr some").unwrap_err(),
            invalid("Invalid option \"some\" or option argument missing")
        );
        assert_eq!(
            run("--fuzz-mode malformed-commands,some").unwrap_err(),
            UsageError::Value("Invalid fuzz mode: some".into())
        );
        assert!(run("-c x").is_err());
        assert!(run("-n 5 --duration 3").is_err());
    }
}
