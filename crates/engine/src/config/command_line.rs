//! Program arguments to configuration text.
//!
//! ```text
//! cinnabar-server [FILE | -] [--name value ...] [-]
//! cinnabar-server /etc/cinnabar.conf --port 7000 --save 900 1 --save ''
//!                                    '----------- options ------------'
//! ```
//!
//! Options become lines of configuration that are read after the file and standard input, so that they override these.
//! Each begins with `--`; everything up to the next one that has a value before it is its value, also a `--text`. A
//! whole option may be one argument (`"--port 7000"`).

use resp::words;

/// Task of the program, as its arguments ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Run the server.
    Serve(CommandLine),
    /// `-v` or `--version`
    Version,
    /// `-h` or `--help`
    Help,
    /// `--test-memory MEGABYTES`; `None` when the number is missing.
    TestMemory(Option<u64>),
    /// `--check-system`
    CheckSystem,
}

/// Sources of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// As written: may be relative, may contain wildcards.
    pub config_file: Option<Vec<u8>>,
    /// `-`: the configuration continues with standard input.
    pub read_stdin: bool,
    /// Configuration text that comes last.
    pub options: Vec<u8>,
    /// Whether `--sentinel` is there: watch other servers instead of being one.
    pub sentinel: bool,
}

/// Reads the arguments after the program's name.
pub fn parse_command_line(arguments: &[&[u8]]) -> Invocation {
    match arguments {
        [b"-v" | b"--version", ..] => return Invocation::Version,
        [b"-h" | b"--help", ..] => return Invocation::Help,
        [b"--test-memory", megabytes] => {
            return Invocation::TestMemory(Some(parse_megabytes(megabytes)));
        }
        [b"--test-memory", ..] => return Invocation::TestMemory(None),
        [b"--check-system", ..] => return Invocation::CheckSystem,
        _ => {}
    }
    let is_sentinel = |argument: &&[u8]| *argument == b"--sentinel";
    let sentinel = arguments.iter().any(is_sentinel);
    let arguments: Vec<&[u8]> = arguments.iter().copied().filter(|argument| !is_sentinel(argument)).collect();
    let mut line = CommandLine { sentinel, ..CommandLine::default() };
    let mut first_option = 0;
    if let Some(first) = arguments.first()
        && first.first() != Some(&b'-')
    {
        line.config_file = Some(first.to_vec());
        first_option = 1;
    }
    let mut name_has_value = true;
    for at in first_option..arguments.len() {
        let argument = arguments[at];
        let next = arguments.get(at + 1);
        if argument == b"-" && (at == 0 || next.is_none()) {
            line.read_stdin = true;
        } else if let (true, Some(option)) = (name_has_value, argument.strip_prefix(b"--")) {
            if !line.options.is_empty() {
                line.options.push(b'\n');
            }
            line.options.extend_from_slice(option);
            line.options.push(b' ');
            // "--port 7000" in one argument is complete.
            name_has_value = words::split(argument).is_none_or(|words| words.len() != 1);
            if !name_has_value && stands_alone(argument, next) {
                line.options.extend_from_slice(b"\"\"");
                name_has_value = next.is_some();
            }
        } else {
            words::quote(&mut line.options, argument);
            line.options.push(b' ');
            name_has_value = true;
        }
    }
    Invocation::Serve(line)
}

/// Whether an option is complete without a value: `--save` alone means no saving.
fn stands_alone(option: &[u8], next: Option<&&[u8]>) -> bool {
    option.eq_ignore_ascii_case(b"--save") && next.is_none_or(|next| next.starts_with(b"--"))
}

/// As C's `atoi`: leading digits count.
fn parse_megabytes(text: &[u8]) -> u64 {
    let digits = text.iter().take_while(|c| c.is_ascii_digit());
    digits.fold(0u64, |number, c| number.saturating_mul(10).saturating_add(u64::from(c - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(arguments: &[&str]) -> (Option<String>, bool, String) {
        let arguments: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
        let Invocation::Serve(line) = parse_command_line(&arguments) else { panic!("not serving") };
        let file = line.config_file.map(|file| String::from_utf8(file).unwrap());
        (file, line.read_stdin, String::from_utf8(line.options).unwrap())
    }

    #[test]
    fn options_become_lines() {
        assert_eq!(serve(&[]), (None, false, String::new()));
        assert_eq!(serve(&["a.conf"]), (Some("a.conf".into()), false, String::new()));
        assert_eq!(
            serve(&["a.conf", "--port", "7000", "--save", "900", "1"]),
            (Some("a.conf".into()), false, "port \"7000\" \nsave \"900\" \"1\" ".into())
        );
        assert_eq!(serve(&["--maxmemory 700mb", "--port", "1"]).2, "maxmemory 700mb \nport \"1\" ");
        assert_eq!(serve(&["--port", "--7000", "--save", ""]).2, "port \"--7000\" \nsave \"\" ");
    }

    #[test]
    fn save_without_value_is_no_saving() {
        assert_eq!(serve(&["--save", "--port", "1"]).2, "save \"\"\nport \"1\" ");
        assert_eq!(serve(&["--save"]).2, "save \"\"");
    }

    #[test]
    fn a_dash_reads_standard_input() {
        assert!(serve(&["-"]).1);
        assert!(serve(&["a.conf", "-"]).1);
        assert!(serve(&["-", "--port", "1"]).1);
        assert_eq!(serve(&["a.conf", "--port", "-", "--save", "x"]).2, "port \"-\" \nsave \"x\" ");
    }

    #[test]
    fn questions_instead_of_serving() {
        for (arguments, wanted) in [
            (vec!["-v"], Invocation::Version),
            (vec!["--version", "x"], Invocation::Version),
            (vec!["--help"], Invocation::Help),
            (vec!["--test-memory", "12"], Invocation::TestMemory(Some(12))),
            (vec!["--test-memory"], Invocation::TestMemory(None)),
            (vec!["--check-system"], Invocation::CheckSystem),
        ] {
            let arguments: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
            assert_eq!(parse_command_line(&arguments), wanted);
        }
    }

    #[test]
    fn a_sentinel_is_asked_for_anywhere() {
        let arguments: [&[u8]; 4] = [b"a.conf", b"--sentinel", b"--port", b"1"];
        let Invocation::Serve(line) = parse_command_line(&arguments) else { panic!("not serving") };
        assert!(line.sentinel);
        assert_eq!((line.config_file.as_deref(), &line.options[..]), (Some(&b"a.conf"[..]), &b"port \"1\" "[..]));
        assert_eq!(
            parse_command_line(&arguments[..1]),
            Invocation::Serve(CommandLine { config_file: line.config_file, ..CommandLine::default() })
        );
    }
}
