//! The options of the program, those of `--cluster` apart: a row each, which the parser and `--help` read.

use std::time::Duration;

use resp::address::{Uri, UriError};
use resp::words::unquote;

use super::option_flag::{
    Apply, Draft, Flag, UsageError, error, integer, natural, port, seconds, switch, utf8, value, words,
};
use crate::options::{Mode, ScriptStepping};
use crate::reply_format::OutputFormat;
use crate::transport::IpVersion;

/// The options under the headings that `--help` has for them.
pub const GROUPS: &[(&str, &[Flag])] = &[
    (
        "Server",
        &[
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
                &["-u"],
                "<uri>",
                "Server as valkey://user:password@host:port/database (or redis://; valkeys:// with TLS); all parts optional.",
                apply_uri,
            ),
            value(&["-n"], "<db>", "Database number.", |draft, text| {
                draft.database = integer(text, "database number")?;
                Ok(())
            }),
            value(
                &["-t"],
                "<seconds>",
                "How long connecting may take (default: as the system says).",
                |draft, text| {
                    draft.connect_timeout =
                        Some(seconds(text, "connection timeout for -t")?).filter(|timeout| !timeout.is_zero());
                    Ok(())
                },
            ),
            switch(&["-4"], "Prefer IPv4 addresses of the host.", |draft| draft.preferred_ip = Some(IpVersion::Four)),
            switch(&["-6"], "Prefer IPv6 addresses of the host.", |draft| draft.preferred_ip = Some(IpVersion::Six)),
            switch(&["--mptcp"], "Connect with MPTCP, over several paths.", |draft| draft.multipath = true),
            switch(&["-c"], "Follow the redirections of a cluster's nodes.", |draft| draft.follow_redirects = true),
            switch(&["--book"], "Speak the small length-prefixed binary protocol.", |draft| draft.book = true),
            switch(&["-2"], "Speak RESP2.", |draft| draft.resp2 = true),
            switch(&["-3"], "Speak RESP3.", |draft| draft.resp3 = true),
        ],
    ),
    (
        "Login",
        &[
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
            switch(&["--askpass"], "Ask for the password on the terminal.", |draft| draft.ask_password = true),
            switch(&["--no-auth-warning"], "No warning about a password on the command line.", |draft| {
                draft.hide_password_warning = true;
            }),
        ],
    ),
    (
        "TLS",
        &[
            switch(&["--tls"], "Encrypt the connection with TLS.", |draft| draft.tls.enabled = true),
            value(&["--sni"], "<host>", "The name of the server, as it is told.", |draft, text| {
                draft.tls.sni = Some(utf8(text, "host")?);
                Ok(())
            }),
            value(
                &["--cacert"],
                "<file>",
                "Certificates of authorities to trust (default: the system's).",
                |draft, text| {
                    draft.tls.authorities = Some(utf8(text, "file name")?);
                    Ok(())
                },
            ),
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
        ],
    ),
    (
        "Commands",
        &[
            value(
                &["-r"],
                "<n>",
                "Send the command n times, or print n readings of --top as JSON; a negative n is for ever.",
                |draft, text| {
                    draft.repeat = Some(integer(text, "repeat count")?);
                    Ok(())
                },
            ),
            value(
                &["-i"],
                "<seconds>",
                "Pause after each repetition, SCAN or report; fractions allowed.",
                |draft, text| {
                    draft.interval = seconds(text, "interval for -i")?;
                    Ok(())
                },
            ),
            switch(&["-x"], "Read the command's last argument from standard input.", |draft| {
                draft.last_from_stdin = true
            }),
            value(&["-X"], "<tag>", "Read the argument that equals tag from standard input.", |draft, text| {
                draft.tag_from_stdin = Some(text.to_vec());
                Ok(())
            }),
            switch(&["--quoted-input"], "The command's arguments are quoted strings.", |draft| {
                draft.quoted_input = true
            }),
            value(&["--eval"], "<file>", "Run a script; what follows is: key ... , argument ...", |draft, text| {
                draft.mode = Some(Mode::Eval(utf8(text, "file name")?));
                Ok(())
            }),
            switch(&["--ldb"], "With --eval: debug the script; what it changes is undone.", |draft| {
                draft.stepping = Some(ScriptStepping::Forked)
            }),
            switch(&["--ldb-sync-mode"], "The same on the data itself: clients that need it wait.", |draft| {
                draft.stepping = Some(ScriptStepping::Synchronous)
            }),
            switch(&["-e"], "End with status 1 when the server replies with an error.", |draft| {
                draft.errors_are_fatal = true
            }),
            switch(&["--verbose"], "Say more, where there is more to say.", |draft| draft.verbose = true),
        ],
    ),
    (
        "Replies",
        &[
            switch(&["--raw"], "Raw replies (default when standard output is no terminal).", |draft| {
                draft.output = Some(OutputFormat::Raw);
            }),
            switch(&["--no-raw"], "Formatted replies (default on a terminal).", |draft| {
                draft.output = Some(OutputFormat::Formatted);
            }),
            switch(&["--csv"], "Replies as CSV.", |draft| draft.output = Some(OutputFormat::Csv)),
            switch(&["--json"], "Replies and reports as JSON, over RESP3 unless -2 is given.", |draft| {
                draft.output = Some(OutputFormat::Json)
            }),
            switch(&["--quoted-json"], "Like --json with every string in printable ASCII.", |draft| {
                draft.output = Some(OutputFormat::QuotedJson);
            }),
            value(
                &["-d"],
                "<text>",
                "Delimiter between elements of a raw reply (default: new line).",
                |draft, text| {
                    draft.element_delimiter = Some(text.to_vec());
                    Ok(())
                },
            ),
            value(&["-D"], "<text>", "Delimiter after each raw reply (default: new line).", |draft, text| {
                draft.reply_delimiter = Some(text.to_vec());
                Ok(())
            }),
            value(
                &["--show-pushes"],
                "<yes|no>",
                "Print RESP3 push messages (default on a terminal).",
                |draft, text| {
                    draft.show_pushes = Some(yes_or_no(text)?);
                    Ok(())
                },
            ),
        ],
    ),
    (
        "Keys",
        &[
            switch(&["--scan"], "Print all keys, as SCAN finds them.", |draft| draft.mode = Some(Mode::Scan)),
            switch(&["--bigkeys"], "Find the keys with the most elements.", |draft| draft.mode = Some(Mode::BigKeys)),
            switch(&["--memkeys"], "Find the keys that take up the most memory.", |draft| {
                draft.mode = Some(Mode::MemoryKeys)
            }),
            value(&["--memkeys-samples"], "<n>", "--memkeys, looking at n elements of a key.", |draft, text| {
                draft.mode = Some(Mode::MemoryKeys);
                draft.memory_samples = Some(natural(text, "--memkeys-samples")?);
                Ok(())
            }),
            switch(&["--keystats"], "Find the largest keys, and how sizes are spread.", |draft| {
                draft.mode = Some(Mode::KeyStats);
            }),
            value(&["--keystats-samples"], "<n>", "--keystats, looking at n elements of a key.", |draft, text| {
                draft.mode = Some(Mode::KeyStats);
                draft.memory_samples = Some(natural(text, "--keystats-samples")?);
                Ok(())
            }),
            value(&["--cursor"], "<n>", "Cursor at which --keystats begins.", |draft, text| {
                draft.cursor = Some(cursor(text)?);
                Ok(())
            }),
            words(
                &["--top"],
                "[<n>]",
                "Alone: watch the server on the full screen. With a number: how many keys --keystats lists (default 10).",
                |draft, rest| {
                    let number = rest.first().filter(|word| word.first().is_some_and(u8::is_ascii_digit));
                    let Some(number) = number else {
                        draft.full_screen = true;
                        return Ok(0);
                    };
                    let count = natural(number, "--top")?;
                    draft.top_keys = Some(usize::try_from(count).map_err(|_| error("Invalid number for --top."))?);
                    Ok(1)
                },
            ),
            switch(&["--hotkeys"], "Find the keys used most; needs a maxmemory-policy with LFU.", |draft| {
                draft.mode = Some(Mode::HotKeys);
            }),
            value(&["--hotkeys-count"], "<n>", "--hotkeys, listing n keys (default 16).", |draft, text| {
                draft.mode = Some(Mode::HotKeys);
                draft.hot_keys = Some(usize::try_from(natural(text, "--hotkeys-count")?).unwrap_or(usize::MAX));
                Ok(())
            }),
            value(
                &["--pattern"],
                "<pattern>",
                "Keys that --scan, --bigkeys, --memkeys, --keystats and --hotkeys look at.",
                |draft, text| {
                    draft.keys.pattern = Some(text.to_vec());
                    Ok(())
                },
            ),
            value(&["--quoted-pattern"], "<pattern>", "The same as a quoted string.", |draft, text| {
                let pattern =
                    unquote(text).ok_or_else(|| error("Invalid quoted string specified for --quoted-pattern."))?;
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
        ],
    ),
    (
        "Server over time",
        &[
            switch(&["--stat"], "Print a line about the server each second.", |draft| draft.mode = Some(Mode::Stat)),
            switch(&["--latency"], "Measure how long the server takes to answer.", |draft| {
                draft.mode = Some(Mode::Latency)
            }),
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
            value(
                &["--lru-test"],
                "<keys>",
                "Use the server as a cache of so many keys, a fifth of them four times of five, and count hits.",
                |draft, text| {
                    draft.mode = Some(Mode::LruTest(natural(text, "--lru-test")?));
                    Ok(())
                },
            ),
        ],
    ),
    (
        "Data",
        &[
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
            value(
                &["--rdb"],
                "<file>",
                "Write the server's data set to a file; - is standard output.",
                |draft, text| set_dump(draft, Mode::Rdb(utf8(text, "file name")?)),
            ),
            value(&["--functions-rdb"], "<file>", "The same of its functions, without the keys.", |draft, text| {
                set_dump(draft, Mode::FunctionsRdb(utf8(text, "file name")?))
            }),
            switch(&["--replica", "--slave"], "Print the commands that a primary sends to its replicas.", |draft| {
                draft.mode = Some(Mode::Replica);
            }),
        ],
    ),
    (
        "This program",
        &[
            value(&["--test_hint"], "<line>", "Print the hint for a line that is typed so far.", |draft, text| {
                draft.mode = Some(Mode::Hint(text.to_vec()));
                Ok(())
            }),
            value(
                &["--test_hint_file"],
                "<file>",
                "Check a file of lines and the hints expected for them.",
                |draft, text| {
                    draft.mode = Some(Mode::HintFile(utf8(text, "file name")?));
                    Ok(())
                },
            ),
            Flag { names: &["--help"], apply: Apply::Help, help: "Print this help." },
            Flag { names: &["-v", "--version"], apply: Apply::Version, help: "Print the version." },
        ],
    ),
];

/// Reads any cursor that a server may have given.
fn cursor(text: &[u8]) -> Result<u64, UsageError> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| error("Invalid number for --cursor."))
}

/// Sets a mode that writes a file, of one kind only.
fn set_dump(draft: &mut Draft, mode: Mode) -> Result<(), UsageError> {
    if matches!(&draft.mode, Some(Mode::Rdb(_) | Mode::FunctionsRdb(_))) && draft.mode != Some(mode.clone()) {
        return Err(error("Option --functions-rdb and --rdb are mutually exclusive."));
    }
    draft.mode = Some(mode);
    Ok(())
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
