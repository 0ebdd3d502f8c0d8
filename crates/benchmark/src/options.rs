//! The command line, as valkey-benchmark takes it.
//!
//! Options end at `--` or at the first word that is none; what follows is the command to measure.

use crate::{combinations, workload};
use cinnabar_tls::client_options::ClientOptions;
use resp::address::{Target, Uri, UriError};
use std::time::Duration;

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// After so many requests of all connections together.
    Requests(u64),
    /// After so much time.
    Duration(Duration),
}

#[derive(Debug, Clone)]
pub struct Options {
    pub target: Target,
    pub user: Option<Vec<u8>>,
    pub password: Option<Vec<u8>>,
    pub tls: ClientOptions,
    pub clients: usize,
    pub extent: Extent,
    /// Loads before anything is recorded.
    pub warmup: Duration,
    /// Bytes of a value.
    pub data_size: usize,
    pub database: u64,
    pub resp3: bool,
    pub threads: Option<usize>,
    pub tracking: bool,
    pub keep_alive: bool,
    /// Numbers in commands are below this; None leaves their places as they are.
    pub range: Option<u64>,
    pub sequential: bool,
    pub pipeline: usize,
    pub quiet: bool,
    /// Decimal places of latencies in milliseconds.
    pub precision: usize,
    pub csv: bool,
    pub forever: bool,
    /// Names of the tests to run; None for all.
    pub tests: Option<Vec<String>>,
    pub idle: bool,
    pub last_from_stdin: bool,
    /// Requests per second over all connections; None for as many as can be.
    pub rate: Option<u64>,
    pub seed: Option<u64>,
    /// Several commands at once, instead of the tests.
    pub workload: Option<Vec<workload::Part>>,
    /// Numbers by Zipf with this exponent, instead of evenly.
    pub zipf: Option<f64>,
    /// Requests per second of an open loop.
    pub open_rate: Option<u64>,
    /// The file for the plot of latencies.
    pub svg: Option<String>,
    /// Report as JSON.
    pub json: bool,
    /// The other server, to be loaded in turns with this one.
    pub compare: Option<Target>,
    /// How many turns each has.
    pub rounds: Option<usize>,
    /// Below this ratio of throughputs the program ends with a status of its own.
    pub ratio_min: Option<f64>,
    pub functions: usize,
    pub function_keys: usize,
    /// The command to measure instead of the tests.
    pub command: Vec<Vec<u8>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            target: Target::Tcp { host: "127.0.0.1".into(), port: 6379 },
            user: None,
            password: None,
            tls: ClientOptions::default(),
            clients: 50,
            extent: Extent::Requests(100_000),
            warmup: Duration::ZERO,
            data_size: 3,
            database: 0,
            resp3: false,
            threads: None,
            tracking: false,
            keep_alive: true,
            range: None,
            sequential: false,
            pipeline: 1,
            quiet: false,
            precision: 0,
            csv: false,
            forever: false,
            tests: None,
            idle: false,
            last_from_stdin: false,
            rate: None,
            seed: None,
            workload: None,
            zipf: None,
            open_rate: None,
            svg: None,
            json: false,
            compare: None,
            rounds: None,
            ratio_min: None,
            functions: 10,
            function_keys: 1,
            command: Vec::new(),
        }
    }
}

impl Options {
    /// The same load for another server.
    pub fn against(&self, target: &Target) -> Options {
        Options { target: target.clone(), ..self.clone() }
    }
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Request {
    Run(Box<Options>),
    Help,
    Version,
}

/// What is wrong with the command line; the program ends with status 1.
#[derive(Debug, PartialEq, Eq)]
pub enum UsageError {
    /// No option, or one without its value: the user is shown those that there are.
    Invalid(String),
    /// A value that makes no sense.
    Value(String),
}

/// Bytes of a value at most: what a server takes by default.
const DATA_MAX: usize = 512 << 20;
const THREADS_MAX: usize = 500;

/// The text of `--help`.
pub const HELP: &str = "\
Usage: cinnabar-benchmark [OPTIONS] [--] [COMMAND ARGS...]

Loads a server from many connections and reports throughput and latency. Without
a command it runs its own tests; ';' as an argument of its own separates several
commands, a number before a command repeats it.

Placeholders in arguments:
 __rand_int__       a number of 12 digits below that of -r, another at each place
 __rand_1st__ ... __rand_9th__
                    the same, but one number for all places of that name
 __data__           as many bytes as -d says

Options:
 -h <hostname>      Server's host name (default 127.0.0.1)
 -p <port>          Server's port (default 6379)
 -s <socket>        Server's Unix socket, instead of host and port
 -a <password>      Password to authenticate with
 --user <name>      User to authenticate as (with -a)
 -u <uri>           valkey://user:password@host:port/dbnum (or redis://;
                    valkeys:// with TLS)
 -c <clients>       Connections (default 50)
 -n <requests>      Requests (default 100000)
 --duration <s>     Run for so many seconds instead of -n requests
 --warmup <s>       Load for so many seconds before anything is recorded
 -d <size>          Bytes of a value (default 3)
 --dbnum <db>       Database (default 0)
 -3                 RESP3
 --threads <num>    Threads that load (default 1)
 --enable-tracking  Turn client tracking on first
 -k <boolean>       1: keep connections, 0: connect anew for each batch (default 1)
 -r <range>         Random keys, members and scores from so many; without it all
                    requests of a test use the same key
 --sequential       Numbers count up instead of being random
 -P <numreq>        Requests that are sent before their replies are awaited
                    (default 1); of several commands: times they are sent
 --rps <requests>   Requests per second at most. Latencies count from the moment
                    at which a request was due, so a server that falls behind
                    cannot hide it
 -q                 One line a test
 --precision <n>    Decimal places of latencies (default 0)
 --csv              Comma separated values
 -l                 Run the tests for ever
 -t <tests>         Only these tests, separated by commas
 -I                 Open the connections and wait
 -x                 Read the last argument from standard input
 --workload <mix>   Several commands at once, each as often as its weight says, such
                    as get=80,set=15,incr=5; a test's name or, with a blank in it, a
                    command: 'hgetall h:__rand_int__=3,get=7'
 --zipf <theta>     Of the numbers of -r few come often, by Zipf's law: about 0.99 as
                    in caches; 0 comes most often
 --rate <requests>  Open loop: so many requests per second, sent when they are due,
                    whether others were answered or not. Latencies count from when
                    a request was due
 --compare <host:port>
                    Load that server, too, in turns with the first, and compare;
                    also a socket's path. Login and encryption are the same
 --rounds <n>       Turns of each server (default 3)
 --min-ratio <r>    Status 2 where the first server's throughput is below so many
                    times the other's
 --svg <file>       Draw latencies by percentile
 --json             Report as JSON
 --seed <num>       Seed of random numbers (default: the time)
 --num-functions <num>
                    Functions in the library of the test function_load (default 10)
 --num-keys-in-fcall <num>
                    Keys that the test fcall gives (default 1)
 --tls              Encrypt connections with TLS
 --sni <host>       The server's name, as it is told
 --cacert <file>    Certificates of authorities to trust (default: the system's)
 --cacertdir <folder>
                    A folder of such certificates
 --insecure         Trust any server
 --cert <file>      The certificate to show
 --key <file>       The private key of that certificate
 --tls-ciphers <list>
                    Ciphers of TLS 1.2, in OpenSSL's words
 --tls-ciphersuites <list>
                    Ciphers of TLS 1.3
 --help             This text
 --version          Version
";

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

/// The words that are still to be read, and what those before them said. Each method knows some of the options: it
/// takes such a one with its value and answers true.
struct Reader<I> {
    words: I,
    options: Options,
    requests: Option<u64>,
    duration: Option<Duration>,
}

impl<I: Iterator<Item = Vec<u8>>> Reader<I> {
    /// The word after an option.
    fn value(&mut self, option: &str) -> Result<String, UsageError> {
        let word = self.words.next().ok_or_else(|| invalid(option))?;
        Ok(String::from_utf8_lossy(&word).into_owned())
    }

    fn number<N: std::str::FromStr>(&mut self, option: &str) -> Result<N, UsageError> {
        number(option, &self.value(option)?)
    }

    /// A number, or None for zero.
    fn above_zero(&mut self, option: &str) -> Result<Option<u64>, UsageError> {
        Ok(Some(self.number::<u64>(option)?).filter(|number| *number > 0))
    }

    /// Which server, and what each connection says first.
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
            "--enable-tracking" => self.options.tracking = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// How connections are encrypted.
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

    /// What is sent, and how much of it.
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

    /// How the program runs, and how it reports.
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
            // Taken by older programs, and without effect in newer ones.
            "-e" => {
                eprintln!("WARNING: -e option has no effect. We now immediately exit on error to avoid false results.")
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What only this program has.
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

/// The other server: `host:port`, or the path of a socket.
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
            assert!(!matches!(wrong, Some(UsageError::Invalid(_))), "-{name}");
        }
    }

    #[test]
    fn wrong_use_is_told() {
        let invalid = |text: &str| UsageError::Invalid(text.into());
        assert_eq!(run("--foo").unwrap_err(), invalid("Invalid option \"--foo\" or option argument missing"));
        assert_eq!(run("-c 5 -n").unwrap_err(), invalid("Invalid option \"-n\" or option argument missing"));
        assert!(run("-c x").is_err());
        assert!(run("-n 5 --duration 3").is_err());
    }
}
