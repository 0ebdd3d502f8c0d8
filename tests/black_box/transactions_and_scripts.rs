//! Every command inside of a transaction and of a script: the server answers after any reply.

use crate::dialogue::{ask, dialogue};
use crate::harness::{Server, is_peer, on_each_thread_count, read_to_close, send};
use redis::{Connection, cmd};

/// Arguments of commands for which numbers and names of keys would only be refused.
const WORDS: [&str; 62] = [
    "bgsave schedule",
    "blmove none other LEFT RIGHT 0",
    "blmpop 0 1 none LEFT",
    "blpop none 0",
    "brpop none 0",
    "brpoplpush none other 0",
    "bzmpop 0 1 none MIN",
    "bzpopmax none 0",
    "bzpopmin none 0",
    "client|caching YES",
    "client|kill ID 999999",
    "client|list",
    "client|no-evict OFF",
    "client|no-touch OFF",
    "client|pause 1 WRITE",
    "client|reply SKIP",
    "client|tracking ON",
    "client|unblock 999999",
    "config|get *",
    "config|set appendonly no",
    "config|set appendonly yes",
    "config|set maxmemory 1gb save 3600",
    "copy k copied",
    "eval return(1) 0",
    "eval return(redis.call('DBSIZE')) 0",
    "fcall f 0",
    "fcall_ro f 0",
    "flushall",
    "flushall ASYNC",
    "flushall SYNC",
    "flushdb SYNC",
    "function|delete lib",
    "function|flush SYNC",
    "function|list WITHCODE",
    "function|restore x",
    "hello 3",
    "info everything",
    "keys *",
    "memory|usage k",
    "migrate 127.0.0.1 1 k 0 100",
    "move k 5",
    "object|encoding k",
    "psync ? -1",
    "rename k renamed",
    "replicaof NO ONE",
    "scan 0",
    "script|debug NO",
    "script|flush SYNC",
    "script|load return(1)",
    "select 1",
    "shutdown",
    "shutdown ABORT",
    "shutdown NOSAVE",
    "sort l BY w_* GET h->* STORE sorted",
    "sort_ro l BY w_* GET h->*",
    "subscribe channel",
    "swapdb 0 1",
    "wait 1 0",
    "waitaof 1 0 0",
    "xread BLOCK 0 STREAMS none $",
    "xreadgroup GROUP g c BLOCK 0 STREAMS st >",
    "xautoclaim st g c 0 0",
];

/// Subcommands of DEBUG that do not end the server.
const DEBUG: [&str; 30] = [
    "CHANGE-REPL-ID",
    "CLIENT-ENFORCE-REPLY-LIST 0",
    "CLIENT-EVICTION",
    "CONFIG-REWRITE-FORCE-ALL",
    "DIGEST",
    "DIGEST-VALUE k",
    "DICT-RESIZING 1",
    "ERROR x",
    "HELP",
    "HTSTATS 0",
    "HTSTATS-KEY h",
    "LISTPACK h",
    "LOADAOF",
    "LOG x",
    "MALLCTL epoch",
    "OBJECT k",
    "PAUSE-CRON 0",
    "POPULATE 100",
    "PROTOCOL attrib",
    "QUICKLIST l",
    "RELOAD",
    "RELOAD MERGE",
    "RELOAD NOFLUSH NOSAVE MERGE",
    "RELOAD NOSAVE",
    "REPLYBUFFER RESIZING 1",
    "SDSLEN k",
    "SET-ACTIVE-EXPIRE 1",
    "SLEEP 0",
    "STRINGMATCH-LEN 10 a*",
    "STRUCTSIZE",
];

/// All commands, with words that may be what they want.
fn commands(client: &mut Connection) -> Vec<Vec<String>> {
    let names: Vec<String> = cmd("COMMAND").arg("LIST").query(client).expect("names");
    let owned = |line: &str| -> Vec<String> {
        let (name, words) = line.split_once(' ').unwrap_or((line, ""));
        let name = name.split('|').map(str::to_owned);
        name.chain(words.split(' ').filter(|word| !word.is_empty()).map(str::to_owned)).collect()
    };
    let mut all: Vec<Vec<String>> = DEBUG.iter().map(|words| owned(&format!("debug {words}"))).collect();
    for name in names.iter().filter(|name| *name != "debug") {
        let of_it = |line: &&&str| line.split(' ').next() == Some(name);
        all.extend(WORDS.iter().filter(of_it).map(|line| owned(line)));
        let info: Vec<Vec<redis::Value>> = cmd("COMMAND").arg("INFO").arg(name).query(client).expect("its row");
        let redis::Value::Int(arity) = info[0][1] else { panic!("the arity of {name}") };
        let mut command = owned(name);
        let few = ["k", "0", "1", "a", "1", "b", "2"].iter().cycle().map(|word| (*word).to_owned());
        let missing = usize::try_from(arity.abs()).expect("a length").saturating_sub(command.len());
        command.extend(few.take(missing));
        // The server would be another's replica, which takes no writes.
        if *name != "replicaof" && *name != "slaveof" {
            all.push(command);
        }
    }
    all
}

fn packed(words: &[&str]) -> Vec<u8> {
    cmd(words[0]).arg(&words[1..]).get_packed_command()
}

/// Sends all of it in a connection of its own and waits until the server has done it. One that ends in between is none
/// of the server's trouble.
fn run(server: &Server, requests: &[&[&str]]) {
    let mut socket = server.socket();
    let mut bytes = requests.iter().flat_map(|words| packed(words)).collect::<Vec<_>>();
    bytes.extend(packed(&["QUIT"]));
    send(&mut socket, &bytes);
    read_to_close(&mut socket);
}

/// Restores the data, and asserts that others are answered, also a client that needs all locks.
fn restore(server: &Server, command: &[String]) {
    let mut client = server.client();
    let mut is = |line: &str, expected: &str| {
        let reply = ask(&mut client, line);
        assert!(reply.starts_with(expected), "{line} after {command:?}: {reply}");
    };
    is("CLIENT UNPAUSE", "OK");
    is("FLUSHALL", "OK");
    is("DEBUG POPULATE 20", "OK");
    is("SET k 1", "OK");
    is("RPUSH l 1 2 3", "3");
    is("HSET h 1 v", "1");
    is("XGROUP CREATE st g 0 MKSTREAM", "OK");
    is("EVAL return(redis.call('DBSIZE')) 0", "24");
    let library = "#!lua name=lib\nredis.register_function{function_name='f', callback=function() return 1 end}";
    let loaded = cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(library).query::<String>(&mut client);
    assert_eq!(loaded.as_deref(), Ok("lib"), "after {command:?}");
}

fn in_script(command: &[String]) -> String {
    let quoted = |word: &String| format!("'{}'", word.replace('\'', "\\'"));
    command.iter().map(quoted).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_server_goes_on_after_any_command_in_a_transaction_or_a_script() {
    if is_peer() {
        // Valkey does not return from DEBUG RELOAD in a script.
        return;
    }
    on_each_thread_count(&["--enable-debug-command", "yes", "--appendonly", "yes"], |server| {
        for command in commands(&mut server.client()) {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            restore(server, &command);
            run(server, &[&["MULTI"], &["SET", "k", "2"], &words, &["SET", "k", "3"], &["EXEC"]]);
            let words = in_script(&command);
            let (own, other) = ("redis.call('SET', KEYS[1] or 'k', '1')", "redis.call('SET', 'other', '1')");
            for (allowed, before) in [("0", own), ("1", ""), ("1", own), ("1", other)] {
                restore(server, &command);
                let script = format!("{before} return redis.pcall({words})");
                let allow = ["DEBUG", "SET-DISABLE-DENY-SCRIPTS", allowed];
                run(server, &[&allow, &["EVAL", &script, "0"], &["EVAL", &script, "1", "k"]]);
            }
            run(server, &[&["DEBUG", "SET-DISABLE-DENY-SCRIPTS", "0"]]);
        }
    });
}

#[test]
fn commands_that_need_free_locks_are_refused_where_they_are_held() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    let mut is = |line: &str, expected: &str| {
        let reply = ask(&mut client, line);
        assert!(reply.starts_with(expected), "{line}: {reply}");
    };
    for (line, name) in [("SAVE", "save"), ("SHUTDOWN NOSAVE", "shutdown")] {
        is("MULTI", "OK");
        is(line, &format!("-ERR Command '{name}' not allowed inside a transaction"));
        is("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    }
    if is_peer() {
        return;
    }
    for line in ["DEBUG RELOAD", "DEBUG LOADAOF"] {
        is("MULTI", "OK");
        is("SET k v", "QUEUED");
        is(line, "QUEUED");
        is("EXEC", "-ERR Command 'debug' not allowed inside a transaction");
    }
    is("DEBUG SET-DISABLE-DENY-SCRIPTS 1", "OK");
    for words in ["'DEBUG','RELOAD'", "'DEBUG','LOADAOF'", "'SAVE'", "'SHUTDOWN','NOSAVE'"] {
        is(&format!("EVAL return(redis.call({words})) 0"), "-ERR This Valkey command is not allowed from script");
    }
    is("GET k", "\"v\"");
}

#[test]
fn a_reply_follows_what_a_transaction_or_a_script_frees_in_chunks() {
    on_each_thread_count(&["--lazyfree-lazy-user-del", "no"], |server| {
        let mut client = server.client();
        let fill = "for i = 1, 20000 do redis.call('RPUSH', KEYS[1], string.rep('x', 100)) end";
        let refill = || redis::cmd("EVAL").arg(fill).arg(1).arg("big").exec(&mut server.client()).expect("a list");
        refill();
        dialogue(&mut client, &[("MULTI", "OK"), ("DEL big", "QUEUED"), ("EXEC", "[1]"), ("PING", "PONG")]);
        refill();
        dialogue(&mut client, &[("EVAL return(redis.call('del',KEYS[1])) 1 big", "1"), ("PING", "PONG")]);
        refill();
        dialogue(&mut client, &[("MULTI", "OK"), ("FLUSHALL SYNC", "QUEUED"), ("EXEC", "[OK]"), ("PING", "PONG")]);
    });
}
