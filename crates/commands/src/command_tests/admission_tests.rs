//! [`command::core::admission`] with the commands of the rooms.

use crate::core::admission::*;
use crate::core::args::Args;
use crate::core::context::Flow;
use crate::core::dispatch;
use crate::core::session::Session;
use crate::testing::Client;
use engine::status::deny_reasons::Paused;
use engine::time::SteadyMs;
use engine::{Error, Word};

#[test]
fn a_change_of_users_is_acknowledged_when_no_node_is_asked_by_rights_of_before() {
    let mut client = Client::new();
    client.is("ACL SETUSER u on", "+OK");
    let engine = client.shared_engine().clone();
    let asks = |changes: Option<u64>| engine.metrics()[0].set_asks_by(changes);
    asks(Some(engine.users().generation()));
    let mut running = client.begin(&["ACL", "SETUSER", "u", "off"]);
    assert!(!running.step() && !running.step());
    asks(None);
    assert_eq!(running.end(), "+OK");
}

fn verdict(client: &mut Client, line: &str) -> Verdict {
    let (engine, now) = (client.shared_engine().clone(), client.now());
    let args: Args<'_> = line.split(' ').map(str::as_bytes).collect();
    let entry = dispatch::prepare(&engine, &args).entry().expect("a known command");
    let request = AdmissionRequest::of(&engine, client.session(), entry, &args);
    admit(&engine, client.session(), &request, now)
}

fn refused(client: &mut Client, line: &str) -> Option<Error> {
    match verdict(client, line) {
        Verdict::Refuse(error) => Some(error),
        _ => None,
    }
}

#[test]
fn a_replayed_command_needs_no_password() {
    let client = Client::new();
    let engine = client.shared_engine();
    engine.users().set_default_password(b"secret", crate::core::acl_catalog::rule_context(engine));
    let (mut session, mut reply) = (Session::replay(), resp::Reply::default());
    let mut args: Args<'_> = [&b"no-command"[..]].into_iter().collect();
    dispatch::execute(engine, &mut session, &mut args, client.now(), &mut reply);
    assert!(reply.take().starts_with(b"-ERR unknown command 'no-command'"));
}

#[test]
fn a_client_denied_for_several_reasons_gets_the_one_that_valkey_gives() {
    let mut client = Client::new();
    let engine = client.shared_engine().clone();
    let saves = engine.persistence_status();
    client.session().subscriptions = Some(Box::default());
    saves.set_loading(true);
    saves.set_short_of_replicas(true);
    saves.refuse_writes(true);
    saves.set_short_of_memory(true);
    let users = engine.users();
    users.set_default_password(b"secret", crate::core::acl_catalog::rule_context(&engine));
    client.session().authenticated = false;
    assert_eq!(refused(&mut client, "SET k v"), Some(Error::NoAuth));
    users.set_default_password(b"", crate::core::acl_catalog::rule_context(&engine));
    assert_eq!(refused(&mut client, "SET k v"), Some(Error::Oom));
    assert_eq!(refused(&mut client, "DEL k"), Some(Error::SaveFailed));
    assert_eq!(refused(&mut client, "PING"), Some(Error::SaveFailed));
    saves.refuse_writes(false);
    assert_eq!(refused(&mut client, "DEL k"), Some(Error::TooFewReplicas));
    saves.set_short_of_replicas(false);
    assert_eq!(refused(&mut client, "DEL k"), Some(Error::Subscribed(Word::of("del"))));
    client.session().subscriptions = None;
    assert_eq!(refused(&mut client, "DEL k"), Some(Error::Loading));
    assert_eq!(refused(&mut client, "INFO"), None);
    saves.set_loading(false);
    assert_eq!(verdict(&mut client, "DEL k"), Verdict::Run);
}

#[test]
fn a_pause_outlasts_the_change_to_a_replica() {
    let mut client = Client::new();
    let engine = client.shared_engine().clone();
    engine.begin_pause(Paused::Writes, SteadyMs(i64::MAX), SteadyMs(0));
    engine.persistence_status().set_read_only_replica(true);
    assert_eq!(verdict(&mut client, "SET k v"), Verdict::Wait);
    assert_eq!(verdict(&mut client, "GET k"), Verdict::Run);
    engine.end_pause();
    assert_eq!(refused(&mut client, "SET k v"), Some(Error::ReadOnlyReplica));
}

#[test]
fn a_transaction_is_judged_by_what_is_queued() {
    let mut client = Client::new();
    let engine = client.shared_engine().clone();
    client.is("MULTI", "+OK").is("GET k", "+QUEUED");
    engine.persistence_status().refuse_writes(true);
    engine.persistence_status().set_short_of_memory(true);
    assert_eq!(verdict(&mut client, "EXEC"), Verdict::Run);
    engine.persistence_status().set_loading(true);
    assert_eq!(refused(&mut client, "EXEC"), Some(Error::Loading));
    engine.persistence_status().set_loading(false);
    client.is("DISCARD", "+OK");
    engine.persistence_status().refuse_writes(false);
    client.is("MULTI", "+OK").is("DEL k", "+QUEUED");
    assert_eq!(verdict(&mut client, "EXEC"), Verdict::Run);
    engine.persistence_status().refuse_unlogged(true);
    let text = refused(&mut client, "EXEC").map(|error| error.to_string());
    assert!(text.is_some_and(|text| text.starts_with("MISCONF Errors writing to the AOF file")));
}

#[test]
fn a_script_writes_only_where_its_client_could() {
    let mut client = Client::new();
    let engine = client.shared_engine().clone();
    let call = ["EVAL", "redis.call('set', KEYS[1], 1) return redis.call('get', KEYS[1])", "1", "k"];
    engine.persistence_status().refuse_unlogged(true);
    assert!(client.run_words(&call).starts_with("-MISCONF Errors writing to the AOF file"));
    engine.persistence_status().refuse_unlogged(false);
    engine.persistence_status().set_short_of_replicas(true);
    assert!(client.run_words(&call).starts_with("-NOREPLICAS"));
    engine.persistence_status().set_short_of_replicas(false);
    assert_eq!(client.run_words(&call), "1");
}

#[test]
fn a_pause_that_begins_while_a_command_waits_for_its_locks_holds_for_it() {
    for lines in [&["SET k v"][..], &["MULTI", "SET k v", "EXEC"], &["MULTI", "SORT k STORE k", "EXEC"]] {
        let mut client = Client::new();
        let engine = client.shared_engine().clone();
        let (last, queued) = lines.split_last().expect("one command");
        queued.iter().for_each(|line| drop(client.run(line)));
        let args: Args<'_> = last.split(' ').map(str::as_bytes).collect();
        let prepared = dispatch::prepare(&engine, &args);
        let (entry, now) = (prepared.entry().expect("a known command"), client.now());
        assert_eq!(verdict(&mut client, last), Verdict::Run);
        let run = |client: &mut Client| {
            let (mut args, mut reply) = (last.split(' ').map(str::as_bytes).collect(), resp::Reply::default());
            let flow = dispatch::call(&engine, client.session(), entry, prepared.keys(), &mut args, now, &mut reply);
            assert!(matches!(flow, Flow::RetryLater | Flow::Next));
            matches!(flow, Flow::Next)
        };
        engine.begin_pause(Paused::All, SteadyMs(i64::MAX), SteadyMs(0));
        assert!(engine.pass_locks(&mut 0, || false));
        assert!(!run(&mut client), "{last} does not run after the barrier");
        engine.end_pause();
        assert!(!run(&mut client), "{last} was admitted before the pause");
        assert_eq!(engine.len(0), 0);
        assert_eq!(verdict(&mut client, last), Verdict::Run);
        assert!(run(&mut client), "{last} is admitted anew");
    }
}
