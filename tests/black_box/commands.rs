//! The commands through a real client: what each does, its options, and its errors.

use crate::dialogue::{ask, ask_integer, dialogue};
use crate::harness::{Server, eventually, is_peer, on_each_thread_count};
use redis::ConnectionLike;

const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range";
const SYNTAX: &str = "-ERR syntax error";
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const NO_SUCH_KEY: &str = "-ERR no such key";

/// Runs one table with every number of threads and both protocols, each time in an empty database.
fn check(exchanges: &[(&str, &str)]) {
    on_each_thread_count(&[], |server| {
        for protocol in ["resp2", "resp3"] {
            let mut client = server.client_speaking(protocol);
            assert_eq!(ask(&mut client, "FLUSHALL"), "OK");
            dialogue(&mut client, exchanges);
        }
    });
}

#[test]
fn set_and_its_options() {
    check(&[
        ("SET k v", "OK"),
        ("GET k", "\"v\""),
        ("GET missing", "nil"),
        ("SET k w NX", "nil"),
        ("SET missing w XX", "nil"),
        ("SET k w XX GET", "\"v\""),
        ("SET new w NX GET", "nil"),
        ("SET k x EX 100", "OK"),
        ("TTL k", "100"),
        ("SET k y KEEPTTL", "OK"),
        ("TTL k", "100"),
        ("SET k z", "OK"),
        ("TTL k", "-1"),
        ("SET k z PXAT 4102444800000", "OK"),
        ("EXPIRETIME k", "4102444800"),
        ("SET k z EXAT 1", "OK"),
        ("EXISTS k", "0"),
        ("SET k v EX 0", "-ERR invalid expire time in 'set' command"),
        ("SET k v EX -1", "-ERR invalid expire time in 'set' command"),
        ("SET k v EX 9223372036854775807", "-ERR invalid expire time in 'set' command"),
        ("SET k v EX abc", NOT_AN_INTEGER),
        ("SET k v EX 1 PX 1", SYNTAX),
        ("SET k v NX XX", SYNTAX),
        ("SET k v EX", SYNTAX),
        ("SET k", "-ERR wrong number of arguments for 'set' command"),
        ("SETNX k v", "1"),
        ("SETNX k w", "0"),
        ("SETEX k 100 v", "OK"),
        ("PTTL missing", "-2"),
        ("PSETEX k 0 v", "-ERR invalid expire time in 'psetex' command"),
        ("GETSET k new", "\"v\""),
        ("TTL k", "-1"),
        ("GETDEL k", "\"new\""),
        ("GETDEL k", "nil"),
    ]);
}

#[test]
fn getex_and_comparisons() {
    check(&[
        ("SET k v", "OK"),
        ("GETEX k EX 100", "\"v\""),
        ("TTL k", "100"),
        ("GETEX k", "\"v\""),
        ("TTL k", "100"),
        ("GETEX k PERSIST", "\"v\""),
        ("TTL k", "-1"),
        ("GETEX k EX 1 PERSIST", SYNTAX),
        ("GETEX missing EX 100", "nil"),
        ("SET k w IFEQ v", "OK"),
        ("SET k x IFEQ v", "nil"),
        ("SET k x IFEQ w GET", "\"w\""),
        ("SET missing x IFEQ w", "nil"),
        ("EXISTS missing", "0"),
        ("DELIFEQ k no", "0"),
        ("DELIFEQ k x", "1"),
        ("DELIFEQ k x", "0"),
    ]);
}

#[test]
fn mset_and_mget() {
    check(&[
        ("MSET a 1 b 2 a 3", "OK"),
        ("MGET a missing b", "[\"3\", nil, \"2\"]"),
        ("MSET a", "-ERR wrong number of arguments for 'mset' command"),
        ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"),
        ("MSETNX c 1 a 2", "0"),
        ("EXISTS c", "0"),
        ("MSETNX c 1 d 2", "1"),
        ("EXISTS a b c d d missing", "5"),
        ("MSETEX 2 e 1 f 2 EX 100", "1"),
        ("TTL f", "100"),
        ("MSETEX 2 e 3 g 4 NX", "0"),
        ("EXISTS g", "0"),
        ("ZADD z 1 m", "1"),
        ("MGET a z", "[\"3\", nil]"),
        ("GET z", WRONG_TYPE),
    ]);
}

#[test]
fn ranges_of_strings() {
    check(&[
        ("APPEND k hello", "5"),
        ("APPEND k world", "10"),
        ("STRLEN k", "10"),
        ("STRLEN missing", "0"),
        ("GETRANGE k 0 4", "\"hello\""),
        ("GETRANGE k -5 -1", "\"world\""),
        ("GETRANGE k 5 2", "\"\""),
        ("GETRANGE k 0 9223372036854775807", "\"helloworld\""),
        ("SUBSTR k 1 3", "\"ell\""),
        ("SETRANGE k 5 WORLD", "10"),
        ("GET k", "\"helloWORLD\""),
        ("SETRANGE missing 0 ''", "0"),
        ("EXISTS missing", "0"),
        ("SETRANGE pad 3 x", "4"),
        ("GET pad", "\"\\x00\\x00\\x00x\""),
        ("SETRANGE k -1 x", "-ERR offset is out of range"),
        ("SETRANGE k 536870912 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        ("MSET x ohmytext y mynewtext", "OK"),
        ("LCS x y", "\"mytext\""),
        ("LCS x y LEN", "6"),
        ("LCS x y LEN IDX", "-ERR If you want both the length and indexes, please just use IDX."),
    ]);
}

#[test]
fn lcs_positions_are_a_map_in_resp3() {
    let server = Server::start(&[]);
    let mut client = server.client_speaking("resp3");
    dialogue(
        &mut client,
        &[
            ("MSET x ohmytext y mynewtext", "OK"),
            ("LCS x y IDX MINMATCHLEN 4 WITHMATCHLEN", "{\"matches\": [[[4, 7], [5, 8], 4]], \"len\": 6}"),
        ],
    );
    dialogue(
        &mut server.client(),
        &[("LCS x y IDX", "[\"matches\", [[[4, 7], [5, 8]], [[2, 3], [0, 1]]], \"len\", 6]")],
    );
}

#[test]
fn counters() {
    check(&[
        ("INCR n", "1"),
        ("INCRBY n 41", "42"),
        ("DECR n", "41"),
        ("DECRBY n 51", "-10"),
        ("GET n", "\"-10\""),
        ("OBJECT ENCODING n", "\"int\""),
        ("INCRBYFLOAT n 0.5", "\"-9.5\""),
        ("INCR n", NOT_AN_INTEGER),
        ("INCRBYFLOAT n 5e3", "\"4990.5\""),
        ("INCRBYFLOAT n abc", "-ERR value is not a valid float"),
        ("INCRBYFLOAT n inf", "-ERR increment would produce NaN or Infinity"),
        ("SET n 9223372036854775807", "OK"),
        ("INCR n", "-ERR increment or decrement would overflow"),
        ("DECRBY n -9223372036854775808", "-ERR decrement would overflow"),
        ("INCRBY n 9223372036854775808", NOT_AN_INTEGER),
        ("SET n 007", "OK"),
        ("INCR n", NOT_AN_INTEGER),
        ("SET n ''", "OK"),
        ("INCR n", NOT_AN_INTEGER),
    ]);
}

#[test]
fn bits() {
    check(&[
        ("SETBIT b 7 1", "0"),
        ("SETBIT b 7 1", "1"),
        ("SETBIT b 100 1", "0"),
        ("STRLEN b", "13"),
        ("GETBIT b 100", "1"),
        ("GETBIT b 4294967295", "0"),
        ("SETBIT b 4294967296 1", "-ERR bit offset is not an integer or out of range"),
        ("SETBIT b 0 2", "-ERR bit is not an integer or out of range"),
        ("BITCOUNT b", "2"),
        ("BITCOUNT b 0 0", "1"),
        ("BITCOUNT b 0 6 BIT", "0"),
        ("BITCOUNT b -1 -1 BYTE", "1"),
        ("BITPOS b 1", "7"),
        ("BITPOS b 0", "0"),
        ("BITPOS b 1 1", "100"),
        ("BITPOS b 1 101 -1 BIT", "-1"),
        ("BITPOS b 2", "-ERR The bit argument must be 1 or 0."),
        ("MSET x foobar y abcdef", "OK"),
        ("BITOP AND r x y", "6"),
        ("GET r", "\"`bc`ab\""),
        ("BITOP OR r x y", "6"),
        ("GET r", "\"goofev\""),
        ("BITOP XOR r x x", "6"),
        ("BITCOUNT r", "0"),
        ("BITOP NOT r x", "6"),
        ("BITCOUNT x", "26"),
        ("BITCOUNT r", "22"),
        ("BITOP NOT r x y", "-ERR BITOP NOT must be called with a single source key."),
        ("BITOP AND r missing", "0"),
        ("EXISTS r", "0"),
    ]);
}

#[test]
fn bit_fields() {
    check(&[
        ("BITFIELD f SET u8 0 255 GET u4 4 INCRBY i5 100 1", "[0, 15, 1]"),
        ("BITFIELD f OVERFLOW SAT INCRBY u8 0 10 OVERFLOW FAIL INCRBY u8 0 10", "[255, nil]"),
        ("BITFIELD f OVERFLOW WRAP INCRBY u8 0 10", "[9]"),
        (
            "BITFIELD f GET i8 #0 GET u64 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
        ("BITFIELD_RO f GET u8 #0", "[9]"),
        ("BITFIELD_RO f SET u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand"),
        ("BITFIELD f OVERFLOW NO", "-ERR Invalid OVERFLOW type specified"),
    ]);
}

/// Operations that the peers do not have yet.
#[test]
fn bitop_diff_andor_and_one() {
    if is_peer() {
        return;
    }
    // As bits: a 0110 0001, b 0110 0010, c 0110 0011.
    check(&[
        ("MSET x a y b z c", "OK"),
        ("BITOP DIFF r z x", "1"),
        ("GET r", "\"\\x02\""),
        ("BITOP DIFF1 r x y", "1"),
        ("GET r", "\"\\x02\""),
        ("BITOP ANDOR r z x y", "1"),
        ("GET r", "\"c\""),
        ("BITOP ONE r x y", "1"),
        ("GET r", "\"\\x03\""),
    ]);
}

#[test]
fn keys() {
    check(&[
        ("MSET a 1 b 2 c 3", "OK"),
        ("TYPE a", "string"),
        ("TYPE missing", "none"),
        ("ZADD z 1 m", "1"),
        ("TYPE z", "zset"),
        ("DEL a missing a", "1"),
        ("UNLINK b c", "2"),
        ("DBSIZE", "1"),
        ("RENAME z y", "OK"),
        ("RENAME z y", NO_SUCH_KEY),
        ("SET x 1", "OK"),
        ("RENAMENX x y", "0"),
        ("RENAMENX x w", "1"),
        ("COPY w v", "1"),
        ("COPY w v", "0"),
        ("COPY w y REPLACE", "1"),
        ("TYPE y", "string"),
        ("COPY w w", "-ERR source and destination objects are the same"),
        ("COPY w w DB 1", "1"),
        ("COPY w w DB 99", "-ERR DB index is out of range"),
        ("TOUCH w v missing", "2"),
        ("KEYS [ab]", "[]"),
        ("KEYS [v]", "[\"v\"]"),
        ("DEL v", "1"),
        ("KEYS w*", "[\"w\"]"),
        ("KEYS nomatch", "[]"),
        ("DEL y", "1"),
        ("RANDOMKEY", "\"w\""),
        ("FLUSHDB SYNC", "OK"),
        ("RANDOMKEY", "nil"),
        ("FLUSHALL ASYNC", "OK"),
        ("FLUSHALL NO", SYNTAX),
    ]);
}

#[test]
fn object() {
    check(&[
        ("SET k 1", "OK"),
        ("OBJECT ENCODING k", "\"int\""),
        ("SET k short", "OK"),
        ("OBJECT ENCODING k", "\"embstr\""),
        ("APPEND k er", "7"),
        ("OBJECT ENCODING k", "\"raw\""),
        ("OBJECT REFCOUNT k", "1"),
        ("OBJECT ENCODING missing", "nil"),
        ("OBJECT NOSUCH k", "-ERR unknown subcommand 'NOSUCH'. Try OBJECT HELP."),
        ("ZADD z 1 m", "1"),
        ("OBJECT ENCODING z", "\"listpack\""),
    ]);
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        assert_eq!(ask(&mut client, "SET k v"), "OK");
        let idle = ask_integer(&mut client, "OBJECT IDLETIME k");
        assert!((0..60).contains(&idle), "{idle}");
    });
}

#[test]
fn expiries() {
    check(&[
        ("SET k v", "OK"),
        ("TTL k", "-1"),
        ("PEXPIRETIME k", "-1"),
        ("EXPIRETIME missing", "-2"),
        ("EXPIRE missing 10", "0"),
        ("EXPIRE k 100", "1"),
        ("TTL k", "100"),
        ("EXPIRE k 50 GT", "0"),
        ("EXPIRE k 200 GT", "1"),
        ("EXPIRE k 50 LT", "1"),
        ("EXPIRE k 60 NX", "0"),
        ("EXPIRE k 60 XX", "1"),
        ("EXPIRE k 60 NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("EXPIRE k 60 GT LT", "-ERR GT and LT options at the same time are not compatible"),
        ("EXPIRE k 60 ABC", "-ERR Unsupported option ABC"),
        ("EXPIRE k abc", NOT_AN_INTEGER),
        ("EXPIRE k 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
        ("PERSIST k", "1"),
        ("PERSIST k", "0"),
        ("EXPIRE k 50 GT", "0"),
        ("EXPIRE k 50 LT", "1"),
        ("EXPIREAT k 4102444800", "1"),
        ("EXPIRETIME k", "4102444800"),
        ("PEXPIREAT k 4102444800123", "1"),
        ("PEXPIRETIME k", "4102444800123"),
        ("RENAME k moved", "OK"),
        ("PEXPIRETIME moved", "4102444800123"),
        ("COPY moved k", "1"),
        ("PEXPIRETIME k", "4102444800123"),
        ("APPEND k x", "2"),
        ("PEXPIRETIME k", "4102444800123"),
        ("PEXPIRE k -1", "1"),
        ("EXISTS k", "0"),
        ("EXPIREAT moved 1", "1"),
        ("DBSIZE", "0"),
    ]);
}

#[test]
fn a_key_expires() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        dialogue(&mut client, &[("SET k v PX 30", "OK"), ("SET z 1", "OK"), ("PEXPIRE z 30", "1")]);
        std::thread::sleep(std::time::Duration::from_millis(31));
        dialogue(
            &mut client,
            &[("GET k", "nil"), ("TTL k", "-2"), ("EXISTS z", "0"), ("INCR z", "1"), ("TTL z", "-1"), ("DBSIZE", "1")],
        );
    });
}

/// Any worker may remove the key: a client that finds it removed finds the event.
#[test]
fn a_slow_expiry_is_noted_before_it_is_seen() {
    on_each_thread_count(&["--latency-monitor-threshold", "1", "--lazyfree-lazy-expire", "no"], |server| {
        let mut client = server.client();
        for key in 0..4 {
            let fill = "for i = 1, 50000 do redis.call('SADD', KEYS[1], i) end";
            redis::cmd("EVAL").arg(fill).arg(1).arg(key).exec(&mut client).expect("the script runs");
            redis::cmd("LATENCY").arg("RESET").exec(&mut client).expect("LATENCY RESET");
            redis::cmd("PEXPIRE").arg(key).arg(1).exec(&mut client).expect("PEXPIRE");
            while redis::cmd("DBSIZE").query::<usize>(&mut client).expect("DBSIZE") > 0 {}
            let events: Vec<(String, u64, u64, u64, u64, u64)> =
                redis::cmd("LATENCY").arg("LATEST").query(&mut client).expect("LATENCY LATEST");
            assert!(events.iter().any(|event| event.0 == "expire-cycle"), "{events:?}");
        }
    });
}

#[test]
fn databases() {
    check(&[
        ("SET k zero", "OK"),
        ("SELECT 1", "OK"),
        ("GET k", "nil"),
        ("SET k one", "OK"),
        ("SWAPDB 0 1", "OK"),
        ("GET k", "\"zero\""),
        ("MOVE k 0", "0"),
        ("SET only 1", "OK"),
        ("MOVE only 0", "1"),
        ("EXISTS only", "0"),
        ("MOVE k 1", "-ERR source and destination objects are the same"),
        ("SELECT 16", "-ERR DB index is out of range"),
        ("SELECT -1", "-ERR DB index is out of range"),
        ("SELECT abc", "-ERR value is not an integer or out of range"),
        ("SWAPDB 0 99", "-ERR DB index is out of range"),
        ("FLUSHDB", "OK"),
        ("DBSIZE", "0"),
        ("SELECT 0", "OK"),
        ("DBSIZE", "2"),
        ("GET k", "\"one\""),
    ]);
}

/// The maximum of databases: unused ones take neither memory nor time.
#[test]
fn databases_without_number() {
    if is_peer() {
        // It has a pointer to each.
        return;
    }
    let server = Server::start(&["--databases", "2147483647", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    dialogue(
        &mut client,
        &[
            ("SELECT 2147483647", "-ERR DB index is out of range"),
            ("SELECT 2147483646", "OK"),
            ("DBSIZE", "0"),
            ("GET k", "nil"),
            ("DEL k", "0"),
            ("RANDOMKEY", "nil"),
            ("FLUSHDB", "OK"),
            ("SET k v EX 1000", "OK"),
            ("SET other v", "OK"),
            ("COPY k copy DB 17", "1"),
            ("MOVE other 999999", "1"),
            ("SWAPDB 17 2147483646", "OK"),
            ("KEYS *", "[\"copy\"]"),
            ("SWAPDB 16 18", "OK"),
            ("SWAPDB 3 2147483646", "OK"),
            ("DBSIZE", "0"),
            ("SELECT 3", "OK"),
            ("TTL copy", "1000"),
            ("DEBUG RELOAD", "OK"),
            ("TTL copy", "1000"),
            ("SELECT 17", "OK"),
            ("GET k", "\"v\""),
            ("PEXPIRE k 1", "1"),
            ("SELECT 999999", "OK"),
            ("GET other", "\"v\""),
        ],
    );
    let keyspace = |client: &mut _| ask(client, "INFO keyspace");
    let mut info = String::new();
    // The background looks at them, too.
    assert!(eventually(|| {
        info = keyspace(&mut client);
        !info.contains("db17:")
    }));
    assert!(info.contains("db3:keys=1,expires=1") && info.contains("db999999:keys=1,expires=0"), "{info}");
    assert_eq!(ask(&mut client, "FLUSHALL"), "OK");
    assert!(!keyspace(&mut client).contains("db"));
}

#[test]
fn scan_options() {
    check(&[
        ("SCAN 0", "[\"0\", []]"),
        ("SET k v", "OK"),
        ("ZADD z 1 m", "1"),
        ("SCAN 0 COUNT 1000 MATCH k*", "[\"0\", [\"k\"]]"),
        ("SCAN 0 COUNT 1000 TYPE zset", "[\"0\", [\"z\"]]"),
        ("SCAN 0 COUNT 0", SYNTAX),
        ("SCAN 0 COUNT abc", NOT_AN_INTEGER),
        ("SCAN abc", "-ERR invalid cursor"),
        ("SCAN 0 NO", SYNTAX),
    ]);
}

#[test]
fn sorted_sets() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        dialogue(
            &mut client,
            &[
                ("ZADD z 1 one 2.5 two 3 three", "3"),
                ("ZADD z NX 9 one", "0"),
                ("ZADD z XX CH 1.5 one 1 none", "1"),
                ("ZADD z GT CH 1 one", "0"),
                ("ZADD z INCR 1 one", "\"2.5\""),
                ("ZADD z NX INCR 1 one", "nil"),
                ("ZADD z NX XX 1 a", "-ERR XX and NX options at the same time are not compatible"),
                ("ZADD z GT NX 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible"),
                ("ZADD z abc a", "-ERR value is not a valid float"),
                ("ZADD z nan a", "-ERR value is not a valid float"),
                ("ZADD z inf last", "1"),
                ("ZSCORE z last", "\"inf\""),
                ("ZSCORE z missing", "nil"),
                ("ZRANK z one", "0"),
                ("ZRANK z last WITHSCORE", "[3, \"inf\"]"),
                ("ZRANGE z 0 -1", "[\"one\", \"two\", \"three\", \"last\"]"),
                ("ZRANGE z 0 1 REV WITHSCORES", "[\"last\", \"inf\", \"three\", \"3\"]"),
                ("ZRANGE z 5 9", "[]"),
                ("ZREM z one missing", "1"),
                ("ZCARD z", "3"),
                ("ZREM z two three last", "3"),
                ("EXISTS z", "0"),
                ("SET k v", "OK"),
                ("ZADD k 1 a", WRONG_TYPE),
            ],
        );
    });
}

#[test]
fn connection_and_unknown_commands() {
    check(&[
        ("PING", "PONG"),
        ("PING hello", "\"hello\""),
        ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
        ("ECHO ''", "\"\""),
        ("NOSUCH a b", "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' "),
        ("get", "-ERR wrong number of arguments for 'get' command"),
        ("COMMAND GETKEYS MSET a 1 b 2", "[\"a\", \"b\"]"),
        ("COMMAND GETKEYS PING", "-ERR The command has no key arguments"),
        ("COMMAND INFO nosuch", "[nil]"),
    ]);
}

#[test]
fn command_table() {
    let server = Server::start(&[]);
    let mut client = server.client();
    assert!(ask_integer(&mut client, "COMMAND COUNT") > 60);
    let info = ask(&mut client, "COMMAND INFO get");
    assert!(info.starts_with("[[\"get\", 2, [readonly, fast], 1, 1, 1, [@read, @string, @fast], [], [["), "{info}");
}

#[test]
fn info_and_time() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let info = ask(&mut client, "INFO server");
    assert!(info.contains(&format!("tcp_port:{}\\r", server.port)), "{info}");
    let info = ask(&mut client, "INFO");
    for section in ["# Server", "# Clients", "# Memory", "# Stats", "# Keyspace"] {
        assert!(info.contains(section), "no {section} in {info}");
    }
    let (seconds, micros): (u64, u32) = redis::cmd("TIME").query(&mut client).expect("the time");
    #[expect(clippy::disallowed_methods, reason = "what TIME is compared with")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock after 1970").as_secs();
    assert!(now.abs_diff(seconds) < 60 && micros < 1_000_000);
}

/// 23 GETs, 5 INCRs of which one fails and 20 GETs in one write, and then what was counted.
#[test]
fn a_pipeline_is_counted_whole() {
    on_each_thread_count(&["--latency-tracking", "yes"], |server| {
        let mut client = server.client();
        let mut pipeline = redis::pipe();
        pipeline.cmd("SET").arg("word").arg("w");
        for _ in 0..23 {
            pipeline.cmd("GET").arg("word");
        }
        for key in ["n", "n", "word", "n", "n"] {
            pipeline.cmd("INCR").arg(key);
        }
        for _ in 0..20 {
            pipeline.cmd("GET").arg("n");
        }
        pipeline.cmd("INFO").arg("commandstats").cmd("LATENCY").arg("HISTOGRAM").arg("get").arg("incr");
        let replies = client.req_packed_commands(&pipeline.get_packed_pipeline(), 0, 51).expect("replies");
        let [.., stats, histograms] = &replies[..] else { panic!("{replies:?}") };
        let stats = redis::from_redis_value::<String>(stats.clone()).expect("a text");
        for expected in ["cmdstat_set:calls=1,", "cmdstat_get:calls=43,", "cmdstat_incr:calls=5,"] {
            assert!(stats.contains(expected), "{expected} in {stats}");
        }
        let failed = stats.lines().find(|line| line.starts_with("cmdstat_incr:")).expect("a line");
        assert!(failed.ends_with(",failed_calls=1"), "{failed}");
        let histograms = format!("{histograms:?}");
        for calls in ["int(43)", "int(5)"] {
            assert!(histograms.contains(calls), "{calls} in {histograms}");
        }
    });
}
