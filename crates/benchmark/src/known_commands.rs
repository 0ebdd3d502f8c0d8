//! The commands that have names: those of valkey-benchmark's tests, with its keys, so that figures can be compared.

/// The names that select a case with `-t`, its title, and its command. Arguments are separated by spaces.
pub const KNOWN: &[(&[&str], &str, &str)] = &[
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

/// Returns the command of a row; `ranged`: places take numbers.
pub fn arguments(names: &[&str], command: &str, ranged: bool) -> Vec<Vec<u8>> {
    match names[0] {
        "mset" => repeated("MSET", &["key:__rand_int__", "__data__"], MANY),
        "mget" => repeated("MGET", &["key:__rand_int__"], MANY),
        // A place that takes no number is not a valid score.
        "zadd" if !ranged => words("ZADD myzset 0 element:__rand_1st__"),
        _ => words(command),
    }
}

/// Returns the key with a place for the tag that routes it; a word that is no key of these commands stays as it is.
pub fn tagged(word: &[u8]) -> Vec<u8> {
    const NAMES: [&[u8]; 5] = [b"mylist", b"myset", b"myhash", b"myzset", b"mystream"];
    for start in [&b"key:"[..], b"counter:"] {
        if let Some(rest) = word.strip_prefix(start) {
            return [start, b"{tag}:", rest].concat();
        }
    }
    if NAMES.contains(&word) { [word, b":{tag}"].concat() } else { word.to_vec() }
}

/// Returns the command that a name stands for, if it is only one; `ranged`: places take numbers.
pub fn command_named(name: &str, ranged: bool) -> Option<Vec<Vec<u8>>> {
    // A row of many names prepares others.
    let mut named = KNOWN.iter().filter(|(names, ..)| names.len() <= 2 && names.contains(&name));
    let (names, _, command) = named.next()?;
    named.next().is_none().then(|| arguments(names, command, ranged))
}

/// Returns a name of each of them.
pub fn names_of_commands() -> Vec<&'static str> {
    let name = |names: &&'static [&'static str]| names.iter().find(|name| command_named(name, false).is_some());
    KNOWN.iter().filter(|(names, ..)| names.len() <= 2).filter_map(|(names, ..)| name(names).copied()).collect()
}

/// Splits a text at blanks.
pub fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn repeated(name: &str, arguments: &[&str], times: usize) -> Vec<Vec<u8>> {
    let arguments = std::iter::repeat_n(arguments, times).flatten();
    std::iter::once(&name).chain(arguments).map(|word| word.as_bytes().to_vec()).collect()
}
