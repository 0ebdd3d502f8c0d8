//! Every command that the server knows, tried by users without the right to it, by every way in: it is denied and has
//! no effect.

use crate::dialogue::{ask, show};
use crate::harness::Server;
use redis::{Connection, Value, cmd};

/// A command, or a container's subcommand, with as many arguments as it needs, all of them `1`.
struct Tried {
    words: Vec<String>,
    /// It may be called without logging in, and by anybody.
    is_free: bool,
    /// Its first argument, or a later one at a fixed place, is a key.
    has_key: bool,
}

impl Tried {
    /// As a call from a script.
    fn call(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| format!("'{word}'")).collect();
        format!("return redis.pcall({})", words.join(","))
    }
}

fn run(client: &mut Connection, words: &[String]) -> String {
    let mut command = cmd(&words[0]);
    command.arg(&words[1..]);
    match command.query::<Value>(client) {
        Ok(value) => show(&value),
        Err(error) => format!("-{} {}", error.code().unwrap_or_default(), error.detail().unwrap_or_default()),
    }
}

/// Returns all commands and subcommands, as the server itself lists them.
fn all(admin: &mut Connection) -> Vec<Tried> {
    let names: Vec<String> = cmd("COMMAND").arg("LIST").query(admin).expect("names");
    assert!(names.len() > 200 && names.iter().any(|name| name.contains('|')));
    let entries: Vec<Value> = cmd("COMMAND").arg("INFO").arg(&names).query(admin).expect("entries");
    let tried = |(name, entry): (&String, &Value)| {
        let Value::Array(fields) = entry else { panic!("{name}: {entry:?}") };
        let (Value::Int(arity), Value::Int(first_key)) = (&fields[1], &fields[3]) else { panic!("{name}: {entry:?}") };
        let mut words: Vec<String> = name.split('|').map(str::to_owned).collect();
        let is_container =
            words.len() == 1 && *arity == -2 && matches!(&fields[9], Value::Array(subs) if !subs.is_empty());
        words.resize((arity.unsigned_abs() as usize).max(words.len()), "1".to_owned());
        // A container alone is none.
        (!is_container).then(|| Tried { words, is_free: show(&fields[2]).contains("no_auth"), has_key: *first_key > 0 })
    };
    names.iter().zip(&entries).filter_map(tried).collect()
}

/// A server with a key that commands with `1` for all arguments would find, and a user `u` with these rules.
fn start(rules: &str) -> (Server, Connection, Vec<Tried>) {
    let server = Server::start(&["--enable-debug-command", "yes", "--enable-module-command", "yes"]);
    let mut admin = server.client();
    for line in ["ACL SETUSER admin on nopass +@all ~* &*", "AUTH admin x", "SET 1 hidden-value"] {
        assert_eq!(ask(&mut admin, line), "OK");
    }
    assert_eq!(ask(&mut admin, &format!("ACL SETUSER u on nopass {rules}")), "OK");
    let commands = all(&mut admin);
    (server, admin, commands)
}

#[track_caller]
fn has_no_effect(admin: &mut Connection, digest: &str, differences: Vec<String>) {
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
    assert_eq!(ask(admin, "DEBUG DIGEST"), digest);
    assert_eq!(ask(admin, "PING"), "PONG");
}

fn logged_in(server: &Server) -> Connection {
    let mut client = server.client();
    assert_eq!(ask(&mut client, "AUTH u x"), "OK");
    client
}

#[test]
fn a_client_that_has_not_logged_in_or_may_do_nothing_runs_no_command() {
    let (server, mut admin, commands) = start("-@all");
    let digest = ask(&mut admin, "DEBUG DIGEST");
    let mut nothing = logged_in(&server);
    assert_eq!(ask(&mut admin, "ACL SETUSER default off"), "OK");
    let mut nobody = server.client();
    let mut differences = Vec::new();
    for command in commands.iter().filter(|command| !command.is_free) {
        for (client, expected) in [(&mut nobody, "NOAUTH "), (&mut nothing, "NOPERM ")] {
            let reply = run(client, &command.words);
            // EXEC says what it is discarded for.
            if !reply.starts_with('-') || !reply.contains(expected) {
                differences.push(format!("{:?}: {reply}", command.words));
            }
        }
    }
    let free: Vec<&str> = commands.iter().filter(|it| it.is_free).map(|it| &*it.words[0]).collect();
    assert!(free.len() <= 4, "{free:?}");
    has_no_effect(&mut admin, &digest, differences);
    assert!(server.stop().success());
}

#[test]
fn no_command_gets_into_a_transaction_or_a_script_without_its_right() {
    let (server, mut admin, commands) = start("-@all +multi +exec +discard +eval ~*");
    let digest = ask(&mut admin, "DEBUG DIGEST");
    let allowed = ["multi", "exec", "discard", "eval"];
    let (mut queues, mut differences) = (logged_in(&server), Vec::new());
    let mut scripts = logged_in(&server);
    for command in commands.iter().filter(|command| !command.is_free && !allowed.contains(&&*command.words[0])) {
        assert_eq!(ask(&mut queues, "MULTI"), "OK");
        let queued = run(&mut queues, &command.words);
        let ran = ask(&mut queues, "EXEC");
        let called = run(&mut scripts, &["EVAL".to_owned(), command.call(), "0".to_owned()]);
        // Some are allowed in no script at all.
        let denied = ["ACL failure in script", "not allowed from script", "NOPERM"];
        let is_denied = denied.iter().any(|text| called.contains(text)) && called.starts_with('-');
        // Some are allowed in no transaction either.
        if !queued.starts_with('-') || !ran.starts_with("-EXECABORT ") || !is_denied {
            differences.push(format!("{:?}: {queued}, {ran}, {called}", command.words));
        }
    }
    has_no_effect(&mut admin, &digest, differences);
    assert!(server.stop().success());
}

#[test]
fn no_command_reaches_a_key_without_its_right() {
    let (server, mut admin, commands) = start("+@all -@dangerous -@connection +multi allchannels resetkeys");
    let digest = ask(&mut admin, "DEBUG DIGEST");
    let (mut client, mut differences, mut count) = (logged_in(&server), Vec::new(), 0);
    // The keys of these are channels.
    let is_message = |name: &str| name.ends_with("subscribe") || name.ends_with("publish");
    for command in commands.iter().filter(|command| command.has_key && !is_message(&command.words[0])) {
        let reply = run(&mut client, &command.words);
        let called = run(&mut client, &["EVAL".to_owned(), command.call(), "0".to_owned()]);
        assert!(![&reply, &called].iter().any(|text| text.contains("hidden-value")), "{:?}", command.words);
        count += usize::from(reply.starts_with("-NOPERM "));
        // Few look at their other arguments first.
        if !reply.starts_with('-') || !called.starts_with('-') {
            differences.push(format!("{:?}: {reply}, {called}", command.words));
        }
    }
    assert!(count > 100, "{count} are denied");
    has_no_effect(&mut admin, &digest, differences);
    assert!(server.stop().success());
}
