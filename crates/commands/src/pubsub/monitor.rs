//! MONITOR: every command, as it runs, to the clients that ask for it.
//!
//! ```text
//! +1700000000.123456 [0 127.0.0.1:41564] "set" "key" "a \"quoted\" \x01 value"\r\n
//! ```
//!
//! The line has the time, the client's database after the command, and its address. Commands for administrators are
//! left out, secrets are redacted. A monitor may not touch the keyspace itself.

use crate::core::args::Args;
use crate::core::command::{ADMIN, Command, Group, LOADING, NO_SCRIPT, STALE};
use crate::core::context::Context;
use engine::Error;
use std::sync::atomic::Ordering::Relaxed;

pub const COMMANDS: &[Command] = &[Command {
    name: "monitor",
    group: Group::Server,
    since: "1.0.0",
    arity: 1,
    flags: ADMIN.and(NO_SCRIPT).and(LOADING).and(STALE),
    summary: "Listens for all requests received by the server in real-time.",
    run: monitor,
    ..Command::DEFAULT
}];

fn monitor(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    if !cx.may_block() {
        // A monitor's lines are no replies.
        return Err(Error::MonitorDenied);
    }
    if !cx.session.info.monitor.load(Relaxed) {
        listen(cx, true);
        cx.reply.ok();
    }
    Ok(())
}

/// Turns lines for the client on or off.
pub(crate) fn listen(cx: &mut Context<'_>, on: bool) {
    cx.session.info.monitor.store(on, Relaxed);
    cx.engine.monitor(cx.session.worker, cx.session.token, on);
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;
    use engine::clients::pubsub::Push;

    /// Returns lines for monitors since the last call, without their time.
    fn lines(client: &Client) -> Vec<String> {
        let pushes = client.engine().pubsub().take_own(0).unwrap_or_default();
        let text = |push| match push {
            Push::Monitor(line) => String::from_utf8_lossy(&line).trim_end().split_once(' ').unwrap().1.to_owned(),
            other => format!("{other:?}"),
        };
        pushes.into_iter().map(text).collect()
    }

    #[test]
    fn monitors_see_commands_but_no_secrets() {
        let mut client = Client::new();
        client.is("SET a b", "+OK").is("MONITOR", "+OK");
        let mut other = client.beside();
        other.is("SELECT 5", "+OK").run("SET a \"\u{1}\\\n");
        other.run("CONFIG GET port");
        other.run("NOPE");
        other.run("AUTH secret");
        let expected = ["[5 ] \"SELECT\" \"5\"", r#"[5 ] "SET" "a" "\"\x01\\\n""#, "[5 ] \"AUTH\" \"(redacted)\""];
        assert_eq!(lines(&client), expected);
        // Scripts that never run are shown, too.
        for refused in ["EVALSHA x 0", "EVAL ( 0", "FCALL none 0", "EVAL x 1"] {
            other.run(refused);
        }
        let expected =
            ["\"EVALSHA\" \"x\" \"0\"", "\"EVAL\" \"(\" \"0\"", "\"FCALL\" \"none\" \"0\"", "\"EVAL\" \"x\" \"1\""];
        assert_eq!(lines(&client), expected.map(|line| format!("[5 ] {line}")));
        client.is("RESET", "+RESET").is("PING", "+PONG");
        assert!(lines(&client).iter().all(|line| !line.contains("PING")));
    }

    #[test]
    fn monitors_do_not_touch_the_keyspace() {
        let mut client = Client::new();
        let refused = "-ERR Replica can't interact with the keyspace";
        client.is("MULTI", "+OK").is("MONITOR", "+QUEUED").is("GET a", "+QUEUED");
        client.is("EXEC", "[-ERR MONITOR isn't allowed for DENY BLOCKING client nil]").is("SET a 1", "+OK");
        client.is("MONITOR", "+OK");
        for line in ["GET a", "SET a 2", "KEYS *", "DBSIZE", "PUBLISH a b", "EVAL x 0", "FLUSHALL", "LOLWUT"] {
            client.is(line, refused);
        }
        client.is("PING", "+PONG").is("ECHO a", "a").is("SELECT 1", "+OK").is("WATCH a", "+OK").is("UNWATCH", "+OK");
        client.is("MULTI", "+OK").is("GET a", refused).is("PING", "+QUEUED");
        client.is("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
        client.is("RESET", "+RESET").is("GET a", "1");
    }
}
