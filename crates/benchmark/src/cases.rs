//! The tests that run when no command is given: the same commands, keys and names as valkey-benchmark's, so that
//! figures can be compared and existing dashboards still work.

use crate::batch::{CommandSequence, Operation};
use crate::known_commands::{KNOWN, arguments, tagged, words};
use crate::options::Options;
use crate::workload;

/// One test: one operation, or several that are mixed.
#[derive(Debug)]
pub struct Case {
    pub title: String,
    pub operations: Vec<Operation>,
}

impl Case {
    pub fn of(title: String, sequence: CommandSequence) -> Case {
        Case { operations: vec![Operation { name: title.clone(), weight: 1, sequence }], title }
    }

    /// Returns the number of bytes of all operations, sent once.
    pub fn size(&self) -> usize {
        self.operations.iter().map(|operation| operation.sequence.size()).sum()
    }
}

/// Returns the tests that the options select, in their order.
pub fn cases(options: &Options, data: &[u8]) -> Vec<Case> {
    let wanted = |names: &[&str]| match &options.tests {
        Some(tests) => tests.iter().any(|test| names.contains(&test.as_str())),
        None => true,
    };
    let ranged = options.range.is_some();
    let mut cases = Vec::new();
    let mut add = |title: &str, mut command: Vec<Vec<u8>>| {
        if options.cluster {
            command = command.iter().map(|word| tagged(word)).collect();
        }
        let mut sequence = CommandSequence::default();
        sequence.push(&command, 1, data, ranged);
        cases.push(Case::of(title.into(), sequence));
    };
    for (names, title, command) in KNOWN.iter().filter(|(names, ..)| wanted(names)) {
        add(title, arguments(names, command, ranged));
    }
    if wanted(&["function_load"]) {
        add("FUNCTION LOAD", function_load(options.functions, ""));
    }
    if wanted(&["fcall"]) {
        let mut call = words("FCALL foo1");
        let start = if options.cluster { "key:" } else { "key" };
        call.push(options.function_keys.to_string().into_bytes());
        call.extend((1..=options.function_keys).map(|key| format!("{start}{key}").into_bytes()));
        add("FCALL", call);
    }
    if wanted(&["ping", "ping_inline"]) {
        let mut sequence = CommandSequence::default();
        sequence.push_bytes(b"PING\r\n", false);
        cases.insert(0, Case::of("PING_INLINE".into(), sequence));
    }
    cases
}

/// Returns the mix of `--workload`.
pub fn mixed(parts: &[workload::Part], options: &Options, data: &[u8]) -> Case {
    let operations = workload::operations(parts, data, options.range.is_some(), options.cluster);
    Case { title: workload::title(parts), operations }
}

/// Returns the command that loads the library for the test FCALL.
pub fn library() -> Vec<Vec<u8>> {
    function_load(1, "keys, args")
}

fn function_load(count: usize, parameters: &str) -> Vec<Vec<u8>> {
    let mut code = String::from("#!lua name=benchlib\n");
    for n in 1..=count {
        let body = if parameters.is_empty() { "return 0" } else { "return keys[1]" };
        code += &format!("redis.register_function('foo{n}', function({parameters}) {body} end)\n");
    }
    let mut command = words("FUNCTION LOAD REPLACE");
    command.push(code.into_bytes());
    command
}

/// Returns the case of the command line's command: several are separated by `;`, a number before one repeats it.
pub fn given(options: &Options, title: String, data: &[u8]) -> Case {
    let mut sequence = CommandSequence::default();
    for command in options.command.split(|word| word == b";") {
        let times = command.first().and_then(|word| resp::number::parse_i64(word)).filter(|times| *times > 0);
        let (times, command) = match times {
            Some(times) if command.len() > 1 => (usize::try_from(times).unwrap_or(1), &command[1..]),
            _ => (1, command),
        };
        if !command.is_empty() {
            sequence.push(command, times, data, options.range.is_some());
        }
    }
    Case::of(title, sequence)
}

/// Returns the title of a user's command: its words, without one that is read from standard input.
pub fn title(command: &[Vec<u8>]) -> String {
    let words: Vec<_> = command.iter().map(|word| String::from_utf8_lossy(word)).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(tests: Option<&str>) -> Vec<String> {
        let tests = tests.map(|tests| tests.split(',').map(String::from).collect());
        let options = Options { tests, ..Options::default() };
        cases(&options, b"xxx").into_iter().map(|case| case.title).collect()
    }

    #[test]
    fn tests_are_selected_by_name() {
        assert_eq!(titles(Some("get,set")), ["SET", "GET"]);
        assert_eq!(titles(Some("ping")), ["PING_INLINE", "PING_MBULK"]);
        assert_eq!(
            titles(Some("lrange_300")),
            ["LPUSH (needed to benchmark LRANGE)", "LRANGE_300 (first 300 elements)"]
        );
        assert_eq!(titles(None).len(), KNOWN.len() + 3);
    }

    #[test]
    fn sequences_of_commands() {
        let command = ["set", "a", "b", ";", "2", "get", "a"].map(|word| word.as_bytes().to_vec());
        let options = Options { command: command.to_vec(), ..Options::default() };
        assert_eq!(given(&options, title(&options.command), b"").operations[0].sequence.commands(), 3);
    }
}
