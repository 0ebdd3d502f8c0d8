//! The tests that run when no command is given: the same commands, keys and names as valkey-benchmark's, so that
//! figures can be compared and existing dashboards go on working.

use crate::batch::CommandSequence;
use crate::options::Options;

/// One test.
#[derive(Debug)]
pub struct Case {
    pub title: String,
    pub sequence: CommandSequence,
}

/// The names that select a case with `-t`, its title, and its command. Arguments are separated by spaces.
const CASES: &[(&[&str], &str, &str)] = &[
    (&["ping", "ping_mbulk"], "PING_MBULK", "PING"),
    (&["set"], "SET", "SET key:__rand_int__ __data__"),
    (&["get"], "GET", "GET key:__rand_int__"),
    (&["incr"], "INCR", "INCR counter:__rand_int__"),
    (&["lpush"], "LPUSH", "LPUSH mylist __data__"),
    (&["rpush"], "RPUSH", "RPUSH mylist __data__"),
    (&["lpop"], "LPOP", "LPOP mylist"),
    (&["rpop"], "RPOP", "RPOP mylist"),
    (&["sadd"], "SADD", "SADD myset element:__rand_int__"),
    (&["hset"], "HSET", "HSET myhash element:__rand_int__ __data__"),
    (&["spop"], "SPOP", "SPOP myset"),
    (&["zadd"], "ZADD", "ZADD myzset __rand_int__ element:__rand_1st__"),
    (&["zpopmin"], "ZPOPMIN", "ZPOPMIN myzset"),
    (
        &["lrange", "lrange_100", "lrange_300", "lrange_500", "lrange_600"],
        "LPUSH (needed to benchmark LRANGE)",
        "LPUSH mylist __data__",
    ),
    (&["lrange", "lrange_100"], "LRANGE_100 (first 100 elements)", "LRANGE mylist 0 99"),
    (&["lrange", "lrange_300"], "LRANGE_300 (first 300 elements)", "LRANGE mylist 0 299"),
    (&["lrange", "lrange_500"], "LRANGE_500 (first 500 elements)", "LRANGE mylist 0 499"),
    (&["lrange", "lrange_600"], "LRANGE_600 (first 600 elements)", "LRANGE mylist 0 599"),
    (&["mset"], "MSET (10 keys)", ""),
    (&["mget"], "MGET (10 keys)", ""),
    (&["xadd"], "XADD", "XADD mystream * myfield __data__"),
];

/// Keys of MSET and MGET.
const MANY: usize = 10;

/// The tests that the options select, in their order.
pub fn cases(options: &Options, data: &[u8]) -> Vec<Case> {
    let wanted = |names: &[&str]| match &options.tests {
        Some(tests) => tests.iter().any(|test| names.contains(&test.as_str())),
        None => true,
    };
    let ranged = options.range.is_some();
    let mut cases = Vec::new();
    let mut add = |title: &str, command: Vec<Vec<u8>>| {
        let mut sequence = CommandSequence::default();
        sequence.push(&command, 1, data, ranged);
        cases.push(Case { title: title.into(), sequence });
    };
    for (names, title, command) in CASES.iter().filter(|(names, ..)| wanted(names)) {
        let command = match names[0] {
            "mset" => repeated("MSET", &["key:__rand_int__", "__data__"], MANY),
            "mget" => repeated("MGET", &["key:__rand_int__"], MANY),
            // A place that takes no number is no score.
            "zadd" if !ranged => words("ZADD myzset 0 element:__rand_1st__"),
            _ => words(command),
        };
        add(title, command);
    }
    if wanted(&["function_load"]) {
        add("FUNCTION LOAD", function_load(options.functions, ""));
    }
    if wanted(&["fcall"]) {
        let mut call = words("FCALL foo1");
        call.push(options.function_keys.to_string().into_bytes());
        call.extend((1..=options.function_keys).map(|key| format!("key{key}").into_bytes()));
        add("FCALL", call);
    }
    if wanted(&["ping", "ping_inline"]) {
        let mut sequence = CommandSequence::default();
        sequence.push_bytes(b"PING\r\n", false);
        cases.insert(0, Case { title: "PING_INLINE".into(), sequence });
    }
    cases
}

/// What the test FCALL needs before it runs.
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

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn repeated(name: &str, arguments: &[&str], times: usize) -> Vec<Vec<u8>> {
    let arguments = std::iter::repeat_n(arguments, times).flatten();
    std::iter::once(&name).chain(arguments).map(|word| word.as_bytes().to_vec()).collect()
}

/// The command of the command line: several are separated by `;`, a number before one repeats it.
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
    Case { title, sequence }
}

/// What a command of the user's is called: its words, without one that comes from standard input.
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
        assert_eq!(titles(None).len(), CASES.len() + 3);
    }

    #[test]
    fn sequences_of_commands() {
        let command = ["set", "a", "b", ";", "2", "get", "a"].map(|word| word.as_bytes().to_vec());
        let options = Options { command: command.to_vec(), ..Options::default() };
        assert_eq!(given(&options, title(&options.command), b"").sequence.commands(), 3);
    }
}
