//! CLIENT PAUSE and CLIENT UNPAUSE, and whose commands wait in between.
//!
//! A command that has to wait goes back to the front of its connection's queue, and is tried again when the pause is
//! over or was lifted. What will be refused is refused at once. The pause itself is the engine's ([`engine::pause`]).

use crate::args::Args;
use crate::cx::Cx;
use crate::dispatch::{self, Prepared};
use crate::row::{Flags, MAY_REPLICATE, WRITE};
use crate::script;
use crate::session::Session;
use engine::pause::Paused;
use engine::{Engine, Error};
use resp::Protocol;
use std::sync::atomic::Ordering::Relaxed;

/// What other servers would hear of.
const TOLD: [Flags; 2] = [WRITE, MAY_REPLICATE];

/// Whether the command has to wait for the end of the pause that is on.
#[cold]
pub fn postpones(engine: &Engine, session: &Session, prepared: &Prepared, args: &Args<'_>) -> bool {
    let Some(entry) = prepared.entry() else { return false };
    let waits = match engine.pause().paused() {
        Paused::Nothing => false,
        Paused::All => true,
        Paused::Writes => {
            let queued = session.queued_flags().filter(|_| entry.full_name == "exec").unwrap_or(Flags::NONE);
            let own = script::flags_of(engine, entry, args);
            TOLD.iter().any(|flag| own.has(*flag) || queued.has(*flag))
        }
    };
    let protocol = if session.info.resp.load(Relaxed) == 3 { Protocol::Resp3 } else { Protocol::Resp2 };
    waits && !dispatch::is_refused(engine, session, entry, protocol)
}

pub(crate) fn pause(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let paused = match args.len() {
        4 if args.is(3, "write") => Paused::Writes,
        4 if args.is(3, "all") => Paused::All,
        4 => return Err(Error::text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        // Words too many are not looked at, and neither is the mode before them.
        _ => Paused::All,
    };
    let until = match cx.deadline_ms(&args[2])? {
        0 => cx.now_ms(),
        until => until,
    };
    cx.engine.pause().begin(paused, until, cx.now_ms());
    cx.engine.host().pause_changed();
    cx.reply.ok();
    Ok(())
}

pub(crate) fn unpause(cx: &mut Cx<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.pause().end();
    cx.engine.host().pause_changed();
    cx.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    #[test]
    fn writes_wait_or_everything_does() {
        let mut client = Client::new();
        let waits = |client: &mut Client, line: &str| {
            let args: Args<'_> = line.split(' ').map(str::as_bytes).collect();
            let prepared = dispatch::prepare(client.engine(), &args);
            let session = Session::local();
            postpones(client.engine(), &session, &prepared, &args)
        };
        client.is("CLIENT PAUSE 100 WRITE", "+OK");
        for (line, expected) in
            [("SET a 1", true), ("SET a", false), ("GET a", false), ("EXEC", false), ("NOPE", false)]
        {
            assert_eq!(waits(&mut client, line), expected, "{line}");
        }
        let book = |words: &[&str]| crate::book::is_postponed(client.engine(), &words.into());
        assert!(book(&["set", "a", "1"]) && !book(&["get", "a"]) && !book(&["set"]));
        client.is("MULTI", "+OK").is("SET a 1", "+QUEUED");
        let exec: Args<'_> = ["EXEC"].map(str::as_bytes).into_iter().collect();
        let prepared = dispatch::prepare(client.engine(), &exec);
        let engine = client.beside();
        assert!(postpones(engine.engine(), client.session(), &prepared, &exec), "the transaction writes");
        client.is("DISCARD", "+OK").is("CLIENT PAUSE 50", "+OK");
        assert!(waits(&mut client, "GET a") && waits(&mut client, "PING"));
        client.is("CLIENT UNPAUSE", "+OK");
        assert!(!waits(&mut client, "SET a 1"));
        client.is("CLIENT PAUSE x", "-ERR timeout is not an integer or out of range");
        client.is("CLIENT PAUSE -1", "-ERR timeout is negative");
        client.is("CLIENT PAUSE 1 x", "-ERR CLIENT PAUSE mode must be WRITE or ALL");
        client.is("CLIENT PAUSE 0 WRITE x", "+OK").is("CLIENT UNBLOCK 0 ERROR x", ":0");
    }

    #[test]
    fn scripts_that_promise_not_to_write_do_not_wait() {
        let mut client = Client::new();
        let text = |flags: &str| format!("#!lua {flags}\nreturn 1");
        let library = "#!lua name=l\nserver.register_function{function_name='reads', callback=function() end, \
                       flags={'no-writes'}} server.register_function('writes', function() end)";
        client.run_words(&["FUNCTION", "LOAD", library]);
        let known = [client.run_words(&["SCRIPT", "LOAD", &text("flags=no-writes")]), client.run("SCRIPT LOAD a=1")];
        client.is("CLIENT PAUSE 100 WRITE", "+OK");
        let waits = |words: &[&str]| {
            let args: Args<'_> = words.iter().map(|word| word.as_bytes()).collect();
            let prepared = dispatch::prepare(client.engine(), &args);
            postpones(client.engine(), &Session::local(), &prepared, &args)
        };
        assert!(!waits(&["EVAL", &text("flags=no-writes"), "0"]) && !waits(&["EVALSHA", &known[0], "0"]));
        assert!(!waits(&["FCALL", "READS", "0"]) && !waits(&["EVAL_RO", "return 1", "0"]));
        assert!(
            waits(&["EVAL", &text(""), "0"]) && waits(&["EVAL", "return 1", "0"]) && waits(&["FCALL", "writes", "0"])
        );
        assert!(waits(&["EVALSHA", &known[1], "0"]));
    }

    #[test]
    fn nothing_expires_while_clients_are_paused() {
        let mut client = Client::new();
        client.is("SET k v PX 10", "+OK").is("CLIENT PAUSE 1000 WRITE", "+OK").later(20);
        client.is("GET k", "nil").is("EXISTS k", ":0").is("RANDOMKEY", "k").is("DBSIZE", ":1");
        client.is("CLIENT UNPAUSE", "+OK").is("GET k", "nil").is("DBSIZE", ":0").is("RANDOMKEY", "nil");
    }
}
