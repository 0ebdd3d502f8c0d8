//! The command line: options first, then the command to send.
//!
//! Options end at the first word that does not start with `-`; everything from there on is the command, whatever it
//! looks like (`cinnabar-cli set k -1`). An option is a row of [`GROUPS`]; the parser and `--help` both read the table.
//! Environment and terminal come in as [`Surroundings`], so that parsing is a pure function.

mod cluster_flags;
mod option_flag;
mod option_flags;

use std::time::Duration;

use resp::address::Target;

use self::cluster_flags::CLUSTER_FLAGS;
pub use self::option_flag::UsageError;
use self::option_flag::{Apply, Draft, Flag, error, unrecognized};
use self::option_flags::GROUPS;
use crate::options::{ClusterOptions, Mode, Options, Resp, StdinArgument};
use crate::reply_format::OutputFormat;

/// Request of the command line.
#[derive(Debug)]
pub enum Request {
    Run(Box<Options>),
    Help,
    Version,
}

/// Facts about the program's environment that parsing depends on.
#[derive(Debug, Default)]
pub struct Surroundings {
    pub stdout_is_terminal: bool,
    /// The password of `VALKEYCLI_AUTH` or, without that, of `REDISCLI_AUTH`.
    pub environment_password: Option<Vec<u8>>,
    /// `VALKEYCLI_CLUSTER_YES` or, without that, `REDISCLI_CLUSTER_YES` is 1.
    pub cluster_yes: bool,
}

/// Reads the arguments that follow the program's name.
pub fn parse(arguments: &[Vec<u8>], surroundings: Surroundings) -> Result<Request, UsageError> {
    let mut draft = Draft::default();
    let mut rest = arguments;
    while let [name, tail @ ..] = rest
        && name.starts_with(b"-")
    {
        match (flag_of(name).map(|flag| &flag.apply), tail) {
            (Some(Apply::Switch(set)), _) => set(&mut draft),
            (Some(Apply::Value(_, set)), [text, ..]) => {
                set(&mut draft, text)?;
                rest = &rest[1..];
            }
            (Some(Apply::Words(_, set)), _) => rest = &rest[set(&mut draft, tail)?..],
            (Some(Apply::Help), _) => return Ok(Request::Help),
            (Some(Apply::Version), _) => return Ok(Request::Version),
            (Some(Apply::Value(..)), []) if name == b"-h" => return Ok(Request::Help),
            (Some(Apply::Value(..)), []) | (None, _) => return Err(unrecognized(name)),
        }
        rest = &rest[1..];
        if matches!(draft.mode, Some(Mode::Cluster(_))) {
            rest = cluster_flags::take_arguments(&mut draft, rest)?;
        }
    }
    settle(draft, rest.to_vec(), surroundings).map(|options| Request::Run(Box::new(options)))
}

fn groups() -> impl Iterator<Item = (&'static str, &'static [Flag])> {
    GROUPS.iter().copied().chain([("Clusters", CLUSTER_FLAGS)])
}

fn flags() -> impl Iterator<Item = &'static Flag> {
    groups().flat_map(|(_, flags)| flags)
}

fn flag_of(name: &[u8]) -> Option<&'static Flag> {
    flags().find(|flag| flag.names.iter().any(|known| known.as_bytes() == name))
}

fn settle(draft: Draft, command: Vec<Vec<u8>>, surroundings: Surroundings) -> Result<Options, UsageError> {
    if draft.resp2 && draft.resp3 {
        return Err(error("Options -2 and -3 are mutually exclusive."));
    }
    let mode = mode(&draft)?;
    let output = output(&draft, &mode, surroundings.stdout_is_terminal)?;
    let stdin_argument = match (draft.last_from_stdin, draft.tag_from_stdin) {
        (true, Some(_)) => return Err(error("Options -x and -X are mutually exclusive.")),
        (true, None) => Some(StdinArgument::Last),
        (false, tag) => tag.map(StdinArgument::Tagged),
    };
    refuse_what_does_nothing(&mode, draft.repeat.is_some(), output)?;
    let resp = match (draft.resp2, draft.resp3, output) {
        (true, ..) => Resp::Two,
        (_, true, _) => Resp::Three,
        (_, _, OutputFormat::Json | OutputFormat::QuotedJson) => Resp::ThreeIfOffered,
        _ => Resp::AsConnected,
    };
    let target = match draft.unix_path {
        Some(path) => Target::Unix(path),
        None => tcp_target(draft.host, draft.port, draft.book),
    };
    if draft.book && mode != Mode::Commands {
        return Err(error("With --book there are only commands."));
    }
    let is_about_cluster = draft.follow_redirects || matches!(mode, Mode::Cluster(_));
    if is_about_cluster && matches!(target, Target::Unix(_)) {
        return Err(error("Options -c and -s are mutually exclusive."));
    }
    let cluster = ClusterOptions { yes: draft.cluster.yes || surroundings.cluster_yes, ..draft.cluster };
    Ok(Options {
        mode,
        keys: draft.keys,
        memory_samples: draft.memory_samples,
        cursor: draft.cursor.unwrap_or(0),
        top_keys: draft.top_keys,
        hot_keys: draft.hot_keys,
        stepping: draft.stepping,
        multipath: draft.multipath,
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
        readings: draft.repeat,
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
        verbose: draft.verbose,
        cluster,
        command,
    })
}

/// Returns the format of replies; the debugger of scripts has one of its own.
fn output(draft: &Draft, mode: &Mode, is_terminal: bool) -> Result<OutputFormat, UsageError> {
    match draft.stepping {
        Some(_) if !matches!(mode, Mode::Eval(_)) => Err(error("Options --ldb and --ldb-sync-mode require --eval.")),
        Some(_) => Ok(OutputFormat::Formatted),
        None if is_terminal => Ok(draft.output.unwrap_or(OutputFormat::Formatted)),
        None => Ok(draft.output.unwrap_or(OutputFormat::Raw)),
    }
}

fn tcp_target(host: Option<String>, port: Option<u16>, is_book: bool) -> Target {
    let default_port = if is_book { 1234 } else { 6379 };
    Target::Tcp { host: host.unwrap_or_else(|| "127.0.0.1".to_owned()), port: port.unwrap_or(default_port) }
}

fn refuse_what_does_nothing(mode: &Mode, repeats: bool, output: OutputFormat) -> Result<(), UsageError> {
    if output.is_json() && !mode.has_json() {
        return Err(error("With --json there are replies and reports: this has none in JSON."));
    }
    if *mode == Mode::Top && repeats && !output.is_json() {
        return Err(error("Option -r goes with --top as JSON only: the screen is left with q."));
    }
    Ok(())
}

/// Returns the program's mode; options that belong to another mode are refused.
fn mode(draft: &Draft) -> Result<Mode, UsageError> {
    let mode = match &draft.mode {
        Some(Mode::KeyStats) if draft.full_screen => return Err(error("With --keystats --top takes a number.")),
        Some(_) if draft.full_screen => return Err(error("Option --top without a number is a mode of its own.")),
        None if draft.full_screen => Mode::Top,
        mode => mode.clone().unwrap_or(Mode::Commands),
    };
    for (is_given, option) in [(draft.top_keys.is_some(), "--top <n>"), (draft.cursor.is_some(), "--cursor")] {
        if is_given && mode != Mode::KeyStats {
            return Err(error(&format!("Option {option} goes with --keystats.")));
        }
    }
    Ok(mode)
}

/// Returns the text of `--help`.
pub fn help() -> String {
    let mut text = String::from(
        "Usage: cinnabar-cli [OPTIONS] [command [argument ...]]\n\n\
         Without a command, reads commands from standard input: interactively on a terminal, else one a line.\n",
    );
    for (heading, flags) in groups() {
        text.push_str(&format!("\n{heading}:\n"));
        for flag in flags {
            let mut left = flag.names.join(", ");
            if let Apply::Value(operand, _) | Apply::Words(operand, _) = flag.apply {
                left = format!("{left} {operand}");
            }
            text.push_str(&format!("  {left:<24} {}\n", flag.help));
        }
    }
    text.push_str(
        "\nExamples:\n  \
         cinnabar-cli -u valkey://default:secret@localhost:6379/0 ping\n  \
         cinnabar-cli -x set document < document.txt\n  \
         cinnabar-cli -r 10 -i 0.5 incr counter\n  \
         cinnabar-cli --scan --pattern 'user:*' --count 100\n  \
         cinnabar-cli --eval script.lua key1 key2 , argument\n  \
         cinnabar-cli --cluster check localhost:7000\n  \
         cinnabar-cli --quoted-input set '\"zero\\x00byte\"' value\n  \
         cinnabar-cli --book -p 1234 zquery board 0 \"\" 0 10\n",
    );
    text
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
        for name in flags().flat_map(|flag| flag.names) {
            assert!(name.starts_with('-') && seen.insert(name), "{name}");
        }
        for flag in flags() {
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
            (&["--cluster"], "Unrecognized option or bad number of args for: '--cluster'"),
            (&["--cluster", "info", "--cluster", "check"], "Option --cluster is given twice."),
            (
                &["--cluster", "info", "a:1", "--cluster-yes", "b:1"],
                "Unrecognized option or bad number of args for: 'b:1'",
            ),
            (&["--cluster-weight", "a", "b=1"], "Unrecognized option or bad number of args for: '--cluster-weight'"),
            (&["--cluster-slots", "-1"], "Invalid number for --cluster-slots."),
            (&["--cluster-threshold", "x"], "Invalid threshold for --cluster-threshold."),
            (&["-c", "-s", "/tmp/x"], "Options -c and -s are mutually exclusive."),
            (&["-s", "/tmp/x", "--cluster", "info"], "Options -c and -s are mutually exclusive."),
            (&["--top", "5"], "Option --top <n> goes with --keystats."),
            (&["--scan", "--cursor", "5"], "Option --cursor goes with --keystats."),
            (&["--cursor", "-5"], "Invalid number for --cursor."),
            (&["--top", "5x"], "Invalid number for --top."),
            (&["--keystats", "--top"], "With --keystats --top takes a number."),
            (&["--stat", "--top"], "Option --top without a number is a mode of its own."),
            (&["--top", "-r", "5"], "Option -r goes with --top as JSON only: the screen is left with q."),
            (&["--json", "--pipe"], "With --json there are replies and reports: this has none in JSON."),
            (&["--ldb"], "Options --ldb and --ldb-sync-mode require --eval."),
            (&["--book", "--scan"], "With --book there are only commands."),
            (&["-h"], "Help"),
            (&["-v"], "Version"),
        ];
        for (line, expected) in cases {
            assert_eq!(parsed(line).unwrap_err(), *expected, "{line:?}");
        }
    }

    #[test]
    fn each_option_that_help_of_clusters_names_is_known() {
        let text = crate::cluster::help_text();
        let named: Vec<&str> = text.split_whitespace().filter(|word| word.starts_with("--cluster-")).collect();
        assert!(named.len() > 20);
        for name in named {
            assert!(CLUSTER_FLAGS.iter().any(|flag| flag.names.contains(&name)), "{name}");
        }
    }

    #[test]
    fn top_is_a_screen_or_a_number() {
        let options = parsed(&["--top"]).unwrap();
        assert_eq!((options.mode, options.top_keys), (Mode::Top, None));
        assert_eq!(parsed(&["--top", "-p", "1"]).unwrap().mode, Mode::Top);
        let options = parsed(&["--top", "3", "--cursor", "18446744073709551615", "--keystats"]).unwrap();
        assert_eq!((options.mode, options.top_keys, options.cursor), (Mode::KeyStats, Some(3), u64::MAX));
        assert_eq!(parsed(&["--keystats-samples", "7"]).unwrap().memory_samples, Some(7));
    }

    #[test]
    fn reports_are_there_as_json() {
        for mode in ["--top", "--bigkeys", "--memkeys", "--keystats", "--hotkeys", "--scan", "--stat", "--latency"] {
            assert!(parsed(&["--json", mode]).is_ok(), "{mode}");
        }
        assert!(parsed(&["--json", "--cluster", "check", "h:1"]).is_ok());
        assert!(parsed(&["--json", "--cluster", "fix", "h:1"]).is_err());
    }

    #[test]
    fn the_words_of_a_cluster_command_end_at_the_next_option() {
        let options =
            parsed(&["--cluster-yes", "--cluster", "create", "a:1", "b:2", "--cluster-replicas", "1"]).unwrap();
        assert_eq!(options.mode, Mode::Cluster("create".to_owned()));
        assert_eq!(options.cluster.arguments, [&b"a:1"[..], b"b:2"]);
        assert_eq!((options.cluster.yes, options.cluster.replicas), (true, 1));
        // The arguments may also follow the option, once.
        let line =
            ["--cluster", "rebalance", "--cluster-weight", "a=1", "b=2", "--cluster-simulate", "h", "7", "-t", "1"];
        let options = parsed(&line).unwrap();
        assert_eq!(options.cluster.arguments, [&b"h"[..], b"7"]);
        assert_eq!(options.cluster.weights, ["a=1", "b=2"]);
        assert!(options.command.is_empty() && options.cluster.simulate);
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
