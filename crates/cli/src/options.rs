//! The command line: options first, then the command to send.
//!
//! Options end at the first word that does not start with `-`; everything from there on is the command, whatever it
//! looks like (`cinnabar-cli set k -1`). An option is a row of [`FLAGS`]; the parser and `--help` both read the table.
//! Environment and terminal come in as [`Surroundings`], so that parsing is a pure function.

use std::time::Duration;

use cinnabar_tls::client_options::ClientOptions;
use resp::address::{Target, Uri, UriError};
use resp::words::unquote;

use crate::reply_format::OutputFormat;
use crate::transport::IpVersion;

/// Which protocol to greet the server with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resp {
    /// No greeting: a connection starts in RESP2.
    AsConnected,
    /// `-2`: stay in RESP2 even where the output format would ask for RESP3.
    Two,
    /// `-3`: RESP3, and a server that refuses it is an error.
    Three,
    /// RESP3 wanted by the output format, not by the user: a refusal is reported, not fatal.
    ThreeIfOffered,
}

/// Which argument of the command is read from standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StdinArgument {
    /// `-x`: one more argument at the end.
    Last,
    /// `-X tag`: the first argument that equals the tag.
    Tagged(Vec<u8>),
}

/// What the program does with its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// The command of the command line, or commands from standard input.
    Commands,
    /// `--pipe`: requests from standard input as they are.
    Pipe,
    Scan,
    BigKeys,
    MemoryKeys,
    HotKeys,
    Stat,
    Latency,
    LatencyHistory,
    LatencyDistribution,
    /// Seconds.
    IntrinsicLatency(u64),
    Replica,
    Rdb(String),
    FunctionsRdb(String),
    /// The script's file.
    Eval(String),
    /// `--test_hint`: what may follow this line.
    Hint(Vec<u8>),
    /// `--test_hint_file`: lines and the hints that are expected for them.
    HintFile(String),
}

/// Which keys the modes that walk the keyspace look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySelection {
    pub pattern: Option<Vec<u8>>,
    pub count: Option<u64>,
    pub kind: Option<Vec<u8>>,
}

#[derive(Debug, Clone)]
pub struct Options {
    pub mode: Mode,
    pub keys: KeySelection,
    /// `--memkeys-samples`: how many elements of a key are looked at.
    pub memory_samples: Option<u64>,
    /// How long `--pipe` waits for replies after the last request; zero is for ever.
    pub pipe_timeout: Duration,
    /// How long connecting may take.
    pub connect_timeout: Option<Duration>,
    /// Which addresses of a name to try first.
    pub preferred_ip: Option<IpVersion>,
    /// Ask for the password on the terminal.
    pub ask_password: bool,
    pub tls: ClientOptions,
    pub target: Target,
    pub user: Option<Vec<u8>>,
    pub password: Option<Vec<u8>>,
    /// The password stands in the process list, and nobody said that this is fine.
    pub warn_of_password: bool,
    pub database: i64,
    pub resp: Resp,
    /// How often to send the command; negative is for ever.
    pub repeat: i64,
    /// Pause after each repetition.
    pub interval: Duration,
    pub stdin_argument: Option<StdinArgument>,
    pub quoted_input: bool,
    pub output: OutputFormat,
    /// `-d`, between the elements of a raw aggregate.
    pub element_delimiter: Vec<u8>,
    /// `-D`, after each raw reply.
    pub reply_delimiter: Vec<u8>,
    /// `-e`: an error reply ends the program with status 1.
    pub errors_are_fatal: bool,
    pub show_pushes: bool,
    /// Go where nodes of a cluster say that keys are.
    pub follow_redirects: bool,
    /// Standard output is a terminal.
    pub for_people: bool,
    pub book: bool,
    /// The command to send; empty: read commands from standard input.
    pub command: Vec<Vec<u8>>,
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Request {
    Run(Box<Options>),
    Help,
    Version,
}

/// What parsing needs to know of the world around the program.
#[derive(Debug, Default)]
pub struct Surroundings {
    pub stdout_is_terminal: bool,
    /// The password of `VALKEYCLI_AUTH` or, without that, of `REDISCLI_AUTH`.
    pub environment_password: Option<Vec<u8>>,
}

/// A message for the user; the program ends with status 1.
#[derive(Debug, PartialEq, Eq)]
pub struct UsageError(pub String);

/// Options as gathered, before defaults that depend on one another are settled.
#[derive(Debug, Default)]
struct Draft {
    host: Option<String>,
    port: Option<u16>,
    unix_path: Option<String>,
    user: Option<Vec<u8>>,
    password: Option<Vec<u8>>,
    password_in_arguments: bool,
    hide_password_warning: bool,
    database: i64,
    resp2: bool,
    resp3: bool,
    repeat: Option<i64>,
    interval: Duration,
    last_from_stdin: bool,
    tag_from_stdin: Option<Vec<u8>>,
    quoted_input: bool,
    output: Option<OutputFormat>,
    element_delimiter: Option<Vec<u8>>,
    reply_delimiter: Option<Vec<u8>>,
    errors_are_fatal: bool,
    show_pushes: Option<bool>,
    book: bool,
    mode: Option<Mode>,
    keys: KeySelection,
    memory_samples: Option<u64>,
    pipe_timeout: Option<Duration>,
    connect_timeout: Option<Duration>,
    preferred_ip: Option<IpVersion>,
    follow_redirects: bool,
    ask_password: bool,
    tls: ClientOptions,
}

/// A file is to be written, of one kind only.
fn set_dump(draft: &mut Draft, mode: Mode) -> Result<(), UsageError> {
    if matches!(&draft.mode, Some(Mode::Rdb(_) | Mode::FunctionsRdb(_))) && draft.mode != Some(mode.clone()) {
        return Err(error("Option --functions-rdb and --rdb are mutually exclusive."));
    }
    draft.mode = Some(mode);
    Ok(())
}

enum Apply {
    Switch(fn(&mut Draft)),
    /// Takes the next argument, shown in the help by this name.
    Value(&'static str, fn(&mut Draft, &[u8]) -> Result<(), UsageError>),
    Help,
    Version,
    /// An option of the stock client that belongs to a feature of its own.
    Lacking(&'static str),
}

struct Flag {
    names: &'static [&'static str],
    apply: Apply,
    help: &'static str,
}

const fn switch(names: &'static [&'static str], help: &'static str, set: fn(&mut Draft)) -> Flag {
    Flag { names, apply: Apply::Switch(set), help }
}

const fn value(
    names: &'static [&'static str],
    operand: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &[u8]) -> Result<(), UsageError>,
) -> Flag {
    Flag { names, apply: Apply::Value(operand, set), help }
}

const fn lacking(names: &'static [&'static str], reason: &'static str) -> Flag {
    Flag { names, apply: Apply::Lacking(reason), help: reason }
}

const FLAGS: &[Flag] = &[
    value(&["-h"], "<host>", "Server host (default 127.0.0.1). Alone: this help.", |draft, text| {
        draft.host = Some(utf8(text, "host")?);
        Ok(())
    }),
    value(&["-p"], "<port>", "Server port (default 6379; with --book 1234).", |draft, text| {
        draft.port = Some(port(text)?);
        Ok(())
    }),
    value(&["-s"], "<socket>", "Unix socket of the server, instead of host and port.", |draft, text| {
        draft.unix_path = Some(utf8(text, "socket path")?);
        Ok(())
    }),
    value(
        &["-a", "--pass"],
        "<password>",
        "Password. Safer: in the environment, as VALKEYCLI_AUTH or REDISCLI_AUTH.",
        |draft, text| {
            draft.password = Some(text.to_vec());
            draft.password_in_arguments = true;
            Ok(())
        },
    ),
    value(&["--user"], "<name>", "User name that goes with the password.", |draft, text| {
        draft.user = Some(text.to_vec());
        Ok(())
    }),
    switch(&["--no-auth-warning"], "No warning about a password on the command line.", |draft| {
        draft.hide_password_warning = true;
    }),
    value(
        &["-u"],
        "<uri>",
        "Server as valkey://user:password@host:port/database (or redis://; valkeys:// with TLS); all parts optional.",
        apply_uri,
    ),
    value(&["-n"], "<db>", "Database number.", |draft, text| {
        draft.database = integer(text, "database number")?;
        Ok(())
    }),
    switch(&["-2"], "Speak RESP2.", |draft| draft.resp2 = true),
    switch(&["-3"], "Speak RESP3.", |draft| draft.resp3 = true),
    value(&["-r"], "<n>", "Send the command n times; a negative n is for ever.", |draft, text| {
        draft.repeat = Some(integer(text, "repeat count")?);
        Ok(())
    }),
    value(&["-i"], "<seconds>", "Pause after each repetition, SCAN or report; fractions allowed.", |draft, text| {
        draft.interval = seconds(text, "interval for -i")?;
        Ok(())
    }),
    switch(&["-x"], "Read the command's last argument from standard input.", |draft| draft.last_from_stdin = true),
    value(&["-X"], "<tag>", "Read the argument that equals tag from standard input.", |draft, text| {
        draft.tag_from_stdin = Some(text.to_vec());
        Ok(())
    }),
    value(&["-d"], "<text>", "Delimiter between elements of a raw reply (default: new line).", |draft, text| {
        draft.element_delimiter = Some(text.to_vec());
        Ok(())
    }),
    value(&["-D"], "<text>", "Delimiter after each raw reply (default: new line).", |draft, text| {
        draft.reply_delimiter = Some(text.to_vec());
        Ok(())
    }),
    switch(&["-e"], "End with status 1 when the server replies with an error.", |draft| draft.errors_are_fatal = true),
    switch(&["--raw"], "Raw replies (default when standard output is no terminal).", |draft| {
        draft.output = Some(OutputFormat::Raw);
    }),
    switch(&["--no-raw"], "Formatted replies (default on a terminal).", |draft| {
        draft.output = Some(OutputFormat::Formatted);
    }),
    switch(&["--csv"], "Replies as CSV.", |draft| draft.output = Some(OutputFormat::Csv)),
    switch(&["--json"], "Replies as JSON, over RESP3 unless -2 is given.", |draft| {
        draft.output = Some(OutputFormat::Json)
    }),
    switch(&["--quoted-json"], "Like --json with every string in printable ASCII.", |draft| {
        draft.output = Some(OutputFormat::QuotedJson);
    }),
    switch(&["--quoted-input"], "The command's arguments are quoted strings.", |draft| draft.quoted_input = true),
    value(&["--show-pushes"], "<yes|no>", "Print RESP3 push messages (default on a terminal).", |draft, text| {
        draft.show_pushes = Some(yes_or_no(text)?);
        Ok(())
    }),
    switch(&["--book"], "Speak the small length-prefixed binary protocol.", |draft| draft.book = true),
    switch(&["--askpass"], "Ask for the password on the terminal.", |draft| draft.ask_password = true),
    value(&["-t"], "<seconds>", "How long connecting may take (default: as the system says).", |draft, text| {
        draft.connect_timeout = Some(seconds(text, "connection timeout for -t")?).filter(|timeout| !timeout.is_zero());
        Ok(())
    }),
    switch(&["-c"], "Follow the redirections of a cluster's nodes.", |draft| draft.follow_redirects = true),
    switch(&["-4"], "Prefer IPv4 addresses of the host.", |draft| draft.preferred_ip = Some(IpVersion::Four)),
    switch(&["-6"], "Prefer IPv6 addresses of the host.", |draft| draft.preferred_ip = Some(IpVersion::Six)),
    switch(&["--verbose"], "Taken as by other clients; there is nothing more to say.", |_| {}),
    switch(&["--pipe"], "Send requests from standard input as they are, and count the replies.", |draft| {
        draft.mode = Some(Mode::Pipe);
    }),
    value(
        &["--pipe-timeout"],
        "<seconds>",
        "How long --pipe waits for the last replies (default 30, 0: for ever).",
        |draft, text| {
            draft.pipe_timeout = Some(Duration::from_secs(natural(text, "--pipe-timeout")?));
            Ok(())
        },
    ),
    switch(&["--scan"], "Print all keys, as SCAN finds them.", |draft| draft.mode = Some(Mode::Scan)),
    value(
        &["--pattern"],
        "<pattern>",
        "Keys that --scan, --bigkeys, --memkeys and --hotkeys look at.",
        |draft, text| {
            draft.keys.pattern = Some(text.to_vec());
            Ok(())
        },
    ),
    value(&["--quoted-pattern"], "<pattern>", "The same as a quoted string.", |draft, text| {
        let pattern = unquote(text).ok_or_else(|| error("Invalid quoted string specified for --quoted-pattern."))?;
        draft.keys.pattern = Some(pattern);
        Ok(())
    }),
    value(&["--count"], "<n>", "COUNT of their SCAN.", |draft, text| {
        draft.keys.count = Some(natural(text, "--count")?);
        Ok(())
    }),
    value(&["--type"], "<type>", "TYPE of their SCAN.", |draft, text| {
        draft.keys.kind = Some(text.to_vec());
        Ok(())
    }),
    switch(&["--bigkeys"], "Find the keys with the most elements.", |draft| draft.mode = Some(Mode::BigKeys)),
    switch(&["--memkeys"], "Find the keys that take up the most memory.", |draft| draft.mode = Some(Mode::MemoryKeys)),
    value(&["--memkeys-samples"], "<n>", "--memkeys, looking at n elements of a key.", |draft, text| {
        draft.mode = Some(Mode::MemoryKeys);
        draft.memory_samples = Some(natural(text, "--memkeys-samples")?);
        Ok(())
    }),
    switch(&["--hotkeys"], "Find the keys used most; needs a maxmemory-policy with LFU.", |draft| {
        draft.mode = Some(Mode::HotKeys);
    }),
    switch(&["--stat"], "Print a line about the server each second.", |draft| draft.mode = Some(Mode::Stat)),
    switch(&["--latency"], "Measure how long the server takes to answer.", |draft| draft.mode = Some(Mode::Latency)),
    switch(&["--latency-history"], "The same, a line for each interval (15 seconds).", |draft| {
        draft.mode = Some(Mode::LatencyHistory);
    }),
    switch(&["--latency-dist"], "The same, as a spectrum in 256 colors.", |draft| {
        draft.mode = Some(Mode::LatencyDistribution);
    }),
    value(
        &["--intrinsic-latency"],
        "<seconds>",
        "Measure how long the system keeps this program waiting.",
        |draft, text| {
            draft.mode = Some(Mode::IntrinsicLatency(natural(text, "--intrinsic-latency")?));
            Ok(())
        },
    ),
    value(&["--eval"], "<file>", "Run a script; what follows is: key ... , argument ...", |draft, text| {
        draft.mode = Some(Mode::Eval(utf8(text, "file name")?));
        Ok(())
    }),
    value(&["--test_hint"], "<line>", "Print the hint for a line that is typed so far.", |draft, text| {
        draft.mode = Some(Mode::Hint(text.to_vec()));
        Ok(())
    }),
    value(&["--test_hint_file"], "<file>", "Check a file of lines and the hints expected for them.", |draft, text| {
        draft.mode = Some(Mode::HintFile(utf8(text, "file name")?));
        Ok(())
    }),
    lacking(&["--ldb", "--ldb-sync-mode"], "the script debugger is not supported"),
    lacking(&["--cluster", "--cluster-yes"], "this comes with cluster mode, which is not built yet"),
    switch(&["--tls"], "Encrypt the connection with TLS.", |draft| draft.tls.enabled = true),
    value(&["--sni"], "<host>", "The name of the server, as it is told.", |draft, text| {
        draft.tls.sni = Some(utf8(text, "host")?);
        Ok(())
    }),
    value(&["--cacert"], "<file>", "Certificates of authorities to trust (default: the system's).", |draft, text| {
        draft.tls.authorities = Some(utf8(text, "file name")?);
        Ok(())
    }),
    value(&["--cacertdir"], "<folder>", "A folder of such certificates.", |draft, text| {
        draft.tls.authority_folder = Some(utf8(text, "file name")?);
        Ok(())
    }),
    switch(&["--insecure"], "Trust any server.", |draft| draft.tls.insecure = true),
    value(&["--cert"], "<file>", "The certificate to show.", |draft, text| {
        draft.tls.certificate = Some(utf8(text, "file name")?);
        Ok(())
    }),
    value(&["--key"], "<file>", "The private key of that certificate.", |draft, text| {
        draft.tls.key = Some(utf8(text, "file name")?);
        Ok(())
    }),
    value(&["--tls-ciphers"], "<list>", "Ciphers of TLS 1.2, in OpenSSL's words.", |draft, text| {
        draft.tls.ciphers = Some(utf8(text, "list of ciphers")?);
        Ok(())
    }),
    value(&["--tls-ciphersuites"], "<list>", "Ciphers of TLS 1.3.", |draft, text| {
        draft.tls.ciphersuites = Some(utf8(text, "list of ciphers")?);
        Ok(())
    }),
    switch(&["--replica", "--slave"], "Print the commands that a primary sends to its replicas.", |draft| {
        draft.mode = Some(Mode::Replica);
    }),
    value(&["--rdb"], "<file>", "Write the server's data set to a file; - is standard output.", |draft, text| {
        set_dump(draft, Mode::Rdb(utf8(text, "file name")?))
    }),
    value(&["--functions-rdb"], "<file>", "The same of its functions, without the keys.", |draft, text| {
        set_dump(draft, Mode::FunctionsRdb(utf8(text, "file name")?))
    }),
    Flag { names: &["--help"], apply: Apply::Help, help: "Print this help." },
    Flag { names: &["-v", "--version"], apply: Apply::Version, help: "Print the version." },
];

/// Reads the arguments that follow the program's name.
pub fn parse(arguments: &[Vec<u8>], surroundings: Surroundings) -> Result<Request, UsageError> {
    let mut draft = Draft::default();
    let mut rest = arguments;
    while let [name, tail @ ..] = rest
        && name.starts_with(b"-")
    {
        rest = tail;
        let flag = FLAGS.iter().find(|flag| flag.names.iter().any(|known| known.as_bytes() == &name[..]));
        match (flag.map(|flag| &flag.apply), rest) {
            (Some(Apply::Switch(set)), _) => set(&mut draft),
            (Some(Apply::Value(_, set)), [text, tail @ ..]) => {
                set(&mut draft, text)?;
                rest = tail;
            }
            (Some(Apply::Help), _) => return Ok(Request::Help),
            (Some(Apply::Version), _) => return Ok(Request::Version),
            (Some(Apply::Lacking(reason)), _) => {
                return Err(error(&format!("{}: {reason}.", String::from_utf8_lossy(name))));
            }
            (Some(Apply::Value(..)), []) if name == b"-h" => return Ok(Request::Help),
            (Some(Apply::Value(..)), []) | (None, _) => return Err(unrecognized(name)),
        }
    }
    settle(draft, rest.to_vec(), surroundings).map(|options| Request::Run(Box::new(options)))
}

fn settle(draft: Draft, command: Vec<Vec<u8>>, surroundings: Surroundings) -> Result<Options, UsageError> {
    if draft.resp2 && draft.resp3 {
        return Err(error("Options -2 and -3 are mutually exclusive."));
    }
    let stdin_argument = match (draft.last_from_stdin, draft.tag_from_stdin) {
        (true, Some(_)) => return Err(error("Options -x and -X are mutually exclusive.")),
        (true, None) => Some(StdinArgument::Last),
        (false, tag) => tag.map(StdinArgument::Tagged),
    };
    let default_output = if surroundings.stdout_is_terminal { OutputFormat::Formatted } else { OutputFormat::Raw };
    let output = draft.output.unwrap_or(default_output);
    let resp = match (draft.resp2, draft.resp3, output) {
        (true, ..) => Resp::Two,
        (_, true, _) => Resp::Three,
        (_, _, OutputFormat::Json | OutputFormat::QuotedJson) => Resp::ThreeIfOffered,
        _ => Resp::AsConnected,
    };
    let target = match draft.unix_path {
        Some(path) => Target::Unix(path),
        None => Target::Tcp {
            host: draft.host.unwrap_or_else(|| "127.0.0.1".to_owned()),
            port: draft.port.unwrap_or(if draft.book { 1234 } else { 6379 }),
        },
    };
    let mode = draft.mode.unwrap_or(Mode::Commands);
    if draft.book && mode != Mode::Commands {
        return Err(error("With --book there are only commands."));
    }
    Ok(Options {
        mode,
        keys: draft.keys,
        memory_samples: draft.memory_samples,
        pipe_timeout: draft.pipe_timeout.unwrap_or(Duration::from_secs(30)),
        connect_timeout: draft.connect_timeout,
        preferred_ip: draft.preferred_ip,
        ask_password: draft.ask_password,
        tls: draft.tls,
        target,
        user: draft.user,
        password: draft.password.or(surroundings.environment_password),
        warn_of_password: draft.password_in_arguments && !draft.hide_password_warning,
        database: draft.database,
        resp,
        repeat: draft.repeat.unwrap_or(1),
        interval: draft.interval,
        stdin_argument,
        quoted_input: draft.quoted_input,
        output,
        element_delimiter: draft.element_delimiter.unwrap_or_else(|| b"\n".to_vec()),
        reply_delimiter: draft.reply_delimiter.unwrap_or_else(|| b"\n".to_vec()),
        errors_are_fatal: draft.errors_are_fatal,
        show_pushes: draft.show_pushes.unwrap_or(surroundings.stdout_is_terminal),
        follow_redirects: draft.follow_redirects,
        for_people: surroundings.stdout_is_terminal,
        book: draft.book,
        command,
    })
}

/// The text of `--help`.
pub fn help() -> String {
    let mut text = String::from("Usage: cinnabar-cli [OPTIONS] [command [argument ...]]\n\n");
    for flag in FLAGS {
        let mut left = flag.names.join(", ");
        if let Apply::Value(operand, _) = flag.apply {
            left = format!("{left} {operand}");
        }
        if !matches!(flag.apply, Apply::Lacking(_)) {
            text.push_str(&format!("  {left:<24} {}\n", flag.help));
        }
    }
    text.push_str(
        "\nWithout a command, reads commands from standard input: interactively on a terminal, else one a line.\n\
         Examples:\n  \
         cinnabar-cli -u valkey://default:secret@localhost:6379/0 ping\n  \
         cinnabar-cli -x set document < document.txt\n  \
         cinnabar-cli -r 10 -i 0.5 incr counter\n  \
         cinnabar-cli --quoted-input set '\"zero\\x00byte\"' value\n  \
         cinnabar-cli --book -p 1234 zquery board 0 \"\" 0 10\n",
    );
    text
}

fn apply_uri(draft: &mut Draft, text: &[u8]) -> Result<(), UsageError> {
    let uri = Uri::parse(&utf8(text, "URI")?).map_err(|UriError(text)| error(text))?;
    draft.password_in_arguments |= uri.password.is_some();
    draft.tls.enabled |= uri.tls;
    draft.host = uri.host.or(draft.host.take());
    draft.port = uri.port.or(draft.port);
    draft.user = uri.user.or(draft.user.take());
    draft.password = uri.password.or(draft.password.take());
    draft.database = uri.database.map_or(draft.database, i64::from);
    Ok(())
}

fn utf8(text: &[u8], what: &str) -> Result<String, UsageError> {
    String::from_utf8(text.to_vec()).map_err(|_| error(&format!("Invalid {what}.")))
}

fn integer(text: &[u8], what: &str) -> Result<i64, UsageError> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| error(&format!("Invalid {what}.")))
}

fn port(text: &[u8]) -> Result<u16, UsageError> {
    let number = integer(text, "server port")?;
    u16::try_from(number).map_err(|_| error("Invalid server port."))
}

fn natural(text: &[u8], option: &str) -> Result<u64, UsageError> {
    let number = integer(text, &format!("number for {option}"))?;
    u64::try_from(number).map_err(|_| error(&format!("Invalid number for {option}.")))
}

fn seconds(text: &[u8], what: &str) -> Result<Duration, UsageError> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    let duration = number.and_then(|number| Duration::try_from_secs_f64(number).ok());
    duration.ok_or_else(|| error(&format!("Invalid {what}.")))
}

fn yes_or_no(text: &[u8]) -> Result<bool, UsageError> {
    match text.first() {
        Some(b'y' | b'Y') => Ok(true),
        Some(b'n' | b'N') => Ok(false),
        _ => Err(error(&format!(
            "Unknown --show-pushes value '{}' (valid: '[y]es', '[n]o')",
            String::from_utf8_lossy(text)
        ))),
    }
}

fn unrecognized(name: &[u8]) -> UsageError {
    error(&format!("Unrecognized option or bad number of args for: '{}'", String::from_utf8_lossy(name)))
}

fn error(text: &str) -> UsageError {
    UsageError(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn parsed(line: &[&str]) -> Result<Options, String> {
        let arguments: Vec<_> = line.iter().map(|word| word.as_bytes().to_vec()).collect();
        match parse(&arguments, Surroundings::default()) {
            Ok(Request::Run(options)) => Ok(*options),
            Ok(other) => Err(format!("{other:?}")),
            Err(UsageError(text)) => Err(text),
        }
    }

    fn tcp(host: &str, port: u16) -> Target {
        Target::Tcp { host: host.to_owned(), port }
    }

    #[test]
    fn flag_names_are_unique_and_look_like_flags() {
        let mut seen = HashSet::new();
        for name in FLAGS.iter().flat_map(|flag| flag.names) {
            assert!(name.starts_with('-') && seen.insert(name), "{name}");
        }
        for flag in FLAGS.iter().filter(|flag| !matches!(flag.apply, Apply::Lacking(_))) {
            assert!(flag.names.iter().all(|name| help().contains(name)), "{:?}", flag.names);
        }
    }

    #[test]
    fn options_stop_at_the_command() {
        let options = parsed(&["-p", "1", "set", "k", "-1", "--csv"]).unwrap();
        assert_eq!(options.target, tcp("127.0.0.1", 1));
        assert_eq!(options.command, [&b"set"[..], b"k", b"-1", b"--csv"]);
        assert_eq!(options.output, OutputFormat::Raw);
    }

    #[test]
    fn output_follows_the_terminal_unless_told() {
        let on_terminal = || Surroundings { stdout_is_terminal: true, ..Surroundings::default() };
        let Ok(Request::Run(options)) = parse(&[], on_terminal()) else { panic!() };
        assert_eq!((options.output, options.show_pushes), (OutputFormat::Formatted, true));
        let Ok(Request::Run(options)) = parse(&[b"--raw".to_vec()], on_terminal()) else { panic!() };
        assert_eq!((options.output, options.show_pushes), (OutputFormat::Raw, true));
        assert_eq!(parsed(&["--no-raw"]).unwrap().output, OutputFormat::Formatted);
    }

    #[test]
    fn json_prefers_resp3() {
        assert_eq!(parsed(&[]).unwrap().resp, Resp::AsConnected);
        assert_eq!(parsed(&["--json"]).unwrap().resp, Resp::ThreeIfOffered);
        assert_eq!(parsed(&["--json", "-2"]).unwrap().resp, Resp::Two);
        assert_eq!(parsed(&["-3", "--json"]).unwrap().resp, Resp::Three);
    }

    #[test]
    fn uris_carry_login_address_and_database() {
        let options = parsed(&["--no-auth-warning", "-u", "redis://al:p%40ss@db.example:7000/3"]).unwrap();
        assert_eq!(options.target, tcp("db.example", 7000));
        assert_eq!(options.user.as_deref(), Some(&b"al"[..]));
        assert_eq!(options.password.as_deref(), Some(&b"p@ss"[..]));
        assert_eq!(options.database, 3);
        assert!(parsed(&["-u", "rediss://h"]).unwrap().tls.enabled && !options.tls.enabled);
        assert_eq!(parsed(&["-u", "valkey:///2"]).unwrap().target, tcp("127.0.0.1", 6379));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let cases: &[(&[&str], &str)] = &[
            (&["--zzz"], "Unrecognized option or bad number of args for: '--zzz'"),
            (&["-p"], "Unrecognized option or bad number of args for: '-p'"),
            (&["-p", "99999"], "Invalid server port."),
            (&["-p", "x"], "Invalid server port."),
            (&["-2", "-3"], "Options -2 and -3 are mutually exclusive."),
            (&["-x", "-X", "tag"], "Options -x and -X are mutually exclusive."),
            (&["-u", "http://a"], "Invalid URI scheme"),
            (&["-i", "-1"], "Invalid interval for -i."),
            (&["-r", "many"], "Invalid repeat count."),
            (&["-t", "x"], "Invalid connection timeout for -t."),
            (&["--count", "-1"], "Invalid number for --count."),
            (&["--quoted-pattern", "\"a"], "Invalid quoted string specified for --quoted-pattern."),
            (&["--cluster", "info"], "--cluster: this comes with cluster mode, which is not built yet."),
            (&["--ldb"], "--ldb: the script debugger is not supported."),
            (&["--book", "--scan"], "With --book there are only commands."),
            (&["-h"], "Help"),
            (&["-v"], "Version"),
        ];
        for (line, expected) in cases {
            assert_eq!(parsed(line).unwrap_err(), *expected, "{line:?}");
        }
    }

    #[test]
    fn the_command_line_password_wins_over_the_environment() {
        let surroundings = || Surroundings { environment_password: Some(b"env".to_vec()), ..Surroundings::default() };
        let Ok(Request::Run(options)) = parse(&[], surroundings()) else { panic!() };
        assert_eq!(options.password.as_deref(), Some(&b"env"[..]));
        let line = [b"-a".to_vec(), b"arg".to_vec(), b"--no-auth-warning".to_vec()];
        let Ok(Request::Run(options)) = parse(&line, surroundings()) else { panic!() };
        assert_eq!(options.password.as_deref(), Some(&b"arg"[..]));
    }

    #[test]
    fn the_book_protocol_has_its_own_default_port() {
        assert_eq!(parsed(&["--book"]).unwrap().target, tcp("127.0.0.1", 1234));
        assert_eq!(parsed(&["-p", "5", "--book"]).unwrap().target, tcp("127.0.0.1", 5));
    }
}
