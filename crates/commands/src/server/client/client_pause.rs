//! CLIENT PAUSE and CLIENT UNPAUSE, and the commands that wait in between.
//!
//! A command that has to wait goes back to the front of its connection's queue, and is retried when the pause has ended
//! or was lifted: [`admission`](crate::core::admission) decides. A command that will be refused is refused at once. The
//! pause itself is the engine's ([`engine::status::pause`]).

use crate::core::admission::Settle;
use crate::core::args::Args;
use crate::core::context::{Blocking, Context, Flow, Resumable};
use crate::server::worker_barrier::Others;
use engine::Error;
use engine::status::deny_reasons::Paused;

pub(crate) fn pause(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let paused = match args.len() {
        4 if args.is(3, "write") => Paused::Writes,
        4 if args.is(3, "all") => Paused::All,
        4 => return Err(Error::ClientPauseMode),
        // Words too many are ignored, and so is the mode before them.
        _ => Paused::All,
    };
    let until = cx.deadline_ms(&args[2])?.unwrap_or(cx.steady_now());
    cx.engine.begin_pause(paused, until, cx.steady_now());
    cx.engine.host().pause_changed();
    Settle::then_ok(cx);
    Ok(())
}

/// Replies when the commands that have waited have run: the next request may be about them.
pub(crate) fn unpause(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.end_pause();
    cx.engine.host().pause_changed();
    let others = if cx.blocking == Blocking::Allowed { Others::ask(cx.engine) } else { Others::none() };
    let mut unpause = Unpause(others);
    if !unpause.step(cx) {
        cx.flow = Flow::more(unpause);
    }
    Ok(())
}

/// Workers that resume their clients.
struct Unpause(Others);

impl Resumable for Unpause {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let is_done = self.0.are_done(cx.engine);
        if is_done {
            cx.reply.ok();
        }
        is_done
    }

    fn outlasts_rights(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::core::admission::{AdmissionRequest, Verdict, admit};
    use crate::core::args::Args;
    use crate::core::dispatch;
    use crate::core::session::Session;
    use crate::testing::Client;
    use engine::Engine;

    /// Returns whether the command would wait for the end of the pause.
    fn waits(engine: &Engine, client: &Client, session: &mut Session, words: &[&str]) -> bool {
        let args: Args<'_> = words.iter().map(|word| word.as_bytes()).collect();
        let prepared = dispatch::prepare(engine, &args);
        let Some(entry) = prepared.entry() else { return false };
        let request = AdmissionRequest::of(engine, session, entry, &args);
        admit(engine, session, &request, client.now()) == Verdict::Wait
    }

    #[test]
    fn writes_wait_or_everything_does() {
        let mut client = Client::new();
        let waits_alone = |client: &mut Client, line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            waits(client.engine(), client, &mut Session::local(), &words)
        };
        client.is("MULTI", "+OK").is("SET a 1", "+QUEUED");
        client.beside().is("CLIENT PAUSE 100 WRITE", "+OK");
        for (line, expected) in
            [("SET a 1", true), ("SET a", false), ("GET a", false), ("EXEC", false), ("NOPE", false)]
        {
            assert_eq!(waits_alone(&mut client, line), expected, "{line}");
        }
        let beside = client.beside();
        assert!(waits(beside.engine(), &beside, client.session(), &["EXEC"]), "the transaction writes");
        client.is("DISCARD", "+OK").beside().is("CLIENT PAUSE 50", "+OK");
        assert!(waits_alone(&mut client, "GET a") && waits_alone(&mut client, "PING"));
        client.engine().end_pause();
        assert!(!waits_alone(&mut client, "SET a 1"));
        client.is("CLIENT PAUSE x", "-ERR timeout is not an integer or out of range");
        client.is("CLIENT PAUSE -1", "-ERR timeout is negative");
        client.is("CLIENT PAUSE 1 x", "-ERR CLIENT PAUSE mode must be WRITE or ALL");
        client.is("CLIENT UNBLOCK 0 ERROR x", ":0").is("CLIENT PAUSE 0 WRITE x", "+OK");
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
        let waits = |words: &[&str]| waits(client.engine(), &client, &mut Session::local(), words);
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
